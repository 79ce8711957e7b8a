// Mutates operators' denotations and tests that each mistake is noticed.
//   rewright_denotations --cases FOLDER [--places N] [--seed S] [--count N] [--operator NAME] [--results FILE] RULES ...
// Makes one mistake at a time in the definition of an operator, and tests whether a proof of a rule that mentions the operator
// fails, and whether one of ONNX's node tests (FOLDER is written by tests/onnx_cases.py) fails. Prints one line for each
// mistake. Exit 1 if both miss one that changes the operator's results on sampled instances of the rules, or if an operator in
// the rules is missing in --results, the output of an earlier run over all of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <set>

#include "base/error.h"
#include "rules/instance.h"
#include "rules/io.h"
#include "runtime/conformance.h"
#include "tests/denotations/mutate.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::testing;

namespace {

struct Options {
  std::string cases, only, results;
  std::uint64_t seed = 1;
  int places = 3, count = 0;
  std::vector<std::string> files;
};

// How an operator is used.
struct Use {
  std::vector<const Rule*> rules;
  std::vector<std::filesystem::path> cases;
  // The number of mutations of each kind: in the node tests, or for operators without node tests in instances of rules, where
  // sizes of 1 can add places that other sizes lack.
  std::map<Slip, int> places, places_in_rules;
};

struct Mutation {
  const Operator* op;
  Slip slip;
  int place;
};

Graph with_operator(const Graph& graph, const Operator& from, const Operator& to) {
  Graph result = graph;
  result.drop_nodes_from(0);
  for (const auto& node : graph.nodes()) {
    if (node->op != &from) {
      result.add_shared(node);
      continue;
    }
    Node other = *node;
    other.op = &to;
    result.add_shared(std::make_shared<const Node>(std::move(other)));
  }
  return result;
}

Rule with_operator(const Rule& rule, const Operator& from, const Operator& to) {
  Rule result = rule;
  for (Pattern* side : {&result.source, &result.target})
    for (PatternNode& node : side->nodes)
      if (node.op == &from) node.op = &to;
  return result;
}

class Study {
 public:
  explicit Study(const Options& options) : options_(options) {
    for (const std::string& file : options.files)
      for (Rule& rule : read_rules(std::filesystem::path(file))) rules_.push_back(std::move(rule));
    // The smallest rules first, since their proofs are fast.
    std::stable_sort(rules_.begin(), rules_.end(), [](const Rule& a, const Rule& b) {
      return a.source.nodes.size() + a.target.nodes.size() < b.source.nodes.size() + b.target.nodes.size();
    });
    look_at_rules();
    look_at_cases();
  }

  int run() {
    std::vector<Mutation> mutations = all_mutations();
    const int missing = options_.results.empty() ? 0 : missing_in_results(mutations);
    if (options_.count > 0) choose(mutations, static_cast<std::size_t>(options_.count));
    int by_proofs = 0, by_cases = 0, by_both = 0, same = 0, unnoticed = 0;
    for (const Mutation& m : mutations) {
      const Operator mutated = with_slip(*m.op, m.slip, m.place);
      const Use& use = uses_.at(m.op);
      const std::string failing_case = conformance(use, *m.op, mutated);
      const std::string failing_rule = proofs(use, *m.op, mutated, failing_case.empty() ? use.rules.size() : 12);
      std::cout << m.op->name() << ", " << name(m.slip) << " " << m.place << ": ";
      if (failing_rule.empty() && failing_case.empty()) {
        const std::string difference = sampling(use, *m.op, mutated);
        ++(difference.empty() ? same : unnoticed);
        std::cout << (difference.empty() ? "computes the same" : "UNNOTICED, differs in " + difference) << std::endl;
        continue;
      }
      ++(failing_case.empty() ? by_proofs : failing_rule.empty() ? by_cases : by_both);
      std::cout << (failing_rule.empty() ? "" : "proof of " + failing_rule)
                << (failing_rule.empty() || failing_case.empty() ? "" : ", ")
                << (failing_case.empty() ? "" : "case " + failing_case) << std::endl;
    }
    std::cout << mutations.size() << " slips: noticed by proofs alone " << by_proofs << ", by node tests alone " << by_cases
              << ", by both " << by_both << "; same values " << same << ", unnoticed " << unnoticed << "\n";
    return unnoticed + missing > 0 ? 1 : 0;
  }

 private:
  // Mutations of every operator that a rule mentions, by name.
  std::vector<Mutation> all_mutations() const {
    std::vector<Mutation> mutations;
    for (const auto& [op, use] : uses_)
      if (!use.rules.empty() && (options_.only.empty() || op->name() == options_.only))
        for (const auto& [slip, count] : use.places.empty() ? use.places_in_rules : use.places)
          for (int place = 0; place < std::min(count, options_.places); ++place) mutations.push_back({op, slip, place});
    std::sort(mutations.begin(), mutations.end(), [](const Mutation& a, const Mutation& b) {
      return std::tuple(a.op->name(), a.slip, a.place) < std::tuple(b.op->name(), b.slip, b.place);
    });
    return mutations;
  }

  // A random sample of `count`, or all if there are fewer.
  void choose(std::vector<Mutation>& mutations, std::size_t count) const {
    if (mutations.size() <= count) return;
    std::mt19937_64 random(options_.seed);
    for (std::size_t i = 0; i < count; ++i) std::swap(mutations[i], mutations[i + random() % (mutations.size() - i)]);
    mutations.resize(count);
  }

  // The number of operators with mutations but without a line in the kept results.
  int missing_in_results(const std::vector<Mutation>& mutations) const {
    std::ifstream file(options_.results);
    if (!file) throw Error(ErrorCode::kBadInput, "cannot be read", options_.results);
    std::set<std::string, std::less<>> kept;
    for (std::string line; std::getline(file, line);) kept.insert(line.substr(0, line.find(',')));
    int missing = 0;
    for (const Mutation& m : mutations)
      if (kept.insert(std::string(m.op->name())).second)
        ++missing, std::cout << m.op->name() << " is missing in " << options_.results << "\n";
    return missing;
  }

  void note_places(const Graph& graph, std::map<Slip, int> Use::*where) {
    for (const auto& node : graph.nodes()) {
      if (!node->op) continue;
      const Inputs inputs = Inputs::of(graph.operand_types(*node));
      for (const auto& [slip, count] : places(node->op->define(node->attributes, inputs))) {
        int& most = (uses_[node->op].*where)[slip];
        most = std::max(most, count);
      }
    }
  }

  void look_at_rules() {
    for (const Rule& rule : rules_) {
      std::set<const Operator*> mentioned;
      for (const Pattern* side : {&rule.source, &rule.target})
        for (const PatternNode& node : side->nodes) mentioned.insert(node.op);
      for (const Operator* op : mentioned) uses_[op].rules.push_back(&rule);
      InstanceSampler sampler(rule, options_.seed);
      std::vector<std::pair<Graph, Graph>>& graphs = instances_[&rule];
      for (int i = 0; i < 4; ++i)
        if (const auto instance = sampler.sample()) {
          graphs.emplace_back(instance->source, instantiate(rule, rule.target, instance->input_types, instance->bindings));
          note_places(graphs.back().first, &Use::places_in_rules);
          note_places(graphs.back().second, &Use::places_in_rules);
        }
    }
  }

  void look_at_cases() {
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(options_.cases))
      if (entry.is_directory()) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    for (const auto& folder : folders) {
      std::set<const Operator*> mentioned;
      const ConformanceCase result = run_conformance_case(folder, [&](const Graph& graph, std::span<const Datum> inputs) {
        for (const auto& node : graph.nodes()) mentioned.insert(node->op);
        note_places(graph, &Use::places);
        return execute(graph, inputs);
      });
      if (result.status == ConformanceCase::Status::kPassed)
        for (const Operator* op : mentioned) uses_[op].cases.push_back(folder);
    }
  }

  // The first case that fails with the mutated operator.
  static std::string conformance(const Use& use, const Operator& op, const Operator& mutated) {
    for (const auto& folder : use.cases) {
      const ConformanceCase result = run_conformance_case(folder, [&](const Graph& graph, std::span<const Datum> inputs) {
        return execute(with_operator(graph, op, mutated), inputs);
      });
      if (result.status != ConformanceCase::Status::kPassed) return result.name;
    }
    return {};
  }

  // The first of at most `most` rules whose proof fails for the mutated operator.
  static std::string proofs(const Use& use, const Operator& op, const Operator& mutated, std::size_t most) {
    for (const Rule* rule : std::span(use.rules).first(std::min(most, use.rules.size()))) {
      proof::Solver solver;
      if (!proof::search_proof(with_operator(*rule, op, mutated), {}, solver).found) return rule->name;
    }
    return {};
  }

  // The first rule with an instance for which the mutated operator computes another result; empty if none is found.
  std::string sampling(const Use& use, const Operator& op, const Operator& mutated) const {
    std::mt19937_64 random(options_.seed);
    for (const Rule* rule : use.rules)
      for (const auto& [source, target] : instances_.at(rule))
        for (const Graph* graph : {&source, &target})
          if (differs(*graph, with_operator(*graph, op, mutated), random)) return rule->name;
    return {};
  }

  static bool differs(const Graph& graph, const Graph& mutated, std::mt19937_64& random) {
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) {
      const TensorType& type = graph.value(id).type;
      std::vector<double> numbers(static_cast<std::size_t>(element_count(values(type.shape))));
      for (double& x : numbers)
        x = is_real(type.type) ? 0.2 + static_cast<double>(random() % 1000) / 500 : static_cast<double>(random() % 2);
      inputs.push_back(Tensor::from_reals(type.type, values(type.shape), numbers));
    }
    try {
      const auto a = interpret(graph, inputs), b = interpret(mutated, inputs);
      const auto is_same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
      for (std::size_t i = 0; i < a.size(); ++i) {
        const std::vector<double> x = a[i].reals(), y = b[i].reals();
        if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), is_same)) return true;
      }
      return false;
    } catch (const Error&) {  // an access outside of the bounds
      return true;
    }
  }

  const Options& options_;
  std::vector<Rule> rules_;
  std::map<const Operator*, Use> uses_;
  std::map<const Rule*, std::vector<std::pair<Graph, Graph>>> instances_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Is a slip in the denotation of an operator noticed?");
  app.add_option("rules", options.files, "files of proved rules")->required();
  app.add_option("--cases", options.cases, "ONNX's node tests")->required();
  app.add_option("--seed", options.seed);
  app.add_option("--places", options.places, "so many places for each slip in an operator");
  app.add_option("--count", options.count, "so many slips, chosen at random (default: all)");
  app.add_option("--operator", options.only, "only this one");
  app.add_option("--results", options.results, "a file with what was printed for all: no operator may be missing there");
  CLI11_PARSE(app, argc, argv);
  try {
    return Study(options).run();
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 3;
  }
}
