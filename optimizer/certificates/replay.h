// Applies the steps of a certificate again.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "optimizer/certificates/certificate.h"
#include "optimizer/devices/device.h"
#include "optimizer/matching/match.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// The graph after the certificate's steps. Throws Error(kBadInput) if the graph is not the one the certificate was made for, a
// rule is missing or different, a step does not fit, or the result differs from the recorded one. With the evaluator that was
// used then, the exported bytes are equal, too. `after_step` gets the graph after each step.
Graph replay(const Graph& graph, const Certificate& certificate, const std::vector<Rule>& rules, Evaluator& evaluator,
             const std::function<void(const CertificateStep&, const Graph&)>& after_step = {});

// The graph after steps that start from it. Without a certificate, so results are not compared. Throws Error(kBadInput) as
// replay().
Graph after_steps(Graph graph, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator);

}  // namespace rewright::optimizer
