// The questions that grouping asks a device's planner: facts of the graph, and the nodes that its kernels compute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "expressions/element.h"
#include "runtime/planning/graph_facts.h"

namespace rewright::planning {

// Nodes as one expression. If it starts at a kernel's result, other nodes use only `result`. The expression is composed when it
// is first requested: kernels know most chains by their nodes.
class Chain {
 public:
  struct Expression {
    Element element;                // of the result, over `operands`
    Indices position;               // the axes of the result
    std::vector<ValueId> operands;  // the first is the start, if any
    std::uint64_t name = 0;         // a device's, for all of this but the operands' numbers and sizes; 0: none
  };

  ValueId start = kNoValue;
  std::vector<int> nodes;  // ascending
  ValueId result = kNoValue;

  // `compose` is called at most once, with this chain.
  using Compose = std::function<Expression(const Chain&)>;
  void set_expression(Compose compose) { compose_ = std::move(compose); }
  const Expression& expression() const {
    if (!expression_) expression_ = std::exchange(compose_, nullptr)(*this);
    return *expression_;
  }
  const Element& element() const { return expression().element; }
  const Indices& position() const { return expression().position; }
  const std::vector<ValueId>& operands() const { return expression().operands; }

  mutable std::optional<std::uint64_t> name;  // a device's name for the function; set when it is first requested

 private:
  mutable Compose compose_;
  mutable std::optional<Expression> expression_;
};

// start * scale[c] + shift[c] with constants by channel (axis 1).
struct ChannelAffine {
  std::vector<double> scale, shift;
};

// Properties of the denotation of a node's first output that decide what the node is grouped with.
struct Traits {
  bool has_denotation = false;  // all outputs have one; else the other members are meaningless
  bool reduces = false;
  bool sums_products = false;  // the element is a sum, over one variable or several, of a product
  bool has_position = false;   // reads at positions given as data: execution checks that they are inside their axes
  bool has_guard = false;      // evaluates a part only under a condition
  bool is_limited = false;     // clamped to its type's range before the conversion to an integer, as by quantization
  bool only_reads = false;     // the element is one of an operand's, or 0
  int moved = -1;              // the operand whose elements it only moves; -1: it does more
  double operations = 0;       // per element; unless it reduces
};
Traits traits_of(const Definition& definition);

// The movement of elements from a node's first input to its first output.
struct Movement {
  bool in_order = false;    // the result has all of them, in the same order
  bool along_axes = false;  // each position of the operand is a number, or one of the result's
};
Movement movement_of(const Definition& definition, const Sizes& result, const Sizes& operand);

// A graph of known sizes.
class Facts {
 public:
  virtual ~Facts() = default;
  virtual const Graph& graph() const = 0;
  // A reference that stays valid.
  virtual const ValueInfo& info(ValueId value) const = 0;
  // The value, if it is known at planning time; otherwise an empty tensor.
  virtual const Tensor& constant(ValueId value) const = 0;
  // Is it known? A device may tell without making it.
  virtual bool is_constant(ValueId value) const { return static_cast<bool>(constant(value)); }
  virtual const Definition& define(const Node& node) const = 0;
  virtual Traits traits(const Node& node) const { return traits_of(define(node)); }
  // The node must have a first input.
  virtual Movement movement(const Node& node) const {
    return movement_of(define(node), info(node.outputs[0]).sizes, info(node.inputs[0]).sizes);
  }
  // Does an output depend on the node, other than through values known at planning time?
  virtual bool needed(std::size_t node) const = 0;
  // Adds a constant that is not in the graph; returns the number by which the functions above know it.
  virtual ValueId add_constant_value(Tensor tensor) = 0;
  // The affine function by channel that a chain computes, if it is to be computed as one. Null: none.
  virtual std::shared_ptr<const ChannelAffine> channel_affine(const Chain&) const { return nullptr; }

  // The result of `compose` for these nodes. A device may know it from other nodes that compute the same.
  virtual Chain::Expression composed(const std::vector<int>& /*nodes*/, ValueId /*start*/, bool /*shorten*/,
                                     const std::function<Chain::Expression()>& compose) {
    return compose();
  }

  // The number in a known value of one element.
  std::optional<double> known_number(ValueId value) const { return only_number(constant(value)); }
};

// A node matched by one of the device's kernels, with everything that the kernel has absorbed since.
class MatchedKernel {
 public:
  virtual ~MatchedKernel() = default;
  // Inputs that the kernel recomputes from their producers' operands. They need not be stored if nothing else uses them.
  virtual std::vector<ValueId> computed_ahead() const { return {}; }
  // Inputs whose elements the kernel reads once each, in row-major order. It may compute them itself instead (absorb_operand).
  virtual std::vector<ValueId> read_in_order() const { return {}; }
  // Does the kernel only copy elements? A kernel that reads its result in order can then read the elements at their source.
  virtual bool only_moves() const { return false; }
};

// The device's kernels. Each absorb...() asks whether a kernel can also compute more nodes. If so, it changes the kernel and
// returns true, else it leaves it unchanged. Grouping calls them in the order in which they are declared.
class DeviceKernels : public Facts {
 public:
  // Are there kernels for some nodes of this operator? Such nodes are never part of a chain.
  virtual bool has_kernels(std::string_view operator_name) const = 0;
  // The kernel that computes the node; null if there is none.
  virtual std::unique_ptr<MatchedKernel> match(const Node& node) = 0;
  // The kernel for a node with a reduction and one result whose operator has_kernels() does not cover; null if there is none.
  virtual std::unique_ptr<MatchedKernel> match_reduction(const Node&) { return nullptr; }
  // Absorbs the elementwise chain before the kernel's first input. The kernel then reads the chain's start.
  virtual bool absorb_before(MatchedKernel&, const Chain&) { return false; }
  // Absorbs the elementwise chain after the kernel's result.
  virtual bool absorb(MatchedKernel& kernel, const Chain& chain) = 0;
  // Absorbs the only user of the kernel's result, which may have kernels of its own.
  virtual bool absorb_next(MatchedKernel&, const Node&) { return false; }
  // Absorbs `rows`, the only user of the kernel's result. The kernel `next` computes the only user of the result of `rows`.
  virtual bool absorb_rows(MatchedKernel&, const Node& /*rows*/, const MatchedKernel& /*next*/) { return false; }
  // Absorbs the only user of the kernel's result, which only moves elements.
  virtual bool absorb_move(MatchedKernel&, const Node&) { return false; }
  // Tells the device that the value will be stored, however nodes are grouped.
  virtual void will_be_stored(ValueId) {}
  // Fuses `other`, the kernel that computes this kernel's addend for it alone. Takes over `other`.
  virtual bool absorb_addend(MatchedKernel&, ValueId /*addend*/, std::unique_ptr<MatchedKernel>& /*other*/) { return false; }
  // Absorbs the chain that computes one of kernel.read_in_order() for this kernel alone.
  virtual bool absorb_operand(MatchedKernel&, const Chain&) { return false; }

  // May values of this type stay unrounded between nodes of a group whose result has the same type?
  virtual bool may_stay_unrounded(DataType type) const { return type == DataType::kFloat || type == DataType::kDouble; }
  // May reals between quantized tensors stay floats, with kernels absorbing the quantization of their results?
  virtual bool fuses_quantization() const { return false; }
};

}  // namespace rewright::planning
