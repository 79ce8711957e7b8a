// The device of tests: generated kernels compiled as C++ and run on this processor, one thread of a block after the other, in
// turns where they exchange values.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

struct HostDriverOptions {
  bool libraries = true;  // what they serve is computed by plain loops; otherwise there are none, and kernels do it
  std::size_t memory = std::size_t{1} << 40;  // bytes that the device has
  bool start_operations = true;               // otherwise those of libraries fail when they are started
  long lost_after = -1;                       // pieces of work that are started before the device is lost; -1: it never is
  // Seconds that an operation is said to take; a kernel takes one.
  std::function<double(const LibraryShape&)> seconds = [](const LibraryShape&) { return 0.5; };
  // Operations that compute the last element of their results wrong.
  std::function<bool(const LibraryShape&)> is_wrong = [](const LibraryShape&) { return false; };
  int device = 0;  // its number: work by a thread that is with another one fails
};
struct HostDriverReport {
  int measured = 0;                     // operations that were not chosen before
  std::size_t allocated = 0;            // bytes at present
  std::size_t through_host = 0;         // bytes that were copied from the host and to it
  std::set<std::string> recorded_last;  // the first words of the shapes that libraries compute in it
  int freed_elsewhere = 0;              // how often memory was given back by a thread that was with another device
};

// The report is written as long as the driver lives.
std::unique_ptr<Driver> new_host_driver(const HostDriverOptions& options = {},
                                        std::shared_ptr<HostDriverReport> report = nullptr);
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options = {},
                                         std::shared_ptr<HostDriverReport> report = nullptr);

}  // namespace rewright::cuda
