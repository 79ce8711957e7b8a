#include "optimizer/certificates/replay.h"

#include <algorithm>
#include <map>

#include "graph/contraction.h"
#include "graph/onnx/body.h"
#include "graph/onnx/dialect.h"
#include "graph/onnx/kept_calls.h"
#include "optimizer/folding/fold.h"
#include "optimizer/matching/region.h"
#include "optimizer/raising/raise.h"
#include "optimizer/saturation/saturation.h"

namespace rewright::optimizer {

namespace {

Error misfit(std::size_t step, const std::string& what) {
  return Error(ErrorCode::kBadInput, what, "certificate: step " + std::to_string(step + 1));
}

void require(const Rewrite& rewrite, const RuleIndex& index, std::size_t number) {
  const std::optional<std::uint32_t> rule = index.find(rewrite.rule);
  if (!rule) throw misfit(number, "rule " + rewrite.rule + " is not in the rules given");
  if (index.hashes()[*rule] != rewrite.rule_hash)
    throw misfit(number, "rule " + rewrite.rule + " is not the one that was applied");
}

Graph rewrite_region(Graph graph, const CertificateStep& step, std::size_t number, const RuleIndex& index) {
  Matcher matcher(index);
  for (const Rewrite& rewrite : step.rewrites) {
    const std::uint32_t rule = *index.find(rewrite.rule);
    const MatchedGraph facts(graph, index.options().for_training);
    const std::optional<Match> match = matcher.find_at(facts, rule, rewrite.where, rewrite.swapped);
    std::optional<Graph> next = match ? apply(graph, index.rules()[rule], *match) : std::nullopt;
    if (!next) throw misfit(number, "rule " + rewrite.rule + " does not fit where it was applied");
    graph = std::move(*next);
  }
  return graph;
}

Graph saturate_region(const Graph& graph, CertificateStep step, std::size_t number, const RuleIndex& index) {
  std::optional<Graph> chosen = apply_step(graph, index, step);
  if (!chosen) throw misfit(number, "the rewrites do not fit, or do not give what was chosen");
  return std::move(*chosen);
}

Graph replay_rewrites(const Graph& graph, const CertificateStep& step, std::size_t number, const RuleIndex& index) {
  for (std::size_t i = 0; i < step.region.size(); ++i)
    if (step.region[i] >= graph.nodes().size() || (i > 0 && step.region[i] <= step.region[i - 1]))
      throw misfit(number, "the region's nodes are not in the graph");
  for (const Rewrite& rewrite : step.rewrites) require(rewrite, index, number);
  const Region region = extract(graph, step.region);
  const Graph rewritten = step.kind == CertificateStep::Kind::kSaturate ? saturate_region(region.graph, step, number, index)
                                                                        : rewrite_region(region.graph, step, number, index);
  std::optional<Graph> whole = splice(graph, region, rewritten);
  if (!whole) throw misfit(number, "the region cannot be put back");
  return std::move(*whole);
}

using AfterStep = std::function<void(const CertificateStep&, const Graph&)>;

Graph replay_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                   const AfterStep& after_step);

Graph replay_bodies(const Graph& graph, const CertificateStep& step, std::size_t number, const RuleIndex& index,
                    Evaluator& evaluator) {
  const std::vector<std::int32_t> producers = graph.producers();
  const OuterNames names = outer_names(graph);
  std::map<std::size_t, Node> changed;
  for (const BodySteps& body : step.bodies) {
    const std::int32_t position = body.result < producers.size() ? producers[body.result] : -1;
    if (position < 0) throw misfit(number, "there is no node with the body \"" + body.attribute + "\" that was rewritten");
    const auto at = static_cast<std::size_t>(position);
    Graph inner = body_of(graph, *graph.nodes()[at], body.attribute, names);
    tidy_around_calls(inner);
    Node& node = changed.try_emplace(at, *graph.nodes()[at]).first->second;
    node = with_body(node, body.attribute, replay_steps(std::move(inner), body.steps, index, evaluator, {}));
  }
  return with_nodes(graph, changed);
}

Graph replay_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                   const AfterStep& after_step) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const CertificateStep& step = steps[i];
    switch (step.kind) {
      case CertificateStep::Kind::kFold:
        graph = fold(graph, step.folded, evaluator);
        break;
      case CertificateStep::Kind::kBodies:
        graph = replay_bodies(graph, step, i, index, evaluator);
        break;
      case CertificateStep::Kind::kStandard:
        graph = in_standard_dialect(graph).graph;
        graph.tidy();
        break;
      case CertificateStep::Kind::kRaise:
        graph = raised(graph, raisings_of(step.calls), index.options()).graph;
        break;
      case CertificateStep::Kind::kContract:
        graph = with_matrix_products(std::move(graph), [&](const Graph&, const Node& node) {
          return std::find(step.calls.begin(), step.calls.end(), node.op->name()) == step.calls.end();
        });
        tidy_around_calls(graph);
        break;
      case CertificateStep::Kind::kRewrite:
      case CertificateStep::Kind::kSaturate:
        graph = replay_rewrites(graph, step, i, index);
    }
    if (after_step) after_step(step, graph);
  }
  return graph;
}

}  // namespace

Graph after_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator) {
  return replay_steps(std::move(graph), steps, index, evaluator, {});
}

Graph replay(const Graph& graph, const Certificate& certificate, const std::vector<Rule>& rules, Evaluator& evaluator,
             const std::function<void(const CertificateStep&, const Graph&)>& after_step) {
  if (graph.hash() != certificate.before) throw Error(ErrorCode::kBadInput, "the certificate was made for another model");
  const RuleIndex index(rules, certificate.match);
  Graph result = graph;
  if (!certificate.steps.empty()) tidy_around_calls(result);
  result = replay_steps(std::move(result), certificate.steps, index, evaluator, after_step);
  if (result.hash() != certificate.after)
    throw Error(ErrorCode::kBadInput, "the result is not the one the certificate was made for");
  return result;
}

}  // namespace rewright::optimizer
