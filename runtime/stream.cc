#include "runtime/stream.h"

#include <cstring>

namespace rewright::runtime {

void run_streamed(Session& session, std::size_t inputs, TensorStream& tensors) {
  if (auto* const streaming = dynamic_cast<StreamingSession*>(&session))
    if (streaming->stream(tensors)) return;
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < inputs; ++i) given.push_back(tensors.input(i));
  const std::vector<Tensor> results = session.run(given);
  given.clear();
  for (std::size_t o = 0; o < results.size(); ++o) {
    const std::span<std::byte> into = tensors.output(o);
    if (!into.empty()) std::memcpy(into.data(), results[o].bytes().data(), into.size());
    tensors.finished(o);
  }
}

}  // namespace rewright::runtime
