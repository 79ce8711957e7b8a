#include "equivalence/proof_files.h"

#include "base/error.h"
#include "graph/file.h"
#include "verifier/certificate.h"
#include "verifier/verify.h"

namespace rewright::equivalence {

std::string digest_of(const std::filesystem::path& file) { return proof::hexadecimal(proof::sha256(map_file(file).text())); }

void write_rule_certificates(const std::filesystem::path& folder, const std::vector<Rule>& rules,
                             const std::set<std::string>& used) {
  const std::filesystem::path certificates = folder / "rules";
  std::filesystem::create_directories(certificates);
  for (const Rule& rule : rules) {
    if (!used.count(rule.name)) continue;
    proof::VerifyOptions verification;
    verification.certificates = certificates;
    verification.suggest_conditions = false;
    if (proof::verify(rule, verification).outcome != proof::Outcome::kProved)
      throw Error(ErrorCode::kUnsupported, "rule " + rule.name + " is not proved", folder.string());
  }
}

}  // namespace rewright::equivalence
