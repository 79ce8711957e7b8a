#include "examples/quantum/gates.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "operators/own_operators.h"

namespace rewright::quantum {

using namespace operators;  // NOLINT: as the folders of the library see each other's names

namespace {

constexpr int kCoefficients = 4, kPowers = 8;

using Coefficient = std::function<Element(const Index&)>;

// The coefficient at `c` of w^power times the amplitude with these coefficients: that at c - power, and w^4 = -1.
Element times_power(const Index& c, const Index& power, const Coefficient& coefficient) {
  const Index from = c - power;
  return choose({less_equal(0, from)}, coefficient(from),
                choose({less_equal(-kCoefficients, from)}, -coefficient(from + kCoefficients), coefficient(from + kPowers)));
}

// The number of a qubit's axis; throws Error(kBadInput) for an axis that is none.
std::size_t qubit_axis(Definition& d, const Operand& state, const Index& axis) {
  const std::int64_t a = axis.value();
  if (a < 1 || a >= static_cast<std::int64_t>(state.rank()))
    throw Error(ErrorCode::kBadInput,
                "axis " + std::to_string(a) + " is no qubit of a state of rank " + std::to_string(state.rank()));
  const auto n = static_cast<std::size_t>(a);
  d.require(equal(state.size(n), 2), [] { return "a qubit's axis has two elements"; });
  return n;
}

void require_state(Definition& d, const Operand& state) {
  d.require(state.scalar() == Scalar::kReal && state.rank() >= 1, [] { return "a state is a tensor of reals"; });
  d.require(equal(state.size(0), kCoefficients), [] { return "the first axis of a state has four coefficients"; });
}

Indices with(Indices position, std::size_t axis, const Index& at) {
  position[axis] = at;
  return position;
}

// A gate on one qubit: its new elements by the old state, their position, and the qubit's axis.
template <class NewElement>
Definition on_qubit(const Inputs& in, const Index& axis, NewElement element) {
  Definition d(in);
  const Operand& x = in[0];
  require_state(d, x);
  const std::size_t qubit = qubit_axis(d, x, axis);
  d.output(x.type(), x.shape(), [=](const Indices& i) { return element(x, i, qubit); });
  return d;
}

struct Hadamard {
  static constexpr std::string_view kName = "H";
  Index axis = 1;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  Definition define(const Inputs& in) const {
    return on_qubit(in, axis, [](const Operand& x, const Indices& i, std::size_t qubit) {
      // Positions depend on the qubit's value b without cases: x[b] (-1)^b + x[1 - b]. 1 / sqrt(2) = (w - w^3) / 2.
      const auto sum = [&](const Index& c) {
        const Element same = x(with(i, 0, c)), other = x(with(with(i, 0, c), qubit, 1 - i[qubit]));
        return choose({equal(i[qubit], 0)}, same, -same) + other;
      };
      const Element once = choose({equal(i[0], 0)}, -sum(i[0] + 3), sum(i[0] - 1));
      const Element thrice = choose({equal(i[0], 3)}, sum(i[0] - 3), -sum(i[0] + 1));
      return (once - thrice) / real(2);
    });
  }
};

struct Not {
  static constexpr std::string_view kName = "X";
  Index axis = 1;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  Definition define(const Inputs& in) const {
    return on_qubit(in, axis,
                    [](const Operand& x, const Indices& i, std::size_t qubit) { return x(with(i, qubit, 1 - i[qubit])); });
  }
};

void require_power(Definition& d, const Index& power) {
  d.require(less_equal(0, power), [] { return "a power is from 0 to 7"; });
  d.require(less(power, kPowers), [] { return "a power is from 0 to 7"; });
}

struct Rotation {
  static constexpr std::string_view kName = "Rz";
  Index axis = 1, power = 1;
  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("power", power);
  }
  Definition define(const Inputs& in) const {
    Definition d = on_qubit(in, axis, [power = power](const Operand& x, const Indices& i, std::size_t qubit) {
      return choose({equal(i[qubit], 0)}, x(i), times_power(i[0], power, [&](const Index& c) { return x(with(i, 0, c)); }));
    });
    require_power(d, power);
    return d;
  }
};

struct ControlledNot {
  static constexpr std::string_view kName = "CNOT";
  Index control_axis = 1, target_axis = 2;
  template <class V>
  void fields(V&& v) {
    v("control_axis", control_axis), v("target_axis", target_axis);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_state(d, x);
    const std::size_t control = qubit_axis(d, x, control_axis), target = qubit_axis(d, x, target_axis);
    d.require(control != target, [] { return "control and target are one qubit"; });
    d.output(x.type(), x.shape(),
             [=](const Indices& i) { return choose({equal(i[control], 0)}, x(i), x(with(i, target, 1 - i[target]))); });
    return d;
  }
};

struct GlobalPhase {
  static constexpr std::string_view kName = "Phase";
  Index power = 1;
  template <class V>
  void fields(V&& v) {
    v("power", power);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_state(d, x);
    require_power(d, power);
    d.output(x.type(), x.shape(), [=, *this](const Indices& i) {
      return times_power(i[0], power, [&](const Index& c) { return x(with(i, 0, c)); });
    });
    return d;
  }
};

}  // namespace

void add_gates() {
  add_own_operators([](Registry& r) {
    r.add<Hadamard>();
    r.add<Not>();
    r.add<Rotation>();
    r.add<ControlledNot>();
    r.add<GlobalPhase>();
  });
}

graph::ValueId add_gate(graph::Graph& graph, const Gate& gate, const std::vector<int>& qubits, graph::ValueId state) {
  const auto axis = [&](int qubit) {
    return Index(1 + std::distance(qubits.begin(), std::find(qubits.begin(), qubits.end(), qubit)));
  };
  switch (gate.kind) {
    case Gate::Kind::kHadamard:
      return graph.add(Hadamard{axis(gate.qubit)}, {state});
    case Gate::Kind::kNot:
      return graph.add(Not{axis(gate.qubit)}, {state});
    case Gate::Kind::kRotation:
      return graph.add(Rotation{axis(gate.qubit), gate.power}, {state});
    case Gate::Kind::kControlledNot:
      break;
  }
  return graph.add(ControlledNot{axis(gate.control), axis(gate.qubit)}, {state});
}

void append_gate(const Operator& op, const Attributes& attributes, const std::vector<int>& qubits, std::vector<Gate>& gates) {
  const auto qubit = [&](const Index& axis) {
    const std::int64_t number = axis.value() - 1;
    if (number < 0 || number >= static_cast<std::int64_t>(qubits.size()))
      throw Error(ErrorCode::kUnsupported, "a rule made a gate on a qubit that its circuit does not have", op.name());
    return qubits[static_cast<std::size_t>(number)];
  };
  if (op.name() == Hadamard::kName) {
    gates.push_back({Gate::Kind::kHadamard, qubit(from_attributes<Hadamard>(attributes).axis)});
  } else if (op.name() == Not::kName) {
    gates.push_back({Gate::Kind::kNot, qubit(from_attributes<Not>(attributes).axis)});
  } else if (op.name() == Rotation::kName) {
    const auto rotation = from_attributes<Rotation>(attributes);
    gates.push_back({Gate::Kind::kRotation, qubit(rotation.axis), -1, static_cast<int>(rotation.power.value())});
  } else if (op.name() == ControlledNot::kName) {
    const auto gate = from_attributes<ControlledNot>(attributes);
    gates.push_back({Gate::Kind::kControlledNot, qubit(gate.target_axis), qubit(gate.control_axis)});
  }
}

}  // namespace rewright::quantum
