// What grouping asks a device's planner: facts of the graph, and which nodes its kernels compute.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "expressions/element.h"
#include "runtime/planning/graph_facts.h"

namespace rewright::planning {

// Nodes as one expression. Where it starts at a kernel's result, only `result` is used by other nodes.
struct Chain {
  ValueId start = kNoValue;
  std::vector<int> nodes;  // ascending
  ValueId result = kNoValue;
  Element element;                // of the result, over `operands`
  Indices position;               // the axes of the result
  std::vector<ValueId> operands;  // the first is the start, if there is one
};

// start * scale[c] + shift[c] for constants by channel, which is axis 1.
struct ChannelAffine {
  std::vector<double> scale, shift;
};

// A graph whose sizes are all known.
class Facts {
 public:
  virtual ~Facts() = default;
  virtual const Graph& graph() const = 0;
  virtual ValueInfo info(ValueId value) const = 0;
  // The value, if it is known now; an empty tensor otherwise.
  virtual const Tensor& constant(ValueId value) const = 0;
  virtual Definition define(const Node& node) const = 0;
  // Does an output depend on the node, other than through values that are known now?
  virtual bool needed(std::size_t node) const = 0;
  // Adds a constant that is no value of the graph, and returns the number by which the functions above know it.
  virtual ValueId add_constant_value(Tensor tensor) = 0;
  // The affine function by channel that a chain is, if it is to be computed as one.
  virtual std::optional<ChannelAffine> channel_affine(const Chain&) const { return std::nullopt; }

  // The number that a value of one element is known to be.
  std::optional<double> known_number(ValueId value) const { return only_number(constant(value)); }
};

// A node that one of the device's kernels computes, with all that the kernel has absorbed since.
class Taken {
 public:
  virtual ~Taken() = default;
  // Inputs that the kernel recomputes from their producers' operands. Those that nothing else uses need not be stored.
  virtual std::vector<ValueId> computed_ahead() const { return {}; }
};

// The device's kernels. A function absorb...() asks whether a kernel can compute more than it does so far; it answers true
// after it has changed the kernel so that it does, and leaves it as it was otherwise. Grouping calls them in the order in which
// they stand here.
class DeviceKernels : public Facts {
 public:
  // Are there kernels for some nodes of this operator? Such nodes are part of no chain.
  virtual bool has_kernels(std::string_view operator_name) const = 0;
  // The kernel that computes the node; null if there is none.
  virtual std::unique_ptr<Taken> take(const Node& node) = 0;
  // The kernel for a node with a reduction and one result, whose operator has_kernels() does not know; null if there is none.
  virtual std::unique_ptr<Taken> take_reducing(const Node&) { return nullptr; }
  // The elementwise chain before the kernel's first input. The kernel then reads the chain's start.
  virtual bool absorb_before(Taken&, const Chain&) { return false; }
  // The elementwise chain behind the kernel's result.
  virtual bool absorb(Taken& taken, const Chain& chain) = 0;
  // The only user of the kernel's result, which may have kernels of its own.
  virtual bool absorb_next(Taken&, const Node&) { return false; }
  // The node `rows`, which alone uses the kernel's result, and the node that alone uses the result of `rows` and that the
  // kernel `next` computes.
  virtual bool absorb_rows(Taken&, const Node& /*rows*/, const Taken& /*next*/) { return false; }
  // The only user of the kernel's result, which only moves elements.
  virtual bool absorb_move(Taken&, const Node&) { return false; }
  // Says that the value will be in memory, whatever else is grouped.
  virtual void will_be_stored(ValueId) {}
  // `addend`, which the kernel adds to its result and which the kernel `other` computes for this alone. Takes over `other`.
  virtual bool absorb_addend(Taken&, ValueId /*addend*/, std::unique_ptr<Taken>& /*other*/) { return false; }

  // May values of this type stay unrounded between nodes of a group whose result has it too?
  virtual bool may_stay_unrounded(DataType type) const { return type == DataType::kFloat || type == DataType::kDouble; }
  // May reals stay floats between quantized tensors, and kernels absorb the quantization of their results?
  virtual bool fuses_quantization() const { return false; }
};

}  // namespace rewright::planning
