// What an optimization did, step by step, so that it can be done again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "optimizer/device.h"
#include "optimizer/match.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// One rule applied in a region's graph (optimizer/region.h), or in an e-graph that begins as one.
struct Rewrite {
  std::string rule;
  std::uint64_t rule_hash = 0;
  // As Match::where, positions in the region's graph as it is at this moment; or as EMatch::where.
  std::vector<std::int64_t> where;
  std::uint64_t swapped = 0;       // as Match::swapped
  std::vector<std::string> names;  // of the ONNX nodes or values it was found at, for people
};

// A part of the graph was rewritten; or, by equality saturation, rewrites told what is equal in it, and e-nodes were chosen
// that compute the same; or constants were evaluated; or graphs inside of nodes were
// rewritten. Positions are those of Graph::nodes(), values those of the graph as it is
// when the step begins: importing the same file gives the same numbers, and so does every step.
struct BodySteps;

struct CertificateStep {
  enum class Kind { kRewrite, kSaturate, kFold, kBodies };
  Kind kind = Kind::kRewrite;
  std::vector<std::uint32_t> region;  // kRewrite, kSaturate
  std::vector<Rewrite> rewrites;      // kRewrite, kSaturate
  std::vector<std::uint32_t> chosen;  // kSaturate: e-nodes, each after those it reads
  std::vector<ValueId> folded;        // kFold; none: the graph is tidied (Graph::tidy)
  std::vector<BodySteps> bodies;      // kBodies
};

// What was done in one graph inside of a node (graph/onnx/body.h), which may have nodes with graphs again.
struct BodySteps {
  ValueId result = kNoValue;  // of the node
  std::string attribute;
  std::string name;  // of the node, for people
  std::vector<CertificateStep> steps;
};

// All rewrites of the steps, those inside of bodies as well, in order.
std::vector<Rewrite> rewrites_of(const std::vector<CertificateStep>& steps);

struct Certificate {
  std::uint64_t before = 0, after = 0;  // Graph::hash() of the two graphs
  MatchOptions match;
  std::vector<CertificateStep> steps;
};

// JSON. parse_certificate throws Error(kBadInput) naming `name`; a certificate is refused whole.
std::string to_json(const Certificate& certificate);
Certificate parse_certificate(std::string_view text, const std::string& name);

// The graph after the certificate's steps. Throws Error(kBadInput) if the graph is not the one the certificate was made for, a
// rule is not there or is another, a step does not fit, or the result is not the recorded one. The evaluator must be the one
// that was used: then the exported bytes are equal, too.
// `after_step` is told the graph after each step.
Graph replay(const Graph& graph, const Certificate& certificate, const std::vector<Rule>& rules, Evaluator& evaluator,
             const std::function<void(const CertificateStep&, const Graph&)>& after_step = {});

// A graph after steps that begin at it; names no certificate, so nothing is compared. Throws Error(kBadInput) as replay().
Graph after_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator);

}  // namespace rewright::optimizer
