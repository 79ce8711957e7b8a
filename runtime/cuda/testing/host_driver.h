// The stand-in device for tests. It compiles generated kernels as C++ and runs them on the host, one thread of a block after
// the other; threads that exchange values take turns.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

struct HostDriverOptions {
  bool libraries = true;                      // false: there are none, and kernels compute everything
  std::size_t memory = std::size_t{1} << 40;  // bytes that the device has
  bool start_operations = true;               // false: operations of libraries fail when they are started
  long lost_after = -1;                       // pieces of work that are started before the device is lost; -1: it never is
  // Seconds that an operation is said to take; a kernel takes one.
  std::function<double(const LibraryShape&)> seconds = [](const LibraryShape&) { return 0.5; };
  // Operations that compute the last element of their results wrong.
  std::function<bool(const LibraryShape&)> is_wrong = [](const LibraryShape&) { return false; };
  int device = 0;  // its number; work by a thread with another current device fails
};
struct HostDriverReport {
  int measured = 0;                     // operations without a choice from before
  std::size_t allocated = 0;            // bytes at present
  std::size_t through_host = 0;         // bytes copied from and to the host
  std::set<std::string> recorded_last;  // the first words of the shapes that libraries compute in it
  int freed_elsewhere = 0;              // frees by a thread with another current device
};

// `report` has to outlive the driver.
std::unique_ptr<Driver> new_host_driver(const HostDriverOptions& options = {},
                                        std::shared_ptr<HostDriverReport> report = nullptr);
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options = {},
                                         std::shared_ptr<HostDriverReport> report = nullptr);

}  // namespace rewright::cuda
