// Random graphs of constants in which reals become integers, truth values and positions, for tests of constant evaluation.
#pragma once

#include <random>
#include <vector>

#include "optimizer/testing.h"

namespace rewright::testing {

inline ValueId with(Graph& graph, const char* op, std::vector<ValueId> inputs, const char* field, AttributeValue value) {
  const Operator& found = registry().get(op);
  Attributes attributes = found.defaults();
  attributes[found.field(field).value()] = std::move(value);
  return graph.add_node(found, std::move(attributes), std::move(inputs))[0];
}

inline ValueId cast(Graph& graph, ValueId x, DataType to) { return with(graph, "Cast", {x}, "to", to); }

inline ValueId real_constant(Graph& graph, double value, DataType type = DataType::kFloat) {
  return graph.add_constant(Tensor::scalar(type, value));
}

// The numbers put results at the steps of rounding functions: small whole numbers and their quotients. All values are outputs.
class RandomConstants {
 public:
  explicit RandomConstants(std::uint64_t seed) : random_(seed) {
    type_ = seed % 4 == 3 ? DataType::kHalf : DataType::kFloat;
    for (int i = 0; i < 3; ++i) reals_.push_back(graph_.add_constant(numbers()));
    const int count = 6 + pick(10);
    for (int i = 0; i < count; ++i) {
      try {
        add_any();
      } catch (const Error&) {  // ill-typed: another one
      }
    }
  }

  Graph run() {
    for (const auto* list : {&reals_, &integers_, &truths_})
      for (const ValueId id : *list)
        if (!graph_.is_constant(id)) graph_.add_output("v" + std::to_string(id), id);
    return std::move(graph_);
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  ValueId any(const std::vector<ValueId>& list) {
    if (list.empty()) throw Error(ErrorCode::kBadInput, "there is none yet");
    return list[random_() % list.size()];
  }

  Tensor numbers() {
    std::vector<double> values(kSize);
    for (double& value : values) value = pick(2) ? 1 + pick(40) : (1 + pick(24)) / static_cast<double>(1 + pick(10));
    return Tensor::from_reals(type_, {kSize}, values);
  }

  void add_any() {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2: {
        static const char* const kBinary[] = {"Add", "Sub", "Mul", "Div", "Div", "Mul", "Max", "Min"};
        return keep(reals_, add(graph_, kBinary[pick(8)], {any(reals_), any(reals_)})[0]);
      }
      case 3:
      case 4: {
        static const char* const kUnary[] = {"Log", "Exp", "Sqrt", "Abs", "Neg", "Reciprocal", "Sigmoid", "Tanh"};
        return keep(reals_, add(graph_, kUnary[pick(8)], {any(reals_)})[0]);
      }
      case 5: {
        static const char* const kSteps[] = {"Floor", "Ceil", "Round", "Sign"};
        return keep(reals_, add(graph_, kSteps[pick(4)], {any(reals_)})[0]);
      }
      case 6:
        return keep(integers_, cast(graph_, any(reals_), DataType::kInt64));
      case 7: {
        static const char* const kTests[] = {"Less", "Equal", "Greater"};
        return keep(truths_, add(graph_, kTests[pick(3)], {any(reals_), any(reals_)})[0]);
      }
      case 8:
        return keep(reals_, cast(graph_, any(pick(2) && !truths_.empty() ? truths_ : integers_), type_));
      case 9:
        return keep(reals_, add(graph_, "Where", {any(truths_), any(reals_), any(reals_)})[0]);
      case 10: {  // sums and the position of the largest, spread again
        static const char* const kOver[] = {"ReduceSum", "ReduceMax", "ReduceMean", "CumSum"};
        const int which = pick(5);
        if (which < 3) return keep(reals_, add(graph_, "Mul", {any(reals_), add(graph_, kOver[which], {any(reals_)})[0]})[0]);
        if (which == 3) return keep(reals_, add(graph_, "CumSum", {any(reals_)})[0]);
        return keep(integers_, add(graph_, "Add", {any(integers_), add(graph_, "ArgMax", {any(reals_)})[0]})[0]);
      }
      default: {  // default: valid positions, from integers of any size
        const ValueId size = graph_.add_constant(Tensor::scalar(DataType::kInt64, kSize));
        return keep(reals_, add(graph_, "Gather", {any(reals_), add(graph_, "Mod", {any(integers_), size})[0]})[0]);
      }
    }
  }

  void keep(std::vector<ValueId>& list, ValueId id) {
    if (graph_.value(id).type.shape == Indices{kSize}) list.push_back(id);
  }

  static constexpr std::int64_t kSize = 24;
  std::mt19937_64 random_;
  DataType type_;
  Graph graph_;
  std::vector<ValueId> reals_, integers_, truths_;
};

}  // namespace rewright::testing
