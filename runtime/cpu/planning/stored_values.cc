#include "runtime/cpu/planning/stored_values.h"

#include <algorithm>
#include <limits>

namespace rewright::cpu {

const StoredValues::Copies& StoredValues::copies(ValueId value) const {
  static const Copies none;
  return value < copies_.size() ? copies_[value] : none;
}

int StoredValues::find(ValueId value, Layout layout) const {
  for (const auto& [known, storage] : copies(value))
    if (known == layout) return storage;
  return -1;
}

int StoredValues::add(Storage storage) {
  plan_.storages.push_back(std::move(storage));
  return static_cast<int>(plan_.storages.size()) - 1;
}

int StoredValues::add(ValueId value, Layout layout) {
  const ValueInfo& v = known_.info(value);
  Storage storage;
  storage.bytes = static_cast<std::size_t>(stored_elements(v.sizes, layout)) * byte_size(v.type);
  const int number = add(std::move(storage));
  alias(value, number, layout);
  return number;
}

void StoredValues::add_input(ValueId value, int number) {
  const ValueInfo& v = known_.info(value);
  Storage storage;
  storage.kind = Storage::Kind::kInput;
  storage.number = number;
  storage.bytes = static_cast<std::size_t>(element_count(v.sizes)) * byte_size(v.type);
  alias(value, add(std::move(storage)), kPlain);
}

void StoredValues::alias(ValueId value, int storage, Layout layout) {
  if (value >= copies_.size()) copies_.resize(static_cast<std::size_t>(value) + 1);
  copies_[value].emplace_back(layout, storage);
}

void StoredValues::forget(ValueId value) {
  if (value < copies_.size()) copies_[value].clear();
}

int StoredValues::add_constant(Tensor tensor) {
  Storage storage;
  storage.kind = Storage::Kind::kConstant;
  storage.bytes = tensor.byte_count();
  storage.fixed = tensor.bytes().data();
  storage.constant = std::move(tensor);
  return add(std::move(storage));
}

int StoredValues::add_scratch(std::size_t bytes) {
  Storage storage;
  storage.bytes = bytes;
  return add(std::move(storage));
}

std::optional<Slot> StoredValues::take_slot(ValueId value, bool bounded) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto found = parts_.find(value);
  if (found == parts_.end()) return std::nullopt;
  const PartOfChannels& part = found->second;
  if (!bounded && (part.low > -kInfinity || part.high < kInfinity)) return std::nullopt;
  int whole = find(part.whole, kChannelsLast);
  if (whole < 0) whole = add(part.whole, kChannelsLast);
  Storage storage;
  storage.bytes = static_cast<std::size_t>(element_count(known_.info(value).sizes)) * sizeof(float);
  storage.part_of = whole;
  storage.part_at = static_cast<std::size_t>(part.first) * sizeof(float);
  const Slot slot{add(std::move(storage)), known_.info(part.whole).sizes[1], part.low, part.high};
  in_slots_.push_back({value, slot.storage, kChannelsLast, false, slot.stride, slot.low, slot.high});
  return slot;
}

bool StoredValues::is_in_slot(ValueId value) const {
  return std::any_of(in_slots_.begin(), in_slots_.end(), [&](const PlannedValue& v) { return v.value == value; });
}

std::vector<PlannedValue> StoredValues::planned_values() const {
  std::vector<PlannedValue> result;
  for (ValueId v = 0; v < known_.graph().value_count(); ++v)
    for (std::size_t c = 0; c < copies(v).size(); ++c) result.push_back({v, copies_[v][c].second, copies_[v][c].first, c > 0});
  result.insert(result.end(), in_slots_.begin(), in_slots_.end());
  return result;
}

bool same_order(const Sizes& sizes, Layout a, Layout b) {
  if (a == b) return true;
  std::int64_t spatial = 1;
  for (std::size_t i = 2; i < sizes.size(); ++i) spatial *= sizes[i];
  const auto is_row_major = [&](Layout l) {
    if (l.plain()) return true;
    if (l.channels_last()) return spatial == 1 || sizes[1] == 1;
    return spatial == 1 && sizes[1] % l.channels == 0;
  };
  return is_row_major(a) && is_row_major(b);
}

}  // namespace rewright::cpu
