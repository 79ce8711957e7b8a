#include "examples/quantum/minimize.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>

#include "examples/quantum/gates.h"
#include "examples/quantum/rotations.h"
#include "optimizer/limits/limits.h"
#include "optimizer/saturation/extraction.h"
#include "optimizer/saturation/saturation.h"

namespace rewright::quantum {

namespace {

using namespace optimizer;  // NOLINT: as the folders of the library see each other's names

constexpr std::size_t kAhead = 60;   // gates that are looked at for a part
constexpr double kPhaseCost = 1e-3;  // nothing is paid for a phase, but none is added for nothing
constexpr double kNoise = 1e-2;      // prefers one of several parts of equal length, by chance
constexpr std::size_t kMemory = std::size_t{4} << 30;

class Minimizer {
 public:
  Minimizer(const std::vector<rules::Rule>& rules, const MinimizeOptions& options)
      : rules_(rules, {.math = MathClass::kNeedsFinite}), options_(options), random_(options.seed) {}

  Minimized run(const Circuit& circuit) {
    result_.circuit = circuit;
    std::vector<Gate>& gates = result_.circuit.gates;
    const auto deadline = std::chrono::steady_clock::now() + options_.budget;
    for (; result_.passes < options_.passes; ++result_.passes) {
      if (options_.merge_rotations) gates = merged_rotations(gates);
      for (std::size_t first = 0; first < gates.size(); first += 1 + below(4)) {
        if (std::chrono::steady_clock::now() > deadline) break;
        improve(gates, first);
      }
      if (std::chrono::steady_clock::now() > deadline) break;
    }
    if (options_.merge_rotations) gates = merged_rotations(gates);
    return std::move(result_);
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  // The gates from `first` on that can be moved beside it and act on at most three qubits are replaced by an equal part.
  void improve(std::vector<Gate>& gates, std::size_t first) {
    std::vector<int> qubits;
    std::vector<Gate> part, rest;
    const std::size_t end = std::min(gates.size(), first + kAhead);
    for (std::size_t n = first; n < end; ++n) {
      const Gate& gate = gates[n];
      std::vector<int> more;
      for (const int q : {gate.qubit, gate.control})
        if (q >= 0 && std::find(qubits.begin(), qubits.end(), q) == qubits.end()) more.push_back(q);
      // A part that leaves a qubit out by chance may reach further along the others.
      const bool fits = part.size() < options_.window && qubits.size() + more.size() <= kWidth &&
                        (part.empty() || more.empty() || below(4) != 0) &&
                        std::all_of(rest.begin(), rest.end(), [&](const Gate& other) { return commute(gate, other); });
      if (fits) qubits.insert(qubits.end(), more.begin(), more.end());
      (fits ? part : rest).push_back(gate);
    }
    if (part.size() < 2) return;
    ++result_.windows;
    std::vector<Gate> better = cheapest(part, qubits);
    if (better.size() > part.size() || better == part) return;
    check(part, better, qubits);
    ++result_.replaced;
    better.insert(better.end(), rest.begin(), rest.end());
    gates.erase(gates.begin() + static_cast<std::ptrdiff_t>(first), gates.begin() + static_cast<std::ptrdiff_t>(end));
    gates.insert(gates.begin() + static_cast<std::ptrdiff_t>(first), better.begin(), better.end());
  }

  // Does it make no difference which of two gates is first?
  bool commute(const Gate& a, const Gate& b) {
    // The gates on qubits numbered as they occur.
    std::vector<int> qubits;
    const auto numbered = [&](Gate gate) {
      for (int* q : {&gate.qubit, &gate.control}) {
        if (*q < 0) continue;
        const auto at = std::find(qubits.begin(), qubits.end(), *q);
        const auto number = static_cast<int>(at - qubits.begin());
        if (at == qubits.end()) qubits.push_back(*q);
        *q = number;
      }
      return gate;
    };
    if (!b.acts_on(a.qubit) && (a.control < 0 || !b.acts_on(a.control))) return true;
    const Gate first = numbered(a), second = numbered(b);
    const auto key = [](const Gate& g) { return std::array<int, 4>{static_cast<int>(g.kind), g.qubit, g.control, g.power}; };
    const auto [known, fresh] = commuting_.try_emplace({key(first), key(second)});
    if (fresh) {
      const std::vector<Gate> one = {first, second}, other = {second, first};
      known->second = equal_on(one, other, all_states(qubits.size()));
    }
    return known->second;
  }

  static std::vector<std::uint64_t> all_states(std::size_t qubits) {
    std::vector<std::uint64_t> states(std::size_t{1} << qubits);
    std::iota(states.begin(), states.end(), 0);
    return states;
  }

  std::vector<Gate> cheapest(const std::vector<Gate>& part, const std::vector<int>& qubits) {
    Graph graph;
    Indices shape(kWidth + 1, 2);
    shape[0] = 4;
    ValueId value = graph.add_input("state", {DataType::kFloat, shape});
    for (const Gate& gate : part) value = add_gate(graph, gate, qubits, value);
    graph.add_output("result", value);
    graph.tidy();
    Saturation saturation(graph, rules_, {.nodes = options_.nodes, .matches = 4 * options_.nodes});
    Limits limits(std::chrono::steady_clock::time_point::max(), kMemory, {});
    saturation.run(limits);
    const EGraph& found = saturation.graph();
    ExtractionProblem problem{.graph = &found, .seconds = {}, .savings = {}};
    std::uniform_real_distribution<double> noise(0, kNoise);
    for (ENodeId id = 0; id < found.node_count(); ++id) {
      const Operator* op = found.node(id).op;
      problem.seconds.push_back(op && op->name() == "Phase" ? kPhaseCost : 1 + noise(random_));
    }
    // A chain shares nothing, so the cheapest e-node of each class gives the cheapest chain.
    std::vector<Gate> result;
    for (const ENodeId id : greedy_choice(problem))
      if (found.node(id).op) append_gate(*found.node(id).op, found.attributes(found.node(id).attributes), qubits, result);
    return result;
  }

  void check(const std::vector<Gate>& part, const std::vector<Gate>& better, const std::vector<int>& qubits) const {
    std::vector<std::uint64_t> states;
    for (std::uint64_t values = 0; values < std::uint64_t{1} << qubits.size(); ++values) {
      std::uint64_t state = 0;
      for (std::size_t n = 0; n < qubits.size(); ++n)
        if ((values >> n & 1) != 0) state |= std::uint64_t{1} << qubits[n];
      states.push_back(state);
    }
    if (!equal_on(part, better, states))
      throw Error(ErrorCode::kUnsupported, "a part and what the rules make of it differ", "", "a rule is wrong");
  }

  RuleIndex rules_;
  MinimizeOptions options_;
  std::mt19937_64 random_;
  Minimized result_;
  std::map<std::pair<std::array<int, 4>, std::array<int, 4>>, bool> commuting_;
};

}  // namespace

Minimized minimize(const Circuit& circuit, const std::vector<rules::Rule>& rules, const MinimizeOptions& options) {
  return Minimizer(rules, options).run(circuit);
}

}  // namespace rewright::quantum
