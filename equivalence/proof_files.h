// Files of a folder with a proof, beside its equations.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::equivalence {

std::string digest_of(const std::filesystem::path& file);  // SHA-256

// Writes the certificates of the rules that were applied into FOLDER/rules. Throws Error(kUnsupported) if one is not proved.
void write_rule_certificates(const std::filesystem::path& folder, const std::vector<Rule>& rules,
                             const std::set<std::string>& used);

}  // namespace rewright::equivalence
