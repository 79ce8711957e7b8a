// Runs that get each input when it is needed, and deliver each output when it is computed.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/session.h"

namespace rewright::runtime {

// The source and the destination of the tensors of one run.
class TensorStream {
 public:
  virtual ~TensorStream() = default;
  // Called for an input before the first step that needs it. The tensor is released after that step unless the next one also
  // needs it; a later step asks again.
  virtual Tensor input(std::size_t number) = 0;
  // Called before the first step that writes an output. Returns its memory, aligned to 64 bytes.
  virtual std::span<std::byte> output(std::size_t number) = 0;
  // Called when the output is complete and the run no longer uses its memory.
  virtual void finished(std::size_t number) = 0;
};

// A session that supports such runs. All runs of a plan make the calls in the same order.
class StreamingSession {
 public:
  virtual ~StreamingSession() = default;
  // False if inputs of these types cannot be streamed; then nothing was done.
  virtual bool stream(TensorStream& tensors) = 0;
};

// Runs any session. One that does not stream gets all inputs first, and delivers all outputs at the end.
void run_streamed(Session& session, std::size_t inputs, TensorStream& tensors);

}  // namespace rewright::runtime
