#include "plans/cuts/cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "operators/testing/share.h"
#include "plans/cuts/examples.h"
#include "rules/tester.h"

namespace rewright::plans {

namespace {

struct Sample {
  std::string op;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
  std::vector<Indices> shapes;
  std::string cuts;  // that are expected, one a line
};

OperatorExample example_of(const Sample& s) {
  OperatorExample example;
  example.op = &registry().get(s.op);
  for (const Indices& shape : s.shapes) example.types.push_back(TensorType{DataType::kFloat, shape});
  Attributes attributes = example.op->defaults();
  for (const auto& [name, value] : s.attributes) attributes.at(example.op->field(name).value()) = value;
  example.attributes =
      example.op->normalized(attributes, Inputs::of(std::span<const std::optional<TensorType>>(example.types)));
  return example;
}

Index n(const char* name) { return Index::symbol(name); }

}  // namespace

TEST_CASE("cuts: found and proved") {
  CutFinder finder;
  const Indices two{2, 2}, ones{1, 1};
  const std::vector<Sample> samples{
      {"Add",
       {},
       {{8, 16}, {16}},
       "axis 0, whole => axis 0\naxis 1, axis 0 => axis 1\npartial sums, partial sums => partial sums\n"
       "partial sums, added once => partial sums\nadded once, partial sums => partial sums\n"},
      {"Mul",
       {},
       {{8, 16}, {8, 1}},
       "axis 0, axis 0 => axis 0\naxis 1, whole => axis 1\npartial sums, whole => partial sums\n"
       "whole, partial sums => partial sums\n"},
      {"Sigmoid", {}, {{8}}, "axis 0 => axis 0\n"},
      {"MatMul",
       {},
       {{n("N"), 12, n("T"), 64}, {n("N"), 12, 64, n("T")}},
       "axis 0, axis 0 => axis 0\naxis 1, axis 1 => axis 1\naxis 2, whole => axis 2\nwhole, axis 3 => axis 3\n"
       "axis 3, axis 2 => partial sums\n"},
      {"Gemm",
       {},
       {{8, 16}, {16, 32}, {32}},
       "axis 0, whole, whole => axis 0\nwhole, axis 1, axis 0 => axis 1\naxis 1, axis 0, added once => partial sums\n"},
      {"Reshape",
       {{"shape", Indices{8, 4, 6}}},
       {{32, 6}},
       "axis 0 by 4 => axis 0\naxis 1 => axis 2\npartial sums => partial sums\n"},
      {"Softmax", {{"axis", Index(-1)}}, {{8, 12, 16}}, "axis 0 => axis 0\naxis 1 => axis 1\n"},
      {"Conv",
       {{"strides", two}, {"pads_begin", ones}, {"pads_end", ones}},
       {{8, 3, 32, 32}, {16, 3, 3, 3}, {16}},
       "axis 0, whole, whole => axis 0\nwhole, axis 0, axis 0 => axis 1\n"
       "axis 2 by 2 and a halo of 1 + 0, whole, whole => axis 2\naxis 3 by 2 and a halo of 1 + 0, whole, whole => axis 3\n"
       "axis 1, axis 1, added once => partial sums\n"},
      {"Conv",
       {{"pads_begin", two}, {"pads_end", two}, {"group", Index(4)}},
       {{8, 16, 32, 32}, {24, 4, 5, 5}},
       "axis 0, whole => axis 0\naxis 1 by 4, axis 0 by 6 => axis 1 by 6\naxis 2 and a halo of 2 + 2, whole => axis 2\n"
       "axis 3 and a halo of 2 + 2, whole => axis 3\n"},
      {"Reshape",
       {{"shape", Indices{8, 16, 32}}},
       {{8, 16, 4, 8}},
       "axis 0 => axis 0\naxis 1 => axis 1\naxis 2 => axis 2 by 8\npartial sums => partial sums\n"},
      {"ReduceMax", {{"axes", Indices{1}}}, {{8, 16}}, "axis 0 => axis 0\naxis 1 => partial maxima\n"},
  };
  for (const Sample& s : samples) {
    const OperatorExample example = example_of(s);
    std::string cuts;
    for (const Cut& cut : finder.find(*example.op, example.attributes, example.types)) cuts += to_string(cut) + "\n";
    INFO(s.op);
    CHECK(cuts == s.cuts);
  }
}

TEST_CASE("cuts: of pools with positions within planes, as their gradients have them") {
  CutFinder finder;
  const Operator& op = registry().get("MaxPool");
  Attributes attributes = op.defaults();
  for (const auto& [name, value] : std::map<std::string, Indices>{
           {"kernel", {3, 3}}, {"strides", {2, 2}}, {"pads_begin", {1, 1}}, {"pads_end", {1, 1}}, {"dilations", {1, 1}}})
    attributes.at(op.field(name).value()) = value;
  attributes.at(op.field("indices").value()) = true;
  attributes.at(op.field("storage_order").value()) = Index(2);
  for (const std::int64_t size : {32, 112}) {
    const std::vector<std::optional<TensorType>> types{TensorType{DataType::kFloat, {2048, 64, size, size}}};
    std::string cuts;
    for (const Cut& cut : finder.find(op, attributes, types)) cuts += to_string(cut) + "\n";
    CHECK(cuts == "axis 0 => axis 0, axis 0\naxis 1 => axis 1, axis 1\n");
  }
}

TEST_CASE("cuts: of what has no operands") {
  CutFinder finder;
  const Operator& op = registry().get("Fill");
  Attributes attributes = op.defaults();
  attributes.at(op.field("shape").value()) = Indices{2048, 64, 1};
  std::string cuts;
  for (const Cut& cut : finder.find(op, attributes, {})) cuts += to_string(cut) + "\n";
  CHECK(cuts == " => axis 0\n => axis 1\n");
}

TEST_CASE("cuts: of scatters, by what is specified of them") {
  CutFinder finder;
  const auto cuts_of = [&](const char* name, const char* reduction, Indices x, Indices indices, Indices updates, int axis) {
    const Operator& op = registry().get(name);
    std::vector<std::optional<TensorType>> types{TensorType{DataType::kFloat, std::move(x)},
                                                 TensorType{DataType::kInt64, std::move(indices)},
                                                 TensorType{DataType::kFloat, std::move(updates)}};
    Attributes attributes = op.defaults();
    attributes.at(op.field("reduction").value()) = std::string(reduction);
    if (axis >= 0) attributes.at(op.field("axis").value()) = Index(axis);
    std::string cuts;
    for (const Cut& cut : finder.find(op, attributes, types)) cuts += to_string(cut) + "\n";
    return cuts;
  };
  // A pool is cut by images and channels. Rows beside the updates are not cut.
  const std::string of_pool = "axis 0, axis 0, axis 0 => axis 0\naxis 1, axis 1, axis 1 => axis 1\n";
  CHECK(cuts_of("ScatterElements", "add", {8, 4, 36}, {8, 4, 9}, {8, 4, 9}, 2) ==
        of_pool + "added once, axis 2, axis 2 => partial sums\n");
  CHECK(cuts_of("ScatterElements", "none", {8, 4, 36}, {8, 4, 9}, {8, 4, 9}, 2) == of_pool);
  // An embedding is cut by features and by samples.
  CHECK(cuts_of("ScatterND", "add", {32, 16}, {8, 5, 1}, {8, 5, 16}, -1) ==
        "axis 1, whole, axis 2 => axis 1\nadded once, axis 0, axis 0 => partial sums\n"
        "added once, axis 1, axis 1 => partial sums\n");
}

TEST_CASE("cuts: the interpreter computes the same in parts", "[long]") {
  std::size_t rules = 0;
  for (const OperatorExample& example : operator_examples()) {
    CutFinder finder;
    for (const Cut& cut : finder.find(*example.op, example.attributes, example.types))
      for (const Rule& rule : cut_rules(*example.op, example.attributes, example.types, cut, SizesInRule::kAsGiven)) {
        const RuleTest test = test_rule(rule, 1, 7);
        INFO(example.op->name() << ": " << to_string(cut));
        CHECK(test.outcome != TestOutcome::kRefuted);
        ++rules;
      }
    if (rules > 150) break;
  }
  CHECK(rules > 150);
}

TEST_CASE("cuts: a finder that proves later gives those that are proved, and proves no others") {
  constexpr std::size_t kProved = testing::kSanitized ? 8 : 40;
  std::size_t proved = 0;
  CutFinder later(false), now;
  for (const OperatorExample& example : operator_examples()) {
    const std::vector<Cut> proposed = later.find(*example.op, example.attributes, example.types);
    for (const Cut& cut : now.find(*example.op, example.attributes, example.types)) {
      INFO(example.op->name() << ": " << to_string(cut));
      CHECK(std::find(proposed.begin(), proposed.end(), cut) != proposed.end());
      CHECK(later.proof(*example.op, example.attributes, example.types, cut).proved);
      ++proved;
    }
    if (proved > kProved) break;
  }
  CHECK(proved > kProved);
}

TEST_CASE("cuts: wrong ones are not proved") {
  const OperatorExample conv =
      example_of({"Conv", {{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}}, {{2, 3, 32, 32}, {4, 3, 3, 3}}, ""});
  CutFinder finder;
  for (const Cut& good : finder.find(*conv.op, conv.attributes, conv.types)) {
    for (std::size_t k = 0; k < good.operands.size(); ++k) {
      Cut other = good;
      other.operands[k].axis = (other.operands[k].axis + 1) % 4;
      if (other.operands[k].kind == Share::Kind::kCut)
        CHECK_FALSE(finder.proof(*conv.op, conv.attributes, conv.types, other).proved);
      if (good.operands[k].before == Index(0)) continue;
      other = good;
      other.operands[k].before = 0;
      CHECK_FALSE(finder.proof(*conv.op, conv.attributes, conv.types, other).proved);
      other = good;
      other.operands[k].after = 0;
      CHECK_FALSE(finder.proof(*conv.op, conv.attributes, conv.types, other).proved);
    }
  }
}

TEST_CASE("cuts: the page is up to date", "[long]") {
  std::ifstream file("docs/cuts.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  CHECK(page == cuts_page());  // build/release/bin/rewright_cuts_page > docs/cuts.md
}

}  // namespace rewright::plans
