#include "plans/cuts/examples.h"

#include <functional>
#include <map>

#include "base/error.h"
#include "operators/specification.h"

namespace rewright::plans {

namespace {

// Shapes that fit each other in the ways operators ask for: images and their kernels, products, rows and their parameters.
const std::vector<Indices>& shapes() {
  static const std::vector<Indices> kShapes{{8, 16, 24, 32}, {8, 16, 32, 24}, {12, 16, 3, 3}, {16, 12, 3, 3},
                                            {24, 32},        {32, 24},        {16},           {32},
                                            {8, 16, 24},     {8, 16},         {12, 12},       {}};
  return kShapes;
}

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt64, DataType::kBool,
                               DataType::kUint8, DataType::kInt8,  DataType::kInt32};
constexpr std::size_t kMostOperands = 5, kMostTries = 4000;

using Given = std::vector<std::pair<std::string, AttributeValue>>;

// Attributes of operators that do nothing, or are ill-typed, by default.
const std::map<std::string, Given>& given_attributes() {
  const Indices two{2, 2}, three{3, 3}, ones{1, 1};
  static const std::map<std::string, Given> kGiven{
      {"Conv", {{"pads_begin", ones}, {"pads_end", ones}}},
      {"ConvTranspose", {{"strides", two}}},
      {"MaxPool", {{"kernel", three}, {"strides", two}, {"pads_begin", ones}, {"pads_end", ones}}},
      {"AveragePool", {{"kernel", two}, {"strides", two}}},
      {"LpPool", {{"kernel", two}, {"strides", two}}},
      {"Reshape", {{"shape", Indices{8, 16, 768}}}},
      {"Expand", {{"shape", Indices{8, 16, 24, 32}}}},
      {"Slice", {{"begin", Indices{0, 0, 0, 4}}, {"length", Indices{8, 16, 24, 16}}}},
      {"Split", {{"axis", Index(1)}, {"sizes", Indices{8, 8}}}},
      {"Concat", {{"axis", Index(1)}}},
      {"Transpose", {{"perm", Indices{0, 2, 1, 3}}}},
      {"Pad", {{"pads_begin", Indices{0, 0, 1, 1}}, {"pads_end", Indices{0, 0, 1, 1}}}},
      {"Tile", {{"repeats", Indices{1, 1, 2, 1}}}},
      {"DepthToSpace", {{"blocksize", Index(2)}}},
      {"SpaceToDepth", {{"blocksize", Index(2)}}},
      {"Softmax", {{"axis", Index(-1)}}},
      {"LogSoftmax", {{"axis", Index(-1)}}},
      {"ReduceSum", {{"axes", Indices{1}}}},
      {"ReduceMax", {{"axes", Indices{1}}}},
      {"ReduceMin", {{"axes", Indices{1}}}},
      {"ReduceMean", {{"axes", Indices{1}}}},
      {"ReduceL1", {{"axes", Indices{1}}}},
      {"ReduceL2", {{"axes", Indices{1}}}},
      {"ReduceSumSquare", {{"axes", Indices{1}}}},
      {"ReduceLogSum", {{"axes", Indices{1}}}},
      {"ReduceLogSumExp", {{"axes", Indices{1}}}},
      {"ReduceProd", {{"axes", Indices{1}}}},
      {"Fill", {{"shape", Indices{8, 16}}, {"type", DataType::kFloat}}},
      {"Squeeze", {{"axes", Indices{}}}},
      {"Unsqueeze", {{"axes", Indices{1}}}},
      {"GroupNormalization", {{"num_groups", Index(4)}, {"groups", Index(4)}}},
      {"Einsum", {{"equation", std::string("bij,bjk->bik")}}},
      {"LRN", {{"size", Index(3)}}},
      {"ScatterElements", {{"axis", Index(2)}, {"reduction", std::string("add")}}},
      {"ScatterND", {{"reduction", std::string("add")}}},
  };
  return kGiven;
}

// Operands of which those in the middle have another type than the others.
const std::map<std::string, std::vector<std::optional<TensorType>>>& given_operands() {
  const auto type = [](DataType t, Indices shape) { return std::optional(TensorType{t, std::move(shape)}); };
  const Indices images{8, 16, 24, 32};
  static const std::map<std::string, std::vector<std::optional<TensorType>>> kGiven{
      {"ScatterElements", {type(DataType::kFloat, images), type(DataType::kInt64, images), type(DataType::kFloat, images)}},
      {"ScatterND",
       {type(DataType::kFloat, {24, 32}), type(DataType::kInt64, {8, 16, 1}), type(DataType::kFloat, {8, 16, 32})}},
  };
  return kGiven;
}

std::optional<OperatorExample> with_operands(const Operator& op, const Attributes& attributes,
                                             const std::vector<std::optional<TensorType>>& types) {
  try {
    const Inputs inputs = Inputs::of(std::span<const std::optional<TensorType>>(types));
    OperatorExample example{&op, op.normalized(attributes, inputs), types};
    const Definition definition = operators::specified(op).define(example.attributes, inputs);
    if (!definition.has_denotation() || definition.outputs().empty()) return std::nullopt;
    for (const Output& o : definition.outputs())
      for (const Index& size : o.type.shape)
        if (!size.is_constant() || size.value() < 1 || size.value() == 3) return std::nullopt;  // an image taken as a kernel
    return example;
  } catch (const Error&) {
    return std::nullopt;  // ill-typed
  }
}

std::optional<OperatorExample> example_of(const Operator& op) {
  Attributes attributes = op.defaults();
  if (const auto given = given_attributes().find(op.name()); given != given_attributes().end())
    for (const auto& [name, value] : given->second)
      if (const auto field = op.field(name)) attributes.at(*field) = value;
  if (const auto given = given_operands().find(op.name()); given != given_operands().end())
    return with_operands(op, attributes, given->second);
  const auto least = static_cast<std::size_t>(op.min_inputs());
  const std::size_t most = std::min<std::size_t>(static_cast<std::size_t>(op.max_inputs()), least == 0 ? 1 : kMostOperands);
  std::vector<std::optional<TensorType>> types;
  std::size_t tries = 0;
  // All operands but the last of one type; the last one of any (indices, conditions).
  const std::function<std::optional<OperatorExample>(std::size_t, DataType)> extend =
      [&](std::size_t count, DataType type) -> std::optional<OperatorExample> {
    if (types.size() == count) return ++tries > kMostTries ? std::nullopt : with_operands(op, attributes, types);
    for (const DataType own : kTypes) {
      if (own != type && (types.size() + 1 < count || count == 1)) continue;
      for (const Indices& shape : shapes()) {
        types.push_back(TensorType{own, shape});
        if (auto found = extend(count, type)) return found;
        types.pop_back();
      }
    }
    return std::nullopt;
  };
  for (std::size_t count = least; count <= most; ++count)
    for (const DataType type : kTypes) {
      tries = 0;
      if (auto found = extend(count, type)) return found;
    }
  return std::nullopt;
}

}  // namespace

std::vector<OperatorExample> operator_examples() {
  std::vector<OperatorExample> result;
  for (const Operator* op : registry().all())
    if (auto example = example_of(*op)) result.push_back(std::move(*example));
  return result;
}

std::string cuts_page() {
  std::string page =
      "# Where operators can be cut\n\n"
      "Work can be divided among processes wherever the definition of an operator allows it. This table is generated: of each "
      "operator\n"
      "one example, and each way of cutting it that was read off its denotation and proved, for any number of parts of any "
      "sizes\n"
      "([plans/cuts/cut.h](../plans/cuts/cut.h) says how). *whole*: each process has all of the operand. *axis 2 by 4*: rows "
      "of axis 2\n"
      "in blocks of 4. *halo*: so many rows of the neighbours' parts in front of and behind its own. *partial*: each process "
      "has a tensor\n"
      "of the full size, and all of them together are the result. *added once*: one process has it, the others have zeros.\n\n"
      "| operator | operands | cuts |\n|---|---|---|\n";
  CutFinder finder;
  std::string uncut;
  for (const OperatorExample& example : operator_examples()) {
    std::string operands, cuts;
    for (const auto& type : example.types)
      operands += (operands.empty() ? "" : ", ") + (type ? to_string(*type) : std::string("-"));
    for (const Cut& cut : finder.find(*example.op, example.attributes, example.types))
      cuts += (cuts.empty() ? "" : "<br>") + to_string(cut);
    if (cuts.empty())
      uncut += (uncut.empty() ? "" : ", ") + example.op->name();
    else
      page += "| " + example.op->name() + " | " + operands + " | " + cuts + " |\n";
  }
  page +=
      "\nNot cut, as each result depends on where it stands, on all of an operand, or on what stands at positions that are "
      "data: " +
      uncut + ".\n";
  return page;
}

}  // namespace rewright::plans
