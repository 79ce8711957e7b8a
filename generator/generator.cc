#include "generator/generator.h"

#include <algorithm>
#include <set>

#include "generator/rule_writer.h"
#include "generator/selection.h"
#include "rules/io.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kMostOperators = 4;

std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return "generated_" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

// What a rule says, without what it is called.
std::string contents(Rule rule) {
  rule.name = "rule";
  rule.description.clear();
  return to_algebra(rule);
}

}  // namespace

Generated generate(const GenerateOptions& options) {
  if (options.max_operators < 1 || options.max_operators > kMostOperators)
    throw Error(ErrorCode::kUsage, "graphs can have from 1 to " + std::to_string(kMostOperators) + " operators",
                "--max-operators");
  const Configuration configuration = configure(options.operators);
  Forms forms(configuration);
  const auto report = [&](const std::string& stage, double fraction, const std::string& note) {
    if (options.progress) options.progress(stage, fraction, note);
  };
  Enumeration enumeration(
      forms, {.operators = options.max_operators,
              .key = options.seed,
              .threads = options.threads,
              .memory = options.memory,
              .stop = options.stop,
              .progress = [&](std::size_t operators, std::size_t applications) {
                report("enumerating", static_cast<double>(operators - 1) / static_cast<double>(options.max_operators),
                       std::to_string(operators) + " operators, " + std::to_string(applications) + " applications");
              }});
  enumeration.run();
  const Selection selection = select(enumeration, {.renamings = options.prune_renamings,
                                                   .instances = options.prune_instances,
                                                   .derivable = options.prune_derivable,
                                                   .stop = enumeration.complete() ? options.stop : std::stop_token(),
                                                   .progress = [&](double fraction, std::size_t kept) {
                                                     report("selecting", fraction, std::to_string(kept) + " equations");
                                                   }});
  Generated result;
  result.graphs = enumeration.graph_count();
  result.fingerprints = enumeration.classes().size();
  result.candidates = selection.candidates;
  result.pruned = selection.pruned;
  result.complete = enumeration.complete() && !options.stop.stop_requested();
  std::set<std::string> known;
  for (std::size_t n = 0; n < selection.kept.size(); ++n) {
    if (n % 16 == 0)
      report("generalizing", static_cast<double>(n) / static_cast<double>(selection.kept.size()),
             std::to_string(result.rules.size()) + " rules");
    bool written = false;
    for (Rule& rule : rules_of(selection.kept[n], forms, numbered(n + 1), {.seed = options.seed})) {
      if (known.insert(contents(rule)).second) {
        result.rules.push_back(std::move(rule));
        written = true;
      }
    }
    if (!written) ++result.pruned["not general"];
  }
  return result;
}

}  // namespace rewright::generator
