// Finding where rules apply in an e-graph, and applying them: as optimizer/matching/match.h does in graphs, with a class where
// a graph has a value. A rule with several roots is laid from its first root downwards, and from what is known then upwards to
// the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "optimizer/matching/match.h"
#include "optimizer/saturation/e_graph.h"

namespace rewright::optimizer {

// Where a rule's source stands in an e-graph.
struct EMatch {
  std::uint32_t rule = 0;      // position in RuleIndex::rules()
  std::vector<ENodeId> where;  // of each node of the source; of a Fill that is a constant of the graph, its leaf
  std::uint64_t swapped = 0;   // as Match::swapped
  std::vector<ClassId> inputs;
  std::uint32_t binding = 0;  // number of the values of its variables
};

class EMatcher {
 public:
  EMatcher(EGraph& graph, const RuleIndex& rules);
  ~EMatcher();

  // The rule's matches with its first root on this e-node, in a fixed order, until `visit` says false.
  void find(std::uint32_t rule, ENodeId root, const std::function<bool(const EMatch&)>& visit);
  // The match at given e-nodes; nullopt if it does not fit there. That inputs which the rule wants constant are so is not
  // asked: the rule holds for all.
  std::optional<EMatch> find_at(std::uint32_t rule, std::span<const ENodeId> where, std::uint64_t swapped);
  // Calls back with all pairs of values that a match needs to be equal.
  void for_each_equality(const EMatch& match, const std::function<void(ClassId, ClassId)>& visit) const;

  // A hash of what applying a match would add, which finds equal additions: equal for targets that are the same up to how
  // constants are computed. Nothing if the target fits with nothing new, or is ill-typed.
  std::optional<std::uint64_t> skeleton(const EMatch& match);
  // Adds the target and says that its outputs are equal to the source's, for the reason `application`. The e-nodes of the
  // target; nothing if it is ill-typed, or has other types than what it is to equal. The e-graph is to be rebuilt afterwards.
  struct Made {
    std::vector<ENodeId> nodes;   // of each node of the target
    std::uint64_t exchanged = 0;  // bit i: node i was there already, with its first two inputs exchanged
  };
  std::optional<Made> apply(const EMatch& match, std::uint32_t application);
  // The values that node `p` of the target reads, given the e-nodes made before it.
  std::vector<ClassId> target_inputs(const EMatch& match, std::span<const ENodeId> made, std::uint32_t p) const;

 private:
  struct Program;
  struct Binding;
  struct Laying;
  const Program& program(std::uint32_t rule);
  void run(Laying& laying, std::size_t step);
  void place(Laying& laying, std::uint32_t p, ENodeId node, std::size_t next);
  bool plausible(const PatternNode& pattern, ENodeId id) const;
  bool uniform(ENodeId leaf);
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
  std::vector<std::unique_ptr<Binding>> bindings_;  // null: the rule does not fit
  std::unordered_map<ENodeId, bool> uniform_;
};

}  // namespace rewright::optimizer
