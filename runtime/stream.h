// Running a session with inputs that come when they are needed and outputs that go as soon as they are computed.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/session.h"

namespace rewright::runtime {

// Where the tensors of one run come from and go to.
class TensorStream {
 public:
  virtual ~TensorStream() = default;
  // An input, before the first step that needs it. It is let go after that step, unless the next one needs it too, and asked
  // for again by a later one.
  virtual Tensor input(std::size_t number) = 0;
  // Memory for an output, aligned to 64 bytes, before the first step that writes it.
  virtual std::span<std::byte> output(std::size_t number) = 0;
  // The output is there, and the run does not look at its memory any more.
  virtual void finished(std::size_t number) = 0;
};

// A session that can do so. Calls come in the same order in every run of the same plan.
class StreamingSession {
 public:
  virtual ~StreamingSession() = default;
  // False if it cannot for inputs of these types: nothing has been done then.
  virtual bool stream(TensorStream& tensors) = 0;
};

// Others take all inputs first, and hand over all outputs at the end.
void run_streamed(Session& session, std::size_t inputs, TensorStream& tensors);

}  // namespace rewright::runtime
