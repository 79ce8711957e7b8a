#include "runtime/cuda/planning/layout.h"

#include <algorithm>
#include <cstring>

namespace rewright::cuda {

bool same_either_way(const Sizes& sizes) { return element_count(Sizes(sizes.begin() + 2, sizes.end())) == 1 || sizes[1] == 1; }

Element over_channels_last(const Element& element, const std::vector<bool>& marked) {
  if (std::find(marked.begin(), marked.end(), true) == marked.end()) return element;
  return rewrite(element,
                 [&](const ElementNode& read) -> Element {
                   if (!marked[static_cast<std::size_t>(read.operand)]) return nullptr;
                   ElementNode other = read;
                   other.position = channels_last(read.position);
                   return std::make_shared<const ElementNode>(std::move(other));
                 },
                 {});
}

std::vector<std::byte> bytes_channels_last(const Tensor& tensor) {
  const Sizes& sizes = tensor.sizes();
  const std::size_t size = byte_size(tensor.type()), channels = static_cast<std::size_t>(sizes[1]);
  const auto points = static_cast<std::size_t>(element_count(Sizes(sizes.begin() + 2, sizes.end())));
  std::vector<std::byte> result(tensor.byte_count());
  const std::byte* from = tensor.bytes().data();
  for (std::size_t n = 0; n < static_cast<std::size_t>(sizes[0]); ++n)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t p = 0; p < points; ++p, from += size)
        std::memcpy(result.data() + ((n * points + p) * channels + c) * size, from, size);
  return result;
}

}  // namespace rewright::cuda
