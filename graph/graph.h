// Graphs of operators as values.
//
// A graph is a table of nodes in topological order and a table of values. Copies share all nodes, values and constants; an
// edit of a copy leaves the original as it was. Values keep their number through edits, so a rewrite replaces a few nodes and
// touches nothing else. Outputs of the graph keep their names, order and types through every edit.
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

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};  // an optional input that is absent

namespace internal {
// A number that is computed once, on demand, by whichever thread needs it first.
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
  std::string name;                     // as in the model, or empty for values that rewriting made
  TensorType type;                      // kUndefined where it is not known (around opaque nodes)
  bool shape_known = true;              // false: type.shape says nothing
  std::optional<Indices> contents;      // elements of a small integer tensor, as far as known (see known_contents)
  Tensor constant;                      // not empty: a constant leaf
  std::uint64_t constant_hash() const;  // of the constant's contents, computed once
  internal::CachedHash cached_hash;     // of `constant`; Graph resets it where it takes a Value over
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
  std::uint64_t computation_hash = 0;  // of type, attributes and subgraphs, without the names of values: what an opaque node is
  std::shared_ptr<const std::map<std::string, int>> opsets;  // null: those of the model; else of the function it stands in
};

// The ONNX node of a function that stands in the graph as the nodes of the function's body. As long as all of these are as they
// were made, the node is written back instead of them.
struct Expansion {
  std::string node_proto;
  std::string name;           // of the ONNX node
  std::uint32_t members = 0;  // nodes of the body
  // Where a value of the call is found: input or output `place` of a member. Inputs that no member reads are parameters of
  // member 0.
  struct Port {
    enum class Kind { kAbsent, kMember, kParameter } kind;
    std::uint32_t member, place;
  };
  std::vector<Port> inputs, outputs;  // one for each of the ONNX node's
  std::uint64_t structure = 0;        // of the body: operators, attributes, constants, and how they are connected
};

struct Node {
  const Operator* op = nullptr;  // null: opaque, kept as it is
  Attributes attributes;
  std::vector<ValueId> inputs;           // kNoValue where absent; of an opaque node also what its subgraphs capture
  std::vector<ValueId> parameters;       // what its ONNX form reads to know attributes (a Reshape's shape tensor): kept alive
  std::vector<ValueId> outputs;          // kNoValue where the model does not name it
  std::shared_ptr<const Origin> origin;  // null for nodes that rewriting made
  std::string opaque_reason;             // why it is opaque
  // If it was made from a function's body: which, and its number there.
  std::shared_ptr<const Expansion> expansion;
  std::uint32_t expansion_member = 0;
};

struct GraphOutput {
  std::string name;
  ValueId value;
  TensorType type;  // as the model declares it
  bool shape_known = true;
};

struct ImportedModel;  // graph/onnx/onnx.h: everything of a model that is not the graph (metadata, functions, opsets, ...)

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
  // For every value: the position in nodes() of its producer (-1: none), and those of its users (as input or parameter),
  // ascending.
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
  void add_shared(std::shared_ptr<const Node> node) { nodes_.push_back(std::move(node)); }
  // Takes back the nodes that were added since there were `count` of them; their values stay, unused.
  void drop_nodes_from(std::size_t count);
  ValueId add_value(Value value);
  void set_value(ValueId id, Value value);
  void add_output(std::string name, ValueId value);
  void set_outputs(std::vector<GraphOutput> outputs) { outputs_ = std::move(outputs); }
  void set_model(std::shared_ptr<const ImportedModel> model) { model_ = std::move(model); }
  // All uses of `from` (by nodes and outputs) become uses of `to`.
  // Where `to` has no name yet it takes that of `from`. Pairs are followed: with a -> b and b -> c, uses of a become uses of c.
  void replace_uses(ValueId from, ValueId to);
  void replace_uses(std::span<const std::pair<ValueId, ValueId>> replacements);
  // Turns a value into a constant leaf; its producer no longer defines it, and is dead if it defines nothing else.
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
  friend struct GraphTidier;
};

// Called between nodes and in loops; throws an Error to end an execution.
using Checkpoint = std::function<void()>;

// Executes a graph by the reference interpreter. `inputs` in the order of graph.inputs(); sizes bind symbolic sizes, which must
// agree. Opaque nodes are executed by their ONNX form: procedures, bodies of functions, or the operators that they turn out to
// be now that their inputs are known. Throws Error(kUnsupported) at a node that nothing here can execute.
std::vector<Datum> execute(const Graph& graph, std::span<const Datum> inputs, const Checkpoint& checkpoint = {});

// The same for graphs of tensors alone. (runtime/reference offers this as a backend.)
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

// What the named sizes are for inputs of these types and sizes; throws Error(kBadInput) naming the input that does not fit.
Substitution bind_sizes(const Graph& graph, std::span<const Tensor> inputs);

// Can the interpreter execute an opaque node, as far as can be said before its inputs are known? Empty, or the reason why not.
std::string objection_to_execution(const Graph& graph, const Node& node);

// The same graph with named sizes replaced by numbers (or other expressions): types, attributes and contents.
Graph with_sizes(const Graph& graph, const Substitution& sizes);

std::string to_string(const Graph& graph);  // a line a node, for messages and tests

}  // namespace rewright::graph
