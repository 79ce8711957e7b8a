// Processes that work on one thing together: what they say to each other. All functions but abort() are called by all processes
// in the same order, and on one thread of each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rewright {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::size_t rank() const = 0;  // of this process, from 0
  virtual std::size_t size() const = 0;  // how many processes there are

  virtual void barrier() = 0;
  // messages[i] goes to process i; what comes back is from each process to this one.
  virtual std::vector<std::string> all_to_all(std::vector<std::string> messages) = 0;
  // What process `root` holds, everywhere.
  virtual void broadcast(std::string& message, std::size_t root) = 0;
  // In place of the values, their sums over all processes: the same bits in all of them.
  virtual void sum(std::span<float> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  // Ends all processes with this status.
  [[noreturn]] virtual void abort(int status) = 0;

  // What each process says, everywhere.
  std::vector<std::string> all_gather(const std::string& message);
  // Does one of the processes say so?
  bool any(bool here);
};

// One process.
std::unique_ptr<Communicator> make_local_communicator();

// Those that `mpirun` started, or just this one. MPI is a plug-in beside the program, so that nothing else needs it. Throws
// Error(kMissing) if there are several processes and no plug-in, or it does not load.
std::unique_ptr<Communicator> make_communicator();

}  // namespace rewright
