// The steps of an optimization: which rules were applied where, and which constants were folded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// One rule applied in a region's graph (optimizer/matching/region.h), or in an e-graph that begins as one.
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

// The steps in one graph inside of a node (graph/onnx/body.h), which may have nodes with graphs again.
struct BodySteps {
  ValueId result = kNoValue;  // of the node
  std::string attribute;
  std::string name;  // of the node, for people
  std::vector<CertificateStep> steps;
};

// All rewrites of the steps, those inside of bodies as well, in order.
std::vector<Rewrite> rewrites_of(const std::vector<CertificateStep>& steps);

// Names of the ONNX nodes at these positions, or of the values they compute, for people; negative positions are skipped.
std::vector<std::string> names_at(const Graph& graph, std::span<const std::int64_t> where);

}  // namespace rewright::optimizer
