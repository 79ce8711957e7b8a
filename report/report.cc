#include "report/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "optimizer/certificates/replay.h"
#include "optimizer/inputs/sizes.h"
#include "report/drawing.h"
#include "report/fill.h"
#include "report/page.h"
#include "rules/io.h"

namespace rewright::report {

namespace {

using nlohmann::json;

json drawn_with_costs(const Graph& graph, CostModel& costs, const Kept& kept) {
  const MatchedGraph matched(graph, false);
  const std::vector<NodeWork> work = costs.work(matched);
  json result = draw_graph(matched, work, kept);
  result["held_bytes"] = json::array();
  for (const double bytes : costs.live_bytes(matched)) result["held_bytes"].push_back(std::llround(bytes));
  return result;
}

std::string kind_of(const CertificateStep& step) {
  switch (step.kind) {
    case CertificateStep::Kind::kRewrite:
      return "backtracking";
    case CertificateStep::Kind::kSaturate:
      return "saturation";
    case CertificateStep::Kind::kFold:
      return step.folded.empty() ? "tidied" : "constants evaluated";
    case CertificateStep::Kind::kBodies:
      return "graphs inside of nodes";
    case CertificateStep::Kind::kStandard:
      return "written in ONNX's own operators";
    case CertificateStep::Kind::kRaise:
      return "raised to ONNX Runtime's operators";
    case CertificateStep::Kind::kContract:
      return "sums of products in the best order";
  }
  return "";
}

// The effect of each step of the certificate on the predicted time, in order.
json steps_of(const ReportSource& source, CostModel& costs, Evaluator& evaluator) {
  json steps = json::array();
  const auto predicted = [&](const Graph& graph) {
    const MatchedGraph matched(graph, false);
    return costs.quantities(matched).seconds;
  };
  double before = predicted(source.before);
  replay(source.before, source.result.certificate, source.rules, evaluator,
         [&](const CertificateStep& step, const Graph& graph) {
           json rewrites = json::array();
           for (const Rewrite& rewrite : rewrites_of({step}))
             rewrites.push_back(json{{"rule", rewrite.rule}, {"where", rewrite.names}});
           const double after = predicted(graph);
           steps.push_back(json{{"kind", kind_of(step)},
                                {"rewrites", rewrites},
                                {"folded", step.folded.size()},
                                {"nodes", graph.nodes().size()},
                                {"gain_ms", (before - after) * 1e3}});
           before = after;
         });
  return steps;
}

json rules_of(const ReportSource& source) {
  std::set<std::string> used;
  for (const Rewrite& rewrite : rewrites_of(source.result.certificate.steps)) used.insert(rewrite.rule);
  json rules = json::object();
  for (const Rule& rule : source.rules) {
    if (!used.contains(rule.name)) continue;
    rules[rule.name] = {
        {"algebra", to_algebra(rule)},
        {"description", rule.description},
        {"math", name(rule.math)},
        {"origin", name(rule.origin)},
        {"proof", {{"status", name(rule.proof.status)}, {"digest", rule.proof.digest}, {"ranks", rule.proof.ranks}}}};
  }
  return rules;
}

}  // namespace

std::string report_page(const ReportSource& source, Device& device, CostDatabase* database, Evaluator& evaluator) {
  const OptimizeOptions& options = source.options;
  CostOptions cost_options;
  cost_options.sizes = sizes_or_one(options.sizes);
  cost_options.measure = options.measure;
  CostModel costs(options.measure ? &device : nullptr, database, cost_options);
  const MatchedGraph before(source.before, false), after(source.result.graph, false);
  costs.learn(before);
  const std::array both{&before, &after};
  costs.prepare(both);

  const Kept kept(source.before, source.result.graph);
  const Roofline roofline = options.measure ? device.roofline() : Roofline{};
  json curve = json::array();
  for (const auto& [seconds, predicted] : source.curve) curve.push_back({seconds, predicted * 1e3});
  const json data = {{"facts", json::parse(source.facts)},
                     {"before", drawn_with_costs(source.before, costs, kept)},
                     {"after", drawn_with_costs(source.result.graph, costs, kept)},
                     {"steps", steps_of(source, costs, evaluator)},
                     {"rules", rules_of(source)},
                     {"roofline",
                      {{"operations_per_second", roofline.operations_per_second},
                       {"bytes_per_second", roofline.bytes_per_second},
                       {"call_seconds", roofline.call_seconds}}},
                     {"curve", curve},
                     {"certificate", to_json(source.result.certificate)}};
  const std::string text = inside_of_page(data);
  return filled(page::report_html(),
                {{"STYLE", page::report_css()}, {"D3", page::d3_js()}, {"SCRIPT", page::report_js()}, {"DATA", text}});
}

// Parsed from its first line: "// https://d3js.org v5.16.0 Copyright ...".
std::string d3_version() {
  const std::string_view text = page::d3_js(), line = text.substr(0, text.find('\n'));
  const std::size_t begin = line.find(" v");
  if (begin == std::string_view::npos) return "of an unknown version";
  const std::string_view rest = line.substr(begin + 2);
  return std::string(rest.substr(0, rest.find(' ')));
}

}  // namespace rewright::report
