// Finds matches of rules in an e-graph, and applies them: as optimizer/matching/match.h for graphs, with classes in place of
// values. A rule with several roots is matched downwards from its first root, then upwards from bound values to the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "optimizer/matching/match.h"
#include "optimizer/matching/rule_binding.h"
#include "optimizer/saturation/e_graph.h"

namespace rewright::optimizer {

// A match of a rule's source in an e-graph.
struct EMatch {
  std::uint32_t rule = 0;      // position in RuleIndex::rules()
  std::vector<ENodeId> where;  // by source node; for an operator matched with a constant that it creates, its leaf
  std::uint64_t swapped = 0;   // as Match::swapped
  std::vector<ClassId> inputs;
  std::uint32_t binding = 0;  // number of its bindings
};

class EMatcher {
 public:
  EMatcher(EGraph& graph, const RuleIndex& rules);
  ~EMatcher();

  // Visits the rule's matches whose first root is this e-node, in a fixed order, until `visit` returns false.
  void find(std::uint32_t rule, ENodeId root, const std::function<bool(const EMatch&)>& visit);
  // The match at given e-nodes; nullopt if there is none. Does not test that inputs are constant where the rule wants it, since
  // the rule holds for all inputs.
  std::optional<EMatch> find_at(std::uint32_t rule, std::span<const ENodeId> where, std::uint64_t swapped);
  // Visits all pairs of values that must be equal for the match.
  void for_each_equality(const EMatch& match, const std::function<void(ClassId, ClassId)>& visit) const;

  // A hash of the target that the match would add; equal for targets that are equal up to how constants are computed. nullopt
  // if it adds nothing new, or is ill-typed.
  std::optional<std::uint64_t> skeleton(const EMatch& match);
  // Adds the target and merges its outputs with the source's, for the reason `application`. Returns the target's e-nodes;
  // nullopt if it is ill-typed, or has other types than the source. Call rebuild() afterwards.
  struct Made {
    std::vector<ENodeId> nodes;   // of each node of the target
    std::uint64_t exchanged = 0;  // bit i: node i existed already, with its first two inputs swapped
  };
  std::optional<Made> apply(const EMatch& match, std::uint32_t application);
  // The values that target node `p` reads, given the e-nodes created before it.
  std::vector<ClassId> target_inputs(const EMatch& match, std::span<const ENodeId> made, std::uint32_t p) const;

 private:
  struct Program;
  struct Binding;
  struct Laying;
  const Program& program(std::uint32_t rule);
  void run(Laying& laying, std::size_t step);
  void place(Laying& laying, std::uint32_t p, ENodeId node, std::size_t next);
  bool plausible(const PatternNode& pattern, ENodeId id) const;
  // The attributes with which the pattern's operator creates the constant that this leaf is; null if it is none.
  const Attributes* creation(const PatternNode& pattern, ENodeId leaf);
  std::optional<std::uint32_t> bind(const EMatch& match);
  bool types_agree(const EMatch& match) const;
  ClassId slot(const EMatch& match, std::uint32_t p, std::uint32_t i) const;

  EGraph& graph_;
  const RuleIndex& rules_;
  std::vector<std::unique_ptr<Program>> programs_;
  struct KeyHash {
    std::size_t operator()(const std::vector<std::uint32_t>& key) const;
  };
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, KeyHash> binding_numbers_;
  std::vector<std::unique_ptr<Binding>> bindings_;  // null: the rule does not match
  Creations creations_;
};

}  // namespace rewright::optimizer
