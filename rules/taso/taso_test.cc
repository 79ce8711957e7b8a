#include "rules/taso/taso.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "rules/io.h"
#include "rules/taso/taso.pb.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::rules;
using Catch::Contains;

namespace {

// Operators by TASO's numbers, tensors as "op output" or an input's negative number.
std::string op(int type, const std::vector<std::pair<int, int>>& inputs,
               const std::vector<std::pair<int, int>>& parameters = {}) {
  std::string text = "{ type: " + std::to_string(type);
  for (const auto& [of, output] : inputs)
    text += " inputs { op: " + std::to_string(of) + " output: " + std::to_string(output) + " }";
  for (const auto& [key, value] : parameters)
    text += " parameters { key: " + std::to_string(key) + " value: " + std::to_string(value) + " }";
  return text + " }";
}

using Operators = std::vector<std::string>;
struct Output {
  int source_op, target_op, source_output = 0, target_output = 0;
};

std::string rule_text(const Operators& source, const Operators& target, const std::vector<Output>& outputs) {
  std::string text = "rules {";
  for (const std::string& o : source) text += " source " + o;
  for (const std::string& o : target) text += " target " + o;
  for (const Output& o : outputs)
    text += " outputs { source_op: " + std::to_string(o.source_op) + " target_op: " + std::to_string(o.target_op) +
            " source_output: " + std::to_string(o.source_output) + " target_output: " + std::to_string(o.target_output) + " }";
  return text + " }";
}

std::string binary(const std::string& text) {
  taso::proto::RuleCollection collection;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &collection));
  return collection.SerializeAsString();
}

TasoImport import_text(const std::string& text) { return import_taso(binary(text), "file.pb"); }

Rule import_one(const Operators& source, const Operators& target, const std::vector<Output>& outputs) {
  const TasoImport result = import_text(rule_text(source, target, outputs));
  for (const auto& s : result.skipped) FAIL_CHECK(s.name << ": " << s.reason);
  REQUIRE(result.rules.size() == 1);
  return result.rules[0];
}

// The reason why a rule with these operators in its source cannot be expressed.
std::string reason(const Operators& source, const Operators& target = {}, const std::vector<Output>& outputs = {{0, -1}}) {
  const TasoImport result = import_text(rule_text(source, target, outputs));
  if (!result.rules.empty()) return "accepted: " + to_algebra(result.rules[0]);
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].name == "taso_0");
  return result.skipped[0].reason;
}

// The lines of a rule's algebra: inputs, source and target.
std::vector<std::string> lines(const Rule& rule) {
  std::vector<std::string> result;
  std::string line;
  for (const char c : to_algebra(rule)) {
    if (c != '\n') {
      line += c;
      continue;
    }
    result.push_back(line.substr(std::min(line.find_first_not_of(" "), line.size())));
    line.clear();
  }
  return result;
}

// Checks how an operator is read, with a rule that equates it to itself.
void check_operator(const Operators& operators, const std::string& inputs, const std::string& algebra) {
  const int last = static_cast<int>(operators.size()) - 1;
  const std::vector<std::string> text = lines(import_one(operators, operators, {{last, last}}));
  REQUIRE(text.size() >= 4);
  CHECK(text[1] == inputs);
  CHECK(text[2] == algebra);
  CHECK(text[3] == "=> " + algebra);
}

const std::pair<int, int> x{-1, 0}, y{-2, 0}, z{-3, 0}, w{-4, 0};

std::vector<std::pair<int, int>> window(int stride, int padding, int activation = 0, int kernel = 3) {
  return {{4, kernel}, {5, kernel}, {6, stride}, {7, stride}, {8, padding}, {9, activation}};
}

RuleTest tested(const Rule& rule) { return test_rule(rule, 30, 1); }

// Protobuf's wire format: a number, and a submessage.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
std::string part(int field, const std::string& body) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(body.size()) + body;
}

}  // namespace

TEST_CASE("the numbers of the fields are those of TASO's schema", "[taso]") {
  const auto tensor = [](int of, int output) { return number(1, of) + number(2, output); };
  const auto parameter = [](int key, int value) { return number(1, key) + number(2, value); };
  // A concatenation's split passes through relu.
  const std::string concat = part(3, parameter(11, 1)) + part(3, parameter(10, 2));
  const std::string source = part(1, number(1, 12) + part(2, tensor(-1, 0)) + part(2, tensor(-2, 0)) + concat) +
                             part(1, number(1, 8) + part(2, tensor(0, 0)));
  const std::string target = part(2, number(1, 8) + part(2, tensor(-1, 0))) + part(2, number(1, 8) + part(2, tensor(-2, 0))) +
                             part(2, number(1, 12) + part(2, tensor(0, 0)) + part(2, tensor(1, 0)) + concat);
  const std::string output = part(3, number(1, 1) + number(2, 2) + number(3, 0) + number(4, 0));
  const TasoImport result = import_taso(part(1, source + target + output), "file.pb");
  REQUIRE(result.rules.size() == 1);
  CHECK(result.rules[0].name == "taso_0");
  CHECK(result.rules[0].origin == RuleOrigin::kImported);
  CHECK(result.rules[0].proof.status == RuleStatus::kUnknown);
  CHECK(lines(result.rules[0])[1] == "x1[M, N], x2[M, N2]");
  CHECK(lines(result.rules[0])[2] == "Relu(Concat(x1, x2; axis=1))");
  CHECK(lines(result.rules[0])[3] == "=> Concat(Relu(x1), Relu(x2); axis=1)");
}

TEST_CASE("what each operator means", "[taso]") {
  check_operator({op(3, {x, w}, window(1, 0))}, "x1[N, D*g, H, W], x2[L*g, D, R, S]",
                 "Conv(x1, x2; pads_begin=[((R + 1) div 2) - 1, ((S + 1) div 2) - 1], pads_end=[R - ((R + 1) div 2), "
                 "S - ((S + 1) div 2)], group=g)");
  check_operator({op(3, {x, w}, window(2, 1, 2))}, "x1[N, D*g, H, W], x2[L*g, D, R, S]",
                 "Relu(Conv(x1, x2; strides=[2, 2], group=g))");
  check_operator({op(3, {x, w}, window(1, 1, 1))}, "x1[N, D*g, H, W], x2[L*g, D, R, S]", "Sigmoid(Conv(x1, x2; group=g))");
  check_operator({op(3, {x, w}, window(1, 1, 3))}, "x1[N, D*g, H, W], x2[L*g, D, R, S]", "Tanh(Conv(x1, x2; group=g))");
  check_operator({op(6, {x}, window(1, 0))}, "x1[N, C, H, W]",
                 "MaxPool(x1; kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1])");
  check_operator(
      {op(6, {x}, window(2, 0))}, "x1[N, C, H, W]",
      "MaxPool(x1; kernel=[3, 3], strides=[2, 2], pads_begin=[((-((H + 1) mod 2)) div 2) + 1, ((-((W + 1) mod 2)) div 2) "
      "+ 1], pads_end=[-((-((H + 1) mod 2)) div 2) - ((H + 1) mod 2) + 1, -((-((W + 1) mod 2)) div 2) - ((W + 1) mod 2) "
      "+ 1])");
  check_operator({op(7, {x}, window(1, 1))}, "x1[N, C, H, W]", "AveragePool(x1; kernel=[3, 3], count_include_pad=true)");
  check_operator({op(8, {x})}, "x1[Z...]", "Relu(x1)");
  check_operator({op(9, {x})}, "x1[Z...]", "Sigmoid(x1)");
  check_operator({op(10, {x})}, "x1[Z...]", "Tanh(x1)");
  check_operator({op(12, {x, y, z}, {{11, 0}, {10, 2}})}, "x1[M, N], x2[M2, N], x3[M3, N]", "Concat(x1, x2, x3)");
  check_operator({op(15, {x}, {{10, 3}, {12, 2 * 9 + 0 * 3 + 1}, {13, 1}})}, "x1[B, M, N]", "Transpose(x1; perm=[2, 0, 1])");
  check_operator({op(15, {x}, {{10, 2}, {12, 2}, {13, 0}})}, "x1[M, N]", "Transpose(x1; perm=[1, 0])");
  check_operator({op(16, {x, y})}, "x1[Z...], x2[Z...]", "x1 + x2");
  check_operator({op(17, {x, y})}, "x1[Z...], x2[Z...]", "x1 * x2");
  check_operator({op(18, {x, y}, {{9, 0}})}, "x1[Z..., M, K], x2[Z..., K, N]", "MatMul(x1, x2)");
  check_operator({op(18, {x, y}, {{9, 3}})}, "x1[Z..., M, K], x2[Z..., K, N]", "Tanh(MatMul(x1, x2))");
  check_operator({op(19, {x, y})}, "x1[Z...], x2[]", "x1 * x2");
  check_operator({op(28, {x, y})}, "x1[Z...], x2[Z...]", "x1 - x2");
  check_operator({op(29, {x, y})}, "x1[Z...], x2[Z...]", "x1 / x2");
  check_operator({op(33, {x, y})}, "x1[Z...], x2[Z...]", "Max(x1, x2)");
  check_operator({op(34, {x, y})}, "x1[Z...], x2[Z...]", "Min(x1, x2)");
  check_operator({op(49, {x})}, "x1[Z...]", "Exp(x1)");
  check_operator({op(51, {x})}, "x1[Z...]", "Log(x1)");
  check_operator({op(53, {x})}, "x1[Z...]", "Sqrt(x1)");
}

TEST_CASE("constants are as large as their use asks for", "[taso]") {
  check_operator({op(22, {}), op(18, {x, {0, 0}}, {{9, 0}})}, "x1[M, N]", "MatMul(x1, Eye(; size=N, type=T))");
  check_operator({op(24, {}), op(17, {x, {0, 0}})}, "x1[Z...]", "x1 * Fill(; value=1, type=T, shape=Z)");
  check_operator({op(24, {}), op(18, {x, y}, {{9, 0}}), op(17, {{1, 0}, {0, 0}})}, "x1[Z..., M, K], x2[Z..., K, N]",
                 "MatMul(x1, x2) * Fill(; value=1, type=T, shape=join(Z, [M, N]))");
  check_operator({op(25, {}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(1, 1))}, "x1[N, C, H, W]",
                 "Conv(x1, Fill(; value=1, type=T, shape=[C, 1, 3, 3]) / Fill(; value=9, type=T); group=C)");
  // In a source an identity kernel may have any number of groups; in a target it has one.
  const Operators identity{op(23, {}, {{4, 3}, {5, 1}}), op(3, {x, {0, 0}}, window(1, 1))};
  const std::vector<std::string> text = lines(import_one(identity, identity, {{1, 1}}));
  CHECK(text[1] == "x1[N, D*g, H, W]");
  CHECK(text[2] == "Conv(x1, DiracKernel(; channels=D*g, group=g, kernel=[3, 1], centre=[1, 0], type=T); group=g)");
  CHECK(text[3] == "=> Conv(x1, DiracKernel(; channels=D*g, kernel=[3, 1], centre=[1, 0], type=T))");
  // Only the target's output determines it.
  const Rule rule = import_one({op(17, {x, y})}, {op(24, {}), op(17, {{0, 0}, x})}, {{0, 1}});
  CHECK(lines(rule)[3] == "=> Fill(; value=1, type=T, shape=Z) * x1");
  CHECK_THAT(reason({op(8, {x})}, {op(22, {}), op(22, {}), op(18, {{0, 0}, {1, 0}}, {{9, 0}}), op(8, {x})}, {{0, 3}}),
             Contains("accepted"));
  CHECK_THAT(reason({op(8, {x})}, {op(25, {}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(1, 1))}, {{0, 1}}),
             Contains("accepted"));
}

TEST_CASE("kernels are enlarged around their middle", "[taso]") {
  // Kernel sizes given in convolutions are used where a kernel is enlarged.
  Rule rule = import_one({op(3, {x, w}, window(1, 0, 0, 1))}, {op(20, {w}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(1, 0))},
                         {{0, 1}});
  CHECK(lines(rule)[1] == "x1[N, D*g, H, W], x2[L*g, D, 1, 1]");
  CHECK_THAT(lines(rule)[3], Contains("Pad(x2; pads_begin=[0, 0, 1, 1], pads_end=[0, 0, 1, 1])"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Padding that depends on the size's parity makes the rule wrong at stride 2.
  rule = import_one({op(3, {x, w}, window(2, 0, 0, 1))}, {op(20, {w}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(2, 0))},
                    {{0, 1}});
  CHECK(tested(rule).outcome == TestOutcome::kRefuted);
  // The form of TASO's optimizer: as large as another kernel.
  rule = import_one({op(20, {x, y}), op(8, {{0, 0}}), op(8, {y})}, {op(8, {x}), op(20, {{0, 0}, y}), op(8, {y})},
                    {{1, 1}, {2, 2}});
  CHECK_THAT(to_algebra(rule), Contains("where ") && Contains("R <= R2") && Contains("S <= S2"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
}

TEST_CASE("groups are what the shapes imply", "[taso]") {
  // Two convolutions that share a kernel have equal groups.
  Rule rule = import_one({op(3, {x, w}, window(1, 1)), op(3, {y, w}, window(1, 1)), op(16, {{0, 0}, {1, 0}})},
                         {op(16, {x, y}), op(3, {{0, 0}, w}, window(1, 1))}, {{2, 1}});
  CHECK_THAT(lines(rule)[2], Contains("Conv(x1, x2; group=g) + Conv(x3, x2; group=g)"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Chained: the kernels of the first are the channels of the second.
  const Operators chain{op(3, {x, w}, window(1, 1)), op(3, {{0, 0}, z}, window(1, 1))};
  const std::vector<std::string> chained = lines(import_one(chain, chain, {{1, 1}}));
  CHECK(chained[1] == "x1[N, D*g, H, W], x2[D2*g2, D, R, S], x3[K, D2, R2, S2]");
  CHECK(chained[2] == "Conv(Conv(x1, x2; group=g), x3; group=g2)");
  CHECK(chained[3] == "=> Conv(Conv(x1, x2; group=g), x3; group=g2)");
  // One input, and kernels of two depths.
  const Operators siblings{op(3, {x, w}, window(1, 1)), op(3, {x, z}, window(1, 1))};
  rule = import_one(siblings, siblings, {{0, 0}, {1, 1}});
  CHECK(lines(rule)[3] == "=> Conv(x1, x2; group=g), Conv(x1, x3; group=g2)");
  // Concatenated kernels belong to equal groups.
  rule = import_one({op(3, {x, w}, window(1, 1)), op(3, {x, z}, window(1, 1)), op(12, {{0, 0}, {1, 0}}, {{11, 1}, {10, 4}})},
                    {op(12, {w, z}, {{11, 0}, {10, 4}}), op(3, {x, {0, 0}}, window(1, 1))}, {{2, 1}});
  CHECK(lines(rule)[2] == "Concat(Conv(x1, x2), Conv(x1, x3); axis=1)");
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Two concatenated inputs are two groups, if both have equally many kernels.
  rule = import_one(
      {op(3, {x, w}, window(1, 1)), op(3, {y, z}, window(1, 1)), op(12, {{0, 0}, {1, 0}}, {{11, 1}, {10, 4}})},
      {op(12, {w, z}, {{11, 0}, {10, 4}}), op(12, {x, y}, {{11, 1}, {10, 4}}), op(3, {{1, 0}, {0, 0}}, window(1, 1))},
      {{2, 2}});
  CHECK_THAT(lines(rule)[3], Contains("group=2"));
  CHECK(tested(rule).outcome == TestOutcome::kRefuted);
  // Merged groups: the source has a multiple of `count`.
  rule = import_one({op(3, {x, w}, window(1, 1))}, {op(21, {w}, {{14, 2}}), op(3, {x, {0, 0}}, window(1, 1))}, {{0, 1}});
  CHECK_THAT(lines(rule)[2], Contains("group=2*G"));
  CHECK_THAT(to_algebra(rule), Contains("group=G)"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  rule = import_one({op(21, {w}, {{14, 3}}), op(3, {x, {0, 0}}, window(1, 1))}, {op(3, {x, w}, window(1, 1))}, {{1, 0}});
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
}

TEST_CASE("a split undoes the last concatenation of its axis", "[taso]") {
  const std::string joined = op(12, {x, y, z}, {{11, 1}, {10, 2}});
  Rule rule = import_one({joined, op(8, {{0, 0}}), op(13, {{1, 0}}, {{2, 3}, {11, 1}})}, {op(8, {x}), op(8, {y}), op(8, {z})},
                         {{2, 0, 0, 0}, {2, 1, 1, 0}, {2, 2, 2, 0}});
  CHECK_THAT(to_algebra(rule), Contains("sizes=[N, N2, N3]"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Two of three parts: the first two stay together.
  rule = import_one({joined, op(13, {{0, 0}}, {{2, 2}, {11, 1}})}, {op(12, {x, y}, {{11, 1}, {10, 2}})},
                    {{1, 0, 0, 0}, {1, -3, 1, 0}});
  CHECK_THAT(to_algebra(rule), Contains("sizes=[N + N2, N3]"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Through a product the split is the right operand's; through a sum both sides were concatenated at one place.
  const std::string pair = op(12, {x, y}, {{11, 1}, {10, 2}});
  rule = import_one({pair, op(18, {z, {0, 0}}, {{9, 0}}), op(13, {{1, 0}}, {{2, 2}, {11, 1}})},
                    {op(18, {z, x}, {{9, 0}}), op(18, {z, y}, {{9, 0}})}, {{2, 0, 0, 0}, {2, 1, 1, 0}});
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  const std::pair<int, int> u{-5, 0};
  rule = import_one({pair, op(12, {z, u}, {{11, 1}, {10, 2}}), op(16, {{0, 0}, {1, 0}}), op(13, {{2, 0}}, {{2, 2}, {11, 1}})},
                    {op(16, {x, z}), op(16, {y, u})}, {{3, 0, 0, 0}, {3, 1, 1, 0}});
  CHECK(lines(rule)[1] == "x1[M, N], x2[M, N2], x3[M, N], x4[M, N2]");
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // An input may be split anywhere, but at one place only.
  rule = import_one({op(13, {x}, {{2, 2}, {11, 1}}), op(8, {{0, 0}}), op(8, {{0, 1}})},
                    {op(8, {x}), op(13, {{0, 0}}, {{2, 2}, {11, 1}})}, {{1, 1, 0, 0}, {2, 1, 0, 1}});
  CHECK(lines(rule)[1] == "x1[M, A + A2, Z...]");
  CHECK_THAT(to_algebra(rule), Contains("sizes=[A, A2]"));
  CHECK(tested(rule).outcome == TestOutcome::kAgreed);
  // Windows do not preserve the split of their input.
  CHECK_THAT(reason({op(12, {x, y}, {{11, 2}, {10, 4}}), op(6, {{0, 0}}, window(1, 0)), op(13, {{1, 0}}, {{2, 2}, {11, 2}})},
                    {op(8, {x})}, {{2, 0}}),
             Contains("split of an axis that was not joined"));
}

TEST_CASE("what a rule cannot say is told, and the others are read", "[taso][errors]") {
  const TasoImport result =
      import_text(rule_text({op(8, {x})}, {op(8, {x})}, {{0, 0}}) + rule_text({op(14, {x})}, {op(8, {x})}, {{0, 0}}) +
                  rule_text({op(9, {x})}, {op(9, {x})}, {{0, 0}}));
  REQUIRE(result.rules.size() == 2);
  CHECK(result.rules[0].name == "taso_0");
  CHECK(result.rules[1].name == "taso_2");
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].name == "taso_1");
  CHECK_THAT(result.skipped[0].reason, Contains("reshape"));

  CHECK_THAT(reason({op(11, {x})}), Contains("operator 11"));
  CHECK_THAT(reason({op(-1, {x})}), Contains("operator -1"));
  CHECK_THAT(reason({op(2000000000, {x})}), Contains("operator 2000000000"));
  CHECK_THAT(reason({op(8, {x, y})}), Contains("relu has 2 inputs"));
  CHECK_THAT(reason({op(8, {{0, 0}})}), Contains("does not come before"));
  CHECK_THAT(reason({op(8, {{1, 0}}), op(8, {{0, 0}})}), Contains("reads operator 1"));
  CHECK_THAT(reason({op(8, {{-2147483648, 0}})}, {}, {{0, -2147483648}}), Contains("accepted"));
  CHECK_THAT(reason({op(8, {x}), op(8, {{0, 1}})}), Contains("output 1"));
  CHECK_THAT(reason({op(8, {x}), op(8, {{0, -1}})}), Contains("output -1"));
  CHECK_THAT(reason({op(8, {x})}, {op(8, {y})}, {{0, 0}}), Contains("input -2 of the target"));
  CHECK_THAT(reason({op(8, {x})}, {}, {{0, -2}}), Contains("input -2 of the target"));
  CHECK_THAT(reason({op(8, {x})}, {}, {{-1, -1}}), Contains("an output of the source is an input"));
  CHECK_THAT(reason({op(8, {x})}, {}, {{3, -1}}), Contains("operator 3"));
  CHECK_THAT(reason({op(8, {x})}, {}, {{0, -1, 1, 0}}), Contains("output 1 of relu"));
  CHECK_THAT(reason({op(8, {x})}, {}, {}), Contains("no output"));
  CHECK_THAT(reason({}, {op(8, {x})}, {{0, 0}}), Contains("no operator"));
  CHECK_THAT(reason({op(8, {x}), op(8, {y})}), Contains("not part of the source"));
  CHECK_THAT(reason(Operators(65, op(8, {x}))), Contains("65 operators"));

  Operators doubled{op(12, {x, x}, {{11, 0}, {10, 2}})}, two;
  for (int i = 0; i < 30; ++i) doubled.push_back(op(12, {{i, 0}, {i, 0}}, {{11, 0}, {10, 2}}));
  CHECK_THAT(reason(doubled), Contains("joined of more than 64 parts"));
  std::vector<std::pair<int, int>> many;
  for (int i = 1; i <= 20; ++i) many.emplace_back(-i, 0);
  two = {op(12, many, {{11, 0}, {10, 2}})};
  for (auto& [of, output] : many) of -= 20;
  two.push_back(op(12, many, {{11, 0}, {10, 2}}));
  two.push_back(op(12, {{0, 0}, {1, 0}}, {{11, 0}, {10, 2}}));
  CHECK_THAT(reason(two, {}, {{2, -1}}), Contains("it has 40 inputs"));

  CHECK_THAT(reason({op(3, {x, w}, {{6, 1}, {7, 1}})}), Contains("conv2d lacks parameter 8"));
  CHECK_THAT(reason({op(3, {x, w}, window(0, 0))}), Contains("parameter 6 of conv2d is 0"));
  CHECK_THAT(reason({op(3, {x, w}, window(1000000, 0))}), Contains("parameter 6"));
  CHECK_THAT(reason({op(3, {x, w}, window(1, 2))}), Contains("parameter 8 of conv2d is 2"));
  CHECK_THAT(reason({op(3, {x, w}, window(1, 0, 4))}), Contains("parameter 9 of conv2d is 4"));
  CHECK_THAT(reason({op(6, {x}, window(1, 0, 0, -3))}), Contains("parameter 4 of pool2d_max is -3"));
  CHECK_THAT(reason({op(12, {x, y}, {{11, 2}, {10, 2}})}), Contains("parameter 11 of concat is 2"));
  CHECK_THAT(reason({op(12, {x, y}, {{11, 0}, {10, 1000000000}})}), Contains("parameter 10 of concat"));
  CHECK_THAT(reason({op(13, {x}, {{11, 1}, {2, 2147483647}})}), Contains("parameter 2 of split"));
  CHECK_THAT(reason({op(13, {x}, {{11, 2147483647}, {2, 2}})}), Contains("parameter 11 of split"));
  CHECK_THAT(reason({op(15, {x}, {{10, 2}, {12, 3}})}), Contains("no permutation"));
  CHECK_THAT(reason({op(15, {x}, {{10, 2}, {12, 6}})}), Contains("no permutation"));
  CHECK_THAT(reason({op(21, {x}, {{14, 0}})}), Contains("parameter 14 of merge_gconv is 0"));
}

TEST_CASE("an ill-typed side is told", "[taso][errors]") {
  CHECK_THAT(reason({op(3, {x, w}, window(1, 0)), op(18, {{0, 0}, y}, {{9, 0}}), op(12, {{1, 0}, z}, {{11, 0}, {10, 3}})}, {},
                    {{2, -1}}),
             Contains("ill-typed: a tensor has 4 axes and 3") || Contains("ill-typed: a tensor has 3 axes and 4"));
  CHECK_THAT(reason({op(19, {x, y}), op(18, {{0, 0}, y}, {{9, 0}})}, {}, {{1, -1}}), Contains("ill-typed"));
  CHECK_THAT(reason({op(12, {x, x}, {{11, 0}, {10, 2}}), op(16, {{0, 0}, x})}, {}, {{1, -1}}),
             Contains("ill-typed: ewadd of tensors of other shapes"));
  CHECK_THAT(reason({op(20, {w}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(1, 0, 0, 5))}, {}, {{1, -1}}),
             Contains("ill-typed: conv2d with a kernel of another height"));
}

TEST_CASE("files that are no rules of TASO's are refused with one line", "[taso][errors]") {
  const auto refused = [](const std::string& bytes) {
    try {
      (void)import_taso(bytes, "file.pb");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
      CHECK(std::string(e.what()).find('\n') == std::string::npos);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::string whole = binary(rule_text({op(8, {x})}, {op(8, {x})}, {{0, 0}}));
  CHECK(refused(whole) == "accepted");
  CHECK_THAT(refused(""), Contains("file.pb: these are no rules in TASO's format"));
  CHECK_THAT(refused("rule relu_relu: \"\" x Relu(Relu(x)) => Relu(x) exact"), Contains("no rules in TASO's format"));
  CHECK_THAT(refused(write_rules(shipped_rules().rules(), RuleFormat::kBinary)), Contains("no rules in TASO's format"));
  for (std::size_t length = 1; length < whole.size(); ++length)
    CHECK_THAT(refused(whole.substr(0, length)), Contains("no rules in TASO's format"));
  CHECK_THAT(refused(whole + '\x0a'), Contains("no rules in TASO's format"));
  CHECK_THAT(refused(std::string((std::size_t{64} << 20) + 1, '\0')), Contains("too large"));
  std::string many;
  for (int i = 0; i < 100001; ++i) many += std::string("\x0a\x00", 2);
  CHECK_THAT(refused(many), Contains("100001 rules"));
}

TEST_CASE("damaged files are read or refused, nothing else", "[taso][errors]") {
  std::string text;
  text += rule_text({op(3, {x, w}, window(1, 0)), op(3, {x, z}, window(1, 0))},
                    {op(12, {w, z}, {{11, 0}, {10, 4}}), op(3, {x, {0, 0}}, window(1, 0)), op(13, {{1, 0}}, {{2, 2}, {11, 1}})},
                    {{0, 2, 0, 0}, {1, 2, 0, 1}});
  text += rule_text({op(3, {x, w}, window(2, 0))}, {op(21, {w}, {{14, 2}}), op(3, {x, {0, 0}}, window(2, 0))}, {{0, 1}});
  text += rule_text({op(15, {x}, {{10, 4}, {12, 108}}), op(24, {}), op(17, {{0, 0}, {1, 0}})},
                    {op(15, {x}, {{10, 4}, {12, 108}})}, {{2, 0}});
  text += rule_text({op(7, {x}, window(1, 0))}, {op(25, {}, {{4, 3}, {5, 3}}), op(3, {x, {0, 0}}, window(1, 0))}, {{0, 1}});
  const std::string whole = binary(text);
  std::mt19937_64 random(1);
  std::size_t read = 0, skipped = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 1 + i % 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random() % 32);
    try {
      const TasoImport result = import_taso(damaged, "damaged");
      for (const Rule& rule : result.rules) CHECK(read_rules(write_rules({rule}, RuleFormat::kAlgebra), "again").size() == 1);
      read += result.rules.size(), skipped += result.skipped.size();
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find('\n') == std::string::npos);
      ++refused;
    }
  }
  CHECK(read > 100);
  CHECK(skipped > 100);
  CHECK(refused > 100);
}
