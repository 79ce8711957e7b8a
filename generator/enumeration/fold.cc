#include "generator/enumeration/fold.h"

#include <algorithm>
#include <string>

#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

namespace {

std::vector<std::size_t> parse_axes(std::string text, const std::string& where) {
  std::vector<std::size_t> axes;
  std::replace(text.begin(), text.end(), 'x', ',');
  for (const std::string& part : parse_list(text)) {
    const std::int64_t axis = parse_integer(part, where);
    if (axis < 0) wrong_operators(where + " is " + part + ", must not be negative");
    axes.push_back(static_cast<std::size_t>(axis));
  }
  return axes;
}

// Both lists of one length: a single axis gives, or takes, all parts.
Fold parse_fold(const std::string& from, const std::string& to, bool outer_part, bool outer_place) {
  Fold fold{parse_axes(from, "from of fold"), parse_axes(to, "to of fold"), outer_part, outer_place};
  const std::size_t parts = std::max(fold.from.size(), fold.to.size());
  for (std::vector<std::size_t>* axes : {&fold.from, &fold.to}) {
    if (axes->size() == 1) axes->resize(parts, axes->front());
    if (axes->size() != parts) wrong_operators("from and to of fold have different numbers of axes");
  }
  for (const std::size_t axis : fold.from)
    if (std::count(fold.to.begin(), fold.to.end(), axis) != 0) wrong_operators("from and to of fold share an axis");
  return fold;
}

}  // namespace

std::optional<Index> half_of(const Index& size) {
  const Index half = floor_div(size, 2);
  bool divided = false;
  for_each_atom(half, [&](const Atom& atom) { divided |= atom.kind == Atom::Kind::kFloorDiv; });
  return divided || !(half * 2 == size) ? std::nullopt : std::optional(half);
}

std::vector<FurtherStep> steps(const Fold& fold, const TensorType& type) {
  const std::size_t parts = fold.from.size();
  if (parts == 1 && fold.outer_part && fold.outer_place) {  // the halves, one after the other
    const std::optional<Index> half = half_of(type.shape[fold.from[0]]);
    if (!half) return {};
    const Operator &split = operator_named("Split"), &concat = operator_named("Concat");
    return {{&split, attributes_of(split, {{"axis", Index(fold.from[0])}, {"sizes", Indices{*half, *half}}})},
            {&concat, attributes_of(concat, {{"axis", Index(fold.to[0])}})}};
  }
  Indices split, joined = type.shape;
  std::vector<std::size_t> place(parts), rest(type.rank());  // where parts, and what is left of axes, are after the split
  for (std::size_t axis = 0; axis < type.rank(); ++axis) {
    std::vector<std::size_t> taken;
    for (std::size_t k = 0; k < parts; ++k)
      if (fold.from[k] == axis) taken.push_back(k);
    Index left = type.shape[axis];
    for (std::size_t k = 0; k < taken.size(); ++k) {
      const std::optional<Index> half = half_of(left);
      if (!half) return {};
      left = *half;
    }
    if (!fold.outer_part) rest[axis] = split.size(), split.push_back(left);
    for (const std::size_t k : taken) place[k] = split.size(), split.emplace_back(2);
    if (fold.outer_part) rest[axis] = split.size(), split.push_back(left);
    joined[axis] = left;
  }
  Indices perm;
  for (std::size_t axis = 0; axis < type.rank(); ++axis) {
    if (!fold.outer_place) perm.emplace_back(rest[axis]);
    for (std::size_t k = 0; k < parts; ++k)
      if (fold.to[k] == axis) perm.emplace_back(place[k]), joined[axis] *= 2;
    if (fold.outer_place) perm.emplace_back(rest[axis]);
  }
  const Operator &reshape = operator_named("Reshape"), &transpose = operator_named("Transpose");
  return {{&reshape, attributes_of(reshape, {{"shape", split}})},
          {&transpose, attributes_of(transpose, {{"perm", perm}})},
          {&reshape, attributes_of(reshape, {{"shape", joined}})}};
}

void add_folds(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const auto from = arguments.texts("from", {"2"}), to = arguments.texts("to", {"0"});
  const std::vector<bool> parts = arguments.truths("part", "outer", "outer", "inner");
  const std::vector<bool> places = arguments.truths("place", "outer", "outer", "inner");
  arguments.finish();
  leaves.images = true;
  const auto add = [&](const std::string& source, const std::string& target, bool part, bool place) {
    const Fold fold = parse_fold(source, target, part, place);
    const bool halves = fold.from.size() == 1 && part && place;
    const std::size_t axes =
        1 + std::max(*std::max_element(fold.from.begin(), fold.from.end()), *std::max_element(fold.to.begin(), fold.to.end()));
    Choice choice{"Fold " + source + " into " + target + (part ? "" : " alternating") + (place ? "" : " interleaved"),
                  &operator_named(halves ? "Split" : "Reshape"),
                  1,
                  {}};
    choice.data_first = true;
    choice.attributes = [=](std::span<const TensorType> in) {
      std::vector<Attributes> result;
      if (in[0].rank() < axes) return result;
      for (const FurtherStep& step : steps(fold, in[0])) {
        result.push_back(step.attributes);
        break;
      }
      return result;
    };
    choice.further = [=](std::span<const TensorType> in) {
      std::vector<FurtherStep> all = steps(fold, in[0]);
      if (!all.empty()) all.erase(all.begin());
      return all;
    };
    choices.push_back(std::move(choice));
  };
  for (const std::string& source : from)
    for (const std::string& target : to)
      for (const bool part : parts)
        for (const bool place : places) add(source, target, part, place);
}

}  // namespace rewright::generator
