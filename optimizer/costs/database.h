// Measured times of operators, kept in the user's cache folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rewright::optimizer {

// An SQLite file with times (device identity, signature -> seconds, or: cannot be timed) and measured choices. Several
// processes may use one file. A file that is damaged or has another version is renamed, and a new one is begun. If the folder
// cannot be written, or another process keeps the file locked, costs are kept in memory only. Thread-safe.
class CostDatabase {
 public:
  // Empty path: in memory. `patience`: how long each access waits for other processes.
  explicit CostDatabase(const std::filesystem::path& file, std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~CostDatabase();
  CostDatabase(const CostDatabase&) = delete;
  CostDatabase& operator=(const CostDatabase&) = delete;

  struct Entry {
    std::string signature;
    std::optional<double> seconds;
  };
  // Outer nullopt: never measured. Inner: measuring failed.
  std::optional<std::optional<double>> find(const std::string& device, const std::string& signature);
  void store(const std::string& device, std::span<const Entry> entries);
  // All entries of a device, by signature.
  std::vector<Entry> all(const std::string& device);

  // The alternative chosen among a library's for some work, as text that the device understands.
  std::optional<std::string> find_choice(const std::string& device, const std::string& work);
  void store_choice(const std::string& device, const std::string& work, const std::string& choice);

  // $XDG_CACHE_HOME/rewright/costs.sqlite, or ~/.cache/rewright/costs.sqlite; empty if neither variable is set.
  static std::filesystem::path default_file();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewright::optimizer
