// Any bytes as a rule file, in the algebra or in Protobuf's text or binary form: what is read is written and read again, and
// the Protobuf forms give back the same file.
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
  // Protobuf can say everything: an Error from here on is a finding.
  for (const RuleFormat format : {RuleFormat::kText, RuleFormat::kBinary}) {
    const std::string written = rewright::rules::write_rules(rules, format);
    const std::vector<rewright::rules::Rule> again = rewright::rules::read_rules(written, "written.rules");
    if (rewright::rules::write_rules(again, format) != written) std::abort();
  }
  // The algebra is for people; a rule that no person would write may be refused in it.
  try {
    rewright::rules::read_rules(rewright::rules::write_rules(rules, RuleFormat::kAlgebra), "written.rules");
  } catch (const rewright::Error&) {
  }
  return 0;
}
