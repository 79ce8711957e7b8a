#include "verifier/checker/check.h"

#include <algorithm>

#include "base/error.h"
#include "verifier/checker/derivation_check.h"
#include "verifier/checker/instance_check.h"
#include "verifier/checker/questions.h"
#include "verifier/ranks.h"
#include "verifier/view.h"

namespace rewright::proof {

using namespace proof;

namespace {

constexpr std::size_t kMaximumRank = 5;         // of inputs that may have any rank
constexpr unsigned kMaximumSteps = 1000000000;  // of one question

bool mentions_content(const Guard& g) {
  bool found = std::any_of(g.parts.begin(), g.parts.end(), mentions_content);
  for_each_atom(g.value, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol && a.name.starts_with(kContent); });
  return found;
}

class Check {
 public:
  Check(const Certificate& certificate, Questions& questions, const CheckOptions& options, CertificateCheck& report)
      : certificate_(certificate), questions_(questions), options_(options), report_(report) {}

  void run() {
    const Rule rule = through_views(certificate_.rule);
    CaseEnumerator cases(rule, questions_.recorded());
    RankArgument argument(rule, questions_.own());
    const std::size_t largest = cases.largest_rank(kMaximumRank);
    require(certificate_.ranks <= largest, "its ranks are too large");
    for (std::size_t rank = 0; rank <= certificate_.ranks; ++rank)
      cases.for_each(rank, [&](const SymbolicCase& c) {
        require(report_.cases < certificate_.cases.size(), "a case is missing");
        visit(c, certificate_.cases[report_.cases]);
        argument.visit(rank, c);
        ++report_.cases;
        return true;
      });
    require(report_.cases == certificate_.cases.size(), "there is no such case");
    require(report_.elements > 0, "no sizes were found that satisfy the conditions");
    require(certificate_.all_ranks == (certificate_.ranks == largest), "it is not of the ranks it says");
    require(certificate_.any_rank == argument.holds(certificate_.ranks, largest),
            "what it says of higher ranks does not follow");
    require(certificate_.definitions == versions_.digests(), "it is about other definitions of operators");
  }

 private:
  void visit(const SymbolicCase& c, const CaseProof& proof) {
    require(c.to_string() == proof.description && c.hypotheses == proof.hypotheses, "a case is another one");
    const Rule& rule = c.bindings.rule();
    SideConditions conditions;
    const DefinedSide target = define_side(rule, rule.target, c.inputs, c.bindings, true, conditions);
    versions_.add(c.source);
    versions_.add(target);
    Guards typing;
    for (const Condition& condition : conditions.typing) typing.push_back(guard(condition));
    require(typing == proof.typing, "the target is typed in another way");
    for (const Guard& g : typing) require(questions_.recorded().proves(c.hypotheses, g), "the target is not well-typed");
    require(proof.outputs.size() == rule.source.outputs.size(), "an output is missing");
    for (std::size_t k = 0; k < proof.outputs.size(); ++k) output(c, target, k, proof.outputs[k]);
    // Tests of normal forms are spread evenly over the cases.
    const std::size_t all = certificate_.cases.size(), tested = options_.tested_cases, n = report_.cases;
    if (all <= tested || n * tested / all != (n + 1) * tested / all || (n + 1 == all && report_.elements == 0))
      report_.elements += check_instances(c, proof, options_.seed + n);
  }

  void output(const SymbolicCase& c, const DefinedSide& target, std::size_t k, const OutputProof& proof) {
    const Rule& rule = c.bindings.rule();
    const TensorType& a = type_of(c.source, rule.source.outputs[k]);
    const TensorType& b = type_of(target, rule.target.outputs[k]);
    require(a.type == b.type && a.rank() == b.rank(), "outputs have different types");
    Guards known = c.hypotheses;
    for (const Guard& g : known) require(!mentions_content(g), "a size has the name of a content");
    for (std::size_t n = 0; n < a.rank(); ++n) {
      require(a.shape[n] == b.shape[n] || questions_.recorded().proves(c.hypotheses, zero(a.shape[n] - b.shape[n])),
              "outputs have different sizes");
      for (const Guard& g : within(Index::symbol("o!" + std::to_string(n)), a.shape[n])) known.push_back(g);
    }
    DerivationCheck(questions_, a.rank(), proof.contents)
        .difference_is_zero(proof.source, proof.target, known, proof.derivation);
  }

  const Certificate& certificate_;
  Questions& questions_;
  const CheckOptions& options_;
  CertificateCheck& report_;
  DefinitionVersions versions_;
};

}  // namespace

CertificateCheck check_certificate(std::string_view bytes, const std::string& name, const CheckOptions& options) {
  const Certificate certificate = read_certificate(bytes, name);
  CertificateCheck report;
  report.rule = certificate.rule.name;
  report.ranks = certificate.ranks, report.all_ranks = certificate.all_ranks, report.any_rank = certificate.any_rank;
  report.digest = hexadecimal(sha256(bytes));
  try {
    const SolverOptions& solver = certificate.solver;
    require(solver.linear_steps <= kMaximumSteps && solver.nonlinear_steps <= kMaximumSteps, "its budgets are too large");
    const bool linked = options.solver.empty();
    Questions questions(certificate.queries, solver, linked ? linked_z3(solver.seed) : external_solver(options.solver), linked);
    Check(certificate, questions, options, report).run();
    report.questions = certificate.queries.size(), report.own_questions = questions.own_count();
    report.accepted = true;
  } catch (const Refusal& refusal) {
    report.reason = refusal.reason;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kMissing) throw;
    report.reason = e.what();
  }
  return report;
}

}  // namespace rewright::proof
