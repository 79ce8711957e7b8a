#include "generator/enumeration/weight_layouts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "generator/enumeration/fold.h"
#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

namespace {

std::size_t parse_axis(const std::string& text, const std::string& where) {
  const std::int64_t axis = parse_integer(text, where);
  if (axis < 0) wrong_operators(where + " is " + text + ", must not be negative");
  return static_cast<std::size_t>(axis);
}

FurtherStep reshape(Indices shape) {
  const Operator& op = operator_named("Reshape");
  return {&op, attributes_of(op, {{"shape", std::move(shape)}})};
}

FurtherStep transpose(Indices perm) {
  const Operator& op = operator_named("Transpose");
  return {&op, attributes_of(op, {{"perm", std::move(perm)}})};
}

// A choice of steps that depend on the operand's type; where there are none, it does not apply.
template <class Steps>
Choice choice_of(std::string name, const Steps& steps) {
  Choice choice{std::move(name), &operator_named("Reshape"), 1, {}};
  choice.attributes = [=](std::span<const TensorType> in) {
    const std::vector<FurtherStep> all = steps(in[0].shape);
    return all.empty() ? std::vector<Attributes>() : std::vector<Attributes>{all[0].attributes};
  };
  choice.further = [=](std::span<const TensorType> in) {
    std::vector<FurtherStep> all = steps(in[0].shape);
    if (!all.empty()) all.erase(all.begin());
    return all;
  };
  return choice;
}

std::vector<FurtherStep> repeated(const Indices& shape, std::size_t axis, std::int64_t times) {
  if (axis >= shape.size()) return {};
  const auto place = static_cast<std::ptrdiff_t>(axis);
  Indices apart = shape, many, joined = shape;
  apart.insert(apart.begin() + place, 1);
  many = apart;
  many[axis] = times;
  joined[axis] *= times;
  const Operator& expand = operator_named("Expand");
  return {reshape(apart), {&expand, attributes_of(expand, {{"shape", many}})}, reshape(joined)};
}

// A product with an identity matrix, on the axis of halves and a new one behind it.
std::vector<FurtherStep> on_diagonal(const Indices& shape, std::size_t from, std::size_t to, const Index& blocks) {
  if (std::max(from, to) >= shape.size()) return {};
  const std::optional<Index> halves = half_of(shape[from]);
  if (!halves) return {};
  const Index rest = floor_div(*halves, blocks);
  if (!(rest * blocks == *halves)) return {};
  Indices split, joined = shape, out, back;
  std::size_t half = 0;  // the axis of halves, once split
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis == from) split.push_back(blocks), half = split.size(), split.emplace_back(2);
    split.push_back(axis == from ? rest : shape[axis]);
  }
  joined[to] *= 2;
  const std::size_t rank = split.size();  // then an axis of size 1
  split.emplace_back(1);
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (axis != half) out.emplace_back(axis);
  out.emplace_back(half), out.emplace_back(rank);
  // Afterwards the halves are the last axis but one, and their places the last.
  for (std::size_t axis = 0, at = 0; axis < shape.size(); ++axis) {
    if (axis == to) back.emplace_back(rank);
    if (axis == from) back.emplace_back(at++), back.emplace_back(rank - 1);
    back.emplace_back(at++);
  }
  const Operator &multiply = operator_named("Mul"), &eye = operator_named("Eye");
  return {reshape(split),
          transpose(out),
          {&multiply, multiply.defaults(), &eye, attributes_of(eye, {{"size", Index(2)}})},
          transpose(back),
          reshape(joined)};
}

}  // namespace

void add_repeats(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto axes = arguments.texts("axis", {"0"}), counts = arguments.texts("times", {"2"});
  arguments.finish();
  for (const std::string& a : axes)
    for (const std::string& count : counts) {
      const std::size_t axis = parse_axis(a, "axis of repeat");
      const std::int64_t times = parse_integer(count, "times of repeat");
      if (times < 2) wrong_operators("times of repeat is " + count + ", must be 2 or more");
      choices.push_back(choice_of("Repeat axis=" + a + " times=" + count,
                                  [=](const Indices& shape) { return repeated(shape, axis, times); }));
    }
}

void add_diagonals(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto sources = arguments.texts("from", {"0"}), targets = arguments.texts("to", {"1"});
  const auto blocks = arguments.texts("blocks", {"1"});
  arguments.finish();
  for (const std::string& f : sources)
    for (const std::string& t : targets)
      for (const std::string& b : blocks) {
        const std::size_t from = parse_axis(f, "from of diagonal"), to = parse_axis(t, "to of diagonal");
        if (from == to) wrong_operators("from and to of diagonal are one axis");
        const Index count = b == "G" ? Index::symbol(b) : Index(parse_integer(b, "blocks of diagonal"));
        choices.push_back(choice_of("Diagonal " + f + " along " + t + (b == "1" ? "" : " in " + b + " blocks"),
                                    [=](const Indices& shape) { return on_diagonal(shape, from, to, count); }));
      }
}

}  // namespace rewright::generator
