#include <catch2/catch.hpp>

#include "plans/cuts/cut.h"

namespace rewright::plans {

namespace {

struct Sample {
  std::string op;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
  std::vector<Indices> shapes;
};

std::vector<std::string> cuts_of(const Sample& s, CutFinder& finder) {
  const Operator& op = registry().get(s.op);
  std::vector<std::optional<TensorType>> types;
  for (const Indices& shape : s.shapes) types.push_back(TensorType{DataType::kFloat, shape});
  Attributes attributes = op.defaults();
  for (const auto& [name, value] : s.attributes) attributes.at(op.field(name).value()) = value;
  attributes = op.normalized(attributes, Inputs::of(std::span<const std::optional<TensorType>>(types)));
  std::vector<std::string> result;
  for (const Cut& cut : proposed_cuts(op, attributes, types)) {
    const CutProof proof = finder.proof(op, attributes, types, cut);
    WARN(s.op + ": " + to_string(cut) + (proof.proved ? "" : "  NOT PROVED " + proof.open_question));
    if (proof.proved) result.push_back(to_string(cut));
  }
  return result;
}

Index n(const char* name) { return Index::symbol(name); }

}  // namespace

TEST_CASE("cuts: found and proved") {
  CutFinder finder;
  const Indices two{2, 2}, ones{1, 1}, zeros{0, 0};
  const std::vector<Sample> samples{
      {"Relu", {}, {{8, 16}}},
      {"Add", {}, {{8, 16}, {16}}},
      {"MatMul", {}, {{8, 16}, {16, 32}}},
      {"MatMul", {}, {{n("N"), 12, n("T"), 64}, {n("N"), 12, 64, n("T")}}},
      {"Gemm", {}, {{8, 16}, {16, 32}, {32}}},
      {"Softmax", {{"axis", Index(-1)}}, {{8, 12, 16, 16}}},
      {"LayerNormalization", {}, {{8, 16, 32}, {32}, {32}}},
      {"Conv", {{"strides", two}, {"pads_begin", ones}, {"pads_end", ones}}, {{8, 3, 32, 32}, {16, 3, 3, 3}, {16}}},
      {"Conv",
       {{"strides", ones}, {"pads_begin", Indices{2, 2}}, {"pads_end", Indices{2, 2}}, {"group", Index(4)}},
       {{8, 16, 32, 32}, {24, 4, 5, 5}}},
      {"MaxPool", {{"kernel", Indices{3, 3}}, {"strides", two}, {"pads_begin", ones}, {"pads_end", ones}}, {{8, 16, 32, 32}}},
      {"AveragePool", {{"kernel", two}, {"strides", two}}, {{8, 16, 32, 32}}},
      {"Reshape", {{"shape", Indices{8, 16, 4, 8}}}, {{8, 16, 32}}},
      {"Reshape", {{"shape", Indices{8, 16, 32}}}, {{8, 16, 4, 8}}},
      {"Reshape", {{"shape", Indices{n("N"), 16, 4, 8}}}, {{n("N"), 16, 32}}},
      {"Transpose", {{"perm", Indices{0, 2, 1, 3}}}, {{8, 16, 4, 8}}},
      {"ReduceSum", {{"axes", Indices{1}}}, {{8, 16}}},
      {"ReduceMean", {{"axes", Indices{1}}}, {{8, 16}}},
      {"ReduceMax", {{"axes", Indices{1}}}, {{8, 16}}},
      {"BatchNormalization", {}, {{8, 16, 4, 4}, {16}, {16}, {16}, {16}}},
      {"Concat", {{"axis", Index(1)}}, {{8, 16}, {8, 4}}},
      {"Split", {{"axis", Index(1)}, {"sizes", Indices{16, 16}}}, {{8, 32}}},
      {"Slice", {{"begin", Indices{0, 2}}, {"length", Indices{8, 12}}}, {{8, 16}}},
      {"Expand", {{"shape", Indices{8, 16}}}, {{16}}},
      {"DepthToSpace", {{"blocksize", Index(2)}}, {{8, 16, 4, 4}}},
      {"ConvTranspose", {{"strides", two}}, {{8, 16, 8, 8}, {16, 4, 2, 2}}},
  };
  for (const Sample& s : samples) CHECK_FALSE(cuts_of(s, finder).empty());
}

}  // namespace rewright::plans
