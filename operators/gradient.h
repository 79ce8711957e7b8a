// Gradients: for a node of a graph, the graph of operators that computes the gradients of its inputs from those of its outputs.
//
// Most follow from the denotation (derived_gradient): elementwise operators, products, reductions, normalizations, and moves of
// elements that permute or repeat axes. The others are stated in their operator's struct:
//
//   std::vector<ValueId> gradient(const GradientCall& call) const;   // one an input, kNoGradient where there is none
//
// and announced by one line in their family's register_..._gradients function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

using ValueId = std::uint32_t;  // of graph/graph.h
inline constexpr ValueId kNoGradient = ~ValueId{0};

// The graph that a gradient is added to.
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
  ValueId filled(const TensorType& type, double value);  // a constant's worth of elements, made when the graph runs
  ValueId reshaped(ValueId x, const Indices& shape);     // x itself where it has that shape
  ValueId transposed(ValueId x, const Indices& perm);    // x itself where nothing moves
  ValueId cast(ValueId x, DataType type);                // x itself where it has that type
  ValueId summed(ValueId x, const Indices& axes);        // over these axes, which then are gone; x itself where there are none
  const Indices& shape_of(ValueId value) const { return type_of(value).shape; }
};

struct GradientCall {
  GraphBuilder& graph;
  const Operator& op;
  const Attributes& attributes;
  std::vector<ValueId> inputs;            // kNoGradient where absent
  std::vector<ValueId> outputs;           // of the node itself
  std::vector<ValueId> output_gradients;  // kNoGradient: zero
  std::vector<bool> wanted;               // for which inputs

  bool wants(std::size_t input) const { return input < wanted.size() && wanted[input]; }
  std::vector<ValueId> none() const { return std::vector<ValueId>(inputs.size(), kNoGradient); }
};
using GradientFunction = std::function<std::vector<ValueId>(const GradientCall& call)>;

// What a node computes while a network is trained, where that is something else.
struct TrainingForm {
  std::vector<ValueId> outputs;
  // Inputs that training changes beside the gradients, and what they become: running statistics.
  std::vector<std::pair<std::size_t, ValueId>> updated_inputs;
};
// `momentum`: what is kept of a running statistic in one step, from 0 to 1.
using TrainingFunction = std::function<TrainingForm(GraphBuilder& graph, const Attributes& attributes,
                                                    const std::vector<ValueId>& inputs, double momentum)>;

// What is stated of operators in training.
class Gradients {
 public:
  template <class T>
  void add() {
    stated_[std::string(T::kName)] = [](const GradientCall& call) {
      return from_attributes<T>(call.attributes).gradient(call);
    };
  }
  // T::training_form(graph, inputs, momentum)
  template <class T>
  void add_training_form() {
    forms_[std::string(T::kName)] = [](GraphBuilder& graph, const Attributes& attributes, const std::vector<ValueId>& inputs,
                                       double momentum) {
      return from_attributes<T>(attributes).training_form(graph, inputs, momentum);
    };
  }
  // Null if there is none.
  const GradientFunction* find(const Operator& op) const;
  const TrainingFunction* find_training_form(const Operator& op) const;

 private:
  std::map<std::string, GradientFunction, std::less<>> stated_;
  std::map<std::string, TrainingFunction, std::less<>> forms_;
};
const Gradients& stated_gradients();

void register_convolution_gradients(Gradients& g);
void register_pooling_gradients(Gradients& g);
void register_softmax_gradients(Gradients& g);
void register_normalization_gradients(Gradients& g);
void register_reduction_gradients(Gradients& g);
void register_layout_gradients(Gradients& g);
void register_blocks_gradients(Gradients& g);
void register_assembly_gradients(Gradients& g);
void register_slice_gradients(Gradients& g);
void register_indexing_gradients(Gradients& g);
void register_scatter_gradients(Gradients& g);
void register_generation_gradients(Gradients& g);
void register_resize_gradients(Gradients& g);

// Adds the gradients of the wanted inputs: stated or derived. kNoGradient where an input has none (integers), or it is zero
// everywhere. Where the operator has a kink any value between those beside it may come. Throws Error(kUnsupported), with the
// reason, where there is a gradient and nothing here can build it.
std::vector<ValueId> add_gradient(const GradientCall& call);

// From the denotation alone.
std::vector<ValueId> derived_gradient(const GradientCall& call);

// The partial derivative of f in one of its arguments, over the same arguments and f's value; null where it is zero wherever it
// exists. Throws Error(kUnsupported) for functions that have none.
Element derivative(const Function& f, std::span<const Element> arguments, const Element& value, std::size_t which);

}  // namespace rewright::operators
