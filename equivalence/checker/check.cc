// The checker: follows a proof step by step.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "equivalence/checker/bodies.h"
#include "equivalence/checker/proof.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "rules/io.h"
#include "verifier/certificate.h"
#include "verifier/checker/check.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

using proof::Refusal, proof::require;

namespace {

class Checker {
 public:
  Checker(const Proof& proof, const std::filesystem::path& folder, const ProofCheckOptions& options, ProofCheck& report)
      : proof_(proof), folder_(folder), options_(options), report_(report) {}

  void run(const Graph& a, const Graph& b) {
    require(proof_.tolerance >= 0 && proof_.tolerance <= options_.tolerance,
            "its constants may differ by more than the tolerance that is asked for");
    Joint joint(a, b, proof_.names);
    Rounded rounded;
    for (const Step& step : proof_.steps) {
      check({joint, a, b, rounded}, step);
      ++report_.equations;
      if (options_.progress) options_.progress(report_.equations, proof_.steps.size());
    }
    require_equal(joint);
  }

 private:
  using Rounded = std::set<std::pair<std::int32_t, std::size_t>>;
  // Two models, or two bodies of their nodes.
  struct Pair {
    Joint& joint;
    const Graph &a, &b;
    Rounded& rounded;
  };

  static void require_equal(const Joint& joint) {
    require(joint.outputs_are_equal(), "the equations do not lead to equal outputs");
    require(second_is_well_typed(joint).holds, "the second model may be ill-typed where the first one is not");
  }

  void note_rounding(double error) {
    if (error > 0) ++report_.constants;
    report_.max_rel_error = std::max(report_.max_rel_error, error);
  }

  void check_bodies(const Pair& of, const Step& step) {
    const auto pairs = paired_bodies(of.joint, of.a, of.b, step.other, step.position);
    require(pairs && pairs->size() == step.bodies.size(), "bodies that are no pairs");
    for (std::size_t k = 0; k < pairs->size(); ++k) {
      const BodyPair& pair = (*pairs)[k];
      Joint joint(pair.x, pair.y, pair.names);
      Rounded rounded;
      for (const Step& inner : step.bodies[k]) check({joint, pair.x, pair.y, rounded}, inner);
      require_equal(joint);
    }
    of.joint.unite_results(step.other, step.position);
  }

  void check(const Pair& of, const Step& step) {
    if (step.kind == Step::Kind::kTerm) {
      note_rounding(add_term(of.joint, step, proof_.tolerance));
      return;
    }
    if (step.kind == Step::Kind::kValue) {
      add_value(of.joint, step);
      return;
    }
    if (step.kind == Step::Kind::kAttribute) {
      require(of.rounded.emplace(step.position, step.field).second, "an attribute is rounded twice");
      note_rounding(round_attribute(of.joint, step, proof_.tolerance));
      return;
    }
    if (step.kind == Step::Kind::kBodies) return check_bodies(of, step);
    const std::size_t count = of.joint.graph().value_count();
    for (const ValueId leaf : step.equation.leaves) require(leaf < count, "there is no such value");
    require(step.equation.a < count && step.equation.b < count, "there is no such value");
    require(leads_from_first(of.joint, step.equation), "an equation leads from what may be undefined");
    const Statement statement = statement_of(of.joint, step.equation);
    if (step.kind == Step::Kind::kRewriting) {
      require(!may_be_less_defined(statement), "a side may be undefined where the other one is not");
      TermTable terms(statement.graph);
      for (const Application& application : step.applications) terms.apply(rule(application.rule), application);
      require(terms.outputs_are_equal(), "the rewrites do not lead to equal values");
    } else {
      // A certificate says that both sides are equal wherever both are defined.
      require(!may_be_less_defined(statement), "a side may be undefined where the other one is not");
      const proof::Certificate certificate = checked(folder_ / "equations" / (plain(step.certificate) + ".certificate"));
      Rule stated = proof::proved_part(rule_of(statement, step.sizes)), proved = proof::proved_part(certificate.rule);
      stated.name = proved.name;
      require(hash(stated) == hash(proved) && to_algebra(stated) == to_algebra(proved),
              "a certificate is about another equation");
      require(certificate.all_ranks, "a certificate is not about all cases");
    }
    keep_numbers(of.joint, statement);
    require(of.joint.unite(step.equation.a, step.equation.b), "equal values have different types");
  }

  // A name of a file in the folder.
  static const std::string& plain(const std::string& name) {
    const bool good =
        !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!good) throw Error(ErrorCode::kBadInput, "is damaged: \"" + name + "\" is no name of a certificate", "equality.json");
    return name;
  }

  proof::Certificate checked(const std::filesystem::path& file) {
    if (const auto known = certificates_.find(file); known != certificates_.end()) return known->second;
    const FileBytes bytes = map_file(file);
    const proof::CheckOptions options{.solver = options_.solver, .seed = options_.seed};
    const proof::CertificateCheck result = proof::check_certificate(bytes.text(), file.string(), options);
    if (!result.accepted) throw Refusal{file.filename().string() + " is refused: " + result.reason};
    ++report_.rules;
    return certificates_.emplace(file, proof::read_certificate(bytes.text(), file.string())).first->second;
  }

  const Rule& rule(const std::string& name) {
    if (const auto known = rules_.find(name); known != rules_.end()) return known->second;
    const proof::Certificate certificate = checked(folder_ / "rules" / (plain(name) + ".certificate"));
    Rule proved = certificate.rule;
    proved.proof.ranks = certificate.any_rank ? 0 : static_cast<std::uint32_t>(std::max<std::size_t>(1, certificate.ranks));
    return rules_.emplace(name, std::move(proved)).first->second;
  }

  const Proof& proof_;
  const std::filesystem::path& folder_;
  const ProofCheckOptions& options_;
  ProofCheck& report_;
  std::map<std::string, Rule> rules_;
  std::map<std::filesystem::path, proof::Certificate> certificates_;
};

}  // namespace

ProofCheck check_proof(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& folder,
                       const ProofCheckOptions& options) {
  const std::filesystem::path file = folder / "equality.json";
  const Proof proof = read_proof(map_file(file).text(), file.string());
  const auto require_same = [&](const std::filesystem::path& model, const std::string& digest) {
    if (proof::hexadecimal(proof::sha256(map_file(model).text())) != digest)
      throw Error(ErrorCode::kBadInput, "is a proof for another model than " + model.string(), file.string());
  };
  require_same(a, proof.first);
  require_same(b, proof.second);
  const Graph first = import_onnx(a), second = import_onnx(b);
  ProofCheck report;
  report.tolerance = proof.tolerance;
  try {
    Checker(proof, folder, options, report).run(first, second);
    report.accepted = true;
  } catch (const Refusal& refusal) {
    report.reason = refusal.reason;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kMissing || e.code() == ErrorCode::kBadInput) throw;
    report.reason = e.what();
  }
  if (!report.accepted) report.reason = "equation " + std::to_string(report.equations + 1) + ": " + report.reason;
  return report;
}

}  // namespace rewright::equivalence
