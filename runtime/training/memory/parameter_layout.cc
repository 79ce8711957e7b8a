#include "runtime/training/memory/parameter_layout.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rewright::training {

namespace {

constexpr std::size_t kAlignment = 64;

// Each part begins with the first parameter after its share of the elements.
Bounds whole_bounds(const Bucket& bucket, std::size_t processes) {
  Bounds bounds = even_bounds(bucket.count, processes);
  for (std::size_t p = 1; p < processes; ++p) {
    const auto next = std::ranges::find_if(bucket.slots, [&](const Slot& s) { return s.first >= bounds[p]; });
    bounds[p] = next == bucket.slots.end() ? bucket.count : next->first;
  }
  return bounds;
}

}  // namespace

ParameterLayout::ParameterLayout(std::vector<ParameterKind> parameters, std::span<const std::size_t> order,
                                 const LayoutOptions& options)
    : parameters_(std::move(parameters)), places_(parameters_.size()) {
  std::map<DataType, std::size_t> open;  // the bucket being filled
  for (const std::size_t p : order) {
    const DataType type = parameters_[p].type;
    const auto at = open.find(type);
    const bool full = at != open.end() && options.bucket_bytes > 0 && buckets_[at->second].bytes() >= options.bucket_bytes;
    if (at == open.end() || full) {
      open[type] = buckets_.size();
      buckets_.push_back({type, {}, 0, {}});
    }
    Bucket& bucket = buckets_[open[type]];
    const std::size_t step = kAlignment / bucket.width();
    const auto count = static_cast<std::size_t>(element_count(parameters_[p].sizes));
    places_[p] = {open[type], bucket.slots.size()};
    bucket.slots.push_back({p, bucket.count, count});
    bucket.count += (count + step - 1) / step * step;
  }
  for (Bucket& bucket : buckets_)
    bucket.bounds = options.cut ? even_bounds(bucket.count, options.processes) : whole_bounds(bucket, options.processes);
}

std::vector<Piece> ParameterLayout::pieces(std::size_t process) const {
  std::vector<Piece> result;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (const Slot& slot : buckets_[b].slots) {
      const std::size_t first = std::max(slot.first, buckets_[b].bounds[process]);
      const std::size_t last = std::min(slot.first + slot.count, buckets_[b].bounds[process + 1]);
      if (first >= last) continue;
      const Sizes& whole = parameters_[slot.parameter].sizes;
      Sizes sizes{static_cast<std::int64_t>(last - first)};
      if (whole.size() > 1) sizes.push_back(1);
      result.push_back({b, slot.parameter, first, last - first, last - first == slot.count ? whole : sizes});
    }
  return result;
}

Bounds ParameterLayout::bounds_of(std::size_t parameter) const {
  const Slot& slot = slot_of(parameter);
  Bounds bounds = buckets_[bucket_of(parameter)].bounds;
  for (std::size_t& b : bounds) b = std::clamp(b, slot.first, slot.first + slot.count) - slot.first;
  return bounds;
}

std::size_t ParameterLayout::bytes() const {
  std::size_t total = 0;
  for (const Bucket& b : buckets_) total += b.bytes();
  return total;
}

std::size_t ParameterLayout::part_bytes(std::size_t process) const {
  std::size_t total = 0;
  for (const Bucket& b : buckets_) total += (b.bounds[process + 1] - b.bounds[process]) * b.width();
  return total;
}

ProcessLayout::ProcessLayout(ParameterLayout layout, std::size_t process)
    : ParameterLayout(std::move(layout)), process_(process), own_pieces_(pieces(process)) {}

}  // namespace rewright::training
