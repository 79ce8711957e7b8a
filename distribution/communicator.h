// Communication between the processes of one run, over MPI, NCCL or none. All processes call the same functions in the same
// order, each from one thread at a time; abort() alone may be called by one process.
//
//   const std::unique_ptr<Communicator> processes = make_communicator();
//   std::string options = processes->rank() == 0 ? read_options() : "";
//   processes->broadcast(options, 0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "expressions/data_type.h"

namespace rewright::distribution {

// A message to a process, and the buffer for a message from one. Sender and receiver give the same number of bytes.
struct Outgoing {
  std::size_t to;
  std::span<const std::byte> bytes;
};
struct Incoming {
  std::size_t from;
  std::span<std::byte> bytes;
};

// A message that was begun and may not be there yet. The bytes must stay until it is done. Whoever drops one before that must
// end the process: the communicator may go on using them.
class PendingMessage {
 public:
  virtual ~PendingMessage() = default;
  virtual bool done() = 0;  // does not wait; is called until it is true
};

// An implementation must provide rank(), size() and transfer(). Everything else is built on these, and may be overridden where
// the library has something faster.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::size_t rank() const = 0;  // of this process, from 0
  virtual std::size_t size() const = 0;  // number of processes
  // For each process, a number that identifies the machine that it runs on.
  virtual std::vector<std::size_t> nodes() { return std::vector<std::size_t>(size()); }

  // Sends and receives all of these messages at once. Messages between two processes arrive in the order in which they were
  // sent. Empty messages are not sent.
  void exchange(std::span<const Outgoing> sent, std::span<const Incoming> received);
  // Begin to send or to receive one message that is not empty, without waiting. Messages between two processes are received in
  // the order in which they were sent, with those of exchange(), which must not be called before all that was begun is done.
  // Throw Error(kUnsupported) where there is no such way.
  std::unique_ptr<PendingMessage> begin_sending(const Outgoing& message);
  virtual std::unique_ptr<PendingMessage> begin_receiving(const Incoming& message);
  // Totals that exchange() and begin_sending() have sent so far.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t messages_sent() const { return messages_sent_; }

  virtual void barrier();
  // Sends messages[p] to process p; returns, by sender, the messages to this process.
  virtual std::vector<std::string> all_to_all(std::vector<std::string> messages);
  // Replaces the message of every process by that of process `root`.
  virtual void broadcast(std::string& message, std::size_t root);
  // Replaces each value (float, double, float16 or bfloat16) by its sum over all processes, the same bits in all of them.
  virtual void sum(std::span<std::byte> values, DataType type);
  // Ends all processes with this exit status.
  [[noreturn]] virtual void abort(int status);

  void sum(std::span<float> values) { sum(std::as_writable_bytes(values), DataType::kFloat); }
  void sum(std::span<double> values) { sum(std::as_writable_bytes(values), DataType::kDouble); }
  // The messages of all processes, by rank.
  std::vector<std::string> all_gather(const std::string& message);
  // Is `here` true in any process?
  bool any(bool here);

 protected:
  // Implements exchange(), which leaves out empty messages.
  virtual void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) = 0;
  // Implements begin_sending().
  virtual std::unique_ptr<PendingMessage> begin_transfer(const Outgoing& message);

 private:
  std::uint64_t bytes_sent_ = 0, messages_sent_ = 0;
};

// A communicator of this process alone.
std::unique_ptr<Communicator> make_local_communicator();

// A subgroup: the processes of `over` with these ranks, in this order, this process among them. Only its members take part in
// its exchanges. `over` must outlive it.
std::unique_ptr<Communicator> make_communicator_of(Communicator& over, std::vector<std::size_t> ranks);

// The processes that `mpirun` started, or this one alone. Only several processes load MPI, as a plug-in beside the program.
// Throws Error(kMissing) if there are several processes and the plug-in is missing or does not load.
std::unique_ptr<Communicator> make_communicator();

// The name and version that the plug-in's MPI reports, up to the first comma; empty if the plug-in is missing or does not load.
std::string mpi_version();

// The processes of `over`, whose sum() NCCL computes on their GPUs; everything else goes through `over`, which must outlive it.
// NCCL is a plug-in too: throws Error(kMissing) if it is missing, or if there are fewer GPUs than processes.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& over);

// This process's rank and the number of processes, from the starter's environment variables, before they are connected.
struct StartedAs {
  std::size_t rank = 0, size = 1;
};
StartedAs started_as();

}  // namespace rewright::distribution
