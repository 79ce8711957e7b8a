#include "operators/tensor_parts.h"

#include <cstring>
#include <numeric>

namespace rewright::operators {

void require_few(std::int64_t count) {
  if (count > kMostElements)
    throw Error(ErrorCode::kMissing, "not enough memory for a result of " + std::to_string(count) + " elements");
}

std::vector<double> zeros(const Sizes& sizes) {
  require_few(element_count(sizes));
  return std::vector<double>(static_cast<std::size_t>(element_count(sizes)));
}

std::size_t checked_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n)
    throw Error(ErrorCode::kBadInput, "axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(n));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

AxisView::AxisView(const Sizes& sizes, std::size_t axis) {
  for (std::size_t a = 0; a < sizes.size(); ++a) (a < axis ? before : a == axis ? size : after) *= sizes[a];
}

Tensor picked(const Tensor& tensor, Sizes sizes, std::span<const std::int64_t> places) {
  if (tensor.type() == DataType::kString) {
    std::vector<std::string> values;
    values.reserve(places.size());
    for (const std::int64_t place : places) values.push_back(tensor.strings()[static_cast<std::size_t>(place)]);
    return Tensor::from_strings(std::move(sizes), std::move(values));
  }
  Tensor result(tensor.type(), std::move(sizes));
  const std::size_t width = byte_size(tensor.type());
  std::byte* to = result.mutable_bytes().data();
  for (const std::int64_t place : places) {
    std::memcpy(to, tensor.bytes().data() + static_cast<std::size_t>(place) * width, width);
    to += width;
  }
  return result;
}

namespace {

// Runs of bytes by their numbers, one after the other. To copy one of a number of bytes that the compiler knows takes no call.
template <std::size_t kRun = 0>
void copy_runs(std::byte* to, const std::byte* from, std::size_t run, std::span<const std::int64_t> numbers) {
  if constexpr (kRun == 0) {
    if (run == 4) return copy_runs<4>(to, from, run, numbers);
    if (run == 8) return copy_runs<8>(to, from, run, numbers);
  }
  const std::size_t bytes = kRun == 0 ? run : kRun;
  for (const std::int64_t n : numbers) {
    std::memcpy(to, from + static_cast<std::size_t>(n) * bytes, bytes);
    to += bytes;
  }
}

}  // namespace

Tensor entries_of(const Tensor& tensor, std::size_t axis, std::span<const std::int64_t> entries) {
  const AxisView view(tensor.sizes(), axis);
  if (tensor.type() != DataType::kString && packed_bits(tensor.type()) % 8 == 0) {  // runs of bytes
    Sizes sizes = tensor.sizes();
    sizes[axis] = static_cast<std::int64_t>(entries.size());
    Tensor result(tensor.type(), std::move(sizes));
    const std::size_t run = static_cast<std::size_t>(view.after) * byte_size(tensor.type());
    std::byte* to = run > 0 && result.size() > 0 ? result.mutable_bytes().data() : nullptr;
    for (std::int64_t b = 0; b < view.before && to != nullptr; ++b, to += run * entries.size())
      copy_runs(to, tensor.bytes().data() + static_cast<std::size_t>(b * view.size) * run, run, entries);
    return result;
  }
  std::vector<std::int64_t> places;
  for (std::int64_t b = 0; b < view.before && tensor.size() > 0; ++b)
    for (const std::int64_t e : entries)
      for (std::int64_t a = 0; a < view.after; ++a) places.push_back((b * view.size + e) * view.after + a);
  Sizes sizes = tensor.sizes();
  sizes[axis] = static_cast<std::int64_t>(entries.size());
  return picked(tensor, std::move(sizes), places);
}

Tensor entry_of(const Tensor& tensor, std::size_t axis, std::int64_t entry) {
  const Tensor one = entries_of(tensor, axis, std::span(&entry, 1));
  Sizes sizes = one.sizes();
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  return one.reshaped(std::move(sizes));
}

Tensor concatenated(std::span<const Tensor> tensors, std::size_t axis) {
  if (tensors.empty()) throw Error(ErrorCode::kBadInput, "there are no tensors to concatenate");
  Sizes sizes = tensors[0].sizes();
  std::int64_t total = 0;
  for (const Tensor& t : tensors) {
    Sizes other = t.sizes();
    if (t.type() != tensors[0].type() || other.size() != sizes.size())
      throw Error(ErrorCode::kBadInput, "tensors of different types or ranks cannot be concatenated");
    total += other[axis];
    other[axis] = sizes[axis];
    if (other != sizes) throw Error(ErrorCode::kBadInput, "tensors of different sizes cannot be concatenated");
  }
  sizes[axis] = total;
  const AxisView whole(sizes, axis);
  if (element_count(sizes) == 0) return Tensor(tensors[0].type(), std::move(sizes));
  if (tensors[0].type() == DataType::kString) {
    std::vector<std::string> values;
    for (std::int64_t b = 0; b < whole.before; ++b)
      for (const Tensor& t : tensors) {
        const std::int64_t run = t.sizes()[axis] * whole.after;
        const auto part = t.strings().subspan(static_cast<std::size_t>(b * run), static_cast<std::size_t>(run));
        values.insert(values.end(), part.begin(), part.end());
      }
    return Tensor::from_strings(std::move(sizes), std::move(values));
  }
  Tensor result(tensors[0].type(), std::move(sizes));
  const std::size_t width = byte_size(result.type());
  std::byte* to = result.mutable_bytes().data();
  for (std::int64_t b = 0; b < whole.before; ++b)
    for (const Tensor& t : tensors) {
      const std::size_t run = static_cast<std::size_t>(t.sizes()[axis] * whole.after) * width;
      if (run > 0) std::memcpy(to, t.bytes().data() + static_cast<std::size_t>(b) * run, run);
      to += run;
    }
  return result;
}

Tensor stacked(std::span<const Tensor> tensors, std::size_t axis) {
  std::vector<Tensor> expanded;
  for (const Tensor& t : tensors) {
    Sizes sizes = t.sizes();
    if (axis > sizes.size()) throw Error(ErrorCode::kBadInput, "axis " + std::to_string(axis) + " is beyond the rank");
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    expanded.push_back(t.reshaped(std::move(sizes)));
  }
  return concatenated(expanded, axis);
}

}  // namespace rewright::operators
