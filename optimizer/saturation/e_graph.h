// An e-graph of operators: many graphs at once, with shared parts stored once.
//
// A *value* is an output of an e-node when it was created; equal values form a *class*, named by one of them (find). An e-node
// is an operator with attributes, the values it reads and the values it computes: an operator with several outputs is one
// e-node, whose outputs are in several classes. Invariants after rebuild():
//   - hash-consing: no two live e-nodes have the same operator, attributes and classes of inputs (random operators and opaque
//     nodes are never merged);
//   - congruence: outputs of equal e-nodes are in the same class;
//   - analysis: all values of a class have the class's type; a class is constant if some value in it is computed from
//   constants.
// The reasons why values are equal form a forest, one for each merge, so that every equality can be explained.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/congruence.h"
#include "graph/graph.h"

namespace rewright::optimizer {

using ClassId = std::uint32_t;  // of a value, or of its class's representative
inline constexpr ClassId kNoClass = ~ClassId{0};
using ENodeId = std::uint32_t;

struct ENode {
  const Operator* op = nullptr;  // null: a leaf, or an opaque node of the graph
  std::uint32_t attributes = 0;  // number of the interned attributes
  std::int32_t position = -1;    // of the original graph's node
  ValueId leaf = kNoValue;       // an input or a constant of the graph
  std::uint32_t first = 0;       // into the list of values: inputs, parameters, outputs
  std::uint16_t inputs = 0, parameters = 0, outputs = 0;
  bool live = true;  // false: a duplicate of an earlier one
};

// The reason why two values are equal.
struct Reason {
  static constexpr std::uint32_t kCongruence = ~std::uint32_t{0};
  std::uint32_t application = kCongruence;  // of a rule; otherwise congruence of the two e-nodes
  ENodeId left = 0, right = 0;
  std::uint32_t output = 0;  // number of the output, of the e-nodes or of the rule
  bool exchanged = false;    // the first two inputs of a commutative operator are equal crosswise
};

class EGraph {
 public:
  // E-nodes 0, 1, ... are the graph's used inputs and constants, then its nodes, in order. The graph must outlive this object.
  EGraph(const Graph& graph, bool for_training);

  // ---- Reading
  const Graph& graph() const { return *graph_; }
  std::size_t node_count() const { return nodes_.size(); }  // including dead ones
  std::size_t live_count() const { return live_; }
  std::size_t value_count() const { return classes_.size(); }
  const ENode& node(ENodeId id) const { return nodes_[id]; }
  // As when the e-node was created; kNoClass where absent.
  std::span<const ClassId> inputs(ENodeId id) const { return list(nodes_[id].first, nodes_[id].inputs); }
  std::span<const ClassId> parameters(ENodeId id) const {
    return list(nodes_[id].first + nodes_[id].inputs, nodes_[id].parameters);
  }
  std::span<const ClassId> outputs(ENodeId id) const {
    return list(nodes_[id].first + nodes_[id].inputs + nodes_[id].parameters, nodes_[id].outputs);
  }
  ENodeId maker(ClassId value) const { return maker_[value]; }
  ClassId find(ClassId value) const { return classes_.find(value); }
  bool equal(ClassId a, ClassId b) const { return a == b || (a != kNoClass && b != kNoClass && find(a) == find(b)); }
  // For a class (a result of find()): the live e-nodes with an output in it, and those that read it; each once, ascending.
  std::span<const ENodeId> makers(ClassId id) const { return makers_[id]; }
  std::span<const ENodeId> users(ClassId id) const { return users_[id]; }
  std::span<const ENodeId> with_operator(const Operator* op) const;  // ascending; including dead ones
  bool constant(ClassId value) const { return constant_[find(value)]; }
  std::uint32_t type(ClassId value) const { return type_[value]; }  // equal for all values of a class
  const TensorType& type_of(std::uint32_t number) const { return types_[number]; }
  bool known(std::uint32_t type) const { return known_[type]; }  // does the type have a known shape?
  const Attributes& attributes(std::uint32_t number) const { return attributes_[number]; }
  ClassId value_of(ValueId id) const { return of_graph_[id]; }  // of the graph; kNoClass if unused
  std::optional<ENodeId> node_at(std::int32_t position) const;  // of the graph
  // The live e-node that this one is a duplicate of.
  ENodeId live(ENodeId id) const {
    while (!nodes_[id].live) id = twin_.at(id);
    return id;
  }
  // Would an e-node with these inputs equal this one only with its first two inputs swapped?
  bool exchanged(ENodeId id, std::span<const ClassId> inputs) const;

  // ---- Growing. After a merge only merge() may be called until rebuild().
  std::uint32_t intern(Attributes attributes);
  std::uint32_t intern(const TensorType& type, bool known);
  // Attributes normalized for these inputs, and output types; null if ill-typed.
  struct Typing {
    std::uint32_t attributes;
    std::vector<std::uint32_t> outputs;
  };
  const Typing* typing(const Operator& op, std::uint32_t attributes, std::span<const std::uint32_t> input_types);
  // The e-node with these inputs, created if necessary. nullopt if it is ill-typed or random.
  std::optional<ENodeId> add(const Operator& op, std::uint32_t attributes, std::span<const ClassId> inputs);
  // The e-node that add() would return, if it exists. Attributes must be normalized.
  std::optional<ENodeId> known(const Operator& op, std::uint32_t attributes, std::span<const ClassId> inputs) const;
  // Merges two values' classes. Returns false, without a change, if their types differ.
  bool merge(ClassId a, ClassId b, const Reason& reason);
  void rebuild();

  // ---- Explaining
  // The chain of reasons between two equal values; empty if they are identical.
  std::vector<Reason> explain(ClassId a, ClassId b) const;

  // ---- Checking. Slow: returns a violated invariant.
  std::optional<std::string> violation() const;

 private:
  friend struct EGraphBuilder;
  std::span<const ClassId> list(std::size_t first, std::size_t count) const { return std::span(pool_).subspan(first, count); }
  ClassId new_value(std::uint32_t type, ENodeId maker);
  ENodeId append(ENode node, std::span<const ClassId> inputs, std::span<const ClassId> parameters,
                 std::span<const std::uint32_t> output_types);
  std::uint64_t key_of(ENodeId id) const;
  std::uint64_t key_of(const ENode& node, std::span<const ClassId> inputs) const;
  bool same(ENodeId a, const ENode& node, std::span<const ClassId> inputs) const;
  std::optional<ENodeId> lookup(std::uint64_t key, const ENode& node, std::span<const ClassId> inputs) const;
  void repair(ENodeId id);
  void update_constant(ENodeId id);

  const Graph* graph_;
  bool for_training_;
  std::vector<ENode> nodes_;
  std::vector<ClassId> pool_;
  std::size_t live_ = 0;
  std::unordered_map<ENodeId, ENodeId> twin_;  // of dead e-nodes: the live one they duplicate
  std::vector<ClassId> of_graph_;
  std::vector<ENodeId> at_position_;
  std::unordered_map<const Operator*, std::vector<ENodeId>> by_operator_;
  std::vector<std::uint64_t> keys_;  // current keys of e-nodes in known_nodes_
  NodeTable known_nodes_;

  // By value.
  Classes classes_;
  std::vector<std::uint32_t> type_;
  std::vector<ENodeId> maker_;
  struct Link {
    ClassId to = kNoClass;
    Reason reason;
  };
  std::vector<Link> links_;  // the forest of reasons

  // By class.
  std::vector<std::vector<ENodeId>> makers_, users_;
  std::vector<std::uint32_t> size_;
  std::vector<bool> constant_;
  std::vector<ENodeId> dirty_;  // e-nodes with merged inputs
  std::vector<ENodeId> may_be_constant_;

  // Interned.
  std::vector<Attributes> attributes_;
  NodeTable attribute_numbers_;
  std::vector<TensorType> types_;
  std::vector<bool> known_;
  NodeTable type_numbers_;
  struct TypingKey {
    const Operator* op;
    std::vector<std::uint32_t> numbers;  // attributes, types of inputs
    bool operator==(const TypingKey&) const = default;
  };
  struct TypingHash {
    std::size_t operator()(const TypingKey& key) const;
  };
  std::unordered_map<TypingKey, std::optional<Typing>, TypingHash> typings_;
};

}  // namespace rewright::optimizer
