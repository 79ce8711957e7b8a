// Arbitrary bytes as a TASO rule file: rules that are read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "rules/io.h"
#include "rules/taso/taso.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rewright::rules::TasoImport imported;
  try {
    imported = rewright::rules::import_taso(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.pb");
  } catch (const rewright::Error&) {
    return 0;
  }
  // From here on, an Error is a bug.
  if (imported.rules.empty()) return 0;
  if (rewright::rules::read_rules(rewright::rules::write_rules(imported.rules, rewright::rules::RuleFormat::kBinary),
                                  "written.rules") != imported.rules)
    std::abort();
  rewright::rules::read_rules(rewright::rules::write_rules(imported.rules, rewright::rules::RuleFormat::kAlgebra),
                              "written.rules");
  return 0;
}
