// What planning has to know of a graph whose sizes are all known, to say which of its nodes run together.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// A value's type and sizes, all known.
struct ValueInfo {
  DataType type = DataType::kUndefined;
  Sizes sizes;
};

// A group of elementwise nodes that starts at one value, and of whose values only the result is used by others.
struct Chain {
  ValueId start = kNoValue;
  std::vector<int> nodes;  // ascending
  ValueId result = kNoValue;
  Element element;                // of the result, over `operands`
  Indices position;               // the axes of the result
  std::vector<ValueId> operands;  // the first is the start
};

// start * scale[c] + shift[c] for constants by channel.
struct ChannelAffine {
  std::vector<double> scale, shift;
};

// A node that a kernel of the runtime's has taken.
class Taken {
 public:
  virtual ~Taken() = default;
  // Inputs that it computes itself, from their producers' operands: where nothing else uses them they are not stored.
  virtual std::vector<ValueId> computed_ahead() const { return {}; }
};

// What a runtime knows and has.
class Facts {
 public:
  virtual ~Facts() = default;
  virtual const Graph& graph() const = 0;
  virtual ValueInfo info(ValueId value) const = 0;
  // The value, if it is known now; an empty tensor otherwise.
  virtual const Tensor& constant(ValueId value) const = 0;
  virtual Definition define(const Node& node) const = 0;
  virtual bool needed(std::size_t node) const = 0;
  // A constant that is no value of the graph.
  virtual ValueId add_constant_value(Tensor tensor) = 0;

  // Are there kernels for some nodes of this operator? They are in no chain.
  virtual bool has_kernels(std::string_view operator_name) const = 0;
  // Null if no kernel serves this node.
  virtual std::unique_ptr<Taken> take(const Node& node) = 0;
  // May the kernel compute the chain behind it as well? If so it does.
  virtual bool absorb(Taken& taken, const Chain& chain) = 0;
  // May the kernel compute the elementwise chain before its first input as well? If so it does, and reads the chain's start.
  virtual bool absorb_before(Taken&, const Chain&) { return false; }
  // May the kernel compute the node `next` as well, which uses its result alone and has kernels? If so it does.
  virtual bool absorb_next(Taken&, const Node&) { return false; }
  // May the kernel, which adds `addend` to its result, compute that as well? It is what `other` computes, and is used for
  // nothing else. If so it does, and has taken `other`.
  virtual bool absorb_addend(Taken&, ValueId, std::unique_ptr<Taken>&) { return false; }
  // The same as `absorb` for a node without other results that has_kernels says nothing of.
  virtual std::unique_ptr<Taken> take_reducing(const Node&) { return nullptr; }
  // The same as `absorb` for a node `rows` that uses the kernel's result alone, and a node taken as `next` that uses that
  // one's.
  virtual bool absorb_rows(Taken&, const Node&, const Taken&) { return false; }
  // The same for a node that only moves elements of the result.
  virtual bool absorb_move(Taken&, const Node&) { return false; }
  // The value will be in memory whatever is fused.
  virtual void will_be_stored(ValueId value) = 0;
  // The affine function by channel (axis 1) that a chain is, if it is to be computed as one.
  virtual std::optional<ChannelAffine> channel_affine(const Chain& chain) const = 0;
  // May values of this type stay unrounded between nodes of a group whose result has it too?
  virtual bool may_stay_unrounded(DataType type) const { return type == DataType::kFloat || type == DataType::kDouble; }

  // Are reals kept as floats between quantized tensors, and may kernels absorb what quantizes their results?
  virtual bool fuses_quantization() const { return false; }

  // A number that a value with one element is known to be.
  std::optional<double> known_number(ValueId value) const {
    const Tensor& t = constant(value);
    if (!t || t.size() != 1) return std::nullopt;
    return t.reals()[0];
  }
};

}  // namespace rewright::planning
