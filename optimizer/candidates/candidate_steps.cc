#include "optimizer/candidates/candidate_steps.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"
#include "graph/contraction.h"
#include "graph/onnx/body.h"
#include "graph/onnx/kept_calls.h"
#include "optimizer/raising/raise.h"

namespace rewright::optimizer {

void CandidateSteps::fold_into(Candidate& candidate) const {
  if (!is_foldable_) return;
  CertificateStep step;
  step.kind = CertificateStep::Kind::kFold;
  step.folded = foldable(candidate.graph, fold_);
  std::erase_if(step.folded, [&](ValueId id) { return unfolded_.contains(id); });
  if (step.folded.empty()) return;
  candidate.graph = fold(candidate.graph, step.folded, evaluator_);
  candidate.steps.push_back(std::move(step));
}

bool CandidateSteps::contract_into(Candidate& candidate) const {
  const auto is_served = [&](const Graph&, const Node& node) {
    return node.op->max_inputs() < kVariadic || unraised_.contains(std::string(node.op->name()));
  };
  Graph next = with_matrix_products(candidate.graph, is_served);
  if (next.nodes().size() == candidate.graph.nodes().size()) return false;
  std::set<const Node*> kept;
  for (const auto& node : next.nodes()) kept.insert(node.get());
  std::set<std::string> replaced;
  for (const auto& node : candidate.graph.nodes())
    if (!kept.contains(node.get())) replaced.emplace(node->op->name());
  CertificateStep step;
  step.kind = CertificateStep::Kind::kContract;
  step.calls.assign(replaced.begin(), replaced.end());
  candidate.graph = std::move(next);
  tidy_around_calls(candidate.graph);
  candidate.steps.push_back(std::move(step));
  return true;
}

double CandidateSteps::rewrite_bodies(Candidate& candidate, const SearchOptions& search_options) const {
  using Clock = std::chrono::steady_clock;
  double saved = 0;
  if (!into_bodies_) return saved;
  CertificateStep step;
  step.kind = CertificateStep::Kind::kBodies;
  std::map<std::size_t, Node> changed;
  std::vector<std::pair<std::size_t, std::string>> places;
  for (std::size_t n = 0; n < candidate.graph.nodes().size(); ++n)
    for (std::string& attribute : bodies_of(*candidate.graph.nodes()[n])) places.emplace_back(n, std::move(attribute));
  const OuterNames names = places.empty() ? nullptr : outer_names(candidate.graph);
  for (std::size_t i = 0; i < places.size() && !search_options.cancel.stop_requested(); ++i) {
    const auto& [position, attribute] = places[i];
    const Node& node = *candidate.graph.nodes()[position];
    const auto result = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId id) { return id != kNoValue; });
    if (result == node.outputs.end()) continue;
    SearchOptions share = search_options;
    share.deadline = Clock::now() + (search_options.deadline - Clock::now()) / static_cast<std::int64_t>(places.size() - i);
    try {
      Candidate body{body_of(candidate.graph, node, attribute, names), {}};
      if (!improve_body(body, share, saved)) continue;
      const auto at = changed.find(position);
      changed.insert_or_assign(position, with_body(at == changed.end() ? node : at->second, attribute, body.graph));
      step.bodies.push_back({*result, attribute, node.origin->name, std::move(body.steps)});
    } catch (const Error& error) {  // a body that cannot be imported or exported alone stays as it is
      if (error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled) throw;
    }
  }
  if (changed.empty()) return saved;
  candidate.graph = with_nodes(candidate.graph, changed);
  candidate.steps.push_back(std::move(step));
  return saved;
}

bool CandidateSteps::improve_body(Candidate& body, const SearchOptions& search_options, double& saved) const {
  using Clock = std::chrono::steady_clock;
  tidy_around_calls(body.graph);
  fold_into(body);
  SearchOptions inside = search_options;
  inside.deadline = Clock::now() + (search_options.deadline - Clock::now()) / 2;
  saved += rewrite_bodies(body, inside);
  const SearchResult found = search(body.graph, index_, costs_, search_options);
  body.graph = found.graph;
  body.steps.insert(body.steps.end(), found.steps.begin(), found.steps.end());
  if (body.steps.empty()) return false;
  fold_into(body);
  saved += found.cost_before - found.cost;
  return true;
}

std::vector<Candidate> CandidateSteps::raised_from(const Candidate& candidate) const {
  constexpr std::size_t kMostAlone = 4;
  std::vector<Candidate> result;
  // Returns the types of the operators that were put in.
  const auto add = [&](std::vector<std::string> types) -> std::vector<std::string> {
    std::erase_if(types, [&](const std::string& type) { return unraised_.contains(type); });
    Raised found = raised(candidate.graph, raisings_of(types), index_.options());
    if (found.calls.empty()) return {};
    Candidate& other = result.emplace_back(Candidate{std::move(found.graph), candidate.steps});
    CertificateStep& step = other.steps.emplace_back();
    step.kind = CertificateStep::Kind::kRaise;
    for (const auto& [type, count] : found.calls) step.calls.push_back(type);
    return step.calls;
  };
  std::vector<std::string> all;
  for (const Raising& raising : raisings())
    if (!raising.type.empty() && std::find(all.begin(), all.end(), raising.type) == all.end()) all.push_back(raising.type);
  const std::vector<std::string> used = add(all);
  for (std::size_t i = 0; i < std::min(used.size(), kMostAlone) && used.size() > 1; ++i) add({used[i]});
  return result;
}

bool CandidateSteps::leave_out(const Fault& fault, std::size_t values) {
  if (fault.folded) return *fault.folded < values ? unfolded_.insert(*fault.folded).second : std::exchange(folds_found_, false);
  if (fault.kind == Fault::Kind::kDialect && !fault.rules.empty()) {
    unraised_.insert(fault.rules.begin(), fault.rules.end());
    return true;
  }
  if (fault.kind == Fault::Kind::kBody) return std::exchange(into_bodies_, false);
  if (fault.rules.empty()) return false;
  std::vector<Rule> rules(index_.rules().begin(), index_.rules().end());
  const std::size_t count = rules.size();
  std::erase_if(rules, [&](const Rule& rule) {
    return std::find(fault.rules.begin(), fault.rules.end(), rule.name) != fault.rules.end();
  });
  const bool fewer = rules.size() < count;
  index_ = RuleIndex(std::move(rules), index_.options());
  return fewer;
}

}  // namespace rewright::optimizer
