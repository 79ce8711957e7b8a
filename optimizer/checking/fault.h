// Which step of an optimization changed what a graph computes: a fault of ours, to be named, left out and shown.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/devices/device.h"
#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"

namespace rewright::optimizer {

struct Fault {
  enum class Kind {
    kRule,     // a rewrite
    kFolding,  // a constant that was computed
    kBody,     // rewrites of a graph inside of a node
    kExport,   // the graph is right, and another one comes back from the file it is written to
  };
  Kind kind = Kind::kRule;
  std::size_t step = 0;            // of the certificate, from 1; 0: none alone
  std::vector<std::string> rules;  // kRule, kExport: one of these; kBody: all inside
  std::vector<std::string> where;  // names of nodes or values, for people
  std::optional<ValueId> folded;   // kFolding
  std::optional<Graph> smallest;   // the smallest graph found that shows it, with all of its sizes known
  std::string file;                // in which that was written
};
std::string_view name(Fault::Kind kind);  // "rule", "folding", "body", "export"
std::string to_string(const Fault& fault);

// How graphs are compared here. False as well if the second cannot be executed where the first can.
struct FaultCheck {
  std::function<bool(const Graph& after)> agrees;                            // with the given graph
  std::function<bool(const Graph& before, const Graph& after)> parts_agree;  // of two small graphs
};

// Bisects steps that end in a graph which does not agree with `given`: the first one, and of it the first rewrite or constant,
// after which graphs no longer do. `given` is tidy, as the steps begin.
Fault find_fault(const Graph& given, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                 const FaultCheck& check);

}  // namespace rewright::optimizer
