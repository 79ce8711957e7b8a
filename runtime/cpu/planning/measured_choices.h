// Choices among alternatives by time: measured once, and stored in the cost database for all processes of the machine.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "optimizer/costs/database.h"

namespace rewright::cpu {

// An alternative is taken below this share of another one's time: smaller differences may be noise.
inline constexpr double kClearlyFaster = 0.97;

// A choice depends only on the stored times: as long as the database does not change, choices and thus the bits of results do
// not either. Not thread-safe.
class MeasuredChoices {
 public:
  // `device`: the processor, its instruction set, the number of threads and everything else that times depend on. Without
  // `measure` nothing is timed.
  MeasuredChoices(const std::filesystem::path& file, std::string device, bool measure);

  // The index of the fastest alternative for a problem, by the database's times, or if it lacks some, by those that `time`
  // returns (seconds for each). `estimated` if nothing is known and nothing may be timed, if timing fails, and if no
  // alternative is clearly faster.
  std::size_t choose(const std::string& problem, std::span<const std::string> ways, std::size_t estimated,
                     const std::function<std::vector<double>()>& time);
  // The alternative that a search has found for a problem, as text; nullopt: none was searched.
  std::optional<std::string> found(const std::string& problem);
  void keep_found(const std::string& problem, const std::string& alternative);
  // Stores new times. Times that cannot be stored are measured again by the next process.
  void save();

 private:
  CostDatabase database_;
  std::string device_;
  bool measure_;
  std::map<std::string, std::optional<std::string>> found_;
  std::map<std::string, double> seconds_;  // by problem and alternative
  std::vector<CostDatabase::Entry> fresh_;
};

}  // namespace rewright::cpu
