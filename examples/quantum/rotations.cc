#include "examples/quantum/rotations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace rewright::quantum {

namespace {

constexpr int kTurn = 8;                     // w^8 = 1
constexpr std::size_t kMostVariables = 256;  // of a sum; a longer one counts as a variable of its own

// The value of a qubit: a sum modulo 2 of variables, and of 1 if it is inverted.
struct Value {
  std::set<int> variables;
  bool inverted = false;
};

std::set<int> sum_of(const std::set<int>& a, const std::set<int>& b) {
  std::set<int> result;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(result, result.end()));
  return result;
}

}  // namespace

std::vector<Gate> merged_rotations(std::span<const Gate> gates) {
  std::map<int, Value> values;
  int variables = 0;
  const auto value = [&](int qubit) -> Value& {
    const auto [at, fresh] = values.try_emplace(qubit);
    if (fresh) at->second.variables = {variables++};
    return at->second;
  };
  struct Total {
    std::size_t at = 0;  // the first rotation
    bool inverted = false;
    int power = 0;  // of the sum that is not inverted
  };
  std::map<std::set<int>, Total> totals;
  std::vector<Gate> result;
  for (const Gate& gate : gates) {
    Value& on = value(gate.qubit);
    switch (gate.kind) {
      case Gate::Kind::kHadamard:
        on = {{variables++}, false};
        break;
      case Gate::Kind::kNot:
        on.inverted = !on.inverted;
        break;
      case Gate::Kind::kControlledNot: {
        const Value control = value(gate.control);
        Value& target = value(gate.qubit);
        target = {sum_of(target.variables, control.variables), target.inverted != control.inverted};
        if (target.variables.size() > kMostVariables) target = {{variables++}, false};
        break;
      }
      case Gate::Kind::kRotation: {
        // w^(k (1 - s)) is w^(-k s) and a global phase.
        const auto [at, fresh] = totals.try_emplace(on.variables, Total{result.size(), on.inverted});
        at->second.power += on.inverted ? kTurn - gate.power : gate.power;
        if (!fresh) continue;
        break;
      }
    }
    result.push_back(gate);
  }
  for (const auto& [sum, total] : totals) {
    const int power = total.power % kTurn;
    result[total.at].power = total.inverted ? (kTurn - power) % kTurn : power;
  }
  std::erase_if(result, [](const Gate& gate) { return gate.kind == Gate::Kind::kRotation && gate.power == 0; });
  return result;
}

}  // namespace rewright::quantum
