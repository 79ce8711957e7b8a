// Arbitrary bytes as a rule file, in algebra or in Protobuf's text or binary form. Rules that are read are written and read
// again; the Protobuf forms give the same file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rules/io.h"

using rewright::rules::RuleFormat;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<rewright::rules::Rule> rules;
  std::vector<rewright::rules::BadRule> bad;
  try {
    rules = rewright::rules::read_rules(bytes, "fuzz.rules", bad);  // the good ones
    if (!bad.empty()) {
      try {
        rewright::rules::read_rules(bytes, "fuzz.rules");
        std::abort();  // a file with a bad rule is refused whole
      } catch (const rewright::Error&) {
      }
    }
  } catch (const rewright::Error&) {
    return 0;
  }
  // Protobuf can express every rule: from here on, an Error is a bug.
  for (const RuleFormat format : {RuleFormat::kText, RuleFormat::kBinary}) {
    const std::string written = rewright::rules::write_rules(rules, format);
    const std::vector<rewright::rules::Rule> again = rewright::rules::read_rules(written, "written.rules");
    if (rewright::rules::write_rules(again, format) != written) std::abort();
  }
  // Algebra is for people: it may refuse a rule that no person would write.
  try {
    rewright::rules::read_rules(rewright::rules::write_rules(rules, RuleFormat::kAlgebra), "written.rules");
  } catch (const rewright::Error&) {
  }
  return 0;
}
