// The fastest operations and alternatives, as measured; kept in the cost database under the device and the libraries' versions.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "base/namespaces.h"
#include "optimizer/costs/database.h"

namespace rewright::cuda {

class Choices {
 public:
  // Without a path, choices are kept in memory, for the sessions that share this object.
  Choices(const std::filesystem::path& file, std::string device) : database_(file), device_(std::move(device)) {}
  std::optional<std::string> find(const std::string& work);
  void store(const std::string& work, const std::string& choice);

 private:
  std::mutex mutex_;
  CostDatabase database_;
  std::string device_;
};

}  // namespace rewright::cuda
