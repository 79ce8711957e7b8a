// Finds matches of rules in a graph, and applies them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// A match of a rule's source in a graph. `rule` and `where` identify it for a given graph; certificates record them.
struct Match {
  std::uint32_t rule = 0;  // position in RuleIndex::rules()
  // For each source node the position of the matched node; for an operator matched with a constant that it creates, -1 - its
  // value.
  std::vector<std::int64_t> where;
  std::uint64_t swapped = 0;    // bit i: the first two inputs of source node i (commutative) are swapped
  std::vector<ValueId> inputs;  // values bound to the rule's inputs
  std::shared_ptr<const Bindings> bindings;
};

struct MatchOptions {
  MathClass math = MathClass::kReassociates;  // rules of a higher class are left out
  bool for_training = false;  // weights are variables: only rules valid for training, and nothing counts as constant
};

// Rules by the operator of their first root. Holds the rules, except those that the options exclude or that are not proved.
// Matches of `later` rules are found by a widened index only; all else knows them, so that steps that used them are read.
class RuleIndex {
 public:
  RuleIndex(std::vector<Rule> rules, const MatchOptions& options);
  std::span<const Rule> rules() const { return data_->rules; }
  std::span<const std::uint64_t> hashes() const { return data_->hashes; }  // of each rule, as written
  std::span<const std::uint32_t> rooted_at(const Operator* op) const;
  std::optional<std::uint32_t> find(std::string_view name) const;
  const MatchOptions& options() const { return data_->options; }
  bool has_later_rules() const;
  RuleIndex widened() const;  // shares the rules

 private:
  struct Rooted {
    std::vector<std::uint32_t> rules;  // the later ones behind the others
    std::size_t first = 0;             // how many others there are
  };
  struct Data {
    std::vector<Rule> rules;
    std::vector<std::uint64_t> hashes;
    std::unordered_map<const Operator*, Rooted> by_root;
    MatchOptions options;
  };
  std::shared_ptr<const Data> data_;
  bool is_wide_ = false;
};

// Facts of a graph that all matches need.
struct MatchedGraph {
  explicit MatchedGraph(const Graph& graph, bool for_training);
  std::span<const std::int32_t> users(ValueId id) const {  // node positions, ascending
    return std::span(user_list).subspan(first_user[id], first_user[id + 1] - first_user[id]);
  }
  const Graph* graph;
  std::vector<bool> constant;  // by value: computed from constants (never in training)
  std::vector<std::int32_t> producers;
  std::vector<bool> is_output;  // by value
  // All users in one list, since there are many short ones and searches make many graphs.
  std::vector<std::uint32_t> first_user;
  std::vector<std::int32_t> user_list;
};

// Finds matches. Caches, for nodes that graphs share, whether a rule's attributes, sizes and conditions fit: after a rewrite
// only matches with new nodes are computed. All graphs given to one matcher must be related by rewrites, so that a node's
// operands have the same types in all of them.
class Matcher {
 public:
  explicit Matcher(const RuleIndex& index);
  ~Matcher();

  // All matches that change something not computed from constants, in a fixed order: by position of the first root, by rule, by
  // structure.
  std::vector<Match> find(const MatchedGraph& graph);
  // The match of one rule at given nodes; nullopt if it does not fit there.
  std::optional<Match> find_at(const MatchedGraph& graph, std::uint32_t rule, std::span<const std::int64_t> where,
                               std::uint64_t swapped);
  // Forgets everything about earlier graphs.
  void clear();

 private:
  struct Memory;
  std::span<const std::uint32_t> starts_at(const MatchedGraph& graph, std::size_t position);  // rules that may match there
  const RuleIndex* index_;
  std::unique_ptr<Memory> memory_;
};

// The rewritten, tidied graph; nullopt if the target is ill-typed here, has other types than the source, or would create a
// cycle.
std::optional<Graph> apply(const Graph& graph, const Rule& rule, const Match& match);

}  // namespace rewright::optimizer
