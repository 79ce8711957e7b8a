// Partly compiled graphs compute the same as the interpreter.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "graph/execute.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"
#include "runtime/parts.h"

namespace rewright::runtime {

namespace {

Graph import_text(const std::string& graph) { return import_onnx_bytes(text_bytes(graph), "test"); }

Tensor random_floats(std::mt19937& random, Sizes sizes) {
  std::normal_distribution<double> normal;
  std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
  for (double& element : elements) element = normal(random);
  return Tensor::from_reals(DataType::kFloat, std::move(sizes), elements);
}

Tensor int64(std::int64_t value) { return Tensor::from_integers(DataType::kInt64, {}, std::vector{value}); }

// Records the requests and forwards them to the CPU's backend.
class CountingBackend final : public Backend {
 public:
  std::string name() const override { return "counting"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    for (const auto& node : graph.nodes()) CHECK(node->op != nullptr);
    ++prepared;
    nodes += graph.nodes().size();
    return cpu::cpu_backend().prepare(graph, options);
  }
  mutable std::size_t prepared = 0, nodes = 0;
};

void check_same(std::span<const Datum> actual, std::span<const Datum> expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("output " << i);
    REQUIRE(actual[i].empty() == expected[i].empty());
    REQUIRE(actual[i].is_sequence() == expected[i].is_sequence());
    if (expected[i].empty()) continue;
    if (expected[i].is_sequence()) {
      check_same(actual[i].elements(), expected[i].elements());
      continue;
    }
    const Tensor &a = actual[i].tensor(), &e = expected[i].tensor();
    REQUIRE(a.type() == e.type());
    REQUIRE(a.sizes() == e.sizes());
    if (e.type() == DataType::kString) {
      CHECK(std::equal(a.strings().begin(), a.strings().end(), e.strings().begin()));
      continue;
    }
    const std::vector<double> x = a.reals(), y = e.reals();
    for (std::size_t k = 0; k < x.size(); ++k)
      if (!(std::isnan(x[k]) && std::isnan(y[k]))) CHECK(x[k] == Approx(y[k]).epsilon(1e-4).margin(1e-4));
  }
}

constexpr const char* kStaged = R"(agraph (float[N, 64] x, float[64, 64] w) => (float[N, 64] y, int64[K] rows, float[N, 64] z) {
  h = MatMul(x, w)
  a = Relu(h)
  zero = Constant <value = float {0}> ()
  axis = Constant <value = int64[1] {1}> ()
  sums = ReduceSum <keepdims = 0> (h, axis)
  positive = Greater(sums, zero)
  places = NonZero(positive)
  flat = Constant <value = int64[1] {-1}> ()
  rows = Reshape(places, flat)
  chosen = Gather(a, rows)
  e = Exp(chosen)
  total = ReduceSum <keepdims = 0> (e)
  y = Div(a, total)
  z = Neg(x)
})";

constexpr const char* kLooping = R"(agraph (int64 m, float[A, B] x) => (float[A, B] last, float[M, A, B] all) {
  yes = Constant <value = bool {1}> ()
  last, all = Loop (m, yes, x) <body = b (int64 i, bool c, float[A, B] v) => (bool go, float[A, B] next, float[A, B] out) {
    s = Sin(v)
    next = Add(s, x)
    out = Mul(next, next)
    go = Identity(c)
  }>
})";

}  // namespace

TEST_CASE("operators that are executed as graphs are compiled with what stands around them, where sizes are known") {
  // Random sizes and contents of: a 1 at the maximum, pools placed back, reversed sequences, entries of a cache.
  std::mt19937 random(12);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const CountingBackend backend;
  for (int round = 0; round < 30; ++round) {
    const std::string a = std::to_string(pick(1, 5)), b = std::to_string(pick(1, 70)), c = std::to_string(pick(1, 9));
    const std::string axis = std::to_string(pick(-2, 1));
    const std::string models[] = {
        "agraph (float[" + a + ", " + b + "] x) => (float[p, q] y) { r = Relu(x)\n h = Hardmax <axis = " + axis +
            "> (r)\n y = Mul(h, x) }",
        "agraph (float[" + a + ", " + b +
            ", 8, 8] x) => (float[p, q, r, s] y) { m, at = MaxPool <kernel_shape = [2, 2], "
            "strides = [2, 2]> (x)\n y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (m, at) }",
        "agraph (float[" + a + ", " + b + ", 8, 8] x) => (float[p, q, r, s] y) <int64[4] shape = {" + a + ", " + b + ", " +
            std::to_string(pick(8, 9)) + ", " + std::to_string(pick(8, 11)) +
            "}> { m, at = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)\n"
            " y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (m, at, shape) }",
        "agraph (float[" + b + ", 2, " + c + "] x) => (float[p, q, r] y) <int64[2] lengths = {1, " + b +
            "}> { y = ReverseSequence(x, lengths) }",
        "agraph (float[2, " + a + ", " + b + ", " + c + "] x, float[2, " + a + ", 1, " + c +
            "] u) => (float[p, q, r, s] y) <int64[2] at = {0, " + std::to_string(std::stoi(b) - 1) +
            "}> { t = TensorScatter(x, u, at)\n y = Abs(t) }"};
    const std::string& text = models[round % 5];
    INFO(text);
    const Graph graph = import_onnx_bytes(text_bytes(text, round % 5 == 4 ? 24 : 21), "test");
    CHECK(!is_compiled(graph));
    const Graph executed = executed_form(backend, graph);
    REQUIRE(is_compiled(executed));
    std::vector<Datum> inputs;
    REQUIRE(executed.inputs().size() == graph.inputs().size());
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value& given = graph.value(graph.inputs()[i]);
      CHECK(executed.value(executed.inputs()[i]).name == given.name);
      inputs.emplace_back(random_floats(random, values(given.type.shape)));
    }
    REQUIRE(executed.outputs().size() == 1);
    CHECK(executed.value(executed.outputs()[0].value).name == "y");
    check_same(prepare_session(backend, graph)->execute(inputs), execute(graph, inputs));
  }
  CHECK(backend.prepared == 30);
  // Steps of loops and transforms are not written out, nor is anything while sizes are open.
  const Graph looping = import_text(
      "agraph (float[3, 4] x) => (float[a, b] y) { m = Constant <value = int64 {2}> ()\n yes = Constant <value = bool {1}> "
      "()\n h = "
      "Hardmax(x)\n y = Loop (m, yes, h) <body = b (int64 i, bool c, float[3, 4] v) => (bool go, float[3, 4] next) { next = "
      "Sin(v)\n go = Identity(c) }> }");
  const Graph written = executed_form(backend, looping);
  const auto is_opaque = [](const auto& node) { return node->op == nullptr; };
  CHECK(std::count_if(looping.nodes().begin(), looping.nodes().end(), is_opaque) == 2);
  CHECK(std::count_if(written.nodes().begin(), written.nodes().end(), is_opaque) == 1);
  std::vector<Datum> rows{random_floats(random, {3, 4})};
  check_same(prepare_session(backend, looping)->execute(rows), execute(looping, rows));
  const Graph open = import_text("agraph (float[N, 4] x) => (float[N, 4] y) { y = Hardmax(x) }");
  CHECK(!is_compiled(executed_form(backend, open)));
}

TEST_CASE("elements placed back into a larger shape are those of the usual one with zeros behind them") {
  std::mt19937 random(13);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 12; ++round) {
    const int more[] = {round % 4 == 3 ? 1 : 0, pick(0, 1), pick(0, 3), pick(0, 3)};
    const int sizes[] = {2, 3, 8, 6};
    std::string shape, pads = "0, 0, 0, 0";
    for (int a = 0; a < 4; ++a) {
      shape += (a > 0 ? ", " : "") + std::to_string(sizes[a] + more[a]);
      pads += ", " + std::to_string(more[a]);
    }
    const Graph graph =
        import_text("agraph (float[2, 3, 8, 6] x) => (float[p, q, r, s] y, float[t, u, v, w] z) <int64[4] shape = {" + shape +
                    "}, int64[8] pads = {" + pads +
                    "}> {\n m, at = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)\n"
                    " y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (m, at, shape)\n"
                    " n = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (m, at)\n z = Pad(n, pads)\n}");
    CAPTURE(shape);
    const std::vector<Datum> inputs{random_floats(random, {2, 3, 8, 6})};
    const std::vector<Datum> found = execute(graph, inputs);
    check_same(std::span(found).first(1), std::span(found).subspan(1));
  }
}

TEST_CASE("compiled reversals refuse sequences that are longer than the tensor") {
  std::mt19937 random(13);
  for (const std::string axes : {"batch_axis = 0, time_axis = 1", "batch_axis = 1, time_axis = 0"}) {
    const bool batch_first = axes.starts_with("batch_axis = 0");
    const std::string shape = batch_first ? "[2, 3, 4]" : "[3, 2, 4]";
    const Graph graph = import_text("agraph (float" + shape + " x, int64[2] n) => (float" + shape +
                                    " y) { r = ReverseSequence <" + axes + "> (x, n)\n y = Abs(r) }");
    const auto session = prepare_session(cpu::cpu_backend(), graph);
    const Datum x(random_floats(random, batch_first ? Sizes{2, 3, 4} : Sizes{3, 2, 4}));
    const auto lengths = [](std::int64_t first, std::int64_t second) {
      return Tensor::from_integers(DataType::kInt64, {2}, std::vector{first, second});
    };
    INFO(axes);
    const std::vector<Datum> fitting{x, lengths(3, 2)};
    check_same(session->execute(fitting), execute(graph, fitting));
    for (const std::int64_t length : {std::int64_t{4}, std::int64_t{1} << 62}) {
      CHECK_THROWS_AS(session->execute(std::vector<Datum>{x, lengths(length, 3)}), Error);
      CHECK_THROWS_AS(session->execute(std::vector<Datum>{x, lengths(3, length)}), Error);
    }
  }
}

TEST_CASE("parts are compiled, and the nodes between them interpreted") {
  const Graph graph = import_text(kStaged);
  const CountingBackend backend;
  const auto session = prepare_session(backend, graph, {.profile = true});
  std::mt19937 random(1);
  for (const std::int64_t rows : {40, 3, 40, 1, 70}) {
    const std::vector<Datum> inputs{random_floats(random, {rows, 64}), random_floats(random, {64, 64})};
    check_same(session->execute(inputs), execute(graph, inputs));
  }
  CHECK(backend.prepared > 0);
  bool has_product = false, has_nonzero = false;
  for (const StepProfile& step : session->profile()) {
    has_product |= step.operators.find("MatMul") != std::string::npos;
    if (step.operators == "NonZero") {
      has_nonzero = true;
      CHECK(step.runs == 5);
    }
  }
  CHECK(has_product);
  CHECK(has_nonzero);
}

TEST_CASE("values are given back after their last reader") {
  // Counts the results that exist at the same time.
  class TrackingBackend final : public Backend {
   public:
    struct Tracking final : Session {
      Tracking(std::unique_ptr<Session> inner, const TrackingBackend& backend) : inner_(std::move(inner)), backend_(backend) {}
      std::vector<Tensor> run(std::span<const Tensor> inputs) override {
        std::vector<Tensor> results = inner_->run(inputs);
        for (Tensor& result : results) {
          backend_.most = std::max(backend_.most, ++*backend_.alive);
          const auto counted = [alive = backend_.alive](const Tensor* tensor) {
            --*alive;
            delete tensor;
          };
          const std::shared_ptr<const Tensor> kept(new Tensor(result), counted);
          result = Tensor(kept->type(), kept->sizes(), kept, kept->bytes().data());
        }
        return results;
      }
      std::unique_ptr<Session> inner_;
      const TrackingBackend& backend_;
    };
    std::string name() const override { return "tracking"; }
    std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
      return std::make_unique<Tracking>(cpu::cpu_backend().prepare(graph, options), *this);
    }
    std::shared_ptr<int> alive = std::make_shared<int>(0);
    mutable int most = 0;
  };

  constexpr int kLength = 20;
  std::string text = "agraph (float[64, 64] x0, int64 zero) => (float[64, 64] first, float[A, B] x20) {\n  first = Neg(x0)\n";
  for (int n = 0; n < kLength; ++n) {
    const std::string i = std::to_string(n), next = std::to_string(n + 1);
    text += "  y" + i + " = Sin(x" + i + ")\n  s" + i + " = SequenceConstruct(y" + i + ")\n  x" + next + " = SequenceAt(s" + i +
            ", zero)\n";
  }
  const Graph graph = import_text(text + "}");
  const TrackingBackend backend;
  const auto session = prepare_session(backend, graph);
  std::mt19937 random(1);
  const std::vector<Datum> inputs{random_floats(random, {64, 64}), int64(0)};
  {
    const std::vector<Datum> results = session->execute(inputs);
    check_same(results, graph::execute(graph, inputs));
    CHECK(backend.most <= 4);  // `first`, and what the current step reads and writes
  }
  CHECK(*backend.alive == 0);
}

TEST_CASE("nodes whose inputs' types are known late are prepared once for each type") {
  const Graph graph = import_text(R"(agraph (float[A, B] x, int64 zero, int64[2] shape) => (float[C, D] y) {
    s = SequenceConstruct(x)
    v = SequenceAt(s, zero)
    e = Sin(v)
    t = Transpose <perm = [1, 0]> (e)
    y = Reshape(t, shape)
  })");
  const CountingBackend backend;
  const auto session = prepare_session(backend, graph);
  std::mt19937 random(1);
  for (const std::int64_t rows : {50, 70, 50, 70, 1}) {
    const Tensor shape = Tensor::from_integers(DataType::kInt64, {2}, std::vector<std::int64_t>{rows, 60});
    for (int again = 0; again < 3; ++again) {
      const std::vector<Datum> inputs{random_floats(random, {rows, 60}), int64(0), shape};
      check_same(session->execute(inputs), graph::execute(graph, inputs));
    }
  }
  CHECK(backend.prepared <= 2 * 2 + 4 * 3);  // Sin and Transpose for two sizes; Reshape in each call, as its size is read
}

TEST_CASE("stages are as few as the opaque nodes allow") {
  const Graph graph = import_text(kStaged);
  const std::vector<Stage> stages = stages_of(graph);
  std::size_t nodes = 0, opaque = 0;
  for (const Stage& stage : stages) {
    nodes += stage.part.graph.nodes().size();
    opaque += stage.interpreted.size();
  }
  CHECK(nodes + opaque == graph.nodes().size());
  CHECK(stages.size() == opaque + 1);
  // Nodes that depend on no opaque node are in the first part, wherever they are in the model.
  const auto& first = stages[0].part.outputs;
  CHECK(std::any_of(first.begin(), first.end(), [&](ValueId id) { return graph.value(id).name == "z"; }));
}

TEST_CASE("constants that nodes compute or hand on are constants of each part that reads them") {
  const Graph graph =
      import_text(R"(agraph (float[A, 40] x, int64 zero) => (float[A, 40] y, float[40, 40] halves, float[40] sums) {
    shape = Constant <value_ints = [40, 40]> ()
    axis = Constant <value_ints = [0]> ()
    half = ConstantOfShape <value = float[1] {0.5}> (shape)
    halves = Identity(half)
    sums = ReduceSum <keepdims = 0> (halves, axis)
    a = MatMul(x, halves)
    q = SequenceConstruct(a)
    b = SequenceAt(q, zero)
    c = MatMul(b, halves)
    r = SequenceConstruct(c)
    d = SequenceAt(r, zero)
    y = Add(d, sums)
  })");
  const std::vector<bool> constant = graph.constant_values();
  std::set<ValueId> computed;
  int products = 0;
  for (const Stage& stage : stages_of(graph)) {
    for (const ValueId id : stage.part.inputs) CHECK_FALSE(constant[id]);
    for (const ValueId id : stage.part.outputs) CHECK(computed.insert(id).second);
    const std::vector<bool> inside = stage.part.graph.constant_values();
    for (const auto& node : stage.part.graph.nodes())
      if (node->op->name() == "MatMul") products += inside[node->inputs[1]];
  }
  CHECK(products == 2);
  const auto session = prepare_session(cpu::cpu_backend(), graph);
  std::mt19937 random(5);
  for (const std::int64_t rows : {50, 3, 60}) {
    const std::vector<Datum> inputs{random_floats(random, {rows, 40}), int64(0)};
    check_same(session->execute(inputs), graph::execute(graph, inputs));
  }
}

TEST_CASE("bodies of loops are compiled once for each size") {
  const Graph graph = import_text(kLooping);
  const CountingBackend backend;
  const auto session = prepare_session(backend, graph, {});
  std::mt19937 random(2);
  for (int run = 0; run < 2; ++run)
    for (const std::int64_t size : {60, 90}) {
      const std::vector<Datum> inputs{int64(7 + run), random_floats(random, {size, size})};
      check_same(session->execute(inputs), execute(graph, inputs));
    }
  CHECK(backend.prepared == 2);
}

TEST_CASE("branches, captured values, sequences and strings") {
  const Graph branches = import_text(R"(agraph (bool c, float[N, 40] x) => (float[N, 40] y, float[N, 40] s) {
    w = Exp(x)
    y = If (c) <then_branch = t () => (float[N, 40] a) { t1 = Tanh(w) a = Add(t1, x) },
                else_branch = e () => (float[N, 40] b) { b = Sub(w, x) }>
    seq = SequenceConstruct(x, y)
    zero = Constant <value = int64 {0}> ()
    first = SequenceAt(seq, zero)
    s = Mul(first, y)
  })");
  const auto session = prepare_session(cpu::cpu_backend(), branches, {});
  std::mt19937 random(3);
  for (int run = 0; run < 4; ++run) {
    const Tensor condition = Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{run % 2});
    const std::vector<Datum> inputs{condition, random_floats(random, {60 + run / 2, 40})};
    check_same(session->execute(inputs), execute(branches, inputs));
  }
  const Graph kinds =
      import_text(R"(agraph (seq(float[40, 40]) q, string[2] t) => (seq(float[40, 40]) r, string[2] u, float[40, 40] y) {
    zero = Constant <value = int64 {0}> ()
    first = SequenceAt(q, zero)
    y = Sigmoid(first)
    r = SequenceInsert(q, y)
    u = Identity(t)
  })");
  const auto other = prepare_session(cpu::cpu_backend(), kinds, {});
  const std::vector<Datum> inputs{Datum::sequence({random_floats(random, {40, 40})}), Tensor::from_strings({2}, {"a", "b"})};
  check_same(other->execute(inputs), execute(kinds, inputs));
  CHECK_THROWS_WITH(other->run(std::vector<Tensor>{Tensor(), Tensor()}), Catch::Contains("node of \"first\""));
}

TEST_CASE("a loop that never ends is ended by the session's checkpoint") {
  const Graph graph = import_text(R"(agraph (float[60, 60] s) => (float[60, 60] total) {
    yes = Constant <value = bool {1}> ()
    total = Loop ("", yes, s) <body = b (int64 i, bool c, float[60, 60] v) => (bool go, float[60, 60] next) {
      next = Neg(v)
      go = Identity(c)
    }>
  })");
  int steps = 0;
  SessionOptions options;
  options.checkpoint = [&] {
    if (++steps > 300) throw Error(ErrorCode::kCancelled, "enough");
  };
  std::mt19937 random(4);
  const std::vector<Datum> inputs{random_floats(random, {60, 60})};
  CHECK_THROWS_WITH(prepare_session(cpu::cpu_backend(), graph, options)->execute(inputs), Catch::Contains("enough"));
}

TEST_CASE("recurrent networks are compiled once for all steps, and compute what the interpreter computes") {
  std::mt19937 random(6);
  for (int trial = 0; trial < 24; ++trial) {
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    const std::int64_t kind = below(3), length = 2 + below(20), batch = 1 + below(3), inputs = 1 + below(9),
                       hidden = 1 + below(20);
    const std::int64_t directions = 1 + below(2), gates = std::vector<std::int64_t>{1, 3, 4}[static_cast<std::size_t>(kind)];
    const bool batch_first = below(2) == 1;
    const std::string type = std::vector<std::string>{"RNN", "GRU", "LSTM"}[static_cast<std::size_t>(kind)];
    const std::string attributes = std::string("direction = \"") +
                                   (directions == 2 ? "bidirectional"
                                    : below(2)      ? "reverse"
                                                    : "forward") +
                                   "\", layout = " + (batch_first ? "1" : "0") +
                                   (kind == 1 && below(2) ? ", linear_before_reset = 1" : "");
    const Graph graph = import_text(
        "agraph (float[A, B, I] x, float[D, G, I] w, float[D, G, H] r, float[D, K] b, int32[N] lengths) => "
        "(float[P, Q, R, S] y, float[T, U, V] last) { y, last = " +
        type + " <" + attributes + ">(x, w, r, b, lengths) }");
    INFO(type << " " << attributes);
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < batch; ++b) lengths.push_back(below(length + 1));
    const std::vector<Datum> operands{
        random_floats(random, batch_first ? Sizes{batch, length, inputs} : Sizes{length, batch, inputs}),
        random_floats(random, {directions, gates * hidden, inputs}),
        random_floats(random, {directions, gates * hidden, hidden}), random_floats(random, {directions, 2 * gates * hidden}),
        Tensor::from_integers(DataType::kInt32, {batch}, lengths)};
    const CountingBackend backend;
    const auto session = prepare_session(backend, graph, {});
    const std::vector<Datum> expected = execute(graph, operands);
    check_same(session->execute(operands), expected);
    const std::size_t prepared = backend.prepared;
    CHECK(prepared <= static_cast<std::size_t>(2 * directions));
    check_same(session->execute(operands), expected);
    CHECK(backend.prepared == prepared);
  }
}

TEST_CASE("recurrent networks whose operands do not fit are refused") {
  const auto failure = [](const std::string& attributes, const Sizes& w, std::int64_t length) -> std::string {
    const Graph graph = import_text(
        "agraph (float[3, 2, 4] x, float[D, G, I] w, float[1, 20, 5] r, int32[2] lengths) => (float[P, Q, R, S] y) "
        "{ y = LSTM <hidden_size = 5" +
        attributes + ">(x, w, r, \"\", lengths) }");
    std::mt19937 random(7);
    const std::vector<Datum> operands{random_floats(random, {3, 2, 4}), random_floats(random, w),
                                      random_floats(random, {1, 20, 5}),
                                      Tensor::from_integers(DataType::kInt32, {2}, std::vector<std::int64_t>{length, 1})};
    try {
      prepare_session(cpu::cpu_backend(), graph, {})->execute(operands);
    } catch (const Error& error) {
      return error.what();
    }
    return "no failure";
  };
  CHECK(failure("", {1, 20, 4}, 3) == "no failure");
  CHECK_THAT(failure("", {1, 20, 3}, 3), Catch::Contains("do not fit together"));
  CHECK_THAT(failure("", {1, 20, 4}, 4), Catch::Contains("a sequence's length is 4"));
  CHECK_THAT(failure(", activations = [\"Sigmoid\", \"Tanh\", \"Wrong\"]", {1, 20, 4}, 3),
             Catch::Contains("no activation 'Wrong'"));
  CHECK_THAT(failure(", activations = [\"Sigmoid\"]", {1, 20, 4}, 3), Catch::Contains("too few activations"));
}

TEST_CASE("threads share a session with opaque nodes") {
  const Graph graph = import_text(kLooping);
  const auto session = prepare_session(cpu::cpu_backend(), graph, {});
  std::mt19937 random(5);
  std::vector<std::vector<Datum>> inputs;
  std::vector<std::vector<Datum>> expected;
  for (const std::int64_t size : {40, 50, 60}) {
    inputs.push_back({int64(3), random_floats(random, {size, size})});
    expected.push_back(session->execute(inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int run = 0; run < 5; ++run) {
        const std::vector<Datum> results = session->execute(inputs[t % 3]);
        for (std::size_t i = 0; i < results.size(); ++i)
          if (!(results[i].tensor() == expected[t % 3][i].tensor())) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a loop without an end is ended from another thread, and so is a run that waits for it") {
  const Graph graph = import_text(R"(agraph (float[60, 60] x) => (float[60, 60] y) {
    yes = Constant <value = bool {1}> ()
    y = Loop ("", yes, x) <body = b (int64 i, bool c, float[60, 60] v) => (bool go, float[60, 60] next) {
      go = Identity(c)
      next = MatMul(v, v)
    }>
  })");
  const auto session = prepare_session(cpu::cpu_backend(), graph, {.checkpoint = run_checkpoint});
  std::mt19937 random(5);
  const Datum x = random_floats(random, {60, 60});
  std::atomic<bool> ended = false;
  std::atomic<int> begun = 0, cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Checkpoint checkpoint = [&, first = true, ends = ends_when(ended)]() mutable {
        begun += std::exchange(first, false);
        ends();
      };
      const EndableRun run(checkpoint);
      try {
        session->execute({&x, 1});
      } catch (const Error& error) {
        cancelled += error.code() == ErrorCode::kCancelled;
      }
    });
  while (begun < 2) std::this_thread::yield();
  ended = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(cancelled == 2);
}

TEST_CASE("open sizes of different names may be broadcast beside nodes that tell sizes") {
  const std::string text = R"(agraph (float[a, b] x, float[c, d] y) => (float[m, n] z, int64[2, k] places, float[p, q] ones) {
    s = Add(x, y)
    t = Shape(s)
    ones = ConstantOfShape <value = float[1] {1}> (t)
    places = NonZero(s)
    z = Mul(s, ones) })";
  const auto session = prepare_session(cpu::cpu_backend(), import_text(text));
  std::mt19937 random(11);
  for (const auto& [first, second] : std::vector<std::pair<Sizes, Sizes>>{
           {{3, 4}, {3, 4}}, {{3, 1}, {3, 4}}, {{1, 4}, {3, 1}}, {{3, 1}, {3, 4}}, {{50, 1}, {1, 90}}, {{3, 4}, {3, 4}}}) {
    const std::vector<Datum> inputs = {random_floats(random, first), random_floats(random, second)};
    ImportOptions known;
    known.input_sizes = {{"x", first}, {"y", second}};
    check_same(session->execute(inputs), execute(import_onnx_bytes(text_bytes(text), "test", known), inputs));
  }
  const std::vector<Datum> unfit = {random_floats(random, {3, 2}), random_floats(random, {3, 4})};
  CHECK_THROWS_WITH(session->execute(unfit), Catch::Contains("broadcast"));
}

TEST_CASE("a size that contradicts what is known of it ends the run of a session, too") {
  const std::string text = R"(agraph (int64 m, float[N] x) => (int64[1] s, float[K] y) <float[SIZE] last> {
    yes = Constant <value = bool {1}> ()
    last = Loop (m, yes, x) <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] next) {
      next = Concat <axis = 0> (v, x)
      go = Identity(c)
    }>
    s = Shape(last)
    y = Neg(last)
  })";
  std::mt19937 random(12);
  const std::vector<Datum> inputs = {int64(2), random_floats(random, {3})};
  const auto run = [&](const std::string& size) {
    std::string sized = text;
    sized.replace(sized.find("SIZE"), 4, size);
    return prepare_session(cpu::cpu_backend(), import_text(sized), {})->execute(inputs);
  };
  for (const char* const right : {"9", "K"}) CHECK(run(right).at(0).tensor().integers() == std::vector<std::int64_t>{9});
  CHECK_THROWS_WITH(run("8"), Catch::Contains("\"last\" is float[9], the model says float[8]"));
  CHECK_THROWS_WITH(run("N"), Catch::Contains("axis 0 must be 3, as axis 0 of \"x\" is 3"));
}

}  // namespace rewright::runtime
