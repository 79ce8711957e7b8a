// An e-graph over tensors of known sizes, in which rules of any generality are applied. What is computed from constants alone
// is evaluated: constants that are equal are one class.
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
  std::size_t number = 0;  // of the equation it is of
  // How many operators an application adds that the source has not. What joins several values is laid on all pairs of them, and
  // hardly ever of use: the other side of what is asked has it joined already.
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
  // A class of its own: an input.
  ClassNumber add_class(TensorType type);
  // The outputs of an application; none where it is ill-typed, or has a tensor without elements.
  std::vector<ClassNumber> add(const Operator& op, Attributes attributes, std::vector<ClassNumber> operands);
  // The outputs of a side for these inputs and values of the variables; none where it cannot be made.
  std::vector<ClassNumber> add(const Pattern& side, const std::vector<ClassNumber>& inputs, const Bindings& bindings);

  // Applies the rules wherever they match now, those first that add the fewest operators, until there are half as many
  // applications of operators more, or `limit`. From there on none is added, and what the rules still say is which of those
  // that are there are equal. False if nothing new came of it.
  bool round(const std::vector<const DirectedRule*>& rules, std::size_t limit);

 private:
  struct Application {
    const Operator* op;
    Attributes attributes;
    std::vector<ClassNumber> operands, outputs;
  };
  // Which class stands for each input, and which application for each node of the source.
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

  const Rule* rule_ = nullptr;  // that is being matched
  State state_;
  Classes classes_;
  std::vector<TensorType> types_;
  std::vector<Application> applications_;
  NodeTable known_;
  std::unordered_map<ClassNumber, std::vector<std::pair<std::uint32_t, std::uint32_t>>> members_;
  std::unordered_map<const Operator*, std::vector<std::uint32_t>> by_operator_;
  std::unordered_map<ClassNumber, std::vector<std::uint32_t>> users_;  // the applications that have a class as an operand
  std::unordered_set<std::uint64_t> applied_;
  std::map<ClassNumber, Tensor> constants_;
  std::size_t merges_ = 0;
  std::size_t joint_ = 0;  // how many more matches of a rule with several roots are looked at
  bool full_ = false;      // no application is added
};

}  // namespace rewright::generator
