#include "optimizer/matching/steps.h"

namespace rewright::optimizer {

std::vector<Rewrite> rewrites_of(const std::vector<CertificateStep>& steps) {
  std::vector<Rewrite> all;
  for (const CertificateStep& step : steps) {
    all.insert(all.end(), step.rewrites.begin(), step.rewrites.end());
    for (const BodySteps& body : step.bodies)
      for (Rewrite& rewrite : rewrites_of(body.steps)) all.push_back(std::move(rewrite));
  }
  return all;
}

std::vector<std::string> names_at(const Graph& graph, std::span<const std::int64_t> where) {
  std::vector<std::string> names;
  for (const std::int64_t position : where) {
    if (position < 0) continue;
    const Node& node = *graph.nodes()[static_cast<std::size_t>(position)];
    std::string name = node.origin ? node.origin->name : "";
    for (const ValueId id : node.outputs)
      if (name.empty() && id != kNoValue) name = graph.value(id).name;
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace rewright::optimizer
