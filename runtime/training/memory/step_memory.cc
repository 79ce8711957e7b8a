#include "runtime/training/memory/step_memory.h"

#include <algorithm>

namespace rewright::training {

void Gauge::change(std::size_t more, std::size_t less) {
  const std::size_t here = now.fetch_add(more - less) + more - less;
  for (std::size_t seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
  }
}

Memory allocated(std::size_t bytes, Gauge& gauge) {
  auto memory = std::make_unique<Tensor>(DataType::kUint8, Sizes{static_cast<std::int64_t>(bytes)});
  std::ranges::fill(memory->mutable_bytes(), std::byte{0});
  gauge.change(bytes, 0);
  return {memory.release(), [&gauge, bytes](Tensor* t) {
            gauge.change(0, bytes);
            delete t;
          }};
}

Tensor view(const Memory& memory, std::size_t offset, DataType type, const Sizes& sizes) {
  return {type, sizes, memory, memory->bytes().data() + offset};
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.type(), tensor.sizes());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

}  // namespace rewright::training
