// The steps of an optimization: the rules applied, with their matches, and the constants folded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// A rule applied in a region's graph (optimizer/matching/region.h), or in an e-graph made from one.
struct Rewrite {
  std::string rule;
  std::uint64_t rule_hash = 0;
  // As Match::where, with positions in the region's current graph; or as EMatch::where.
  std::vector<std::int64_t> where;
  std::uint64_t swapped = 0;       // as Match::swapped
  std::vector<std::string> names;  // of the ONNX nodes or values it was found at, for people
};

// One step: a part of the graph was rewritten; or, by equality saturation, rewrites were added to an e-graph, and e-nodes
// chosen; or constants were evaluated; or graphs inside nodes were rewritten; or calls were written in another dialect
// (graph/onnx/dialect.h); or contractions as products of two (graph/contraction.h). Positions refer to Graph::nodes(), values
// to the graph when the step begins: importing the same file gives the same numbers, and so does every step.
struct BodySteps;

struct CertificateStep {
  enum class Kind { kRewrite, kSaturate, kFold, kBodies, kStandard, kRaise, kContract };
  Kind kind = Kind::kRewrite;
  std::vector<std::uint32_t> region;  // kRewrite, kSaturate
  std::vector<Rewrite> rewrites;      // kRewrite, kSaturate
  std::vector<std::uint32_t> chosen;  // kSaturate: e-nodes, operands first
  std::vector<ValueId> folded;        // kFold; empty: the graph is tidied (Graph::tidy)
  std::vector<BodySteps> bodies;      // kBodies
  // kRaise: the operators that rules raised parts of the graph to, all or none of each; kContract: those whose sums of products
  // were taken two tensors at a time (graph/contraction.h)
  std::vector<std::string> calls;
};

// The steps in one graph inside a node (graph/onnx/body.h), whose nodes may contain graphs again.
struct BodySteps {
  ValueId result = kNoValue;  // of the node
  std::string attribute;
  std::string name;  // of the node, for people
  std::vector<CertificateStep> steps;
};

// All rewrites of the steps in order, including those in bodies.
std::vector<Rewrite> rewrites_of(const std::vector<CertificateStep>& steps);

// Names of the ONNX nodes at these positions, or of the values they compute, for people; negative positions are skipped.
std::vector<std::string> names_at(const Graph& graph, std::span<const std::int64_t> where);

}  // namespace rewright::optimizer
