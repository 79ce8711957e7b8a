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

// An SQLite file of: device identity, signature -> seconds (or: cannot be timed there), and of choices that were measured.
// Several processes may use one file at a time. A file that is damaged, or of another version, is set aside under another name
// and a new one begun. Where the folder cannot be written, and where another process keeps the file locked, costs are kept in
// memory alone. Threads may share one.
class CostDatabase {
 public:
  // An empty path: in memory. `patience`: how long to wait for other processes, each time.
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
  // All of a device, by signature.
  std::vector<Entry> all(const std::string& device);

  // The alternative chosen for some work among a library's, as text that the device understands.
  std::optional<std::string> find_choice(const std::string& device, const std::string& work);
  void store_choice(const std::string& device, const std::string& work, const std::string& choice);

  // $XDG_CACHE_HOME/rewright/costs.sqlite, or ~/.cache/rewright/costs.sqlite; empty if neither variable is set.
  static std::filesystem::path default_file();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewright::optimizer
