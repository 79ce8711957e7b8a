// The stand-in device for tests. It compiles generated kernels as C++ and runs them on the host, the threads of a block one
// after the other; threads that exchange values take turns.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

struct HostDriverOptions {
  bool libraries = true;                      // false: no libraries; kernels compute everything
  std::size_t memory = std::size_t{1} << 40;  // bytes that the device has
  bool start_operations = true;               // false: starting a library operation fails
  long lost_after = -1;                       // starts before the device is lost; -1: never
  // The reported time of an operation in seconds; a kernel takes one.
  std::function<double(const LibraryShape&)> seconds = [](const LibraryShape&) { return 0.5; };
  // Operations whose last result element is computed wrong.
  std::function<bool(const LibraryShape&)> is_wrong = [](const LibraryShape&) { return false; };
  int device = 0;  // its number; fails for threads with another current device
};
struct HostDriverReport {
  int measured = 0;                     // operations without a recorded choice
  std::size_t allocated = 0;            // bytes now
  std::size_t through_host = 0;         // bytes copied from and to the host
  std::size_t copied = 0;               // bytes copied within the device
  std::set<std::string> recorded_last;  // first words of library shapes in the last recording
  int freed_elsewhere = 0;              // frees by a thread with another current device
};

// `report` must outlive the driver.
std::unique_ptr<Driver> new_host_driver(const HostDriverOptions& options = {},
                                        std::shared_ptr<HostDriverReport> report = nullptr);
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options = {},
                                         std::shared_ptr<HostDriverReport> report = nullptr);

}  // namespace rewright::cuda
