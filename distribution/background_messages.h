// Messages between two processes at a time, sent and received by a thread of their own beside what the process computes.
//
//   BackgroundMessages messages(processes);
//   const std::size_t number = messages.receive(left, DataType::kFloat, {64, 512});
//   messages.send(right, computed);
//   Tensor received = messages.wait(number);
//   messages.finish();
//
// Messages between two processes are received in the order in which they were sent.
#pragma once

#include <cstddef>
#include <memory>

#include "distribution/communicator.h"
#include "expressions/tensor.h"

namespace rewright::distribution {

class BackgroundMessages {
 public:
  // `processes` must outlive this object, and be used by nobody else until finish().
  explicit BackgroundMessages(Communicator& processes);
  // Leaves messages that are not done: after an error, when the process is about to end.
  ~BackgroundMessages();

  // Begins to send; the tensor is kept until it is sent.
  void send(std::size_t to, Tensor tensor);
  // Begins to receive a tensor; returns the number to wait for.
  std::size_t receive(std::size_t from, DataType type, Sizes sizes);
  // The tensor, once. Throws what has failed.
  Tensor wait(std::size_t number);
  // Waits until all messages are done. Throws what has failed.
  void finish();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace rewright::distribution
