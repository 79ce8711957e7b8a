// Where the values of a plan are stored, and in which layouts.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/known_values.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// A part of another value's storage: some of the channels of a tensor whose channels are last. The step that computes the part
// writes it there, within the bounds low <= y <= high.
struct Slot {
  int storage;
  std::int64_t stride;  // floats from pixel to pixel
  float low, high;
};

// A value that is some of the channels of `whole`, from channel `first` on, and that nothing else reads.
struct PartOfChannels {
  ValueId whole;
  std::int64_t first;
  float low, high;
};

class StoredValues {
 public:
  // Adds the storages to the plan.
  StoredValues(const KnownValues& known, Plan& plan) : known_(known), plan_(plan) {}

  // ---- Values: (layout, storage), the layout that it was computed in first. Empty before its step is planned.
  using Copies = std::vector<std::pair<Layout, int>>;
  const Copies& copies(ValueId value) const;
  int find(ValueId value, Layout layout) const;  // -1: not stored in this layout
  int add(ValueId value, Layout layout);
  void add_input(ValueId value, int number);
  // The value has the same bytes as another one that is stored.
  void alias(ValueId value, int storage, Layout layout);
  void forget(ValueId value);

  // ---- Other memory
  int add_constant(Tensor tensor);
  int add_scratch(std::size_t bytes);

  // ---- Parts of concatenations
  void set_parts(std::map<ValueId, PartOfChannels> parts) { parts_ = std::move(parts); }
  // A slot for a value that is to be computed; nullopt if it is no such part, or its whole is bounded and `bounded` is false:
  // the step cannot bound what it stores.
  std::optional<Slot> take_slot(ValueId value, bool bounded);
  bool is_in_slot(ValueId value) const;

  // All that is known to a plan to be checked.
  std::vector<PlannedValue> planned_values() const;

 private:
  int add(Storage storage);

  const KnownValues& known_;
  Plan& plan_;
  std::vector<Copies> copies_;  // by value
  std::map<ValueId, PartOfChannels> parts_;
  std::vector<PlannedValue> in_slots_;
};

// Do the two layouts put a tensor's elements in the same order?
bool same_order(const Sizes& sizes, Layout a, Layout b);

}  // namespace rewright::cpu
