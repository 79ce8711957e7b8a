#include "runtime/cuda/planning/graph_facts.h"

#include <utility>

#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/planning/evaluate_constants.h"
#include "runtime/cpu/planning/prepared_constants.h"

namespace rewright::cuda {

namespace {

std::vector<Tensor> evaluated(const Graph& graph, std::shared_ptr<cpu::PreparedConstants> folded) {
  cpu::PlanOptions options;
  options.threads = runtime::usable_threads(0);
  options.isa = cpu::detected_isa();
  options.constants = std::move(folded);
  return cpu::evaluate_constants(graph, options);
}

}  // namespace

GraphFacts::GraphFacts(const Graph& graph, std::shared_ptr<cpu::PreparedConstants> folded)
    : graph_(graph), constants_(evaluated(graph, std::move(folded))), infos_(graph.value_count()) {
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!constants_[v]) constants_[v] = planning::known_tensor(graph.value(v));
  needed_ = planning::needed_nodes(graph, [this](ValueId v) { return static_cast<bool>(constants_[v]); });
}

const Definition& GraphFacts::define(const Node& node) const {
  const auto known = definitions_.find(&node);
  if (known != definitions_.end()) return known->second;
  return definitions_.emplace(&node, planning::define(graph_, node)).first->second;
}

ValueId GraphFacts::add_value(ValueInfo info) {
  infos_.emplace_back(std::move(info));
  constants_.emplace_back();
  return static_cast<ValueId>(constants_.size() - 1);
}

ValueId GraphFacts::add_constant_value(Tensor tensor) {
  const ValueId value = add_value({tensor.type(), tensor.sizes()});
  constants_[value] = std::move(tensor);
  return value;
}

const ValueInfo& GraphFacts::info(ValueId value) const {
  std::optional<ValueInfo>& info = infos_.at(value);
  if (info) return *info;
  const Tensor& known = constants_[value];
  info = known ? ValueInfo{known.type(), known.sizes()} : planning::value_info(graph_, value);
  return *info;
}

}  // namespace rewright::cuda
