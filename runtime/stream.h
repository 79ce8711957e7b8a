// Runs that take each input when it is needed, and hand over each output as soon as it is computed.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/session.h"

namespace rewright::runtime {

// The source and the destination of the tensors of one run.
class TensorStream {
 public:
  virtual ~TensorStream() = default;
  // Called for an input before the first step that needs it. The tensor is released after that step unless the next one needs
  // it, too; a later step asks again.
  virtual Tensor input(std::size_t number) = 0;
  // Called before the first step that writes an output: its memory, aligned to 64 bytes.
  virtual std::span<std::byte> output(std::size_t number) = 0;
  // Called when the output is complete and the run no longer uses its memory.
  virtual void finished(std::size_t number) = 0;
};

// A session with such runs. The order of the calls is the same in every run of the same plan.
class StreamingSession {
 public:
  virtual ~StreamingSession() = default;
  // False if it cannot do this for inputs of these types. Then nothing has been done.
  virtual bool stream(TensorStream& tensors) = 0;
};

// Runs any session: one that does not stream takes all inputs first, and hands over all outputs at the end.
void run_streamed(Session& session, std::size_t inputs, TensorStream& tensors);

}  // namespace rewright::runtime
