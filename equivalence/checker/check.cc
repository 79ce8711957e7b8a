// The checker: follows a proof step by step.
#include <algorithm>
#include <set>

#include "base/error.h"
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
  Checker(Joint& joint, const Proof& proof, const std::filesystem::path& folder, const ProofCheckOptions& options,
          ProofCheck& report)
      : joint_(joint), proof_(proof), folder_(folder), options_(options), report_(report) {}

  void run() {
    for (const Step& step : proof_.steps) {
      check(step);
      ++report_.equations;
      if (options_.progress) options_.progress(report_.equations, proof_.steps.size());
    }
    require(joint_.outputs_are_equal(), "the equations do not lead to equal outputs");
    require(second_is_well_typed(joint_).holds, "the second model may be ill-typed where the first one is not");
  }

 private:
  void check(const Step& step) {
    if (step.kind == Step::Kind::kTerm) {
      add_term(joint_, step, proof_.tolerance);
      return;
    }
    if (step.kind == Step::Kind::kValue) {
      add_value(joint_, step);
      return;
    }
    if (step.kind == Step::Kind::kAttribute) {
      require(rounded_.emplace(step.position, step.field).second, "an attribute is rounded twice");
      round_attribute(joint_, step, proof_.tolerance);
      return;
    }
    const std::size_t count = joint_.graph().value_count();
    for (const ValueId leaf : step.equation.leaves) require(leaf < count, "there is no such value");
    require(step.equation.a < count && step.equation.b < count, "there is no such value");
    require(leads_from_first(joint_, step.equation), "an equation leads from what may be undefined");
    const Statement statement = statement_of(joint_, step.equation);
    if (step.kind == Step::Kind::kRewriting) {
      require(!may_be_less_defined(statement), "a side may be undefined where the other one is not");
      TermTable terms(statement.graph);
      for (const Application& application : step.applications) terms.apply(rule(application.rule), application);
      require(terms.outputs_are_equal(), "the rewrites do not lead to equal values");
    } else {
      require(!may_read_outside(statement), "the second model may read outside of a tensor");
      const proof::Certificate certificate = checked(folder_ / "equations" / (plain(step.certificate) + ".certificate"));
      Rule stated = proof::proved_part(rule_of(statement, step.sizes)), proved = proof::proved_part(certificate.rule);
      stated.name = proved.name;
      require(hash(stated) == hash(proved) && to_algebra(stated) == to_algebra(proved),
              "a certificate is about another equation");
      require(certificate.all_ranks, "a certificate is not about all cases");
    }
    require(joint_.unite(step.equation.a, step.equation.b), "equal values have different types");
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
    proved.proof.ranks = static_cast<std::uint32_t>(std::max<std::size_t>(1, certificate.ranks));
    return rules_.emplace(name, std::move(proved)).first->second;
  }

  Joint& joint_;
  const Proof& proof_;
  const std::filesystem::path& folder_;
  const ProofCheckOptions& options_;
  ProofCheck& report_;
  std::set<std::pair<std::int32_t, std::size_t>> rounded_;
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
  Joint joint(import_onnx(a), import_onnx(b), proof.names);
  ProofCheck report;
  try {
    Checker(joint, proof, folder, options, report).run();
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
