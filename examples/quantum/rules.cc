#include "examples/quantum/rules.h"

#include <chrono>
#include <optional>
#include <set>

#include "generator/run/generator.h"
#include "generator/writing/rule_writer.h"
#include "verifier/verify.h"

namespace rewright::quantum {

namespace {

std::optional<rules::Rule> prove_rule(const rules::Rule& rule) {
  proof::VerifyOptions options;
  options.instances = 0;  // the generator tried random instances already
  options.suggest_conditions = false;
  proof::Verdict verdict = proof::verify(rule, options);
  return verdict.outcome == proof::Outcome::kProved ? std::optional(std::move(verdict.rule)) : std::nullopt;
}

}  // namespace

const std::vector<GateSet>& gate_sets() {
  static const std::vector<GateSet> kSets = {
      // Sums of rotations and of phases. Though 2 + 3 = 5 follows from 1 + 1 = 2 and others, a search that seldom makes
      // circuits longer needs it.
      {"Rz(axis=1,power=1|2|3|4|5|6|7),variables(shape=[4,2],each=1)", 2, true},
      {"Phase(power=1|2|3|4|5|6|7),variables(shape=[4,2],each=1)", 2, true},
      // All gates on one qubit, with phases.
      {"H(axis=1),X(axis=1),Rz(axis=1,power=1|2|4|6|7),Phase(power=1|2|6|7),variables(shape=[4,2],each=1)", 3},
      // Two qubits: all gates, gates that turn a CNOT around, those that pass it, and rotations of sums of qubits.
      {"H(axis=1|2),X(axis=1|2),Rz(axis=1|2,power=1|2),CNOT(control_axis=1|2,target_axis=1|2),variables(shape=[4,2,2],each=1)",
       2},
      {"H(axis=1|2),CNOT(control_axis=1|2,target_axis=1|2),variables(shape=[4,2,2],each=1)", 3},
      {"X(axis=1|2),Rz(axis=1|2,power=1),CNOT(control_axis=1|2,target_axis=1|2),variables(shape=[4,2,2],each=1)", 3},
      {"Rz(axis=1|2,power=1),CNOT(control_axis=1|2,target_axis=1|2),variables(shape=[4,2,2],each=1)", 4},
      // Three qubits.
      {"H(axis=1),X(axis=1),Rz(axis=1,power=1),Phase(power=1),CNOT(control_axis=2|3,target_axis=2|3),variables(shape=[4,2,2,2],"
       "each=1)",
       2},
      {"CNOT(control_axis=1|2|3,target_axis=1|2|3),variables(shape=[4,2,2,2],each=1)", 3},
  };
  return kSets;
}

std::vector<rules::Rule> find_rules(std::span<const GateSet> sets, int threads,
                                    const std::function<void(const std::string& line)>& tell) {
  std::vector<rules::Rule> found;
  std::set<std::string> known;
  for (const GateSet& set : sets) {
    generator::GenerateOptions options;
    options.operators = set.operators;
    options.max_operators = set.gates;
    options.threads = threads;
    options.prune_derivable = !set.all;
    options.prove = prove_rule;
    const auto begin = std::chrono::steady_clock::now();
    const generator::Generated generated = generator::generate(options);
    std::size_t fresh = 0;
    for (rules::Rule rule : generated.rules) {
      if (!known.insert(generator::contents(rule)).second) continue;
      rule.name = "gates_" + std::to_string(found.size() + 1);
      found.push_back(std::move(rule));
      ++fresh;
    }
    const auto seconds = std::chrono::round<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
    tell(std::to_string(fresh) + " rules of " + std::to_string(static_cast<long long>(generated.graphs)) +
         " circuits of at most " + std::to_string(set.gates) + " of " + set.operators + ", in " + std::to_string(seconds) +
         " s");
  }
  return found;
}

}  // namespace rewright::quantum
