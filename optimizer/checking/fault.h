// Finds the step of an optimization that changed the results: a bug of ours, which is reported, left out, and shown by a small
// graph.
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
    kFolding,  // an evaluated constant
    kBody,     // rewrites of a graph inside a node
    kDialect,  // calls were written in another dialect
    kExport,   // the graph is right, but export and import change it
  };
  Kind kind = Kind::kRule;
  std::size_t step = 0;            // of the certificate, from 1; 0: no single step
  std::vector<std::string> rules;  // kRule, kExport: one of these; kBody: all rules used inside
  std::vector<std::string> where;  // names of nodes or values, for people
  std::optional<ValueId> folded;   // kFolding
  std::optional<Graph> smallest;   // the smallest graph found that shows the fault; its sizes are known
  std::string file;                // the file it was written to
  std::string unwritable;          // kExport: why it has no written form; empty: it was written as something else
};
std::string_view name(Fault::Kind kind);  // "rule", "folding", "body", "dialect", "export"
std::string to_string(const Fault& fault);
std::string message_of(const Fault& fault);  // what happened, and what was done about it, for people

// Compares graphs. Also false if the second cannot be executed where the first can.
struct FaultCheck {
  std::function<bool(const Graph& after)> agrees;                            // with the given graph
  std::function<bool(const Graph& before, const Graph& after)> parts_agree;  // do two small graphs agree?
};

// Bisects steps whose result does not agree with `given`: finds the first step, and in it the first rewrite or constant, after
// which the graph no longer agrees. `given` is tidied, as before the steps.
Fault find_fault(const Graph& given, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                 const FaultCheck& check);

}  // namespace rewright::optimizer
