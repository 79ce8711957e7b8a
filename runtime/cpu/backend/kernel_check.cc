#include "runtime/cpu/backend/kernel_check.h"

#include "runtime/cpu/onednn/onednn.h"

namespace rewright::cpu {

namespace {

// Maps row-major places of a tensor [images, channels, spatial...] to places with channels in blocks.
std::function<std::int64_t(std::int64_t)> blocked_places(const Sizes& sizes, std::int64_t block) {
  const std::int64_t channels = sizes[1], pixels = element_count(std::span(sizes).subspan(2));
  const std::int64_t blocks = (channels + block - 1) / block;
  return [=](std::int64_t at) {
    const std::int64_t pixel = at % pixels, channel = at / pixels % channels, image = at / pixels / channels;
    return ((image * blocks + channel / block) * pixels + pixel) * block + channel % block;
  };
}

}  // namespace

KernelCheck::KernelCheck(const Plan& plan, const CheckExtent& extent, std::uint64_t seed)
    : plan_(plan),
      graph_(*plan.graph),
      written_(plan.storages.size(), -1),
      to_check_(plan.steps.size()),
      first_place_(graph_.value_count(), -1),
      comparison_(graph_, extent, seed, [this](ValueId v) {
        const int number = first_place_[v];
        const bool is_stored = number >= 0 && is_there(plan_.values[static_cast<std::size_t>(number)].storage);
        return is_stored ? stored(plan_.values[static_cast<std::size_t>(number)]) : nullptr;
      }) {
  for (std::size_t n = 0; n < plan.steps.size(); ++n)
    for (int s : plan.steps[n].outputs)
      for (; s >= 0; s = plan.storages[s].part_of) written_[s] = static_cast<int>(n);
  for (std::size_t n = 0; n < plan.values.size(); ++n) {
    const PlannedValue& v = plan.values[n];
    if (v.pixel_stride == 0 && !v.copy) first_place_[v.value] = static_cast<int>(n);
    if (written_[v.storage] >= 0) to_check_[written_[v.storage]].push_back(n);
  }
}

std::unique_ptr<StoredElements> KernelCheck::stored(const PlannedValue& value) const {
  const TensorType& type = graph_.value(value.value).type;
  const Sizes sizes = values(type.shape);
  const std::int64_t count = stored_elements(sizes, value.layout);
  std::function<std::int64_t(std::int64_t)> at;
  if (value.layout.channels_last()) at = channels_last_places(sizes, value.pixel_stride);
  if (value.layout.blocked()) at = blocked_places(sizes, value.layout.channels);
  return stored_elements_of(type.type, count, addresses_[static_cast<std::size_t>(value.storage)], std::move(at));
}

// Does the storage hold its value after the current step?
bool KernelCheck::is_there(int s) const {
  if (written_[s] > static_cast<int>(now_)) return false;
  while (plan_.storages[s].part_of >= 0) s = plan_.storages[s].part_of;
  const Storage& root = plan_.storages[s];
  if (root.kind == Storage::Kind::kInput || root.kind == Storage::Kind::kConstant) return true;
  return root.first >= 0 && root.first <= static_cast<int>(now_) && static_cast<int>(now_) <= root.last;
}

void KernelCheck::after(std::size_t number, std::span<std::byte* const> addresses) {
  now_ = number;
  addresses_ = addresses;
  if (to_check_[number].empty()) return;
  const Step& step = plan_.steps[number];
  std::vector<CheckedResult> results;
  for (const std::size_t n : to_check_[number]) {
    const PlannedValue& v = plan_.values[n];
    results.push_back({v.value, stored(v), v.copy, v.low, v.high});
  }
  comparison_.after({step.node, step.operators, step.kernel->source(), step.kernel->rounding(), step.flops, step.nodes},
                    results, plan_.steps.size() - number);
}

}  // namespace rewright::cpu
