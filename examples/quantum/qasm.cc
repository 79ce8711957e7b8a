// OpenQASM 2: one register, and the gates of circuit.h.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"
#include "examples/quantum/circuit.h"

namespace rewright::quantum {

namespace {

constexpr int kAngles = 8, kMostQubits = 64;

struct Reader {
  std::string_view text;
  std::string name;
  std::size_t at = 0;
  int line = 1;
  std::string reg{};  // the register's name
  Circuit circuit{};
  std::vector<std::pair<std::set<int>, bool>> toffolis{};  // qubits of each ccz, and whether it begins with T

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadInput, what, name + ":" + std::to_string(line));
  }
  void skip() {
    while (at < text.size()) {
      if (text.substr(at, 2) == "//") {
        while (at < text.size() && text[at] != '\n') ++at;
      } else if (std::isspace(static_cast<unsigned char>(text[at]))) {
        line += text[at++] == '\n';
      } else {
        return;
      }
    }
  }
  bool take(std::string_view token) {
    skip();
    if (text.substr(at, token.size()) != token) return false;
    at += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("\"" + std::string(token) + "\" is missing");
  }
  std::string word() {
    skip();
    const std::size_t begin = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '.')) ++at;
    if (at == begin) fail(at == text.size() ? "the file ends too early" : "\"" + std::string(1, text[at]) + "\" is no name");
    return std::string(text.substr(begin, at - begin));
  }
  int integer(int most) {
    const std::string digits = word();
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value > most)
      fail("\"" + digits + "\" is no number from 0 to " + std::to_string(most));
    return value;
  }
  int qubit() {
    const std::string of = word();
    if (of != reg || reg.empty()) fail("there is no register \"" + of + "\"");
    expect("[");
    const int number = integer(circuit.qubits - 1);
    expect("]");
    return number;
  }
  std::vector<int> qubits(std::size_t count) {
    std::vector<int> result{qubit()};
    while (take(",")) result.push_back(qubit());
    if (result.size() != count)
      fail("the gate acts on " + std::to_string(count) + " qubits, not " + std::to_string(result.size()));
    if (std::set<int>(result.begin(), result.end()).size() != count) fail("the gate names a qubit twice");
    expect(";");
    return result;
  }
  // k of an angle k pi / 4, modulo 8: [-] [n *] pi [* n] [/ d], or 0.
  int angle() {
    expect("(");
    const bool negative = take("-");
    int numerator = 1, denominator = 1;
    constexpr int kLargest = 1000;
    if (!take("pi")) {
      numerator = integer(kLargest);
      if (take("*"))
        expect("pi");
      else if (numerator != 0)
        fail("the angle is no multiple of pi / 4");
    } else if (take("*")) {
      numerator = integer(kLargest);
    }
    if (take("/")) denominator = integer(kLargest);
    expect(")");
    if (denominator == 0 || 4 * numerator % denominator != 0) fail("the angle is no multiple of pi / 4");
    const int power = 4 * numerator / denominator % kAngles;
    return negative ? (kAngles - power) % kAngles : power;
  }

  void rotate(int q, int power) {
    if (power != 0) circuit.gates.push_back({Gate::Kind::kRotation, q, -1, power});
  }
  void controlled_not(int control, int target) { circuit.gates.push_back({Gate::Kind::kControlledNot, target, control}); }
  void hadamard(int q) { circuit.gates.push_back({Gate::Kind::kHadamard, q}); }

  // (-1)^(abc) is the product of w^x for x in a, b, c, a+b+c mod 2, and w^-x for x in a+b, a+c, b+c mod 2; as is its inverse.
  void controlled_z(int a, int b, int c) {
    const std::set<int> here{a, b, c};
    bool positive = true;
    for (auto before = toffolis.rbegin(); before != toffolis.rend(); ++before) {
      const auto shared = std::count_if(here.begin(), here.end(), [&](int q) { return before->first.count(q) != 0; });
      if (shared < 2) continue;
      positive = !before->second;
      break;
    }
    toffolis.emplace_back(here, positive);
    const int plus = positive ? 1 : kAngles - 1, minus = kAngles - plus;
    controlled_not(b, c), rotate(c, minus);
    controlled_not(a, c), rotate(c, plus);
    controlled_not(b, c), rotate(c, minus);
    controlled_not(a, c), rotate(c, plus), rotate(b, plus);
    controlled_not(a, b), rotate(a, plus), rotate(b, minus);
    controlled_not(a, b);
  }

  void statement() {
    const std::string first = word();
    static const std::map<std::string, int> kRotations = {{"z", 4}, {"s", 2}, {"sdg", 6}, {"t", 1}, {"tdg", 7}};
    if (first == "include") {
      expect("\"");
      const std::size_t end = text.find_first_of("\"\n", at);
      if (end == std::string_view::npos || text[end] != '"') fail("the name of an included file does not end");
      at = end + 1;
      expect(";");
    } else if (first == "qreg") {
      if (!reg.empty()) fail("there is a second register");
      reg = word();
      expect("[");
      circuit.qubits = integer(kMostQubits);
      expect("]"), expect(";");
    } else if (const auto rotation = kRotations.find(first); rotation != kRotations.end()) {
      rotate(qubits(1)[0], rotation->second);
    } else if (first == "rz" || first == "u1" || first == "p") {
      const int power = angle();
      rotate(qubits(1)[0], power);
    } else if (first == "h") {
      hadamard(qubits(1)[0]);
    } else if (first == "x") {
      circuit.gates.push_back({Gate::Kind::kNot, qubits(1)[0]});
    } else if (first == "cx") {
      const std::vector<int> q = qubits(2);
      controlled_not(q[0], q[1]);
    } else if (first == "ccz" || first == "ccx") {
      const std::vector<int> q = qubits(3);
      if (first == "ccx") hadamard(q[2]);
      controlled_z(q[0], q[1], q[2]);
      if (first == "ccx") hadamard(q[2]);
    } else {
      fail("the gate or statement \"" + first + "\" is not supported");
    }
  }
};

}  // namespace

Circuit read_qasm(std::string_view text, const std::string& name) {
  Reader reader{text, name};
  reader.expect("OPENQASM");
  if (reader.word() != "2.0") reader.fail("only OpenQASM 2.0 is read");
  reader.expect(";");
  for (reader.skip(); reader.at < text.size(); reader.skip()) reader.statement();
  return std::move(reader.circuit);
}

std::string write_qasm(const Circuit& circuit) {
  std::string text = "OPENQASM 2.0;\ninclude \"qelib1.inc\";\nqreg q[" + std::to_string(circuit.qubits) + "];\n";
  const auto q = [](int number) { return "q[" + std::to_string(number) + "]"; };
  for (const Gate& gate : circuit.gates) switch (gate.kind) {
      case Gate::Kind::kHadamard:
        text += "h " + q(gate.qubit) + ";\n";
        break;
      case Gate::Kind::kNot:
        text += "x " + q(gate.qubit) + ";\n";
        break;
      case Gate::Kind::kRotation:
        text += "rz(" + std::to_string(gate.power) + "*pi/4) " + q(gate.qubit) + ";\n";
        break;
      case Gate::Kind::kControlledNot:
        text += "cx " + q(gate.control) + "," + q(gate.qubit) + ";\n";
        break;
    }
  return text;
}

}  // namespace rewright::quantum
