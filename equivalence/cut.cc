#include "equivalence/cut.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace rewright::equivalence {

namespace {

class Cutter {
 public:
  Cutter(const Joint& joint, int depth) : joint_(joint), depth_(depth) {}

  std::optional<Equation> run(ValueId a, ValueId b) {
    std::set<ValueId> leaves = second_leaves(b);
    for (int d = 0; d < depth_; ++d) {
      std::set<ValueId> deeper;
      bool grown = false;
      for (const ValueId leaf : leaves) {
        const Node* node = node_of(leaf);
        if (!node || !node->op) {
          deeper.insert(leaf);
          continue;
        }
        grown = true;
        for (const ValueId input : node->inputs)
          if (input != kNoValue && !is_constant(input)) deeper.insert(joint_.find(input));
      }
      if (!grown) return std::nullopt;
      // A leaf that another one is computed from stays one.
      leaves = std::move(deeper);
    }
    Equation equation{a, b, {}};
    for (const ValueId leaf : leaves) reaches_.emplace(leaf, true);
    std::set<ValueId> all = leaves;
    first_leaves(joint_.find(a), leaves, all);
    if (depth_ == kConstantsAsLeaves && !has_constant_leaf_) return std::nullopt;
    equation.leaves.assign(all.begin(), all.end());
    return equation;
  }

 private:
  const Node* node_of(ValueId id) const {
    const std::int32_t position = joint_.producer(joint_.defined_by(id));
    return position < 0 ? nullptr : joint_.graph().nodes()[static_cast<std::size_t>(position)].get();
  }
  bool is_constant(ValueId id) {
    const ValueId of_class = joint_.find(id);
    if (const auto known = constant_.find(of_class); known != constant_.end()) return known->second;
    const Node* node = node_of(of_class);
    bool constant = joint_.is_constant(joint_.defined_by(of_class));
    if (node)
      constant = node->op && !node->op->random() && std::all_of(node->inputs.begin(), node->inputs.end(), [&](ValueId i) {
                   return i == kNoValue || is_constant(i);
                 });
    return constant_.emplace(of_class, constant).first->second;
  }

  // Back from a value of the second model to what is known of the first one.
  std::set<ValueId> second_leaves(ValueId b) {
    std::set<ValueId> leaves, seen{joint_.find(b)};
    std::vector<ValueId> open{joint_.find(b)};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Node* node = node_of(id);
      if (!node || !node->op) {
        if (!is_constant(id)) leaves.insert(id);
        continue;
      }
      for (const ValueId input : node->inputs) {
        if (input == kNoValue || is_constant(input)) continue;
        const ValueId next = joint_.find(input);
        if (joint_.is_known(next))
          leaves.insert(next);
        else if (seen.insert(next).second)
          open.push_back(next);
      }
    }
    return leaves;
  }

  // Is the value computed from one of the leaves?
  bool reaches(ValueId of_class) {
    std::vector<std::pair<ValueId, bool>> open{{of_class, false}};
    while (!open.empty()) {
      const auto [id, ready] = open.back();
      open.pop_back();
      if (reaches_.count(id)) continue;
      const Node* node = node_of(id);
      bool found = false;
      bool waiting = false;
      if (node)
        for (const ValueId input : node->inputs) {
          if (input == kNoValue) continue;
          const auto known = reaches_.find(joint_.find(input));
          if (known != reaches_.end())
            found = found || known->second;
          else if (!ready && !waiting) {
            open.push_back({id, true});
            waiting = true;
          }
        }
      if (waiting)
        for (const ValueId input : node->inputs) {
          if (input != kNoValue && !reaches_.count(joint_.find(input))) open.push_back({joint_.find(input), false});
        }
      else
        reaches_.emplace(id, found);
    }
    return reaches_.at(of_class);
  }

  // Follows the first model's value to the leaves; what none of them leads to is a leaf as well.
  void first_leaves(ValueId a, const std::set<ValueId>& leaves, std::set<ValueId>& all) {
    std::vector<ValueId> open{a};
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second || leaves.count(id)) continue;
      const Node* node = node_of(id);
      if (is_constant(id)) {
        if (depth_ != kConstantsAsLeaves || !node || id == a || !joint_.is_of_first(joint_.defined_by(id))) continue;
        has_constant_leaf_ = true;
        all.insert(id);
        continue;
      }
      if (!node || !node->op || (id != a && !reaches(id))) {
        all.insert(id);
        continue;
      }
      for (const ValueId input : node->inputs)
        if (input != kNoValue) open.push_back(joint_.find(input));
    }
  }

  const Joint& joint_;
  int depth_;
  bool has_constant_leaf_ = false;
  std::unordered_map<ValueId, bool> constant_, reaches_;
};

}  // namespace

std::optional<Equation> cut(const Joint& joint, ValueId a, ValueId b, int depth) { return Cutter(joint, depth).run(a, b); }

void add_leaves_of_term(const Joint& joint, ValueId term, std::vector<ValueId>& leaves) {
  const std::vector<bool> constant = joint.graph().constant_values();
  std::vector<ValueId> open{term};
  while (!open.empty()) {
    const Node& node = *joint.graph().nodes()[static_cast<std::size_t>(joint.producer(open.back()))];
    open.pop_back();
    for (const ValueId operand : node.inputs) {
      if (operand == kNoValue) continue;
      const bool is_of_model = joint.is_of_first(operand) || joint.is_of_second(operand);
      if (is_of_model || joint.is_known(operand) || constant[operand])
        leaves.push_back(joint.find(operand));
      else
        open.push_back(operand);
    }
  }
}

}  // namespace rewright::equivalence
