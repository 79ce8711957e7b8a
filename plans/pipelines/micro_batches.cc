#include "plans/pipelines/micro_batches.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::plans {

namespace {

// Bytes of other micro-batches that an operand brings into a micro-batch; sums are cheaper than parts put together, which would
// make what follows wait for all micro-batches where it could be one of them.
double bytes_of_others(const TensorType& type, const Holding& from, const Need& to) {
  switch (exchange_for(from, to)) {
    case Exchange::kNone:
      return 0;
    case Exchange::kAllReduce:
      return bytes_of(type);
    default:
      return 4 * bytes_of(type);
  }
}

class MicroBatchCutter {
 public:
  MicroBatchCutter(const Graph& graph, std::int64_t micro_batches, ChoiceFinder& choices)
      : graph_(graph), micro_batches_(micro_batches), choices_(choices) {
    result_.given.resize(graph.value_count());
  }

  Partition cut(const std::vector<ValueId>& data) {
    std::optional<std::int64_t> rows;
    for (const ValueId v : data) {
      const TensorType& type = graph_.value(v).type;
      if (type.rank() == 0) continue;
      if (!rows) rows = type.shape[0].value();
      if (*rows % micro_batches_ != 0)
        throw Error(ErrorCode::kUsage,
                    std::to_string(*rows) + " samples are no " + std::to_string(micro_batches_) + " equal micro-batches");
      if (type.shape[0].value() == *rows) result_.given[v] = cut_along(0, 1, *rows, micro_batches_, *rows);
    }
    held_ = result_.given;
    for (const auto& node : graph_.nodes()) add(*node);
    result_.found = true;
    return std::move(result_);
  }

 private:
  void add(const Node& node) {
    const NodeChoice* best = nullptr;
    std::pair<double, int> least{std::numeric_limits<double>::infinity(), 0};
    for (const NodeChoice& c : choices_.of(graph_, node)) {
      const std::optional<std::pair<double, int>> cost = cost_of(node, c);
      if (cost && *cost < least) least = *cost, best = &c;
    }
    result_.nodes.push_back(best ? *best : whole_choice(node));
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != kNoValue) held_[node.outputs[o]] = result_.nodes.back().gives[o];
  }

  // Without anything of one micro-batch a node is computed once.
  std::optional<std::pair<double, int>> cost_of(const Node& node, const NodeChoice& choice) const {
    if (choice.cut && !choice.cut->divides()) return std::nullopt;  // sums over micro-batches are added up where they are made
    double bytes = 0;
    bool has_parts = false;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      if (v == kNoValue) continue;
      if (choice.needs[k].holding.kind == Holding::Kind::kPartial && !(held_[v] == choice.needs[k].holding))
        return std::nullopt;
      bytes += bytes_of_others(graph_.value(v).type, held_[v], choice.needs[k]);
      has_parts = has_parts || held_[v].kind == Holding::Kind::kCut;
    }
    return std::pair{bytes, has_parts == choice.cut.has_value() ? 0 : 1};
  }

  const Graph& graph_;
  const std::int64_t micro_batches_;
  ChoiceFinder& choices_;
  Partition result_;
  std::vector<Holding> held_;
};

class RoleFinder {
 public:
  RoleFinder(const GroupGraph& group, bool for_training)
      : group_(group),
        graph_(group.graph),
        for_training_(for_training),
        producers_(graph_.producers()),
        users_(graph_.users()) {}

  MicroBatchRoles find() {
    const std::size_t count = graph_.nodes().size();
    result_.nodes.assign(count, NodeRole::kBefore);
    for (std::size_t n = 0; n < count; ++n) result_.nodes[n] = first_role(n);
    own_sums();
    if (!for_training_) return std::move(result_);
    std::vector<bool> in_loss(count, false);
    if (!graph_.outputs().empty()) mark_producers(graph_.outputs()[0].value, in_loss);
    for (std::size_t n = count; n-- > 0;)
      if (in_loss[n])
        for (const ValueId v : graph_.nodes()[n]->inputs) mark_producers(v, in_loss);
    for (std::size_t n = 0; n < count; ++n)
      if (result_.nodes[n] == NodeRole::kForward && !in_loss[n]) result_.nodes[n] = NodeRole::kBackward;
    return std::move(result_);
  }

 private:
  bool is_data(ValueId v) const {
    // Inputs that are cut are a micro-batch's own.
    for (std::size_t i = 0; i < group_.inputs.size(); ++i)
      if (graph_.inputs()[i] == v) return !group_.inputs[i].parts.rows.empty();
    return false;
  }

  void mark_producers(ValueId v, std::vector<bool>& marked) const {
    if (v != kNoValue && producers_[v] >= 0) marked[static_cast<std::size_t>(producers_[v])] = true;
  }

  bool adds_up(std::size_t n) const {
    const auto exchange = group_.exchanges.find(n);
    return exchange != group_.exchanges.end() && exchange->second.exchange != Exchange::kNone;
  }

  NodeRole first_role(std::size_t n) const {
    const auto exchange = group_.exchanges.find(n);
    if (exchange != group_.exchanges.end()) return adds_up(n) ? NodeRole::kAfter : NodeRole::kForward;
    NodeRole role = NodeRole::kBefore;
    for (const ValueId v : graph_.nodes()[n]->inputs) {
      if (v == kNoValue) continue;
      const NodeRole of = producers_[v] >= 0 ? result_.nodes[static_cast<std::size_t>(producers_[v])]
                          : is_data(v)       ? NodeRole::kForward
                                             : NodeRole::kBefore;
      if (of == NodeRole::kForward) return NodeRole::kForward;
      if (of == NodeRole::kAfter) role = NodeRole::kAfter;
    }
    return role;
  }

  // Assigns to a micro-batch the sums over all micro-batches that it alone reads.
  void own_sums() {
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      if (result_.nodes[n] != NodeRole::kAfter) continue;
      for (const ValueId v : graph_.nodes()[n]->outputs) {
        if (v == kNoValue || result_.nodes[n] != NodeRole::kAfter) continue;
        for (const std::int32_t user : users_[v])
          if (result_.nodes[static_cast<std::size_t>(user)] == NodeRole::kForward) {
            result_.nodes[n] = NodeRole::kForward;
            if (adds_up(n)) result_.barrier = barrier_at(n);
          }
      }
    }
  }

  std::string barrier_at(std::size_t n) const {
    const ValueId v = graph_.nodes()[n]->inputs.at(0);
    const std::string maker = producers_[v] >= 0 && graph_.nodes()[static_cast<std::size_t>(producers_[v])]->op
                                  ? graph_.nodes()[static_cast<std::size_t>(producers_[v])]->op->name()
                                  : "a value";
    return "each micro-batch needs the results of all others: " + maker +
           (graph_.value(v).name.empty() ? "" : " \"" + graph_.value(v).name + "\"") +
           " is combined over the batch and read by each sample (as in a batch normalization), and stages would use the "
           "micro-batch's own";
  }

  const GroupGraph& group_;
  const Graph& graph_;
  const bool for_training_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  MicroBatchRoles result_;
};

}  // namespace

Partition cut_into_micro_batches(const Graph& graph, const std::vector<ValueId>& data, std::int64_t micro_batches,
                                 ChoiceFinder& choices) {
  return MicroBatchCutter(graph, micro_batches, choices).cut(data);
}

MicroBatchRoles roles_of(const GroupGraph& group, bool for_training) { return RoleFinder(group, for_training).find(); }

}  // namespace rewright::plans
