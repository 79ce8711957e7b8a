#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <tuple>

#include "examples/quantum/gates.h"
#include "examples/quantum/minimize.h"
#include "examples/quantum/rotations.h"
#include "examples/quantum/rules.h"
#include "operators/own_operators.h"
#include "operators/testing/share.h"
#include "rules/io.h"
#include "verifier/verify.h"

namespace rewright::quantum {

using namespace graph;  // NOLINT: as the folders of the library see each other's names

namespace {

const bool kGatesAdded = [] {
  add_gates();
  return true;
}();

// Laws for any number of qubits.
constexpr std::string_view kLaws = R"(
rule two_hadamards: "" x
  H(H(x; axis=a); axis=a) => x
  reassociates
rule two_negations: "" x
  X(X(x; axis=a); axis=a) => x
  exact
rule two_controlled_negations: "" x
  CNOT(CNOT(x; control_axis=a, target_axis=b); control_axis=a, target_axis=b) => x
  exact
rule sum_of_rotations: "" x
  Rz(Rz(x; axis=a, power=p); axis=a, power=q) => Rz(x; axis=a, power=p + q)
  where p + q < 8
  exact
rule rotation_of_control: "" x
  Rz(CNOT(x; control_axis=a, target_axis=b); axis=a, power=p) <=> CNOT(Rz(x; axis=a, power=p); control_axis=a, target_axis=b)
  exact
rule rotations: "" x
  Rz(Rz(x; axis=a, power=p); axis=b, power=q) => Rz(Rz(x; axis=b, power=q); axis=a, power=p)
  where a != b
  exact
)";

std::vector<rules::Rule> laws() {
  REQUIRE(kGatesAdded);
  return rules::parse_algebra(kLaws, "laws");
}

Circuit random_circuit(int qubits, int gates, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  Circuit circuit{qubits, {}};
  for (int n = 0; n < gates; ++n) {
    const int q = below(qubits);
    switch (below(5)) {
      case 0:
        circuit.gates.push_back({Gate::Kind::kHadamard, q});
        break;
      case 1:
        circuit.gates.push_back({Gate::Kind::kNot, q});
        break;
      case 2:
        circuit.gates.push_back({Gate::Kind::kRotation, q, -1, 1 + below(7)});
        break;
      default:
        circuit.gates.push_back({Gate::Kind::kControlledNot, q, (q + 1 + below(qubits - 1)) % qubits});
    }
  }
  return circuit;
}

std::vector<std::uint64_t> all_states(int qubits) {
  std::vector<std::uint64_t> states;
  for (std::uint64_t state = 0; state < std::uint64_t{1} << qubits; ++state) states.push_back(state);
  return states;
}

std::string message_of(const std::string& text) {
  try {
    read_qasm(text, "c.qasm");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string kHead = "OPENQASM 2.0;\ninclude \"qelib1.inc\";\nqreg q[3];\n";

}  // namespace

TEST_CASE("operators of gates compute what the simulation does") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Circuit circuit = random_circuit(3, 12, seed);
    Graph graph;
    ValueId value = graph.add_input("state", {DataType::kFloat, {4, 2, 2, 2}});
    for (const Gate& gate : circuit.gates) value = add_gate(graph, gate, {0, 1, 2}, value);
    graph.add_output("result", value);
    for (std::uint64_t basis = 0; basis < 8; ++basis) {
      const auto place = [](std::uint64_t state, std::size_t c) {
        return c * 8 + (state & 1) * 4 + (state >> 1 & 1) * 2 + (state >> 2 & 1);
      };
      std::vector<double> given(32), expected(32);
      given[place(basis, 0)] = 1;
      State state = simulate(circuit.gates, basis);
      if (state.root % 2 != 0) {  // times sqrt(2) = w - w^3
        for (auto& [at, a] : state.amplitudes) a = {a[1] - a[3], a[0] + a[2], a[1] + a[3], a[2] - a[0]};
        ++state.root;
      }
      for (const auto& [at, amplitude] : state.amplitudes)
        for (std::size_t c = 0; c < 4; ++c)
          expected[place(at, c)] =
              static_cast<double>(amplitude[c]) / static_cast<double>(std::uint64_t{1} << (state.root / 2));
      const std::vector<Tensor> inputs = {Tensor::from_reals(DataType::kFloat, {4, 2, 2, 2}, given)};
      CHECK(interpret(graph, inputs)[0].reals() == expected);
    }
  }
}

TEST_CASE("laws of gates are proved, wrong ones are refuted") {
  for (const rules::Rule& rule : laws()) {
    INFO(rule.name);
    const proof::Verdict verdict = proof::verify(rule);
    CHECK(verdict.outcome == proof::Outcome::kProved);
    CHECK(verdict.any_rank);
  }
  for (const char* text : {"rule a: \"\" x[4, 2, 2] Rz(CNOT(x; control_axis=1, target_axis=2); axis=2, power=1) => "
                           "CNOT(Rz(x; axis=2, power=1); control_axis=1, target_axis=2) exact",
                           "rule b: \"\" x[4, 2] X(Rz(x; axis=1, power=1); axis=1) => Rz(X(x; axis=1); axis=1, power=1) exact",
                           "rule c: \"\" x[4, 2] H(X(x; axis=1); axis=1) => X(H(x; axis=1); axis=1) exact"})
    CHECK(proof::verify(rules::parse_algebra(text, "wrong").at(0)).outcome != proof::Outcome::kProved);
}

TEST_CASE("the generator finds laws for any qubits and powers, and all are proved") {
  REQUIRE(kGatesAdded);
  const GateSet set{"X(axis=2),Rz(axis=1,power=1),CNOT(control_axis=1,target_axis=2),variables(shape=[4,2,2],each=1)", 2};
  std::string found;
  for (const rules::Rule& rule : find_rules(std::span(&set, 1), 1, [](const std::string&) {})) {
    CHECK(proof::verify(rule).any_rank);
    found += rules::to_algebra(rule);
  }
  INFO(found);
  // A rotation passes X on another qubit, and the control of a CNOT.
  CHECK(found.find("Rz(X(x; axis=axis); axis=axis_2, power=power)\n"
                   "    => X(Rz(x; axis=axis_2, power=power); axis=axis)\n"
                   "  where axis != axis_2\n") != std::string::npos);
  CHECK(found.find("Rz(CNOT(x; control_axis=axis, target_axis=axis_2); axis=axis, power=power)\n"
                   "    => CNOT(Rz(x; axis=axis, power=power); control_axis=axis, target_axis=axis_2)\n") != std::string::npos);
}

TEST_CASE("the shipped rules are proved for the qubits of a part at least") {
  REQUIRE(kGatesAdded);
  const std::vector<rules::Rule> shipped = rules::read_rules(std::filesystem::path("examples/quantum/gates.rules"));
  REQUIRE(shipped.size() > 100);
  // Some of them; all take minutes.
  const std::size_t step = testing::thorough() ? 1 : 24 * testing::kStride;
  for (std::size_t n = 0; n < shipped.size(); n += step) {
    INFO(shipped[n].name);
    const proof::Verdict verdict = proof::verify(shipped[n]);
    CHECK(verdict.outcome == proof::Outcome::kProved);
    CHECK((verdict.any_rank || verdict.ranks > kWidth));
  }
}

TEST_CASE("random circuits become no longer, and stay what they are") {
  const std::vector<rules::Rule> all = laws();
  std::size_t before = 0, after = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Circuit circuit = random_circuit(4, 24, seed);
    const Minimized result = minimize(circuit, all,
                                      {.window = 8,
                                       .nodes = 150,
                                       .budget = std::chrono::seconds(10),
                                       .merge_rotations = seed % 2 == 0,
                                       .passes = 1,
                                       .seed = seed});
    CHECK(equal_on(circuit.gates, result.circuit.gates, all_states(4)));
    CHECK(result.circuit.gates.size() <= circuit.gates.size());
    before += circuit.gates.size(), after += result.circuit.gates.size();
  }
  CHECK(after < before);
}

TEST_CASE("merged rotations leave circuits what they are") {
  std::size_t before = 0, after = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Circuit circuit = random_circuit(4, 60, seed);
    const std::vector<Gate> merged = merged_rotations(circuit.gates);
    CHECK(equal_on(circuit.gates, merged, all_states(4)));
    before += circuit.gates.size(), after += merged.size();
  }
  CHECK(after < before);
}

TEST_CASE("a wrong rule is noticed where it is used") {
  const auto wrong = rules::parse_algebra("rule wrong: \"\" x H(H(x; axis=a); axis=a) => X(x; axis=a) exact", "wrong");
  Circuit circuit{3, {{Gate::Kind::kHadamard, 0}, {Gate::Kind::kHadamard, 0}, {Gate::Kind::kNot, 1}}};
  CHECK_THROWS_AS(minimize(circuit, wrong, {.passes = 1}), Error);
}

TEST_CASE("circuits that differ are told apart") {
  const Circuit circuit = read_qasm(kHead + "ccx q[0],q[1],q[2];\n", "c.qasm");
  CHECK(circuit.gates.size() == 15);
  for (std::size_t n = 0; n < circuit.gates.size(); ++n) {
    Circuit damaged = circuit;
    damaged.gates.erase(damaged.gates.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(!equal_on(circuit.gates, damaged.gates, all_states(3)));
  }
  for (const std::uint64_t state : all_states(3)) {
    const State result = simulate(circuit.gates, state);
    REQUIRE(result.amplitudes.size() == 1);
    CHECK(result.amplitudes.begin()->first == ((state & 3) == 3 ? state ^ 4 : state));
  }
}

TEST_CASE("both forms of a Toffoli gate are one") {
  const Circuit twice = read_qasm(kHead + "ccx q[0],q[1],q[2];\nccx q[0],q[1],q[2];\n", "c.qasm");
  CHECK(twice.gates[2] == Gate{Gate::Kind::kRotation, 2, -1, 7});
  CHECK(twice.gates[17] == Gate{Gate::Kind::kRotation, 2, -1, 1});
  CHECK(equal_on(twice.gates, {}, all_states(3)));
}

TEST_CASE("states that are too many or too large are no crash") {
  std::vector<Gate> wide, deep;
  for (int q = 0; q < 30; ++q) wide.push_back({Gate::Kind::kHadamard, q});
  for (int n = 0; n < 1000; ++n) deep.insert(deep.end(), {{Gate::Kind::kHadamard, 0}, {Gate::Kind::kRotation, 0, -1, 1}});
  CHECK_THROWS_AS(simulate(wide, 0), Error);
  CHECK_THROWS_AS(simulate(deep, 0), Error);
}

TEST_CASE("an include ends where its line says") {
  CHECK(message_of("OPENQASM 2.0;\nqreg q[1];\ninclude \"qelib1.inc\"\nx q[0];\nh q[0];\n") == "c.qasm:4: \";\" is missing");
  CHECK(message_of("OPENQASM 2.0;\ninclude \"qelib1.inc\nqreg q[1];\n").starts_with("c.qasm:2: "));
}

TEST_CASE("OpenQASM is written and read again; what is wrong is said with its line") {
  const Circuit circuit = random_circuit(5, 60, 3);
  const Circuit again = read_qasm(write_qasm(circuit), "c.qasm");
  CHECK(again.qubits == 5);
  CHECK(again.gates == circuit.gates);
  CHECK(read_qasm(kHead + "rz(-pi/4) q[0]; // a comment\nu1(pi/2) q[1];rz(0) q[2];\n", "c.qasm").gates.size() == 2);
  CHECK(message_of("OPENQASM 3.0;") == "c.qasm:1: only OpenQASM 2.0 is read");
  CHECK(message_of(kHead + "cx q[0],q[0];") == "c.qasm:4: the gate names a qubit twice");
  CHECK(message_of(kHead + "\nh q[3];") == "c.qasm:5: \"3\" is no number from 0 to 2");
  CHECK(message_of(kHead + "rz(pi/3) q[0];") == "c.qasm:4: the angle is no multiple of pi / 4");
  CHECK(message_of(kHead + "measure q[0];") == "c.qasm:4: the gate or statement \"measure\" is not supported");
  CHECK(message_of(kHead + "h q[0]").find("\";\" is missing") != std::string::npos);
  CHECK(message_of(kHead + "h").find("the file ends too early") != std::string::npos);
}

TEST_CASE("no operators are added once the registry is used") {
  registry();
  CHECK_THROWS_AS(add_own_operators([](Registry&) {}), Error);
}

}  // namespace rewright::quantum
