// Integers that wrap around, and constants of the first model that are near to one another: neither proves what is untrue.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "equivalence/checker/ranges.h"
#include "equivalence/checker/rewriting.h"
#include "equivalence/prove.h"
#include "graph/file.h"
#include "graph/testing.h"
#include "operators/readings/interpreter.h"
#include "rules/io.h"
#include "verifier/certificate.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

namespace {

constexpr int kOpset = 19;

Graph graph_of_text(const std::string& text) { return testing::import_text(text); }

Verdict verdict_of(const std::string& a, const std::string& b, bool runs) {
  ProveOptions options;
  options.rules = shipped_rules().rules();
  if (runs) options.executors = {reference_executor(1e7, 20)};
  return prove(graph_of_text(a), graph_of_text(b), options).verdict;
}

ValueId value_named(const Joint& joint, const std::string& name) {
  for (ValueId id = 0; id < joint.graph().value_count(); ++id)
    if (joint.graph().value(id).name == name) return id;
  FAIL("no value is called " << name);
  return kNoValue;
}

ValueId made_of(Joint& joint, const char* op, std::vector<ValueId> inputs) {
  return joint.add_term(registry().get(op), registry().get(op).defaults(), std::move(inputs));
}

// Two files and a certificate of these steps.
bool accepts(const std::string& a, const std::string& b, std::vector<Step> steps, double tolerance, double asked) {
  const TemporaryFolder folder("rewright-integers-");
  const auto file = [&](const char* name, const std::string& text) {
    write_file(folder.path() / name, graph::text_bytes(text, kOpset));
    return folder.path() / name;
  };
  const auto digest = [](const std::filesystem::path& path) {
    return proof::hexadecimal(proof::sha256(map_file(path).text()));
  };
  const auto first = file("a.onnx", a), second = file("b.onnx", b);
  Proof given;
  given.tolerance = tolerance, given.first = digest(first), given.second = digest(second), given.steps = std::move(steps);
  write_file(folder.path() / "equality.json", write_proof(given));
  ProofCheckOptions options;
  options.tolerance = asked;
  return check_proof(first, second, folder.path(), options).accepted;
}

}  // namespace

TEST_CASE("prove: never of integers that wrap around") {
  const std::string quantities = " <float s = {0.25}, uint8 z = {0}, int32 k = {3}, int32 n = {127}, uint8 m = {200}> { ";
  const std::string bytes = "agraph (uint8[4] x, uint8[4] v) => (uint8[4] y)" + quantities;
  const std::string reals = "agraph (uint8[4] x, uint8[4] v) => (float[4] y)" + quantities;
  const std::string wide = "agraph (uint8[4] x, uint8[4] v) => (int32[4] y)" + quantities;
  const std::string from_wide = "agraph (int32[4] x) => (int32[4] y)" + quantities;
  const std::string to_float = "agraph (int32[4] x) => (float[4] y)" + quantities;
  const std::string signed_ones = "agraph (int8[4] x) => (int32[4] y) { ";
  const std::string apart = "a = DequantizeLinear(x, s, z) b = DequantizeLinear(v, s, z) ";
  struct Pair {
    std::string a, b;
    bool drawn = true;  // is the difference found on random inputs?
  };
  const Pair pairs[] = {
      {bytes + "u = Add(x, v) d = DequantizeLinear(u, s, z) y = QuantizeLinear(d, s, z) }",
       bytes + apart + "c = Add(a, b) y = QuantizeLinear(c, s, z) }"},
      {reals + "u = Add(x, v) y = DequantizeLinear(u, s, z) }", reals + apart + "y = Add(a, b) }"},
      {bytes + "w = Cast<to = 6>(x) a = Add(w, n) c = Cast<to = 2>(a) y = Max(c, v, z) }",
       bytes + "w = Cast<to = 6>(x) a = Add(w, n) o = Cast<to = 6>(v) p = Max(a, o) y = Cast<to = 2>(p) }"},
      {wide + "u = Cast<to = 3>(x) w = Cast<to = 6>(u) y = Min(w, n) }", wide + "y = Cast<to = 6>(x) }"},
      {wide + "u = Cast<to = 3>(x) y = Cast<to = 6>(u) }", wide + "y = Cast<to = 6>(x) }"},
      {reals + "u = Cast<to = 3>(x) y = Cast<to = 1>(u) }", reals + "y = Cast<to = 1>(x) }"},
      {wide + "w = Cast<to = 6>(x) y = Mul(w, k) }",
       wide + "w = Cast<to = 6>(x) p = Mul(w, k) c = Cast<to = 2>(p) y = Cast<to = 6>(c) }"},
      {signed_ones + "r = Neg(x) y = Cast<to = 6>(r) }", signed_ones + "w = Cast<to = 6>(x) y = Neg(w) }"},
      {from_wide + "u = Cast<to = 2>(x) y = Cast<to = 6>(u) }", from_wide + "y = Identity(x) }", false},
      {to_float + "y = Cast<to = 1>(x) }", to_float + "f = Cast<to = 1>(x) g = Cast<to = 3>(f) y = Cast<to = 1>(g) }", false},
  };
  for (const Pair& pair : pairs) {
    INFO(pair.a << "\n" << pair.b);
    CHECK(verdict_of(pair.a, pair.b, false) != Verdict::kProved);
    CHECK(verdict_of(pair.b, pair.a, false) != Verdict::kProved);
    if (pair.drawn) CHECK(verdict_of(pair.a, pair.b, true) == Verdict::kRefuted);
  }
}

TEST_CASE("prove: a statement says nothing of what may wrap around") {
  const auto nodes_of = [](const std::string& body, const std::string& head) {
    const Graph graph = graph_of_text(head + body + " }");
    const Joint joint(graph, graph, {});
    const auto& [a, b] = joint.outputs().front();
    return statement_of(joint, {a, b, {}}).graph.nodes().size();
  };
  const std::string plain =
      "agraph (int8[4] x) => (uint8[4] y) <int32 half = {128}, int32 more = {129}, int32 top = {255}, "
      "int32 none = {0}> { w = Cast<to = 6>(x) ";
  CHECK(nodes_of("a = Add(w, half) y = Cast<to = 2>(a)", plain) == 3);
  CHECK(nodes_of("a = Add(w, more) y = Cast<to = 2>(a)", plain) == 0);
  CHECK(nodes_of("a = Max(w, none) y = Cast<to = 2>(a)", plain) == 3);
  CHECK(nodes_of("a = Mul(w, w) b = Min(a, top) y = Cast<to = 2>(b)", plain) == 0);
  CHECK(nodes_of("y = Cast<to = 2>(x)", plain) == 0);
}

TEST_CASE("prove: rules make no integers that may wrap around") {
  const Graph graph = graph_of_text("agraph (int32[4] x) => (int32[4] y) { y = Identity(x) }");
  const Joint joint(graph, graph, {});
  const ValueId x = joint.graph().inputs()[0], y = joint.graph().nodes()[0]->outputs[0];
  const auto apply = [&](const std::string& way) {
    const std::vector<Rule> rules = parse_algebra(
        "rule there_and_back: \"conversions\"\n  x: int32\n  Identity(x) => Cast(Cast(x; to=" + way + "); to=int32)\n  exact\n",
        "a test");
    const Statement statement = statement_of(joint, {x, y, {}});
    TermTable terms(statement.graph);
    terms.apply(rules.at(0), {"there_and_back", {terms.term_of_node(0)}});
  };
  CHECK_NOTHROW(apply("int64"));
  CHECK_THROWS_AS(apply("uint8"), proof::Refusal);
  CHECK_THROWS_AS(apply("uint64"), proof::Refusal);
}

// If no node may wrap around, arithmetic in few bits gives the results of arithmetic in 64. The converse is not asked: a range
// may be too wide.
TEST_CASE("prove: ranges of integers hold", "[sampling]") {
  const DataType types[] = {DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kUint16, DataType::kInt32};
  std::mt19937_64 random(11);
  const auto any = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  int compared = 0, wrapped = 0;
  for (int n = 0; n < 300; ++n) {
    Graph graph;
    std::vector<ValueId> values;
    for (int i = 0; i < 2; ++i) values.push_back(graph.add_input("x" + std::to_string(i), {types[any(3)], {12}}));
    for (int step = 0; step < 8; ++step) {
      const ValueId x = values[any(values.size())];
      const DataType type = graph.value(x).type.type;
      const bool has_sign = range_of(type).low < 0;
      const std::int64_t number = static_cast<std::int64_t>(any(has_sign ? 9 : 5)) - (has_sign ? 4 : 0);
      const ValueId constant = graph.add_constant(Tensor::from_integers(type, {}, std::vector<std::int64_t>{number}));
      const char* const binary[] = {"Add", "Sub", "Mul", "Max", "Min", "Div"};
      if (any(3) == 0) {
        const Operator& cast = registry().get("Cast");
        Attributes to = cast.defaults();
        to.at(cast.field("to").value()) = types[any(5)];
        values.push_back(graph.add_node(cast, std::move(to), {x}).at(0));
      } else if (any(5) == 0 && has_sign) {
        values.push_back(graph.add_node(registry().get("Abs"), registry().get("Abs").defaults(), {x}).at(0));
      } else {
        const std::size_t k = any(number == 0 ? 5 : 6);
        const Operator& op = registry().get(binary[k]);
        values.push_back(graph.add_node(op, op.defaults(), {x, constant}).at(0));
      }
    }
    const std::vector<bool> wraps = wrapping_nodes(graph);
    std::vector<Tensor> tensors(graph.value_count()), exact(graph.value_count());
    std::vector<bool> is_exact(graph.value_count(), true);
    const auto widened = [](const Tensor& t) { return Tensor::from_integers(DataType::kInt64, t.sizes(), t.integers()); };
    for (const ValueId id : graph.inputs()) {
      const Range range = range_of(graph.value(id).type.type);
      std::vector<std::int64_t> elements{static_cast<std::int64_t>(range.low), static_cast<std::int64_t>(range.high)};
      while (elements.size() < 12)
        elements.push_back(elements[0] + static_cast<std::int64_t>(any(static_cast<std::size_t>(range.high - range.low) + 1)));
      std::shuffle(elements.begin(), elements.end(), random);
      tensors[id] = Tensor::from_integers(graph.value(id).type.type, {12}, elements);
      exact[id] = widened(tensors[id]);
    }
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (graph.is_constant(id)) tensors[id] = graph.value(id).constant, exact[id] = widened(tensors[id]);
    for (std::size_t k = 0; k < graph.nodes().size(); ++k) {
      const Node& node = *graph.nodes()[k];
      std::vector<Tensor> inputs, wide;
      bool known = !wraps[k];
      for (const ValueId id : node.inputs) {
        inputs.push_back(tensors[id]), wide.push_back(exact[id]);
        known = known && is_exact[id];
      }
      const ValueId output = node.outputs[0];
      tensors[output] = interpret(*node.op, node.attributes, inputs).at(0);
      is_exact[output] = known;
      wrapped += wraps[k] ? 1 : 0;
      if (!known) continue;
      exact[output] = node.op->name() == "Cast" ? wide[0] : interpret(*node.op, node.attributes, wide).at(0);
      CHECK(widened(tensors[output]) == exact[output]);
      ++compared;
    }
  }
  CHECK(compared > 500);
  CHECK(wrapped > 200);
}

TEST_CASE("prove: near constants of the first model stay different") {
  const std::string head = "agraph (float[2] x) => (float[2] y) ";
  const std::string two = head + "<float c = {1}, float d = {1.00000012}, float big = {8388608}> { ";
  const std::string a = two + "s = Sub(d, c) t = Mul(s, big) y = Mul(x, t) }",
                    b = two + "s = Sub(c, c) t = Mul(s, big) y = Mul(x, t) }";
  const std::size_t count = Joint(graph_of_text(a), graph_of_text(b), {}).graph().value_count();
  for (ValueId constant = 0; constant < count; ++constant)
    for (ValueId leaf = 0; leaf < count; ++leaf) {
      Step step;
      step.kind = Step::Kind::kTerm;
      step.equation.b = constant, step.equation.leaves = {leaf};
      CHECK(!accepts(a, b, {step}, 1e-6, 1e-6));
    }
  CHECK(verdict_of(a, b, false) != Verdict::kProved);

  const Graph graph = graph_of_text(
      "agraph (float[2] x) => (float[2] y) <float s = {0.0503}, float t = {0.0207}, float r = {0.00104121}, float near = "
      "{0.00104121014}, float root = {1.41421354}, float other = {1.41421366}> "
      "{ a = Mul(x, s) b = Mul(a, t) c = Mul(b, r) d = Mul(c, near) e = Mul(d, root) y = Mul(e, other) }");
  Joint joint(graph, graph, {});
  const auto id = [&](const char* name) { return value_named(joint, name); };
  const Operator& fill = registry().get("Fill");
  Attributes number = fill.defaults();
  number.at(fill.field("value").value()) = Real(2), number.at(fill.field("type").value()) = DataType::kFloat;
  number.at(fill.field("shape").value()) = Indices{};
  const ValueId root = made_of(joint, "Sqrt", {joint.add_term(fill, number, {})});
  CHECK(!joint.explain(id("other"), root));
  CHECK(joint.explain(id("root"), root));
  const ValueId product = made_of(joint, "Mul", {id("s"), id("t")});
  CHECK(!joint.explain(id("near"), product));
  CHECK(!joint.explain(id("r"), id("near")));
  CHECK(!joint.explain(id("r"), made_of(joint, "Identity", {product})));
  Joint used = joint;
  used.keep(id("r"));
  CHECK(!used.explain(id("r"), product));
  CHECK(joint.explain(id("r"), product));
  CHECK(!joint.explain(id("s"), made_of(joint, "Mul", {id("near"), id("near")})));
}

TEST_CASE("prove: what constants rest on is followed once") {
  const Graph graph = graph_of_text("agraph (float[2] x) => (float[2] y) <float c = {1}> { y = Mul(x, c) }");
  Joint joint(graph, graph, {});
  ValueId term = value_named(joint, "c");
  for (int n = 0; n < 60; ++n) term = made_of(joint, "Mul", {term, term});
  CHECK(!joint.explain(value_named(joint, "c"), term));
}

TEST_CASE("prove: a certificate with a larger tolerance is refused") {
  const std::string head = "agraph (float[2] x) => (float[2] y) <float c = {", tail = "}> { y = Mul(x, c) }";
  const std::string a = head + "7" + tail, b = head + "5" + tail, near = head + "7.00003" + tail;
  const Joint joint(graph_of_text(a), graph_of_text(b), {});
  Step step;
  step.kind = Step::Kind::kTerm;
  step.equation.b = joint.graph().nodes().back()->inputs.at(1), step.equation.leaves = {joint.graph().nodes()[0]->inputs.at(1)};
  CHECK(accepts(a, near, {step}, 1e-5, 1e-5));
  CHECK(!accepts(a, near, {step}, 1e-5, 1e-6));
  CHECK(!accepts(a, b, {step}, 10, 1e-6));
}

TEST_CASE("prove: joined channels are as many as the Reshape asks for") {
  const std::string head =
      "agraph (float[2, 8, 4, 4] p, float[2, 8, 4, 4] q, float[M] k) => (float[2, 4, 4] y) "
      "<int64[5] apart = {2, 1, 8, 4, 4}, int64[4] one = {2, 8, 4, 4}, int64[5] more = {2, 2, 4, 4, 8}, "
      "int64[1] two = {2}, int64[2] last = {4, 4}, int64[1] axis = {1}, int64[4] all = {2, 16, 4, 4}> { ";
  const auto block = [](const std::string& from, const std::string& to) {
    return from + "1 = Reshape(" + from + ", apart) " + from + "2 = Transpose<perm = [0, 1, 3, 4, 2]>(" + from + "1) " + to +
           " = Reshape(" + from + "2, one) ";
  };
  const std::string plain = head + "c = Concat<axis = 1>(p, q) y = ReduceSum<keepdims = 0>(c, axis) }";
  const std::string blocks = head + block("p", "a") + block("q", "b") +
                             "c = Concat<axis = 1>(a, b) d = Reshape(c, more) e = Transpose<perm = [0, 1, 4, 2, 3]>(d) ";
  const std::string sum = "y = ReduceSum<keepdims = 0>(r, axis) }";
  CHECK(verdict_of(plain, blocks + "r = Reshape(e, all) " + sum, false) == Verdict::kProved);
  const std::string counted =
      "n = NonZero(k) s = Shape<start = 1, end = 2>(n) t = Concat<axis = 0>(two, s, last) r = Reshape(e, t) ";
  CHECK(verdict_of(plain, blocks + counted + sum, false) != Verdict::kProved);
}

TEST_CASE("prove: the least integer divided by -1 is no known number") {
  const std::string text =
      "agraph (int64[1] x) => (int64[1] y) <int64[1] a = {-9223372036854775808}, int64[1] b = {-1}> { q = Div(a, b) ";
  CHECK(verdict_of(text + "y = Add(x, q) }", text + "y = Add(q, x) }", true) == Verdict::kProved);
}

TEST_CASE("prove: a size in few bits is no size") {
  const std::string head = "agraph (float[N] x) => (int64[1] y) { s = Shape(x) ";
  CHECK(verdict_of(head + "y = Identity(s) }", head + "c = Cast<to = 2>(s) y = Cast<to = 7>(c) }", false) != Verdict::kProved);
  CHECK(verdict_of(head + "y = Identity(s) }", head + "c = Cast<to = 6>(s) y = Cast<to = 7>(c) }", false) == Verdict::kProved);
}

}  // namespace rewright::equivalence
