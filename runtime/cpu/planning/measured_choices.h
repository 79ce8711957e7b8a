// Choices among alternatives, by time: timed once, and kept in the cost database for all processes of the machine.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "optimizer/costs/database.h"

namespace rewright::cpu {

// A choice depends on what is kept, and on nothing else: as long as the database stays the same, so do the choices, and with
// them the bits of results. Used by one thread at a time.
class MeasuredChoices {
 public:
  // `device`: the processor, its instruction set, the number of threads and whatever else times depend on. Without `measure`
  // nothing is timed.
  MeasuredChoices(const std::filesystem::path& file, std::string device, bool measure);

  // The position of the fastest way for a problem, by the times of the database; and where it does not have all of them, by
  // those that `time` returns, seconds for each way. `estimated` if nothing is known and nothing may be timed, if timing fails,
  // and where no other way is clearly faster.
  std::size_t choose(const std::string& problem, std::span<const std::string> ways, std::size_t estimated,
                     const std::function<std::vector<double>()>& time);
  // Keeps what was timed since the last call. What cannot be kept is timed again by another process.
  void save();

 private:
  CostDatabase database_;
  std::string device_;
  bool measure_;
  std::map<std::string, double> seconds_;  // by problem and way
  std::vector<CostDatabase::Entry> fresh_;
};

}  // namespace rewright::cpu
