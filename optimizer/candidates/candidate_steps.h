// The steps that make a candidate besides the search's own: constants are folded, graphs inside of nodes rewritten, and parts
// raised to ONNX Runtime's operators.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/certificates/certificate.h"
#include "optimizer/checking/fault.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/folding/fold.h"
#include "optimizer/matching/match.h"
#include "optimizer/search/search.h"

namespace rewright::optimizer {

struct Candidate {
  Graph graph;
  std::vector<CertificateStep> steps;  // from the given graph
};

class CandidateSteps {
 public:
  // `is_foldable`: false in training, where weights are variables.
  CandidateSteps(RuleIndex& index, CostModel& costs, Evaluator& evaluator, const FoldOptions& fold, bool is_foldable)
      : index_(index), costs_(costs), evaluator_(evaluator), fold_(fold), is_foldable_(is_foldable) {}

  void fold_into(Candidate& candidate) const;
  // Replaces sums of products of any number of tensors, such as Einsum, by products of two in the best order: then rules apply
  // to what they consist of. False if there are none.
  bool contract_into(Candidate& candidate) const;
  // As above for constants that the search's rules made.
  void fold_found_into(Candidate& candidate) const {
    if (folds_found_) fold_into(candidate);
  }
  // Rewrites graphs inside of nodes, each in its share of the search's time, innermost first. Returns the predicted saving,
  // with each graph executed once.
  double rewrite_bodies(Candidate& candidate, const SearchOptions& search_options) const;
  // The candidate with ONNX Runtime's own operators wherever they fit, then with each type of them alone.
  std::vector<Candidate> raised_from(const Candidate& candidate) const;

  // Leaves out what caused the fault from now on; false if nothing was. `values`: of the given graph.
  bool leave_out(const Fault& fault, std::size_t values);

 private:
  // Is a gain predicted? Adds it to `saved`.
  bool improve_body(Candidate& body, const SearchOptions& search_options, double& saved) const;

  RuleIndex& index_;
  CostModel& costs_;
  Evaluator& evaluator_;
  const FoldOptions& fold_;
  bool is_foldable_;
  std::set<ValueId> unfolded_;      // values of the given graph that are not folded
  bool folds_found_ = true;         // whether constants that rules made are
  bool into_bodies_ = true;         // whether graphs inside of nodes are rewritten
  std::set<std::string> unraised_;  // operators that parts are not raised to, and that are not contracted
};

}  // namespace rewright::optimizer
