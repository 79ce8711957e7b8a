// Graphs of operators as values.
//
// A graph is a table of nodes in topological order and a table of values. Copies share all nodes, values and constants; an edit
// of a copy does not change the original. Values keep their number through edits, so a rewrite replaces a few nodes and touches
// nothing else. The graph's outputs keep their names, order and types through every edit.
//
//   Graph graph;
//   const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 64}});
//   const ValueId w = graph.add_constant(Tensor(DataType::kFloat, {64, 10}));
//   const Operator& product = registry().get("MatMul");
//   graph.add_output("y", graph.add_node(product, product.defaults(), {x, w}).at(0));
//   graph.tidy();
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "expressions/datum.h"
#include "expressions/tensor.h"
#include "operators/operator.h"

namespace rewright::graph {

inline constexpr ValueId kNoValue = ~ValueId{0};  // an optional input that is absent

namespace internal {
// A hash that is computed once, on demand, by any thread.
class CachedHash {
 public:
  CachedHash() = default;
  CachedHash(const CachedHash& other) : value_(other.value_.load(std::memory_order_relaxed)) {}
  CachedHash& operator=(const CachedHash& other) {
    value_.store(other.value_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }  // 0: not computed yet
  void set(std::uint64_t value) const { value_.store(value, std::memory_order_relaxed); }

 private:
  mutable std::atomic<std::uint64_t> value_{0};
};
}  // namespace internal

struct Value {
  std::string name;                     // as in the model; empty for values made by rewriting
  TensorType type;                      // kUndefined if not known (around opaque nodes)
  bool shape_known = true;              // false: type.shape is meaningless
  std::optional<Indices> contents;      // the elements of a small integer tensor, if known (see known_contents)
  Tensor constant;                      // not empty: a constant leaf
  std::uint64_t constant_hash() const;  // of the constant's type, sizes and elements, computed once
  internal::CachedHash cached_hash;     // of `constant`; Graph resets it when it takes a Value over
};

// The ONNX node that a node was imported from. It is written back unchanged unless a rewrite replaces the node.
struct Origin {
  std::string node_proto;  // serialized NodeProto
  std::string name;        // of the ONNX node, for messages and certificates
  // The source of each input of the ONNX node: its number in Node::inputs or in Node::parameters.
  struct Input {
    enum class Kind { kAbsent, kInput, kParameter } kind;
    std::uint32_t number;
  };
  std::vector<Input> inputs;
  std::uint64_t computation_hash = 0;  // of an opaque node's type, attributes and subgraphs, without the names of values
  std::shared_ptr<const std::map<std::string, int>> opsets;  // of the function that contains it; null: those of the model
};

// A call of an ONNX function that the graph contains as the nodes of the function's body, the members. If all members are
// unchanged, export writes the call instead of them.
struct Expansion {
  std::string node_proto;
  std::string name;           // of the ONNX node
  std::uint32_t members = 0;  // the number of nodes of the body
  // A value of the call: input or output `place` of a member. Inputs that no member reads are parameters of member 0.
  struct Port {
    enum class Kind { kAbsent, kMember, kParameter } kind;
    std::uint32_t member, place;
  };
  std::vector<Port> inputs, outputs;  // one for each input and output of the ONNX node
  std::uint64_t structure = 0;        // a hash of the body: operators, attributes, constants and their connections
};

struct Node {
  const Operator* op = nullptr;  // null: opaque, kept as it is
  Attributes attributes;
  std::vector<ValueId> inputs;           // kNoValue: absent; an opaque node's inputs end with the values its subgraphs capture
  std::vector<ValueId> parameters;       // inputs of the ONNX form that became attributes (a Reshape's shape): kept alive
  std::vector<ValueId> outputs;          // kNoValue: unnamed in the model
  std::shared_ptr<const Origin> origin;  // null for nodes made by rewriting
  std::string opaque_reason;             // why it is opaque
  // The function call that it is a member of, and its number there; null if none.
  std::shared_ptr<const Expansion> expansion;
  std::uint32_t expansion_member = 0;
};

struct GraphOutput {
  std::string name;
  ValueId value;
  TensorType type;  // as the model declares it
  bool shape_known = true;
};

struct ImportedModel;  // graph/onnx/model.h: all of a model but its graph (metadata, functions, opsets, ...)

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
  // For every value: does it depend on constants only? True for constant leaves, false for results of random operators and
  // opaque nodes.
  std::vector<bool> constant_values() const;
  // For every value: the position in nodes() of its producer (-1: none); the ascending positions of the nodes that read it as
  // input or parameter.
  std::vector<std::int32_t> producers() const;
  std::vector<std::vector<std::int32_t>> users() const;
  // The types of a node's inputs: of those that are present; of all, nullopt where absent.
  std::vector<TensorType> input_types(const Node& node) const;
  std::vector<std::optional<TensorType>> operand_types(const Node& node) const;
  const std::shared_ptr<const ImportedModel>& model() const { return model_; }

  // ---- Editing. The types and known contents of new values are inferred. Throws Error(kBadInput) for ill-typed nodes.
  ValueId add_input(std::string name, TensorType type);
  ValueId add_constant(Tensor tensor, std::string name = {});
  std::vector<ValueId> add_node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs,
                                std::vector<std::string> output_names = {});
  // Adds a node of an operator's struct, and returns its first output: add(Conv{...}, {x, w}).
  template <class T>
  ValueId add(T op, std::vector<ValueId> inputs) {
    return add_node(registry().get(T::kName), to_attributes(std::move(op)), std::move(inputs)).at(0);
  }
  // Adds a node whose output values already exist with their types (in the importer, for opaque nodes).
  void add_raw(Node node);
  void add_shared(std::shared_ptr<const Node> node) { nodes_.push_back(std::move(node)); }
  // Removes all nodes after the first `count`; their values stay, unused.
  void drop_nodes_from(std::size_t count);
  // Drops the values that no node, input or output refers to. The others are numbered anew, in the same order.
  void drop_unused_values();
  ValueId add_value(Value value);
  void set_value(ValueId id, Value value);
  void add_output(std::string name, ValueId value);
  void set_outputs(std::vector<GraphOutput> outputs) { outputs_ = std::move(outputs); }
  void set_model(std::shared_ptr<const ImportedModel> model) { model_ = std::move(model); }
  // Replaces all uses of `from` by nodes and outputs with `to`. If `to` has no name it gets that of `from`. Chains of pairs are
  // followed: with a -> b and b -> c, uses of a become uses of c.
  void replace_uses(ValueId from, ValueId to);
  void replace_uses(std::span<const std::pair<ValueId, ValueId>> replacements);
  // Makes a value a constant leaf. Its producer no longer defines it, and is dead if it defines nothing else.
  void set_constant(ValueId id, Tensor tensor);
  // Restores the invariants after edits: topological order, no dead nodes, no equal nodes (random and opaque ones are never
  // merged). Throws Error(kBadInput) if there is a cycle.
  void tidy();
  bool try_tidy();  // returns false if there is a cycle

  // ---- Identity. hash() is equal for graphs that are equal up to the order of nodes and the names of inner values; constants
  // count by content. value_hashes() gives a Merkle hash of the computation of each value.
  std::uint64_t hash() const;
  std::vector<std::uint64_t> value_hashes() const;

 private:
  std::vector<std::shared_ptr<const Node>> nodes_;
  std::vector<std::shared_ptr<const Value>> values_;
  std::vector<ValueId> inputs_;
  std::vector<GraphOutput> outputs_;
  std::shared_ptr<const ImportedModel> model_;
  friend struct GraphTidier;
};

// Called between nodes and in long loops; throws an Error to end the execution.
using Checkpoint = std::function<void()>;

// Executes a graph with the reference interpreter. `inputs` are in the order of graph.inputs(); their sizes determine the
// symbolic sizes and must agree. Opaque nodes are executed by their ONNX form: as procedures, by the bodies of functions, or as
// operators once their inputs are known. Throws Error(kUnsupported) at a node that cannot be executed.
std::vector<Datum> execute(const Graph& graph, std::span<const Datum> inputs, const Checkpoint& checkpoint = {});

// execute() for graphs whose inputs and outputs are tensors. runtime/reference offers it as a backend.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

// The values of the named sizes for these inputs. Throws Error(kBadInput) that names an input that does not fit.
Substitution bind_sizes(const Graph& graph, std::span<const Tensor> inputs);

// Why the interpreter cannot execute an opaque node; empty if, before its inputs are known, nothing speaks against it.
std::string objection_to_execution(const Graph& graph, const Node& node);

// The graph with named sizes replaced by numbers or other expressions, in types, attributes and contents.
Graph with_sizes(const Graph& graph, const Substitution& sizes);

std::string to_string(const Graph& graph);  // one line for each node, for messages and tests

}  // namespace rewright::graph
