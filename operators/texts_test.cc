#include "operators/texts.h"

#include <catch2/catch.hpp>

#include "operators/procedure.h"
#include "operators/testing.h"

namespace rewright::operators {

namespace {

using testing::Named;

// Strings and the numbers that stand for them here: 0 for the empty one.
struct Alphabet {
  std::vector<std::string> texts{"", "a", "b", "\xc3\xa4", "10", "a b"};

  Tensor codes(const Sizes& sizes, std::mt19937& random) const {
    std::vector<std::int64_t> codes(static_cast<std::size_t>(element_count(sizes)));
    for (std::int64_t& code : codes) code = static_cast<std::int64_t>(random() % texts.size());
    return Tensor::from_integers(DataType::kInt64, sizes, codes);
  }
  Tensor as_texts(const Tensor& codes) const {
    std::vector<std::string> all;
    for (const std::int64_t code : codes.integers()) all.push_back(texts.at(static_cast<std::size_t>(code)));
    return Tensor::from_strings(codes.sizes(), std::move(all));
  }
};

// `codes`: inputs, of which those whose number is in `text` are strings. Nothing if the operator has no meaning on them.
std::optional<std::vector<Tensor>> on_texts(const Alphabet& alphabet, const std::string& op, std::vector<Tensor> codes,
                                            unsigned text, const Named& named) {
  for (std::size_t i = 0; i < codes.size(); ++i)
    if ((text >> i & 1) != 0) codes[i] = alphabet.as_texts(codes[i]);
  try {
    return testing::evaluate(op, codes, named);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Do strings give what their numbers give?
bool agree(const Alphabet& alphabet, const std::vector<Tensor>& texts, const std::vector<Tensor>& codes) {
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!(texts[i] == (texts[i].type() == DataType::kString ? alphabet.as_texts(codes.at(i)) : codes.at(i)))) return false;
  return texts.size() == codes.size();
}

Tensor int64s(Sizes sizes, std::vector<std::int64_t> values) {
  return Tensor::from_integers(DataType::kInt64, std::move(sizes), values);
}

}  // namespace

TEST_CASE("operators that move, choose and compare elements do with strings what they do with numbers") {
  const Alphabet alphabet;
  std::mt19937 random(3);
  struct Case {
    std::string op;
    std::vector<Tensor> others;  // behind one input of strings [2, 3], or `texts` of them
    Named named = {};
    std::size_t texts = 1;
  };
  const Tensor truth = Tensor::from_integers(DataType::kBool, {2, 3}, std::vector<std::int64_t>{1, 0, 0, 1, 1, 0});
  const std::vector<Case> cases = {
      {"Transpose", {}},
      {"Reshape", {}, {{"shape", Indices{3, 2}}}},
      {"Flatten", {}},
      {"Unsqueeze", {}, {{"axes", Indices{1}}}},
      {"Expand", {}, {{"shape", Indices{4, 2, 3}}}},
      {"Identity", {}},
      {"Cast", {}, {{"to", DataType::kString}}},
      {"Concat", {}, {{"axis", Index(1)}}, 3},
      {"Split", {}, {{"axis", Index(1)}, {"sizes", Indices{1, 2}}}},
      {"Tile", {}, {{"repeats", Indices{2, 3}}}},
      {"Pad", {}, {{"pads_begin", Indices{1, 0}}, {"pads_end", Indices{0, 2}}}},
      {"Pad", {}, {{"pads_begin", Indices{1, 0}}, {"pads_end", Indices{0, 2}}, {"mode", std::string("edge")}}},
      {"Slice", {}, {{"begin", Indices{1, 2}}, {"length", Indices{1, 2}}, {"step", Indices{1, -2}}}},
      {"Gather", {int64s({4}, {1, 0, -1, 1})}},
      {"GatherElements", {int64s({1, 3}, {1, 0, 1})}},
      {"GatherND", {int64s({2, 2}, {1, 0, 0, 2})}},
      {"Trilu", {}},
      {"Shape", {}},
      {"Size", {}},
      {"Equal", {}, {}, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(c.op);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < c.texts; ++i) inputs.push_back(alphabet.codes({2, 3}, random));
    inputs.insert(inputs.end(), c.others.begin(), c.others.end());
    const auto found = on_texts(alphabet, c.op, inputs, (1u << c.texts) - 1, c.named);
    REQUIRE(found);
    const Named as_codes = c.op == "Cast" ? Named{{"to", DataType::kInt64}} : c.named;
    CHECK(agree(alphabet, *found, testing::evaluate(c.op, inputs, as_codes)));
  }
  const Tensor x = alphabet.codes({2, 3}, random), y = alphabet.codes({2, 3}, random);
  const auto chosen = on_texts(alphabet, "Where", {truth, x, y}, 0b110, {});
  REQUIRE(chosen);
  CHECK(agree(alphabet, *chosen, testing::evaluate("Where", {truth, x, y})));
  for (const char* op : {"ScatterElements", "ScatterND"}) {
    const bool rows = op == std::string("ScatterND");
    const std::vector<Tensor> inputs{x, rows ? int64s({1, 1}, {1}) : int64s({1, 3}, {1, 0, 1}), alphabet.codes({1, 3}, random)};
    const auto written = on_texts(alphabet, op, inputs, 0b101, {});
    REQUIRE(written);
    CHECK(agree(alphabet, *written, testing::evaluate(op, inputs)));
    CHECK_FALSE(on_texts(alphabet, op, inputs, 0b101, {{"reduction", std::string("add")}}));
  }
}

TEST_CASE("whatever operator has a meaning on strings, it is the one that it has on numbers") {
  const Alphabet alphabet;
  std::mt19937 random(5);
  std::size_t understood = 0, refused = 0;
  for (const Operator* op : registry().all()) {
    if (op->random()) continue;
    for (int count = std::max(1, op->min_inputs()); count <= std::min(3, op->max_inputs()); ++count)
      for (unsigned text = 1; text < 1u << count; ++text)
        for (const Sizes& sizes : {Sizes{2, 3}, Sizes{1, 4, 2, 2}}) {
          std::vector<Tensor> inputs;
          for (int i = 0; i < count; ++i) inputs.push_back(alphabet.codes(sizes, random));
          const auto found = on_texts(alphabet, op->name(), inputs, text, {});
          if (!found) {
            ++refused;
            continue;
          }
          ++understood;
          CAPTURE(op->name(), text);
          CHECK(agree(alphabet, *found, testing::evaluate(op->name(), inputs)));
        }
  }
  CHECK(understood > 20);
  CHECK(refused > 200);
}

TEST_CASE("arithmetic has no meaning on strings") {
  const Tensor a = Tensor::from_strings({2}, {"1", "2"});
  for (const char* op : {"Add", "Mul", "Less", "Max", "MatMul", "Sub"})
    CHECK_THROWS_WITH(testing::evaluate(op, {a, a}), Catch::Contains("strings"));
  for (const char* op : {"Neg", "ReduceSum", "Softmax", "ArgMax", "Not", "CumSum"})
    CHECK_THROWS_AS(testing::evaluate(op, {a}), Error);
  CHECK_THROWS_WITH(testing::evaluate("Cast", {a}, {{"to", DataType::kFloat}}), Catch::Contains("has no meaning on strings"));
  CHECK_THROWS_AS(testing::evaluate("TopK", {a}), Error);
}

TEST_CASE("random strings are of every kind, and the same for the same seed") {
  const Tensor texts = random_texts({200}, 1);
  CHECK(texts == random_texts({200}, 1));
  CHECK_FALSE(texts == random_texts({200}, 2));
  const auto some = [&](const auto& is) { return std::any_of(texts.strings().begin(), texts.strings().end(), is); };
  CHECK(some([](const std::string& s) { return s.empty(); }));
  CHECK(some([](const std::string& s) { return s.find('\xc3') != std::string::npos; }));
  const Tensor numerals = random_numerals({20}, 1);
  for (const std::string& s : numerals.strings()) CHECK((s == "0" || s == "1"));
}

}  // namespace rewright::operators
