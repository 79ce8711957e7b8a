#include "generator/run/generator.h"

#include <functional>

#include "generator/partial/partial.h"
#include "generator/pruning/numeric.h"
#include "generator/pruning/selection.h"
#include "generator/run/rule_selection.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kMostCorrected = 5;  // operators in searches with corrections

// Everything that the result depends on, as text.
std::string identity(const GenerateOptions& options) {
  std::string text = "--operators " + options.operators + " --max-operators " + std::to_string(options.max_operators) +
                     " --seed " + std::to_string(options.seed);
  if (!options.prune_renamings) text += ", with renamings";
  if (!options.prune_instances) text += ", with instances";
  if (!options.prune_derivable) text += ", with what is derivable";
  if (!options.prove) text += ", not proved";
  return text;
}

using Report = std::function<void(const std::string& stage, double fraction, const std::string& note)>;

Report report_of(const GenerateOptions& options) {
  return [&options](const std::string& stage, double fraction, const std::string& note) {
    if (options.progress) options.progress(stage, fraction, note);
  };
}

EnumerationOptions enumeration_options(const GenerateOptions& options, std::size_t operators, const Report& report) {
  return {.operators = operators,
          .key = options.seed,
          .threads = options.threads,
          .memory = options.memory,
          .stop = options.stop,
          .progress = [report](std::size_t reached, std::size_t applications) {
            report("enumerating " + std::to_string(reached) + " operators", 0, std::to_string(applications) + " applications");
          }};
}

// Graphs that agree with an operator on a part of the positions, corrected. Every process finds all of them.
Generated generate_corrected(const GenerateOptions& options, Forms& forms) {
  if (!options.state.empty())
    throw Error(ErrorCode::kUsage, "a search for corrections keeps no state", "--resume",
                "it takes half a minute: run it without");
  const Report report = report_of(options);
  Enumeration enumeration(forms, enumeration_options(options, options.max_operators + 1, report));
  enumeration.run();
  if (!enumeration.complete()) {  // members of the last level may be missing
    Generated stopped;
    stopped.complete = false;
    return stopped;
  }
  const std::vector<PartialEquivalence> found = partial_equivalences(enumeration);
  PartialRules rules = partial_rules(enumeration, found,
                                     {.writer = {.seed = options.seed, .prove = options.prove},
                                      .threads = options.threads,
                                      .stop = options.stop,
                                      .progress = [&](double fraction, std::size_t count) {
                                        report("correcting", fraction, std::to_string(count) + " rules");
                                      }});
  Generated result;
  result.graphs = static_cast<double>(enumeration.members().size());
  result.fingerprints = enumeration.classes().size();
  result.candidates = found.size();
  result.rules = std::move(rules.rules);
  result.pruned = std::move(rules.pruned);
  result.complete = enumeration.complete() && !options.stop.stop_requested();
  return result;
}

}  // namespace

Generated generate(const GenerateOptions& options) {
  const auto alone = make_local_communicator();
  return generate(options, *alone);
}

Generated generate(const GenerateOptions& options, Communicator& communicator) {
  const Configuration configuration = configure(options.operators);
  const std::size_t most = configuration.corrections ? kMostCorrected : GraphCounter::kMostOperators;
  if (options.max_operators < 1 || options.max_operators > most)
    throw Error(ErrorCode::kUsage, "graphs can have from 1 to " + std::to_string(most) + " operators", "--max-operators");
  Forms forms(configuration);
  if (configuration.corrections) return generate_corrected(options, forms);
  const Report report = report_of(options);
  State state({.folder = options.state,
               .temporary = options.state.empty() ? options.temporary : options.state,
               .interval = options.state_interval,
               .identity = identity(options),
               .stop = options.stop},
              communicator);
  Enumeration enumeration(forms, enumeration_options(options, options.max_operators, report));
  enumeration.run();
  const Collection collection =
      collect(enumeration,
              {.renamings = options.prune_renamings,
               .buffer = options.buffer,
               .progress = [&](const char* phase, double fraction, const std::string& note) { report(phase, fraction, note); }},
              state, communicator);
  // Few values are all compared as real numbers: then those of the last level are needed as well.
  std::optional<Enumeration> whole;
  if (collection.complete && collection.counters.values[Counters::kFingerprints] <= static_cast<double>(kMostNumericValues)) {
    whole.emplace(forms, EnumerationOptions{.operators = options.max_operators + 1,
                                            .key = options.seed,
                                            .threads = options.threads,
                                            .memory = options.memory,
                                            .stop = options.stop});
    whole->run();
  }
  // The result of an interrupted enumeration is completed, but nothing is recorded from here on.
  State nowhere({.temporary = options.temporary}, communicator);
  Workers workers(communicator, options.threads, forms);
  Journal journal(collection.complete ? state : nowhere, communicator, "candidates", collection.counters);
  const Selection selection =
      select(enumeration, collection,
             {.renamings = options.prune_renamings,
              .instances = options.prune_instances,
              .derivable = options.prune_derivable,
              .numeric_from = whole ? &*whole : nullptr,
              .progress = [&](double fraction,
                              std::size_t kept) { report("selecting", fraction, std::to_string(kept) + " equations"); }},
             workers, journal);
  Counters counters = collection.counters;
  Generated result;
  result.graphs = counters[Counters::kGraphs];
  result.fingerprints = static_cast<std::size_t>(counters[Counters::kFingerprints]);
  result.candidates = selection.candidates;
  result.pruned = selection.pruned;
  RuleSelection rules =
      select_rules(selection.kept,
                   {.writer = {.seed = options.seed, .prove = options.prove},
                    .derivable = options.prune_derivable,
                    .memory = options.memory,
                    .progress = [&](double fraction,
                                    std::size_t count) { report("generalizing", fraction, std::to_string(count) + " rules"); }},
                   workers, journal);
  result.complete = collection.complete && !journal.stopped();
  result.rules = std::move(rules.rules);
  for (const auto& [reason, count] : rules.pruned) result.pruned[reason] += count;
  return result;
}

}  // namespace rewright::generator
