// Any bytes as a rule file, in the algebra or in Protobuf's text or binary form: what is read is written in all three and read
// again, and the Protobuf forms give back the same file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "operators/error.h"
#include "rules/io.h"

using rewright::RuleFormat;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<rewright::Rule> rules;
  try {
    rules = rewright::read_rules(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.rules");
  } catch (const rewright::Error&) {
    return 0;
  }
  if (rules.empty()) return 0;  // only Protobuf has a form for that
  // What was accepted must be written and accepted again: an Error from here on is a finding.
  for (const RuleFormat format : {RuleFormat::kAlgebra, RuleFormat::kText, RuleFormat::kBinary}) {
    const std::string written = rewright::write_rules(rules, format);
    const std::vector<rewright::Rule> again = rewright::read_rules(written, "written.rules");
    if (rewright::write_rules(again, format) != written) std::abort();
  }
  return 0;
}
