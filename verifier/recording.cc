#include "verifier/recording.h"

#include "base/error.h"
#include "verifier/proof.h"

namespace rewright::proof {

Recording::Recording(const Rule& rule, const SolverOptions& solver, std::filesystem::path questions)
    : file_(std::move(questions)), questions_(file_, std::ios::binary | std::ios::trunc) {
  if (!questions_) throw Error(ErrorCode::kMissing, "cannot be written", file_.string());
  certificate_.prover = "rewright " REWRIGHT_VERSION;
  certificate_.rule = proved_part(rule);
  certificate_.solver = solver;
}

Recording::~Recording() {
  questions_.close();
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

void Recording::asked(const Query& query) {
  if (!numbers_.try_emplace(query.text, certificate_.queries.size()).second) return;
  certificate_.queries.push_back(query);
  questions_ << "(reset)\n(set-option :rlimit " << query.steps << ")\n" << query.text << "(check-sat)\n" << std::flush;
  if (!questions_) throw Error(ErrorCode::kMissing, "cannot be written", file_.string());
}

void Recording::answered(const Query& query) { certificate_.queries[numbers_.at(query.text)].answer = query.answer; }

CaseProof& Recording::add_case(const SymbolicCase& c) {
  versions_.add(c.source);
  CaseProof& result = certificate_.cases.emplace_back();
  result.description = c.to_string();
  result.hypotheses = c.hypotheses;
  return result;
}

void Recording::begin_rank() { before_ = {certificate_.cases.size(), certificate_.queries.size(), versions_}; }

void Recording::drop_rank() {
  certificate_.cases.resize(before_.cases);
  certificate_.queries.resize(before_.queries);
  std::erase_if(numbers_, [&](const auto& entry) { return entry.second >= before_.queries; });
  versions_ = before_.versions;
}

Certificate Recording::finish(const ProofSearch& proof) {
  certificate_.ranks = proof.ranks, certificate_.all_ranks = proof.all_ranks, certificate_.any_rank = proof.any_rank;
  certificate_.definitions = versions_.digests();
  return std::move(certificate_);
}

}  // namespace rewright::proof
