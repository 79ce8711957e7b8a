// An e-graph over tensors of known sizes, to which rules of any generality are applied. Values computed from constants alone
// are evaluated, and equal constants are one class.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/congruence.h"
#include "expressions/tensor.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::generator {

// A rule in one direction. Its source begins with a node.
struct DirectedRule {
  Rule rule;
  std::size_t number = 0;  // of its equation
  // The operators that an application adds. A rule with several roots matches all pairs of values and is rarely of use: the
  // other side of the question is already joined. It counts as growing more.
  int growth() const {
    constexpr int kJoint = 3;
    return static_cast<int>(rule.target.nodes.size()) - static_cast<int>(rule.source.nodes.size()) +
           kJoint * static_cast<int>(rule.source.outputs.size() - 1);
  }
};

class RuleGraph {
 public:
  using ClassNumber = std::uint32_t;
  static constexpr ClassNumber kNothing = ~ClassNumber{0};

  ClassNumber find(ClassNumber c) const { return classes_.find(c); }
  // Adds a class of its own, for an input.
  ClassNumber add_class(TensorType type);
  // Adds an application and returns its outputs; none if it is ill-typed or has an empty tensor.
  std::vector<ClassNumber> add(const Operator& op, Attributes attributes, std::vector<ClassNumber> operands);
  // Adds a side for these inputs and bindings and returns its outputs; none if it cannot be built.
  std::vector<ClassNumber> add(const Pattern& side, const std::vector<ClassNumber>& inputs, const Bindings& bindings);

  // Applies the rules to all current matches, those that add the fewest operators first, until the applications have grown by
  // half, or to `limit`. From then on no applications are added, only existing ones merged. False if nothing changed.
  bool round(const std::vector<const DirectedRule*>& rules, std::size_t limit);

 private:
  struct Application {
    const Operator* op;
    Attributes attributes;
    std::vector<ClassNumber> operands, outputs;
  };
  // The partial match: the class of each input, and the application of each source node.
  struct State {
    std::vector<ClassNumber> inputs;
    std::vector<std::uint32_t> nodes;
    std::vector<bool> swapped;
  };
  using Continue = std::function<void()>;

  static void order(Application& a);
  static std::uint64_t hash_of(const Application& a);
  std::optional<std::uint32_t> lookup(const Application& a) const;
  void merge(ClassNumber a, ClassNumber b);
  void rebuild();
  void evaluate(std::uint32_t application);
  void set_constant(ClassNumber c, Tensor value);

  void match_root(std::size_t root, std::uint32_t application, const Continue& found);
  void next_root(std::size_t root, const Continue& found);
  ClassNumber bound(const PatternValue& value) const;
  void match(const PatternValue& wanted, ClassNumber c, const Continue& found);
  void match_node(std::uint32_t node, std::uint32_t application, const Continue& found);
  void match_operands(std::uint32_t node, std::uint32_t application, std::size_t k, const Continue& found);
  std::uint64_t hash_of_match(std::size_t rule) const;
  void apply(const Rule& rule, const State& state);

  const Rule* rule_ = nullptr;  // the rule being matched
  State state_;
  Classes classes_;
  std::vector<TensorType> types_;
  std::vector<Application> applications_;
  NodeTable known_;
  std::unordered_map<ClassNumber, std::vector<std::pair<std::uint32_t, std::uint32_t>>> members_;
  std::unordered_map<const Operator*, std::vector<std::uint32_t>> by_operator_;
  std::unordered_map<ClassNumber, std::vector<std::uint32_t>> users_;  // applications by operand class
  std::unordered_set<std::uint64_t> applied_;
  std::map<ClassNumber, Tensor> constants_;
  std::size_t merges_ = 0;
  std::size_t joint_ = 0;  // remaining matches of a rule with several roots
  bool full_ = false;      // no more applications are added
};

}  // namespace rewright::generator
