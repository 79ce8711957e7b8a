// The storages and layouts of a plan's values.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/known_values.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// A part of another value's storage: some channels of a channels-last tensor. The step that computes the part writes it there,
// clamped to low and high.
struct Slot {
  int storage;
  std::int64_t stride;  // floats between pixels
  float low, high;
};

// A value that forms channels of `whole`, from channel `first` on, and has no other reader.
struct PartOfChannels {
  ValueId whole;
  std::int64_t first;
  float low, high;
};

class StoredValues {
 public:
  // Adds the storages to the plan.
  StoredValues(const KnownValues& known, Plan& plan) : known_(known), plan_(plan) {}

  // ---- Values: (layout, storage), starting with the layout it was computed in. Empty before its step is planned.
  using Copies = std::vector<std::pair<Layout, int>>;
  const Copies& copies(ValueId value) const;
  int find(ValueId value, Layout layout) const;  // -1: not stored in this layout
  int add(ValueId value, Layout layout);
  void add_input(ValueId value, int number);
  // Records that the value has the same bytes as another stored one.
  void alias(ValueId value, int storage, Layout layout);
  void forget(ValueId value);

  // ---- Other memory
  int add_constant(Tensor tensor);
  int add_scratch(std::size_t bytes);

  // ---- Parts of concatenations
  void set_parts(std::map<ValueId, PartOfChannels> parts) { parts_ = std::move(parts); }
  // The slot for a value to be computed; nullopt if it is not such a part, or if the whole is clamped and the step cannot clamp
  // what it stores (`bounded` is false).
  std::optional<Slot> take_slot(ValueId value, bool bounded);
  bool is_in_slot(ValueId value) const;

  // All values, for a plan to be checked.
  std::vector<PlannedValue> planned_values() const;

 private:
  int add(Storage storage);

  const KnownValues& known_;
  Plan& plan_;
  std::vector<Copies> copies_;  // by value
  std::map<ValueId, PartOfChannels> parts_;
  std::vector<PlannedValue> in_slots_;
};

// Do both layouts order a tensor's elements equally?
bool same_order(const Sizes& sizes, Layout a, Layout b);

}  // namespace rewright::cpu
