#include "verifier/proof.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"
#include "verifier/cases.h"
#include "verifier/compare.h"
#include "verifier/normal_form.h"
#include "verifier/number_laws.h"
#include "verifier/ranks.h"
#include "verifier/regrouping.h"
#include "verifier/view.h"

namespace rewright::proof {

namespace {

// Searches the proof of one case. Returns "" if it was found, else the open question.
class CaseSearch {
 public:
  CaseSearch(const Rule& rule, const SymbolicCase& c, Solver& solver, Recording* recording, bool positions_are_inside)
      : rule_(rule),
        case_(c),
        solver_(solver),
        positions_are_inside_(positions_are_inside),
        recording_(recording),
        record_(recording ? &recording->add_case(c) : nullptr) {}

  std::string run(bool& ill_typed) {
    ill_typed = true;
    SideConditions conditions;
    DefinedSide target;
    try {
      target = define_side(rule_, rule_.target, case_.inputs, case_.bindings, true, conditions);
    } catch (const Error& e) {
      return std::string("is the target well-typed: ") + e.what();
    }
    if (record_) {
      recording_->add_target(target);
      for (const Condition& c : conditions.typing) record_->typing.push_back(guard(c));
    }
    for (const Condition& c : conditions.typing)
      if (!solver_.proves(case_.hypotheses, guard(c))) return "is the target well-typed: " + c.to_string();
    std::string open;
    for (std::size_t k = 0; k < rule_.source.outputs.size(); ++k)
      if (open = output(target, k, ill_typed); !open.empty()) return "output " + std::to_string(k) + ": " + open;
    return {};
  }

  bool has_contents() const { return has_contents_; }

 private:
  std::string output(const DefinedSide& target, std::size_t k, bool& ill_typed) {
    ill_typed = true;
    const PatternValue &left = rule_.source.outputs[k], &right = rule_.target.outputs[k];
    const TensorType &a = type_of(case_.source, left), &b = type_of(target, right);
    const std::string types = "is it of one type: " + to_string(a) + " and " + to_string(b);
    if (a.type != b.type || a.rank() != b.rank()) return types;
    Guards known = case_.hypotheses;
    Indices position;
    for (std::size_t n = 0; n < a.rank(); ++n) {
      if (!(a.shape[n] == b.shape[n]) && !solver_.proves(case_.hypotheses, zero(a.shape[n] - b.shape[n]))) return types;
      const Index symbol = Index::symbol("o!" + std::to_string(n));
      for (const Guard& g : within(symbol, a.shape[n])) known.push_back(g);
      position.push_back(a.shape[n].constant() == 1 ? Index(0) : symbol);
    }
    ill_typed = false;
    OutputProof proof;
    Normalizer source(case_.source, known, solver_, proof.contents, positive_numbers(), positions_are_inside_);
    Normalizer result(target, known, solver_, proof.contents, positive_numbers(), positions_are_inside_);
    proof.source = with_moved_numbers(source.at(left, position));
    const std::size_t positions = proof.contents.size();
    proof.target = with_moved_numbers(result.at(right, position));
    has_contents_ = has_contents_ || !proof.contents.empty();
    if (!positions_are_inside_ && proof.contents.size() > positions)
      return "are the target's positions within the tensor wherever the source's are";
    if ((result.partial() & ~source.partial()) != 0) return "is the target defined wherever the source is";
    std::string open = compared(proof, known);
    if (!open.empty()) {  // once more, in other variables
      const std::string before = to_string(proof.source) + to_string(proof.target);
      proof.source = regrouped(proof.source, known, solver_);
      proof.target = regrouped(proof.target, known, solver_);
      if (to_string(proof.source) + to_string(proof.target) != before) open = compared(proof, known);
    }
    if (!open.empty()) return open;
    if (record_) record_->outputs.push_back(std::move(proof));
    return {};
  }

  // Returns "" if both normal forms are equal, else the open question.
  std::string compared(OutputProof& proof, const Guards& known) {
    Comparison comparison(solver_);
    proof.derivation = {};
    const Sum difference = joined(proof.source, scaled(proof.target, -1));
    return comparison.is_zero(difference, known, record_ ? &proof.derivation : nullptr) ? "" : comparison.open_question();
  }

  // Variables that a condition says are positive, unless another condition gives their value: the two could contradict each
  // other.
  std::set<std::string> positive_numbers() const {
    std::set<std::string> positive, known;
    for (const Predicate& p : rule_.predicates)
      for (const Expression& e : p.arguments)
        if (const auto* real = std::get_if<Real>(&e.value);
            e.kind == Expression::Kind::kValue && real && !real->symbol.empty()) {
          if (p.kind == Predicate::Kind::kPositive) positive.insert(real->symbol);
          if (p.kind == Predicate::Kind::kEqual) known.insert(real->symbol);
        }
    std::erase_if(positive, [&](const std::string& name) {
      const auto value = case_.bindings.values().find(name);
      const auto* real = value == case_.bindings.values().end() ? nullptr : std::get_if<Real>(&value->second);
      return known.count(name) > 0 || !real || real->symbol != name;
    });
    return positive;
  }

  const Rule& rule_;
  const SymbolicCase& case_;
  Solver& solver_;
  bool positions_are_inside_;
  bool has_contents_ = false;
  Recording* recording_;
  CaseProof* record_;
};

void search(const Rule& given, const ProofLimits& limits, Solver& solver, Recording* recording, ProofSearch& result) {
  const Rule rule = through_views(given);
  CaseEnumerator cases(rule, solver);
  const std::size_t largest = cases.largest_rank(limits.maximum_rank);
  RankArgument argument(rule, solver);
  bool any_model = false, stopped = false;
  for (std::size_t rank = 0; rank <= largest && !stopped; ++rank) {
    std::string open;
    const std::size_t before = result.cases;
    const bool model_before = any_model;
    if (recording) recording->begin_rank();
    const bool done = cases.for_each(rank, [&](const SymbolicCase& c) {
      if (result.cases >= limits.maximum_cases && any_model) {
        stopped = true;
        return false;
      }
      ++result.cases;
      any_model |= c.has_model;
      CaseSearch one(rule, c, solver, recording, limits.positions_are_inside);
      open = one.run(result.ill_typed);
      result.has_contents |= one.has_contents();
      if (open.empty()) argument.visit(rank, c);
      if (!open.empty()) open += " (" + c.to_string() + ")";
      return open.empty();
    });
    if (!open.empty()) {
      result.open_question = open;
      return;
    }
    if (done) {
      result.ranks = rank;
    } else {
      result.cases = before, any_model = model_before;
      if (recording) recording->drop_rank();
    }
  }
  if (stopped && !any_model) {
    result.open_question = "there are more than " + std::to_string(limits.maximum_cases) + " cases of the lowest rank";
    return;
  }
  if (!any_model) {
    result.empty = result.cases == 0;
    result.open_question =
        result.cases == 0 ? "no sizes satisfy the conditions" : "no sizes were found that satisfy the conditions";
    return;
  }
  result.all_ranks = result.ranks == largest;
  result.bounded_by = argument.reason(result.ranks, largest);
  result.any_rank = result.bounded_by.empty();
  result.found = true;
}

}  // namespace

ProofSearch search_proof(const Rule& rule, const ProofLimits& limits, Solver& solver, Recording* recording) {
  ProofSearch result;
  solver.observe(recording);
  try {
    search(rule, limits, solver, recording, result);
  } catch (const Error& e) {
    solver.observe(nullptr);
    if (e.code() == ErrorCode::kMissing) throw;  // a failure of the machine, not of the rule
    result.open_question = e.what();
  }
  solver.observe(nullptr);
  return result;
}

}  // namespace rewright::proof
