// Graphs of operators as values.
//
// A graph is a table of nodes in topological order and a table of values. Copies share all nodes, values and constants; an
// edit of a copy leaves the original as it was. Values keep their number through edits, so a rewrite replaces a few nodes and
// touches nothing else. Outputs of the graph keep their names, order and types through every edit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operators/operator.h"
#include "operators/tensor.h"

namespace rewright {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};  // an optional input that is absent

struct Value {
  std::string name;                 // as in the model, or empty for values that rewriting made
  TensorType type;                  // kUndefined where it is not known (around opaque nodes)
  bool shape_known = true;          // false: type.shape says nothing
  std::optional<Indices> contents;  // elements of a small integer tensor, as far as known (see known_contents)
  Tensor constant;                  // not empty: a constant leaf
};

// The bytes of the ONNX node that a node was imported from; written back unchanged as long as the node is not rewritten.
struct Origin {
  std::string node_proto;  // serialized NodeProto
  std::string name;        // of the ONNX node, for messages and certificates
  // Where each input of the ONNX node is found now: the number of one of Node::inputs, or of Node::parameters.
  struct Input {
    enum class Kind { kAbsent, kInput, kParameter } kind;
    std::uint32_t number;
  };
  std::vector<Input> inputs;
};

struct Node {
  const Operator* op = nullptr;  // null: opaque, kept as it is
  Attributes attributes;
  std::vector<ValueId> inputs;      // kNoValue where absent; of an opaque node also what its subgraphs capture
  std::vector<ValueId> parameters;  // what its ONNX form reads to know attributes (a Reshape's shape tensor): kept alive
  std::vector<ValueId> outputs;     // kNoValue where the model does not name it
  std::shared_ptr<const Origin> origin;  // null for nodes that rewriting made
  std::string opaque_reason;             // why it is opaque
};

struct GraphOutput {
  std::string name;
  ValueId value;
  TensorType type;  // as the model declares it
  bool shape_known = true;
};

struct ImportedModel;  // graph/onnx.h: everything of a model that is not the graph (metadata, functions, opsets, ...)

class Graph {
 public:
  // ---- Reading
  std::span<const std::shared_ptr<const Node>> nodes() const { return nodes_; }  // in topological order
  std::size_t value_count() const { return values_.size(); }
  const Value& value(ValueId id) const { return *values_[id]; }
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const GraphOutput> outputs() const { return outputs_; }
  bool is_input(ValueId id) const;
  bool is_constant(ValueId id) const { return static_cast<bool>(values_[id]->constant); }  // a constant leaf
  // For every value: does it depend on constants alone (leaves included)? Random operators and opaque nodes do not count.
  std::vector<bool> constant_values() const;
  // For every value: the position in nodes() of its producer (-1: none), and those of its users, ascending.
  std::vector<std::int32_t> producers() const;
  std::vector<std::vector<std::int32_t>> users() const;
  std::vector<TensorType> input_types(const Node& node) const;
  // Input types with absent inputs kept.
  std::vector<std::optional<TensorType>> operand_types(const Node& node) const;
  const std::shared_ptr<const ImportedModel>& model() const { return model_; }

  // ---- Editing. Types and known contents of new values are inferred; throws Error(kBadInput) on ill-typed nodes.
  ValueId add_input(std::string name, TensorType type);
  ValueId add_constant(Tensor tensor, std::string name = {});
  std::vector<ValueId> add_node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs,
                                std::vector<std::string> output_names = {});
  // The same for a typed operator with one output: add(Conv{...}, {x, w}).
  template <class T>
  ValueId add(T op, std::vector<ValueId> inputs) {
    return add_node(registry().get(T::kName), to_attributes(std::move(op)), std::move(inputs)).at(0);
  }
  // A node whose output values and types are given (the importer; opaque nodes).
  void add_raw(Node node);
  ValueId add_value(Value value);
  void set_value(ValueId id, Value value);
  void add_output(std::string name, ValueId value);
  void set_outputs(std::vector<GraphOutput> outputs) { outputs_ = std::move(outputs); }
  void set_model(std::shared_ptr<const ImportedModel> model) { model_ = std::move(model); }
  // All uses of `from` (by nodes and outputs) become uses of `to`.
  void replace_uses(ValueId from, ValueId to);
  void replace_uses(std::span<const std::pair<ValueId, ValueId>> replacements);
  // Turns a value into a constant leaf (its producer is then dead).
  void set_constant(ValueId id, Tensor tensor);
  // Restores the invariants after edits: topological order, no dead nodes, equal nodes merged (random and opaque ones are
  // not). Throws Error(kBadInput) if there is a cycle.
  void tidy();
  bool try_tidy();  // false instead of throwing on a cycle

  // ---- Identity. Equal for graphs that are equal up to the order of nodes and the names of inner values; constants count by
  // content. Node hashes are of the computation of each value (Merkle); kNoValue-safe.
  std::uint64_t hash() const;
  std::vector<std::uint64_t> value_hashes() const;

 private:
  std::vector<std::shared_ptr<const Node>> nodes_;
  std::vector<std::shared_ptr<const Value>> values_;
  std::vector<ValueId> inputs_;
  std::vector<GraphOutput> outputs_;
  std::shared_ptr<const ImportedModel> model_;
};

// Evaluates a graph by the reference interpreter. `inputs` in the order of graph.inputs(); sizes bind symbolic sizes, which
// must agree. Throws Error(kUnsupported) at an opaque node. (runtime/reference offers this as a backend.)
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

// The same graph with named sizes replaced by numbers (or other expressions): types, attributes and contents.
Graph with_sizes(const Graph& graph, const Substitution& sizes);

std::string to_string(const Graph& graph);  // a line a node, for messages and tests

}  // namespace rewright
