// An equation becomes a rule as general as it holds, and no more general.
#include "generator/writing/generalization.h"

#include <catch2/catch.hpp>

#include "generator/pruning/rule_theory.h"
#include "generator/testing.h"
#include "generator/writing/rule_writer.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::generator;
using generator::testing::Found;

namespace {

std::string contents(Rule rule) {
  rule.name = "rule";
  rule.description.clear();
  return to_algebra(rule);
}

std::string all(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) text += contents(rule);
  return text;
}

bool open(const Rule& rule) {
  return std::any_of(rule.inputs.begin(), rule.inputs.end(), [](const PatternInput& i) { return i.shape.open; });
}

}  // namespace

TEST_CASE("the forms of an equation end with how it was found", "[generalization]") {
  for (const char* operators : {"taso", "transformer", "cnn"}) {
    Found found(operators);
    for (const Equation& q : found.kept(1, {.numeric = false})) {
      INFO(to_string(q, found.configuration));
      const std::vector<Family> forms = families(q, found.forms);
      REQUIRE(forms.size() >= 2);
      const Typing concrete = concrete_typing(q, found.forms);
      CHECK(forms.back().base.inputs == concrete.inputs);
      CHECK(forms.back().base.attributes == concrete.attributes);
      // take() returns false if it changes nothing, and a step applied twice changes nothing more.
      for (const Family& family : forms)
        for (const Family::Step& step : family.steps) {
          Typing typing = family.base;
          const bool taken = step.take(typing);
          const Typing once = typing;
          CHECK((taken || (typing.attributes == family.base.attributes && typing.inputs == family.base.inputs)));
          if (taken && typing.predicates.empty()) {
            step.take(typing);
            CHECK(typing.attributes == once.attributes);
          }
        }
    }
  }
}

TEST_CASE("a rule has the equation that it was written from as an instance, and holds on others", "[generalization][long]") {
  for (const auto& [operators, step] :
       {std::pair<const char*, std::size_t>("taso", 3), std::pair<const char*, std::size_t>("transformer", 3),
        std::pair<const char*, std::size_t>("elementwise", 5)}) {
    Found found(operators);
    RuleWriter writer(found.forms, {.instances = 20});
    std::size_t written = 0, open_ones = 0;
    const std::vector<Equation> kept = found.kept(2, {.numeric = false});
    for (std::size_t n = 0; n < kept.size(); n += step) {
      const std::vector<Rule> rules = writer.write(kept[n], "general");
      const std::optional<Rule> as_found = writer.as_found(kept[n]);
      INFO(to_string(kept[n], found.configuration) << "\n" << all(rules));
      if (rules.empty()) continue;
      ++written;
      REQUIRE(as_found);
      RuleTheory theory;
      for (const Rule& rule : rules) {
        open_ones += open(rule);
        CHECK(test_rule(rule, 8, 1234 + n).outcome == TestOutcome::kAgreed);
        theory.add(rule);
      }
      CHECK(theory.derives(*as_found, {.rounds = 1, .instances = 2}));
    }
    INFO(operators);
    CHECK(written > 10);
    CHECK(open_ones > 3);
  }
}

TEST_CASE("sizes and attributes become variables as far as it holds", "[generalization]") {
  struct Case {
    const char *operators, *equation;
    std::vector<const char*> instances;  // of other ranks, sizes and attributes
    std::vector<const char*> others;     // not instances; most are wrong
  };
  const Case cases[] = {
      {"Relu,concat(axis=0)",
       "x[M, K], y[M, K] Concat(Relu(x), Relu(y); axis=0) => Relu(Concat(x, y; axis=0)) exact",
       {"x[A, B], y[A, C] Concat(Relu(x), Relu(y); axis=1) => Relu(Concat(x, y; axis=1)) exact",
        "x[A, B, 3, D], y[A, C, 3, D] Relu(Concat(x, y; axis=1)) => Concat(Relu(x), Relu(y); axis=1) exact",
        "x[A]: any, y[B]: any Concat(Relu(x), Relu(y); axis=0) => Relu(Concat(x, y; axis=0)) exact"},
       {"x[A, A], y[A, A] Concat(Relu(x), Relu(y); axis=1) => Relu(Concat(x, y; axis=0)) exact"}},
      {"Softmax(axis=1),concat(axis=0)",
       "x[M, K], y[M, K] Softmax(Concat(x, y; axis=0); axis=1) => Concat(Softmax(x; axis=1), Softmax(y; axis=1); axis=0) exact",
       {"x[A, B, C], y[D, B, C] Softmax(Concat(x, y; axis=0); axis=1) => Concat(Softmax(x; axis=1), Softmax(y; axis=1); "
        "axis=0) "
        "exact"},
       {"x[A, B], y[D, B] Softmax(Concat(x, y; axis=0); axis=0) => Concat(Softmax(x; axis=0), Softmax(y; axis=0); axis=0) "
        "exact"}},
      {"transpose,Relu",
       "x[M, K] Transpose(Relu(x); perm=[1, 0]) => Relu(Transpose(x; perm=[1, 0])) exact",
       {"x[A, B, C] Transpose(Relu(x); perm=[1, 2, 0]) => Relu(Transpose(x; perm=[1, 2, 0])) exact"},
       {"x[A, A, A] Transpose(Relu(x); perm=[1, 2, 0]) => Relu(Transpose(x; perm=[1, 0, 2])) exact"}},
      {"transpose",
       "x[M, K] Transpose(Transpose(x; perm=[1, 0]); perm=[1, 0]) => x exact",
       {"x[A, B] Transpose(Transpose(x; perm=[1, 0]); perm=[1, 0]) => x exact"},
       {"x[A, A, A] Transpose(Transpose(x; perm=[1, 2, 0]); perm=[1, 2, 0]) => x exact"}},
      {"transpose,concat(axis=0|1)",
       "x[M, K], y[M, K] Transpose(Concat(x, y; axis=0); perm=[1, 0]) => Concat(Transpose(x; perm=[1, 0]), Transpose(y; "
       "perm=[1, 0]); "
       "axis=1) exact",
       {"x[A, B, C], y[A, B, D] Transpose(Concat(x, y; axis=2); perm=[1, 2, 0]) => Concat(Transpose(x; perm=[1, 2, 0]), "
        "Transpose(y; "
        "perm=[1, 2, 0]); axis=1) exact"},
       {"x[A, A, A], y[A, A, A] Transpose(Concat(x, y; axis=2); perm=[1, 2, 0]) => Concat(Transpose(x; perm=[1, 2, 0]), "
        "Transpose(y; "
        "perm=[1, 2, 0]); axis=2) exact"}},
      {"conv2d(kernel=3,stride=2),Add",
       "x[N, C, H, W], y[C, C, 3, 3], z[C, C, 3, 3] Conv(x, y; strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]) + Conv(x, "
       "z; "
       "strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]) => Conv(x, y + z; strides=[2, 2], pads_begin=[1, 1], pads_end=[1, "
       "1]) "
       "reassociates",
       {"x[N, C, H, W], y[K, C, 1, 5], z[K, C, 1, 5] Conv(x, y; strides=[1, 3], pads_begin=[0, 2], pads_end=[1, 2]) + Conv(x, "
        "z; "
        "strides=[1, 3], pads_begin=[0, 2], pads_end=[1, 2]) => Conv(x, y + z; strides=[1, 3], pads_begin=[0, 2], pads_end=[1, "
        "2]) "
        "reassociates",
        "x[N, 4, H], y[K, 2, 3], z[K, 2, 3] Conv(x, y; group=2) + Conv(x, z; group=2) => Conv(x, y + z; group=2) reassociates"},
       {"x[N, C, H, W], y[C, C, 3, 3], z[C, C, 3, 3] Conv(x, y; pads_begin=[1, 1], pads_end=[1, 1]) + Conv(x, z; "
        "pads_begin=[1, 1], "
        "pads_end=[1, 1]) => Conv(x, y + z; dilations=[2, 2], pads_begin=[2, 2], pads_end=[2, 2]) reassociates"}},
      {"enlarge(kernel=3),conv2d(kernel=3|1x3),concat(axis=0)",
       "x[C, C, 1, 3], y[C, C, 1, 3] Concat(Pad(x; pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 1, 0]), Pad(y; pads_begin=[0, 0, "
       "1, 0], "
       "pads_end=[0, 0, 1, 0]); axis=0) => Pad(Concat(x, y; axis=0); pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 1, 0]) exact",
       {"x[K, C, 3, 1], y[L, C, 3, 1] Concat(Pad(x; pads_begin=[0, 0, 0, 1], pads_end=[0, 0, 0, 1]), Pad(y; pads_begin=[0, 0, "
        "0, 1], "
        "pads_end=[0, 0, 0, 1]); axis=0) => Pad(Concat(x, y; axis=0); pads_begin=[0, 0, 0, 1], pads_end=[0, 0, 0, 1]) exact"},
       {"x[K, C, 1, 1], y[K, C, 1, 1] Concat(Pad(x; pads_begin=[0, 0, 0, 1], pads_end=[0, 0, 0, 1]), Pad(y; pads_begin=[0, 0, "
        "0, 1], "
        "pads_end=[0, 0, 0, 1]); axis=3) => Pad(Concat(x, y; axis=3); pads_begin=[0, 0, 0, 2], pads_end=[0, 0, 0, 2]) exact"}},
      {"LeakyRelu(alpha=0.1),concat(axis=0)",
       "x[M, K], y[M, K] Concat(LeakyRelu(x; alpha=0.1), LeakyRelu(y; alpha=0.1); axis=0) => LeakyRelu(Concat(x, y; axis=0); "
       "alpha=0.1) exact",
       {"x[A, B], y[A, B] Concat(LeakyRelu(x; alpha=0.3), LeakyRelu(y; alpha=0.3); axis=1) => LeakyRelu(Concat(x, y; axis=1); "
        "alpha=0.3) exact"},
       {"x[A, B], y[A, B] Concat(LeakyRelu(x; alpha=0.3), LeakyRelu(y; alpha=0.2); axis=1) => LeakyRelu(Concat(x, y; axis=1); "
        "alpha=0.3) exact"}},
  };
  for (const Case& c : cases) {
    Found found(c.operators);
    RuleWriter writer(found.forms, {.instances = 100});  // no proofs; about one instance in ten has three axes
    const std::vector<Rule> rules = writer.write(found.equation(c.equation), "r");
    RuleTheory theory;
    for (const Rule& rule : rules) theory.add(rule);
    const auto follows = [&](const char* text) {
      return theory.derives(parse_algebra(std::string("rule r: \"\" ") + text, "test").at(0), {.rounds = 1});
    };
    for (const char* instance : c.instances) {
      INFO(all(rules) << instance);
      CHECK(follows(instance));
    }
    for (const char* other : c.others) {
      INFO(all(rules) << other);
      CHECK(!follows(other));
    }
  }
}

TEST_CASE("the most general form that is proved is written", "[generalization]") {
  Found found("matmul,Relu,concat(axis=0|1)");
  const Equation q = found.equation(
      "x[M, K], y[M, K], z[K, K] Concat(MatMul(x, z), MatMul(y, z); axis=0) => MatMul(Concat(x, y; axis=0), z) exact");
  std::vector<Rule> asked;
  const auto write = [&](const std::function<bool(const Rule&)>& believe) {
    asked.clear();
    RuleWriter writer(found.forms, {.prove = [&](const Rule& rule) {
                        asked.push_back(rule);
                        return believe(rule) ? std::optional(rule) : std::nullopt;
                      }});
    return writer.write(q, "r");
  };
  const std::vector<Rule> most = write([](const Rule&) { return true; });
  REQUIRE(!most.empty());
  CHECK(open(most[0]));
  const std::vector<Rule> less = write([](const Rule& rule) { return !open(rule); });
  CHECK(std::any_of(asked.begin(), asked.end(), open));
  REQUIRE(!less.empty());
  for (const Rule& rule : less) CHECK(!open(rule));
  CHECK(asked.size() > less.size());
  CHECK(write([](const Rule&) { return false; }).empty());
}
