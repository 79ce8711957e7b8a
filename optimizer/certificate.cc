#include "optimizer/certificate.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/onnx/body.h"
#include "optimizer/fold.h"
#include "optimizer/region.h"
#include "optimizer/saturation/saturation.h"

namespace rewright::optimizer {

namespace {

using nlohmann::json;

constexpr const char* kCertificateFormat = "rewright certificate 1";

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t from_hexadecimal(const json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

MathClass math_from_name(const std::string& text) {
  for (const MathClass math : {MathClass::kExact, MathClass::kReassociates, MathClass::kNeedsFinite})
    if (name(math) == text) return math;
  throw Error(ErrorCode::kBadInput, "unknown math class \"" + text + "\"");
}

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

json to_value(const Rewrite& rewrite) {
  return {{"rule", rewrite.rule},
          {"hash", hexadecimal(rewrite.rule_hash)},
          {"where", rewrite.where},
          {"swapped", rewrite.swapped},
          {"names", rewrite.names}};
}

Rewrite rewrite_from(const json& value) {
  return {value.at("rule").get<std::string>(), from_hexadecimal(value.at("hash")),
          value.at("where").get<std::vector<std::int64_t>>(), value.at("swapped").get<std::uint64_t>(),
          value.at("names").get<std::vector<std::string>>()};
}

std::vector<CertificateStep> steps_from(const json& list, int depth);

CertificateStep step_from(const json& value, int depth) {
  constexpr int kDeepest = 100;  // more than Protobuf reads
  if (depth > kDeepest) throw Error(ErrorCode::kBadInput, "bodies are nested too deep");
  CertificateStep step;
  if (value.contains("bodies")) {
    step.kind = CertificateStep::Kind::kBodies;
    for (const json& body : value.at("bodies"))
      step.bodies.push_back({body.at("value").get<ValueId>(), body.at("attribute").get<std::string>(),
                             body.at("node").get<std::string>(), steps_from(body.at("steps"), depth + 1)});
  } else if (value.contains("fold")) {
    step.kind = CertificateStep::Kind::kFold;
    step.folded = value.at("fold").get<std::vector<ValueId>>();
  } else {
    step.region = value.at("region").get<std::vector<std::uint32_t>>();
    for (const json& rewrite : value.at("rewrites")) step.rewrites.push_back(rewrite_from(rewrite));
    if (value.contains("chosen")) {
      step.kind = CertificateStep::Kind::kSaturate;
      step.chosen = value.at("chosen").get<std::vector<std::uint32_t>>();
    }
  }
  return step;
}

std::vector<CertificateStep> steps_from(const json& list, int depth) {
  std::vector<CertificateStep> steps;
  for (const json& step : list) steps.push_back(step_from(step, depth));
  return steps;
}

json to_value(const std::vector<CertificateStep>& steps) {
  json list = json::array();
  for (const CertificateStep& step : steps) {
    if (step.kind == CertificateStep::Kind::kFold) {
      list.push_back({{"fold", step.folded}});
      continue;
    }
    if (step.kind == CertificateStep::Kind::kBodies) {
      json bodies = json::array();
      for (const BodySteps& body : step.bodies)
        bodies.push_back(
            {{"value", body.result}, {"attribute", body.attribute}, {"node", body.name}, {"steps", to_value(body.steps)}});
      list.push_back({{"bodies", bodies}});
      continue;
    }
    json rewrites = json::array();
    for (const Rewrite& rewrite : step.rewrites) rewrites.push_back(to_value(rewrite));
    list.push_back({{"region", step.region}, {"rewrites", rewrites}});
    if (step.kind == CertificateStep::Kind::kSaturate) list.back()["chosen"] = step.chosen;
  }
  return list;
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
    inner.tidy();
    Node& node = changed.try_emplace(at, *graph.nodes()[at]).first->second;
    node = with_body(node, body.attribute, replay_steps(std::move(inner), body.steps, index, evaluator, {}));
  }
  return with_nodes(graph, changed);
}

Graph replay_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                   const AfterStep& after_step) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const CertificateStep& step = steps[i];
    graph = step.kind == CertificateStep::Kind::kFold     ? fold(graph, step.folded, evaluator)
            : step.kind == CertificateStep::Kind::kBodies ? replay_bodies(graph, step, i, index, evaluator)
                                                          : replay_rewrites(graph, step, i, index);
    if (after_step) after_step(step, graph);
  }
  return graph;
}

}  // namespace

std::vector<Rewrite> rewrites_of(const std::vector<CertificateStep>& steps) {
  std::vector<Rewrite> all;
  for (const CertificateStep& step : steps) {
    all.insert(all.end(), step.rewrites.begin(), step.rewrites.end());
    for (const BodySteps& body : step.bodies)
      for (Rewrite& rewrite : rewrites_of(body.steps)) all.push_back(std::move(rewrite));
  }
  return all;
}

Graph after_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator) {
  return replay_steps(std::move(graph), steps, index, evaluator, {});
}

std::string to_json(const Certificate& certificate) {
  const json whole = {{"format", kCertificateFormat},
                      {"before", hexadecimal(certificate.before)},
                      {"after", hexadecimal(certificate.after)},
                      {"math", std::string(name(certificate.match.math))},
                      {"for_training", certificate.match.for_training},
                      {"steps", to_value(certificate.steps)}};
  return whole.dump(1) + "\n";
}

Certificate parse_certificate(std::string_view text, const std::string& file) {
  try {
    const json whole = json::parse(text);
    if (whole.at("format") != kCertificateFormat)
      throw Error(ErrorCode::kBadInput,
                  "it is of format " + whole.at("format").dump() + ", this program reads \"" + kCertificateFormat + "\"", file);
    Certificate certificate;
    certificate.before = from_hexadecimal(whole.at("before"));
    certificate.after = from_hexadecimal(whole.at("after"));
    certificate.match.math = math_from_name(whole.at("math").get<std::string>());
    certificate.match.for_training = whole.at("for_training").get<bool>();
    certificate.steps = steps_from(whole.at("steps"), 0);
    return certificate;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON reader, or of a number's
    throw Error(ErrorCode::kBadInput, std::string("not a certificate: ") + error.what(), file);
  }
}

Graph replay(const Graph& graph, const Certificate& certificate, const std::vector<Rule>& rules, Evaluator& evaluator,
             const std::function<void(const CertificateStep&, const Graph&)>& after_step) {
  if (graph.hash() != certificate.before) throw Error(ErrorCode::kBadInput, "the certificate was made for another model");
  const RuleIndex index(rules, certificate.match);
  Graph result = graph;
  if (!certificate.steps.empty()) result.tidy();
  result = replay_steps(std::move(result), certificate.steps, index, evaluator, after_step);
  if (result.hash() != certificate.after)
    throw Error(ErrorCode::kBadInput, "the result is not the one the certificate was made for");
  return result;
}

}  // namespace rewright::optimizer
