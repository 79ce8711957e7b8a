#include "equivalence/prove.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "base/temporary_folder.h"
#include "graph/contraction.h"
#include "graph/file.h"
#include "graph/testing.h"
#include "rules/io.h"
#include "rules/tester.h"
#include "verifier/certificate.h"

namespace rewright::equivalence {

namespace {

using testing::import_text;

ProveOptions options_of(std::uint64_t seed = 0) {
  ProveOptions options;
  options.seed = seed;
  options.rules = shipped_rules().rules();
  options.executors = {reference_executor(1e7, 20)};
  return options;
}

Proving proving(const std::string& a, const std::string& b, NameMap names = {}) {
  ProveOptions options = options_of();
  options.names = std::move(names);
  return prove(import_text(a), import_text(b), options);
}

// Both graphs on the same random inputs, all close to each other.
bool agree(const Graph& a, const Graph& b, int runs) {
  std::mt19937 random(7);
  for (int run = 0; run < runs; ++run) {
    std::vector<Tensor> inputs;
    for (const ValueId id : a.inputs()) inputs.push_back(testing::random_tensor(a.value(id).type, random));
    const std::vector<Tensor> x = interpret(a, inputs), y = interpret(b, inputs);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i].sizes() != y[i].sizes()) return false;
      const std::vector<double> p = x[i].reals(), q = y[i].reals();
      for (std::size_t k = 0; k < p.size(); ++k)
        if (std::isfinite(p[k]) && !(std::abs(p[k] - q[k]) <= 1e-4 * (1 + std::abs(p[k])))) return false;
    }
  }
  return true;
}

// A random network of square matrices, as a list of instructions that can be changed.
struct Instruction {
  int op, x, y;
};
using Program = std::vector<Instruction>;
constexpr const char* kOperators[] = {"Add", "Mul", "Sub", "MatMul", "Relu", "Neg", "Tanh", "Transpose", "Softmax", "Abs"};
constexpr int kBinary = 4, kOperatorCount = 10;

Program random_program(std::mt19937_64& random, int size) {
  Program program;
  for (int n = 0; n < size; ++n)
    program.push_back({static_cast<int>(random() % kOperatorCount), static_cast<int>(random() % static_cast<unsigned>(n + 3)),
                       static_cast<int>(random() % static_cast<unsigned>(n + 3))});
  return program;
}

Graph graph_of(const Program& program) {
  Graph graph;
  std::vector<ValueId> values{graph.add_input("x", {DataType::kFloat, {3, 3}}),
                              graph.add_input("y", {DataType::kFloat, {3, 3}})};
  values.push_back(graph.add_constant(testing::floats({3, 3}, {0.5, -1, 2, 0.25, 1, -0.5, 1.5, 0.75, -2})));
  for (const Instruction& i : program) {
    const Operator& op = registry().get(kOperators[i.op]);
    std::vector<ValueId> inputs{values.at(static_cast<std::size_t>(i.x))};
    if (i.op < kBinary) inputs.push_back(values.at(static_cast<std::size_t>(i.y)));
    values.push_back(graph.add_node(op, op.defaults(), inputs).at(0));
  }
  graph.add_output("z", values.back());
  graph.tidy();
  return graph;
}

}  // namespace

TEST_CASE("prove: what tools make of models") {
  const std::pair<const char*, const char*> equal[] = {
      {"agraph (float[N, 8] x) => (float[N, 8] y) { a = Identity(x) b = Transpose<perm = [1, 0]>(a) "
       "c = Transpose<perm = [1, 0]>(b) y = Relu(c) }",
       "agraph (float[M, 8] x) => (float[M, 8] y) { y = Relu(x) }"},
      {"agraph (float[2, 4] x) => (float[2, 3] y) <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[3] c = {1, 2, "
       "3}> "
       "{ a = MatMul(x, w) y = Add(c, a) }",
       "agraph (float[2, 4] x) => (float[2, 3] y) <float[3, 4] w = {1, 4, 7, 1, 2, 5, 8, 2, 3, 6, 9, 3}, float[3] c = {1, 2, "
       "3}> "
       "{ y = Gemm<transB = 1>(x, w, c) }"},
      {"agraph (float[2, 4] x) => (float[2, 4] y) <float c = {3}, float d = {0.1}> { a = Mul(x, c) y = Mul(a, d) }",
       "agraph (float[2, 4] x) => (float[2, 4] y) <float e = {0.3}> { y = Mul(x, e) }"},
  };
  for (const auto& [a, b] : equal) {
    const Proving result = proving(a, b);
    INFO(b << ": " << result.reason);
    CHECK(result.verdict == Verdict::kProved);
  }
}

TEST_CASE("prove: a position that is a constant is a slice") {
  const Proving result = proving("agraph (float[3, 5] x) => (float[3] y) <int64 i = {4}> { y = Gather<axis = 1>(x, i) }",
                                 "agraph (float[3, 5] x) => (float[3] y) <int64[2] parts = {4, 1}, int64[1] axes = {1}> "
                                 "{ a, b = Split<axis = 1>(x, parts) y = Squeeze(b, axes) }");
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
}

TEST_CASE("prove: positions that are moved nowhere are the same") {
  const Proving result = proving(
      "agraph (int64[2, 3] i) => (float[2, 3, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[2] s = {2, 3}> "
      "{ r = Reshape(i, s) y = Gather(w, r) }",
      "agraph (int64[2, 3] i) => (float[2, 3, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = Gather(w, i) }");
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
}

TEST_CASE("prove: constants of the second model that are sums of what the first one computes from constants") {
  const Proving result = proving(
      "agraph (float[2, 2] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, int64[2] i = {2, 0}, float[2] c = {1, "
      "3}> "
      "{ g = Gather(w, i) t = Mul(g, c) a = Add(x, t) y = Add(a, c) }",
      "agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] k = {6, 21, 2, 9}> { y = Add(x, k) }");
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
}

// Two products with scales of their results, and one product whose weights are both, scaled: `last` is the last one's.
std::pair<std::string, std::string> joined_products(const std::string& last) {
  return {
      "agraph (float[3, 2] x) => (float[3, 2] y, float[3, 2] z) <float[2, 2] v = {1, 2, 3, 4}, float[2] p = {2, 3}, "
      "float[2, 2] w = {5, 6, 7, 8}, float[2] q = {1.5, -1}> "
      "{ a = MatMul(x, v) y = Mul(a, p) b = MatMul(x, w) z = Mul(b, q) }",
      "agraph (float[3, 2] x) => (float[3, 2] y, float[3, 2] z) <float[2, 4] k = {2, 6, 7.5, -6, 6, 12, 10.5, " + last +
          "}, int64[2] s = {2, 2}> { m = MatMul(x, k) y, z = Split<axis = 1>(m, s) }"};
}

TEST_CASE("prove: constants that are joined of what rules make of constants") {
  const auto [a, b] = joined_products("-8");
  const Proving result = proving(a, b);
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
  const auto [c, wrong] = joined_products("-8.5");
  CHECK(proving(c, wrong).verdict != Verdict::kProved);
}

TEST_CASE("prove: what a recurrent node does without is zero") {
  const std::string model = "agraph (float[T, 1, 2] x, float[1, 6, 2] w, float[1, 6, 2] r) => (float[T, 1, 1, 2] y) ";
  const Proving result =
      proving(model + "{ y = GRU<hidden_size = 2>(x, w, r) }", model +
                                                                   "<float[1, 12] b = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}> "
                                                                   "{ y = GRU<hidden_size = 2>(x, w, r, b) }");
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
  CHECK(proving(model + "{ y = GRU<hidden_size = 2>(x, w, r) }",
                model + "<float[1, 12] b = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}> { y = GRU<hidden_size = 2>(x, w, r, b) }")
            .verdict != Verdict::kProved);
}

TEST_CASE("prove: what differs is refuted, and named") {
  const Proving result = proving("agraph (float[2, 4] x) => (float[2, 4] y) { a = Relu(x) b = Neg(a) c = Tanh(b) y = Exp(c) }",
                                 "agraph (float[2, 4] x) => (float[2, 4] y) { a = Relu(x) b = Abs(a) c = Tanh(b) y = Exp(c) }");
  REQUIRE(result.verdict == Verdict::kRefuted);
  REQUIRE(result.counterexample);
  REQUIRE(result.places.size() == 1);
  CHECK(result.places[0].a == "b");
  CHECK(result.places[0].b == "b");
  REQUIRE(result.smallest);
  CHECK(result.smallest->first.nodes().size() + result.smallest->second.nodes().size() <= 2);
}

TEST_CASE("prove: names that were changed are mapped") {
  const char *a = "agraph (float[2] x) => (float[2] y) { y = Relu(x) }",
             *b = "agraph (float[2] p) => (float[2] q) { q = Relu(p) }";
  CHECK_THROWS_AS(proving(a, b), Error);
  CHECK(proving(a, b, {{"x", "p"}, {"y", "q"}}).verdict == Verdict::kProved);
  CHECK_THROWS_AS(proving(a, b, {{"x", "p"}, {"y", "r"}}), Error);
  CHECK_THROWS_AS(proving(a, "agraph (float[3] x) => (float[3] y) { y = Relu(x) }"), Error);
}

TEST_CASE("prove: never of what is defined for fewer sizes") {
  const char* a = "agraph (float[N] x) => (float[N] y) { y = Relu(x) }";
  const Proving result = proving(a,
                                 "agraph (float[N] x) => (float[N] y) <int64[2] s = {2, -1}, int64[1] t = {-1}> "
                                 "{ p = Reshape(x, s) q = Relu(p) y = Reshape(q, t) }");
  CHECK(result.verdict != Verdict::kProved);
}

TEST_CASE("prove: never of positions that may be outside") {
  const auto gather = [](const std::string& axis) {
    return "agraph (int64[N, 4] i) => (float[N, 4] y) <float[1, 4] z = {0, 0, 0, 0}, int64[2] s = {5, 4}> "
           "{ e = Expand(z, s) y = GatherElements<axis = " +
           axis + ">(e, i) }";
  };
  CHECK(proving(gather("0"), gather("1")).verdict != Verdict::kProved);
  CHECK(proving(gather("0"), gather("0")).verdict == Verdict::kProved);
}

TEST_CASE("prove: never of independent random numbers that became one") {
  const char* two = "agraph (float[2] x) => (float[2] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b) }";
  const char* one = "agraph (float[2] x) => (float[2] y) { a = RandomNormalLike(x) y = Sub(a, a) }";
  CHECK(proving(two, one).verdict != Verdict::kProved);
  CHECK(proving(one, two).verdict != Verdict::kProved);
  CHECK(proving(two, two).verdict == Verdict::kProved);
}

TEST_CASE("prove: opaque nodes with other attributes or bodies are not equal") {
  const auto loop = [](const std::string& body) {
    return "agraph (float[2] x, bool c) => (float[2] y) { y = If(c)<then_branch = t () => (float[2] r) { r = " + body +
           "(x) }, else_branch = e () => (float[2] r) { r = Neg(x) }> }";
  };
  CHECK(proving(loop("Relu"), loop("Relu")).verdict == Verdict::kProved);
  CHECK(proving(loop("Relu"), loop("Abs")).verdict != Verdict::kProved);
}

TEST_CASE("prove: bodies are models of their own") {
  const auto branches = [](const std::string& outside, const std::string& captured, const std::string& body) {
    return "agraph (float[2] x, float[2] z, bool c) => (float[2] y) { " + outside +
           " y = If(c)<then_branch = t () => (float[2] r) { " + body + " }, else_branch = e () => (float[2] s) { s = Neg(" +
           captured + ") }> }";
  };
  const std::string a = branches("p = Relu(x) q = Relu(p)", "q", "u = Identity(q) r = Relu(u)");
  const Proving result = proving(a, branches("k = Relu(x)", "k", "v = Neg(k) w = Neg(v) r = Relu(w)"));
  INFO(result.reason);
  CHECK(result.verdict == Verdict::kProved);
  CHECK(proving(a, branches("k = Relu(x)", "k", "r = Neg(k)")).verdict != Verdict::kProved);
  CHECK(proving(a, branches("k = Relu(z)", "k", "r = Relu(k)")).verdict != Verdict::kProved);
  const auto sum = [](const std::string& body) {
    return "agraph (float[2] x, int64 n, bool c) => (float[2] y) { y = Loop(n, c, x)<body = b (int64 i, bool d, float[2] t) => "
           "(bool e, float[2] u) { e = Identity(d) " +
           body + " }> }";
  };
  CHECK(proving(sum("v = Add(t, x) u = Relu(v)"), sum("v = Add(x, t) w = Relu(v) u = Relu(w)")).verdict == Verdict::kProved);
  CHECK(proving(sum("v = Add(t, x) u = Relu(v)"), sum("v = Add(t, t) u = Relu(v)")).verdict != Verdict::kProved);
}

TEST_CASE("prove: instances of rules are never refuted", "[sampling]") {
  std::mt19937_64 random(1);
  const std::vector<Rule>& rules = shipped_rules().rules();
  int proved = 0, tried = 0;
  for (int n = 0; n < 60; ++n) {
    const Rule& rule = rules[random() % rules.size()];
    InstanceSampler sampler(rule, random());
    const auto instance = sampler.sample(300);
    if (!instance) continue;
    try {
      const Graph target = instantiate(rule, rule.target, instance->input_types, instance->bindings);
      const Proving result = prove(instance->source, target, options_of(random()));
      INFO(rule.name << ": " << result.reason);
      CHECK(result.verdict != Verdict::kRefuted);
      ++tried;
      proved += result.verdict == Verdict::kProved;
    } catch (const Error&) {  // it cannot be executed
    }
  }
  CHECK(tried >= 20);
  CHECK(proved * 10 >= tried * 8);
}

TEST_CASE("prove: counterexamples of wrong rules are never proved", "[sampling][long]") {
  int refuted = 0, tried = 0;
  for (const Rule& rule : read_rules(std::filesystem::path("rules/testing/wrong.rules"))) {
    const RuleTest test = test_rule(rule, 100, 1);
    if (!test.counterexample || test.counterexample->difference.kind != SideDifference::Kind::kValue) continue;
    const RuleInstance& instance = test.counterexample->instance;
    const Proving result =
        prove(instance.source, instantiate(rule, rule.target, instance.input_types, instance.bindings), options_of());
    INFO(rule.name);
    CHECK(result.verdict != Verdict::kProved);
    ++tried;
    refuted += result.verdict == Verdict::kRefuted;
  }
  CHECK(tried >= 10);
  CHECK(refuted * 10 >= tried * 8);
}

TEST_CASE("prove: mutants of random programs", "[sampling]") {
  std::mt19937_64 random(3);
  int different = 0, refuted = 0, equal = 0, proved = 0;
  for (int n = 0; n < 60; ++n) {
    const Program program = random_program(random, 8);
    Program mutant = program;
    Instruction& changed = mutant[random() % mutant.size()];
    switch (random() % 3) {
      case 0:
        changed.op = static_cast<int>(random() % kOperatorCount);
        break;
      case 1:
        std::swap(changed.x, changed.y);
        break;
      default:
        changed.x = static_cast<int>(random() % 3);
    }
    const Graph a = graph_of(program), b = graph_of(mutant);
    const Proving result = prove(a, b, options_of(random()));
    if (!agree(a, b, 20)) {
      ++different;
      CHECK(result.verdict != Verdict::kProved);
      refuted += result.verdict == Verdict::kRefuted;
    } else {
      ++equal;
      CHECK(result.verdict != Verdict::kRefuted);
      proved += result.verdict == Verdict::kProved;
    }
  }
  CHECK(different >= 10);
  CHECK(refuted * 10 >= different * 9);
  CHECK(proved * 10 >= equal * 8);
}

TEST_CASE("prove: certificates of constants that are joined, and of bodies") {
  const TemporaryFolder folder;
  const auto follow = [&](const std::string& a, const std::string& b, const std::string& wrong) {
    const auto file = [&](const char* name, const std::string& text) {
      write_file(folder.path() / name, graph::text_bytes(text));
      return folder.path() / name;
    };
    const auto x = file("a.onnx", a), y = file("b.onnx", b), z = file("c.onnx", wrong);
    ProveOptions options = options_of();
    options.certificate = folder.path() / "proof";
    const Proving result = prove(x, y, options);
    INFO(result.reason);
    REQUIRE(result.verdict == Verdict::kProved);
    const ProofCheck check = check_proof(x, y, options.certificate);
    INFO(check.reason);
    REQUIRE(check.accepted);
    // A proof's steps do not prove another model.
    const auto json = options.certificate / "equality.json";
    Proof proof = read_proof(map_file(json).text(), "proof");
    proof.second = proof::hexadecimal(proof::sha256(map_file(z).text()));
    write_file(json, write_proof(proof));
    try {
      CHECK(!check_proof(x, z, options.certificate).accepted);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
    }
  };
  const auto [a, b] = joined_products("-8");
  follow(a, b, joined_products("-8.5").second);
  const auto branches = [](const std::string& outside, const std::string& body) {
    return "agraph (float[2] x, bool c) => (float[2] y) { " + outside + " y = If(c)<then_branch = t () => (float[2] r) { " +
           body + " }, else_branch = e () => (float[2] s) { s = Neg(k) }> }";
  };
  follow(branches("p = Relu(x) k = Relu(p)", "u = Neg(k) v = Neg(u) r = Exp(v)"), branches("k = Relu(x)", "r = Exp(k)"),
         branches("k = Relu(x)", "r = Tanh(k)"));
}

// x / w - x / w is 0 where it is defined: a model may be 0 where another one divides, and not the other way round.
TEST_CASE("prove: a certificate that leads back to the first model is refused") {
  const TemporaryFolder folder("rewright-prove-");
  const auto file = [&](const char* name, const std::string& text) {
    write_file(folder.path() / name, graph::text_bytes(text));
    return folder.path() / name;
  };
  const auto divided = file("a.onnx", "agraph (float[2] x, float[2] w) => (float[2] y) { d = Div(x, w) y = Sub(d, d) }"),
             plain = file("b.onnx", "agraph (float[2] x, float[2] w) => (float[2] y) { y = Sub(x, x) }");
  ProveOptions options = options_of();
  options.executors = {};  // both are the same on random inputs
  options.certificate = folder.path() / "proof";
  const Proving result = prove(divided, plain, options);
  INFO(result.reason);
  REQUIRE(result.verdict == Verdict::kProved);
  CHECK(prove(plain, divided, options_of()).verdict != Verdict::kProved);
  const Graph x = import_onnx(divided), y = import_onnx(plain);
  const Joint joint(x, y, {}), other(y, x, {});
  const auto in_other = [&](ValueId id) {
    if (joint.is_of_first(id)) return other.of_second(id);
    for (ValueId own = 0; own < y.value_count(); ++own)
      if (joint.of_second(own) == id) return own;
    return kNoValue;
  };
  const auto json = options.certificate / "equality.json";
  Proof proof = read_proof(map_file(json).text(), "proof");
  std::swap(proof.first, proof.second);
  for (Step& step : proof.steps) {
    step.equation.a = in_other(step.equation.a), step.equation.b = in_other(step.equation.b);
    for (ValueId& leaf : step.equation.leaves) leaf = in_other(leaf);
  }
  write_file(json, write_proof(proof));
  const ProofCheck check = check_proof(plain, divided, options.certificate);
  CHECK(!check.accepted);
  CHECK(check.reason.find("leads from what may be undefined") != std::string::npos);
}

double bound_of(const std::string& a, const std::string& b, std::map<std::string, ValueRange> ranges = {}) {
  ProveOptions options = options_of();
  options.rounding = std::move(ranges);
  const Proving result = prove(import_text(a), import_text(b), options);
  INFO(result.reason);
  REQUIRE(result.verdict == Verdict::kProved);
  REQUIRE(result.rounding.size() == 1);
  INFO(result.rounding[0].bound.reason);
  REQUIRE(result.rounding[0].bound.bound);
  CHECK(result.rounding[0].sampled <= *result.rounding[0].bound.bound);
  return *result.rounding[0].bound.bound;
}

TEST_CASE("prove: bounds of rounding") {
  const double unit = 0x1p-24;
  const std::string head = "agraph (float[4] x, float[4] y, float[4] z) => (float[4] r) ";
  const std::string left = head + "{ s = Add(x, y) r = Add(s, z) }", right = head + "{ s = Add(y, z) r = Add(x, s) }";
  // Each side rounds a sum up to 2 and one up to 3.
  const double bound = bound_of(left, right);
  CHECK(bound >= 10 * unit);
  CHECK(bound <= 10.01 * unit);
  CHECK(bound_of(left, right, {{"x", {0, 0}}, {"y", {0, 0.5}}, {"z", {0, 0.5}}}) <= 4 * unit);
  // Values that both compute alike do not differ; nodes behind a difference carry it on.
  CHECK(bound_of(left, left) == 0);
  const auto more = [](std::string text) {
    return text.replace(text.find("r = "), 4, "t = ").replace(text.rfind('}'), 1, "u = Neg(t) r = Tanh(u) }");
  };
  const double carried = bound_of(more(left), more(right));
  CHECK(carried >= bound);
  CHECK(carried <= bound + 40 * unit);
  // A value that rounding may decide has no bound.
  ProveOptions options = options_of();
  options.rounding.emplace();
  const auto floor = [](std::string text) {
    return text.replace(text.find("r = "), 4, "t = ").replace(text.rfind('}'), 1, "r = Floor(t) }");
  };
  const Proving open = prove(import_text(floor(left)), import_text(floor(right)), options);
  REQUIRE(open.verdict == Verdict::kProved);
  CHECK(!open.rounding.at(0).bound.bound);
  CHECK(open.rounding.at(0).bound.reason.find("floor") != std::string::npos);
  options.rounding->emplace("w", ValueRange{});
  CHECK_THROWS_AS(prove(import_text(left), import_text(right), options), Error);
}

TEST_CASE("prove: bounds of rounding count what the first model rounds up to a value that the second one has in another form") {
  // The second model computes the first convolution with a channel of zeros behind it. Sums of that one are long, so most
  // of the rounding is theirs.
  constexpr int kDepth = 200;
  const auto model = [](int channels) {
    std::string weights;
    for (int c = 0; c < channels; ++c)
      for (int k = 0; k < kDepth; ++k) weights += (weights.empty() ? "" : ", ") + std::string(c < 3 ? "0.3" : "0");
    return "agraph (float[1, " + std::to_string(kDepth) + ", 2] x) => (float[1, 1, 2] r) <float[" + std::to_string(channels) +
           ", " + std::to_string(kDepth) + ", 1] w = {" + weights + "}, float[1, " + std::to_string(channels) +
           ", 1] v = {1, 1, 1" + (channels > 3 ? ", 0" : "") + "}> { a = Conv(x, w) r = Conv(a, v) }";
  };
  // A unit of every step of the sums of both models, at their largest: 3 sums of 200 terms up to 0.3.
  CHECK(bound_of(model(3), model(4)) >= 2.0 * 3 * kDepth * (0.3 * kDepth) * 0x1p-24);
}

TEST_CASE("prove: bounds of rounding hold for random networks", "[sampling]") {
  std::mt19937_64 random(11);
  int bounded = 0;
  for (int n = 0; n < 12; ++n) {
    // Sums and products in another order, and weights that were folded.
    std::string text = "agraph (float[3, 4] x) => (float[3, 2] y) <float[4, 2] w = {", scaled;
    const auto number = [&] { return static_cast<double>(random() % 2001) / 1000 - 1; };
    std::vector<double> w(8), s(2);
    for (double& v : w) v = number();
    for (double& v : s) v = number() + 1.5;
    std::string scale;
    for (std::size_t i = 0; i < 8; ++i) {
      text += (i ? ", " : "") + std::to_string(w[i]);
      scaled += (i ? ", " : "") + std::to_string(static_cast<float>(w[i] * s[i % 2]));
    }
    for (std::size_t i = 0; i < 2; ++i) scale += (i ? ", " : "") + std::to_string(s[i]);
    const std::string a = text + "}, float[2] s = {" + scale + "}> { p = MatMul(x, w) q = Mul(p, s) y = Relu(q) }";
    const std::string b =
        "agraph (float[3, 4] x) => (float[3, 2] y) <float[4, 2] w = {" + scaled + "}> { p = MatMul(x, w) y = Relu(p) }";
    ProveOptions options = options_of(random());
    options.rounding.emplace();
    options.tolerance = 1e-4;  // the text has six digits
    const Proving result = prove(import_text(a), import_text(b), options);
    INFO(result.reason);
    REQUIRE(result.verdict == Verdict::kProved);
    if (!result.rounding.at(0).bound.bound) continue;
    ++bounded;
    CHECK(result.rounding[0].sampled <= *result.rounding[0].bound.bound);
    CHECK(*result.rounding[0].bound.bound <= 1e-3);
  }
  CHECK(bounded == 12);
}

TEST_CASE("prove: certificates are followed, and damaged ones are refused") {
  const TemporaryFolder folder("rewright-prove-");
  const auto file = [&](const char* name, const char* text) {
    write_file(folder.path() / name, graph::text_bytes(text));
    return folder.path() / name;
  };
  const auto a =
      file("a.onnx",
           "agraph (float[2, 4] x) => (float[2, 3] y) <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, "
           "float[3] c = {1, 2, 3}> { i = Identity(x) t = Neg(i) u = Neg(t) a = MatMul(u, w) b = Add(c, a) y = Relu(b) }");
  const auto b = file("b.onnx",
                      "agraph (float[2, 4] x) => (float[2, 3] y) <float[3, 4] w = {1, 4, 7, 1, 2, 5, 8, 2, 3, 6, 9, 3}, "
                      "float[3] c = {1, 2, 3}> { b = Gemm<transB = 1>(x, w, c) r = Relu(b) y = Relu(r) }");
  const auto other = file("other.onnx",
                          "agraph (float[2, 4] x) => (float[2, 3] y) <float[3, 4] w = {1, 4, 7, 1, 2, 5, 8, 2, 3, 6, 9, 4}, "
                          "float[3] c = {1, 2, 3}> { b = Gemm<transB = 1>(x, w, c) r = Relu(b) y = Relu(r) }");
  ProveOptions options = options_of();
  options.certificate = folder.path() / "proof";
  const Proving result = prove(a, b, options);
  INFO(result.reason);
  REQUIRE(result.verdict == Verdict::kProved);
  const ProofCheck check = check_proof(a, b, options.certificate);
  INFO(check.reason);
  REQUIRE(check.accepted);
  CHECK(check.equations == result.equations);
  CHECK_THROWS_AS(check_proof(a, other, options.certificate), Error);

  const auto json = options.certificate / "equality.json";
  const std::string bytes(map_file(json).text());
  const auto refused = [&] {
    try {
      return !check_proof(a, b, options.certificate).accepted;
    } catch (const Error& e) {
      return e.code() == ErrorCode::kBadInput;
    }
  };
  std::mt19937_64 random(5);
  for (int n = 0; n < 100; ++n) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 7));
    write_file(json, damaged);
    CHECK(refused());
  }
  // Steps that are missing, or about other values, with a digest that fits.
  const Proof proof = read_proof(bytes, "proof");
  REQUIRE(proof.steps.size() >= 2);
  for (std::size_t n = 0; n < proof.steps.size(); ++n) {
    Proof shorter = proof;
    shorter.steps.erase(shorter.steps.begin() + static_cast<std::ptrdiff_t>(n));
    write_file(json, write_proof(shorter));
    CHECK(refused());
    Proof wrong = proof;
    wrong.steps[n].equation.b = wrong.steps[n].equation.b + 1;
    write_file(json, write_proof(wrong));
    CHECK(refused());
  }
  write_file(json, bytes);
  CHECK(check_proof(a, b, options.certificate).accepted);
}

// Products over several axes that were joined into one may stay undecided.
TEST_CASE("equations of several tensors are proved equal to their products of two") {
  int proved = 0;
  std::mt19937_64 random(3);
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  const Operator& einsum = registry().get("Einsum");
  for (int instance = 0; instance < 12; ++instance) {
    Graph graph;
    std::vector<ValueId> operands;
    std::string equation, used;
    for (std::uint64_t n = 2 + pick(3); n > 0; --n) {
      std::string letters = "ijkl";
      std::shuffle(letters.begin(), letters.end(), random);
      letters.resize(1 + pick(3));
      Indices sizes;
      for (const char c : letters) sizes.emplace_back(2 + (c - 'i'));
      operands.push_back(graph.add_input("x" + std::to_string(operands.size()), {DataType::kFloat, sizes}));
      equation += (equation.empty() ? "" : ",") + letters;
      used += letters;
    }
    std::string result;
    for (const char c : std::string("lkji"))
      if (used.find(c) != std::string::npos && pick(2) == 0) result += c;
    equation += "->" + result;
    CAPTURE(equation);
    Attributes attributes = einsum.defaults();
    attributes.at(einsum.field("equation").value()) = equation;
    graph.add_output("y", graph.add_node(einsum, attributes, operands)[0]);
    const Graph contracted = with_matrix_products(graph, [](const Graph&, const Node&) { return false; });
    const Verdict verdict = prove(graph, contracted, options_of()).verdict;
    CHECK(verdict != Verdict::kRefuted);
    CHECK(agree(graph, contracted, 2));
    proved += verdict == Verdict::kProved;
  }
  CHECK(proved >= 9);  // of 12
}

}  // namespace rewright::equivalence
