// Gradients of nodes: graphs of operators that compute the gradients of a node's inputs from those of its outputs.
//
// Most follow from the denotation (derived_gradient): elementwise operators, products, reductions, normalizations, and moves of
// elements that permute or repeat axes. The others are stated in their operator's struct, where Registry::add detects them:
//
//   std::vector<ValueId> gradient(const GradientCall& call) const {   // x, scale -> y = x * scale
//     auto gradients = call.none();                                   // one an input, kNoGradient where there is none
//     if (call.wants(0)) gradients[0] = call.graph.add("Mul", {call.output_gradients[0], call.inputs[1]});
//     return gradients;
//   }
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

inline constexpr ValueId kNoGradient = ~ValueId{0};

// A graph to which nodes are added: a Graph (graph/builder.h), or an ONNX node that is being imported or exported
// (operators/source_builder.h, operators/sink_builder.h).
//
//   const ValueId mean = b.add("ReduceMean", {x}, {{"axes", Indices{1}}, {"keepdims", true}});
class GraphBuilder {
 public:
  virtual ~GraphBuilder() = default;
  virtual const TensorType& type_of(ValueId value) const = 0;
  virtual std::vector<ValueId> node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) = 0;
  virtual ValueId constant(Tensor tensor) = 0;

  // The first output of a node of the operator with this name; fields that are not named have their defaults.
  using Fields = std::vector<std::pair<std::string_view, AttributeValue>>;
  ValueId add(std::string_view name, std::vector<ValueId> inputs, const Fields& fields = {});
  ValueId scalar(DataType type, double value);
  ValueId filled(const TensorType& type, double value);  // every element is `value`; a node, so that it takes no memory
  ValueId reshaped(ValueId x, const Indices& shape);     // x itself if it has that shape
  ValueId transposed(ValueId x, const Indices& perm);    // x itself if nothing moves
  ValueId cast(ValueId x, DataType type);                // x itself if it has that type
  ValueId summed(ValueId x, const Indices& axes);        // over these axes, which are removed; x itself if there are none
  const Indices& shape_of(ValueId value) const { return type_of(value).shape; }
};

struct GradientCall {
  GraphBuilder& graph;
  const Operator& op;
  const Attributes& attributes;
  std::vector<ValueId> inputs;            // kNoGradient where absent
  std::vector<ValueId> outputs;           // the node's results
  std::vector<ValueId> output_gradients;  // one an output; kNoGradient: zero
  std::vector<bool> wanted;               // one an input: is its gradient needed?

  bool wants(std::size_t input) const { return input < wanted.size() && wanted[input]; }
  std::vector<ValueId> none() const { return std::vector<ValueId>(inputs.size(), kNoGradient); }
};

// The form of a node during training, for operators that then compute something else (BatchNormalization). The `momentum` that
// training_form() gets is the share of a running statistic that one step keeps, from 0 to 1.
struct TrainingForm {
  std::vector<ValueId> outputs;
  // Inputs that a training step replaces (running statistics): the input's number and its new value.
  std::vector<std::pair<std::size_t, ValueId>> updated_inputs;
};

// Adds the nodes that compute the gradients of the wanted inputs, stated or derived. Returns one value an input: kNoGradient
// where an input has no gradient (integers) or it is zero everywhere. At a kink the result is any value between the slopes on
// both sides. Throws Error(kUnsupported), with the reason, if there is a gradient that cannot be built.
std::vector<ValueId> add_gradient(const GradientCall& call);

// add_gradient from the denotation alone, without the operator's stated gradient.
std::vector<ValueId> derived_gradient(const GradientCall& call);

// The partial derivative of f in argument `which`, as an expression over the arguments and f's value; null if it is zero
// wherever it exists. Throws Error(kUnsupported) for functions that have none.
Element derivative(const Function& f, std::span<const Element> arguments, const Element& value, std::size_t which);

}  // namespace rewright::operators
