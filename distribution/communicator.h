// Processes that work on one thing together: what they say to each other. All functions but abort() are called by all processes
// in the same order, and by one thread of each at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "expressions/data_type.h"

namespace rewright::distribution {

// Bytes that go to a process, and room for those that come from one: their numbers agree on both sides.
struct Outgoing {
  std::size_t to;
  std::span<const std::byte> bytes;
};
struct Incoming {
  std::size_t from;
  std::span<std::byte> bytes;
};

// Whoever connects processes says how bytes get from one to another; the rest follows, and may be done better.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::size_t rank() const = 0;  // of this process, from 0
  virtual std::size_t size() const = 0;  // how many processes there are
  // The machine that each process runs on, as a number.
  virtual std::vector<std::size_t> nodes() { return std::vector<std::size_t>(size()); }

  // All of these messages at once. Between two processes they arrive in the order in which they were sent. Nothing is sent for
  // those of no bytes.
  void exchange(std::span<const Outgoing> sent, std::span<const Incoming> received);
  // How many bytes exchange() has sent so far, and in how many messages.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t messages_sent() const { return messages_sent_; }

  virtual void barrier();
  // messages[i] goes to process i; what comes back is from each process to this one.
  virtual std::vector<std::string> all_to_all(std::vector<std::string> messages);
  // What process `root` holds, everywhere.
  virtual void broadcast(std::string& message, std::size_t root);
  // In place of the values (float, double, float16 or bfloat16), their sums over all processes: the same bits in all of them.
  virtual void sum(std::span<std::byte> values, DataType type);
  // Ends all processes with this status.
  [[noreturn]] virtual void abort(int status);

  void sum(std::span<float> values) { sum(std::as_writable_bytes(values), DataType::kFloat); }
  void sum(std::span<double> values) { sum(std::as_writable_bytes(values), DataType::kDouble); }
  // What each process says, everywhere.
  std::vector<std::string> all_gather(const std::string& message);
  // Does one of the processes say so?
  bool any(bool here);

 protected:
  // exchange(), without messages of no bytes.
  virtual void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) = 0;

 private:
  std::uint64_t bytes_sent_ = 0, messages_sent_ = 0;
};

// One process.
std::unique_ptr<Communicator> make_local_communicator();

// Those that `mpirun` started, or just this one. MPI is a plug-in beside the program, so that nothing else needs it. Throws
// Error(kMissing) if there are several processes and no plug-in, or it does not load.
std::unique_ptr<Communicator> make_communicator();

// What the plug-in's MPI calls itself, up to the first comma; empty where there is no plug-in, or it does not load.
std::string mpi_version();

// The same processes, whose sums NCCL makes on their GPUs. `over` must live longer. A plug-in as well: throws Error(kMissing)
// where there is none, or not a GPU for each process.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& over);

// How many processes were started together, and which of them this is, before they are connected.
struct StartedAs {
  std::size_t rank = 0, size = 1;
};
StartedAs started_as();

}  // namespace rewright::distribution
