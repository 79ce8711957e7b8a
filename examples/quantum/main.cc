// quantum rules -o gates.rules: finds and proves the rules of the gates.
// quantum minimize circuit.qasm -o smaller.qasm --rules gates.rules: fewer gates by these rules.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "examples/quantum/gates.h"
#include "examples/quantum/minimize.h"
#include "examples/quantum/rules.h"
#include "graph/file.h"
#include "rules/io.h"
#include "verifier/verify.h"

namespace rewright::quantum {

using namespace graph;  // NOLINT: as the folders of the library see each other's names

namespace {

// As those of the command line of Rewright.
constexpr int kWrongUsage = 2, kWrongInput = 3, kNotPossible = 4;
constexpr std::uint64_t kCheckedStates = 24;  // of a whole circuit; of one with few qubits all
constexpr int kFewQubits = 8;

struct Options {
  std::string input, output, rules, operators;
  std::size_t gates = 2;
  double seconds = 10;
  int threads = 1;
  std::uint64_t seed = 1;
  bool merge_rotations = true;
};

int write_found_rules(const Options& options) {
  std::vector<GateSet> sets = gate_sets();
  if (!options.operators.empty()) sets = {{options.operators, options.gates}};
  const std::vector<rules::Rule> found = find_rules(sets, options.threads, [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  std::string text = "# Found by the generator and proved by the verifier: quantum rules -o gates.rules\n";
  for (const rules::Rule& rule : found) text += "\n" + rules::to_algebra(rule);
  write_file(options.output, text);
  std::printf("%s: %zu rules\n", options.output.c_str(), found.size());
  return 0;
}

int prove_file(const Options& options) {
  std::size_t open = 0;
  for (const rules::Rule& rule : rules::read_rules(std::filesystem::path(options.rules))) {
    const proof::Verdict verdict = proof::verify(rule);
    std::printf("%-10s %s%s\n", std::string(proof::name(verdict.outcome)).c_str(), rule.name.c_str(),
                verdict.any_rank ? ", for any number of qubits" : "");
    std::fflush(stdout);
    open += verdict.outcome != proof::Outcome::kProved;
  }
  return open == 0 ? 0 : 1;
}

// Each part was compared on all its states; the whole is on some, unless they have too many amplitudes. The result says so.
std::string compare_whole(const Circuit& given, const Circuit& found, const std::string& name) {
  std::vector<std::uint64_t> states;
  const bool few = given.qubits <= kFewQubits;
  for (std::uint64_t n = 0; n < (few ? std::uint64_t{1} << given.qubits : kCheckedStates); ++n) {
    const std::uint64_t spread = n * 0x9e3779b97f4a7c15ULL ^ n * n << 7;
    states.push_back(few ? n : given.qubits < 64 ? spread % (std::uint64_t{1} << given.qubits) : spread);
  }
  try {
    if (equal_on(given.gates, found.gates, states)) return "the same on " + std::to_string(states.size()) + " basis states";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return "not compared as a whole: " + error.text();
  }
  throw Error(ErrorCode::kUnsupported, "the result differs from the circuit", name);
}

int minimize_file(const Options& options) {
  const Circuit circuit = read_qasm(map_file(options.input).text(), options.input);
  const Minimized result = minimize(circuit, rules::read_rules(std::filesystem::path(options.rules)),
                                    {.budget = std::chrono::duration<double>(options.seconds),
                                     .merge_rotations = options.merge_rotations,
                                     .seed = options.seed});
  const std::string compared = compare_whole(circuit, result.circuit, options.input);
  write_file(options.output, write_qasm(result.circuit));
  std::printf("%s: %zu -> %zu gates, %zu of %zu parts replaced; %s\n", options.output.c_str(), circuit.gates.size(),
              result.circuit.gates.size(), result.replaced, result.windows, compared.c_str());
  return 0;
}

int run(int argc, char** argv) {
  CLI::App program("Finds rules of quantum gates, and makes circuits smaller with them", "quantum");
  program.require_subcommand(1);
  Options options;
  CLI::App* find = program.add_subcommand("rules", "find and prove the rules of the gates");
  find->add_option("-o,--output", options.output, "the rules")->required()->type_name("FILE");
  find->add_option("--threads", options.threads, "threads")->check(CLI::PositiveNumber);
  find->add_option("--operators", options.operators, "gates, in place of those that are shipped (docs/generator.md)");
  find->add_option("--gates", options.gates, "of a circuit, at most; with --operators")->capture_default_str();
  CLI::App* check = program.add_subcommand("prove", "prove rules of gates; 1 if one is not proved");
  check->add_option("rules", options.rules, "the rules")->required()->type_name("FILE");
  CLI::App* smaller = program.add_subcommand("minimize", "fewer gates");
  smaller->add_option("input", options.input, "an OpenQASM 2 file")->required()->type_name("FILE");
  smaller->add_option("-o,--output", options.output, "the result")->required()->type_name("FILE");
  smaller->add_option("--rules", options.rules, "the rules")->required()->type_name("FILE");
  smaller->add_option("--seconds", options.seconds, "of the search")->capture_default_str()->check(CLI::NonNegativeNumber);
  smaller->add_flag("!--without-merging", options.merge_rotations,
                    "use the rules alone, and do not merge rotations of equal sums");
  smaller->add_option("--seed", options.seed, "of its choices")->capture_default_str();
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    return std::fprintf(stderr, "quantum: error: %s\n", error.what()), kWrongUsage;
  }
  try {
    add_gates();
    if (check->parsed()) return prove_file(options);
    return find->parsed() ? write_found_rules(options) : minimize_file(options);
  } catch (const Error& error) {
    std::fprintf(stderr, "quantum: error: %s\n", error.what());
    return error.code() == ErrorCode::kUsage ? kWrongUsage : error.code() == ErrorCode::kBadInput ? kWrongInput : kNotPossible;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "quantum: error: there is not enough memory\n");
    return kNotPossible;
  }
}

}  // namespace

}  // namespace rewright::quantum

int main(int argc, char** argv) { return rewright::quantum::run(argc, argv); }
