// Random models whose sizes only elements tell, called with sizes that change: they compute what the interpreter computes.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "base/process_memory.h"
#include "graph/execute.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/mixed.h"
#include "runtime/parts.h"
#include "runtime/recently_used.h"

namespace rewright::runtime {

namespace {

constexpr std::int64_t kWidth = 8;

// Writes a model in ONNX's text form, stage by stage. Every stage makes rows of `kWidth` numbers from rows, mostly of another
// count.
class RandomModel {
 public:
  explicit RandomModel(unsigned seed) : random_(seed) {}

  std::string text() {
    std::string x = "x";
    for (std::int64_t stages = pick(2, 5); stages > 0; --stages) {
      switch (pick(0, 6)) {
        case 0:
          x = dense(x);
          break;
        case 1:
          x = positive_rows(x);
          break;
        case 2:
          x = largest_rows(x);
          break;
        case 3:
          x = boxes(x);
          break;
        case 4:
          x = growing_loop(x);
          break;
        case 5:
          x = shrinking_loop(x);
          break;
        default:
          x = branch(x);
      }
      if (pick(0, 2) == 0) x = dense(x);
    }
    line("y = Tanh(" + x + ")");
    line("count = Shape(y)");
    return "agraph (float[N, 8] x, float[8, 8] w) => (float[M, 8] y, int64[2] count) {\n" + lines_ + "}";
  }

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) { return std::uniform_int_distribution(least, most)(random_); }
  std::string name() { return "v" + std::to_string(++names_); }
  void line(const std::string& text) { lines_ += "  " + text + "\n"; }
  std::string ints(const std::string& elements, int count) {
    const std::string result = name();
    line(result + " = Constant <value = int64[" + std::to_string(count) + "] {" + elements + "}> ()");
    return result;
  }
  std::string made(const std::string& expression) {
    const std::string result = name();
    line(result + " = " + expression);
    return result;
  }
  std::string column(const std::string& x, int number) {
    return made("Slice(" + x + ", " + ints(std::to_string(number), 1) + ", " + ints(std::to_string(number + 1), 1) + ", " +
                ints("1", 1) + ")");
  }
  std::string rows_of(const std::string& x) { return made("Shape <start = 0, end = 1> (" + x + ")"); }

  std::string dense(const std::string& x) {
    const std::string y = made("MatMul(" + x + ", w)");
    const std::string z = made((pick(0, 1) == 0 ? "Relu(" : "Softmax <axis = 1> (") + y + ")");
    return made("Add(" + z + ", " + x + ")");
  }

  std::string positive_rows(const std::string& x) {
    const std::string sums = made("ReduceSum <keepdims = 0> (" + x + ", " + ints("1", 1) + ")");
    const std::string zero = made("Constant <value = float {0.25}> ()");
    const std::string places = made("NonZero(" + made("Greater(" + sums + ", " + zero + ")") + ")");
    return made("Gather(" + x + ", " + made("Reshape(" + places + ", " + ints("-1", 1) + ")") + ")");
  }

  std::string largest_rows(const std::string& x) {
    const std::string half = made("Div(" + made("Add(" + rows_of(x) + ", " + ints("1", 1) + ")") + ", " + ints("2", 1) + ")");
    const std::string flat = made("Reshape(" + column(x, 2) + ", " + ints("-1", 1) + ")");
    // Rounded keys: the order of keys that differ in their last bits, such as hyperbolic tangents near 1, depends on rounding.
    const std::string apart = made("Constant <value = float {64}> ()");
    const std::string keys = made("Round(" + made("Mul(" + flat + ", " + apart + ")") + ")");
    const std::string values = name(), places = name();
    line(values + ", " + places + " = TopK(" + keys + ", " + half + ")");
    return made("Gather(" + x + ", " + places + ")");
  }

  // Rows that are boxes overlap little.
  std::string boxes(const std::string& x) {
    const std::string corner = made("Slice(" + x + ", " + ints("0", 1) + ", " + ints("2", 1) + ", " + ints("1", 1) + ")");
    const std::string size =
        made("Exp(" + made("Slice(" + x + ", " + ints("2", 1) + ", " + ints("4", 1) + ", " + ints("1", 1) + ")") + ")");
    const std::string both = made("Concat <axis = 1> (" + corner + ", " + made("Add(" + corner + ", " + size + ")") + ")");
    const std::string all = made("Unsqueeze(" + both + ", " + ints("0", 1) + ")");
    const std::string scores =
        made("Unsqueeze(" + made("Transpose <perm = [1, 0]> (" + column(x, 5) + ")") + ", " + ints("0", 1) + ")");
    const std::string most = made("Constant <value = int64[1] {40}> ()"),
                      overlap = made("Constant <value = float[1] {0.3}> ()");
    const std::string chosen = made("NonMaxSuppression(" + all + ", " + scores + ", " + most + ", " + overlap + ")");
    return made("Gather(" + x + ", " + made("Reshape(" + column(chosen, 2) + ", " + ints("-1", 1) + ")") + ")");
  }

  // The loop's first operands: how often, and a condition.
  std::string trips() {
    const std::string count = made("Constant <value = int64 {" + std::to_string(pick(0, 3)) + "}> ()");
    return count + ", " + made("Constant <value = bool {1}> ()");
  }

  std::string growing_loop(const std::string& x) {
    const std::string id = std::to_string(++names_);
    return made("Loop(" + trips() + ", " + x + ") <body = b" + id + " (int64 i" + id + ", bool c" + id + ", float[P" + id +
                ", 8] in" + id + ") => (bool go" + id + ", float[Q" + id + ", 8] out" + id + ") {\n    t" + id +
                " = MatMul(in" + id + ", w)\n    u" + id + " = Tanh(t" + id + ")\n    out" + id + " = Concat <axis = 0> (u" +
                id + ", " + x + ")\n    go" + id + " = Identity(c" + id + ")\n  }>");
  }

  std::string shrinking_loop(const std::string& x) {
    const std::string id = std::to_string(++names_);
    const std::string one = ints("1", 1), most = ints("9223372036854775807", 1), axis = ints("0", 1);
    return made("Loop(" + trips() + ", " + x + ") <body = b" + id + " (int64 i" + id + ", bool c" + id + ", float[P" + id +
                ", 8] in" + id + ") => (bool go" + id + ", float[Q" + id + ", 8] out" + id + ") {\n    t" + id + " = Slice(in" +
                id + ", " + one + ", " + most + ", " + axis + ")\n    out" + id + " = MatMul(t" + id + ", w)\n    go" + id +
                " = Identity(c" + id + ")\n  }>");
  }

  std::string branch(const std::string& x) {
    const std::string id = std::to_string(++names_);
    const std::string few =
        made("Less(" + made("Squeeze(" + rows_of(x) + ")") + ", " + made("Constant <value = int64 {6}> ()") + ")");
    return made("If(" + few + ") <then_branch = t" + id + " () => (float[P" + id + ", 8] a" + id + ") {\n    a" + id +
                " = Concat <axis = 0> (" + x + ", " + x + ")\n  }, else_branch = e" + id + " () => (float[Q" + id + ", 8] b" +
                id + ") {\n    c" + id + " = MatMul(" + x + ", w)\n    b" + id + " = Sin(c" + id + ")\n  }>");
  }

  std::mt19937 random_;
  std::string lines_;
  int names_ = 0;
};

Tensor random_rows(std::mt19937& random, std::int64_t rows) {
  std::normal_distribution<double> normal;
  std::vector<double> elements(static_cast<std::size_t>(rows * kWidth));
  for (double& element : elements) element = normal(random);
  return Tensor::from_reals(DataType::kFloat, {rows, kWidth}, elements);
}

void check_near(const std::vector<Datum>& actual, const std::vector<Datum>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const Tensor &a = actual[o].tensor(), &e = expected[o].tensor();
    REQUIRE(a.sizes() == e.sizes());
    const std::vector<double> x = a.reals(), y = e.reals();
    for (std::size_t k = 0; k < x.size(); ++k) REQUIRE(x[k] == Approx(y[k]).epsilon(1e-3).margin(1e-3));
  }
}

}  // namespace

TEST_CASE("random models whose sizes only elements tell, at sizes that change") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const std::string text = RandomModel(seed).text();
    INFO("seed " << seed << "\n" << text);
    const Graph graph = import_onnx_bytes(text_bytes(text), "test");
    SessionOptions options;
    options.threads = 1 + static_cast<int>(seed % 2);
    const auto session = prepare_session(cpu::cpu_backend(), graph, options);
    std::mt19937 random(seed);
    const Tensor weights = random_rows(random, kWidth);
    for (const std::int64_t rows : {5, 0, 1, 2, 40, 1, 0, 130, 5}) {
      INFO(rows << " rows");
      const std::vector<Datum> inputs{random_rows(random, rows), weights};
      check_near(session->execute(inputs), execute(graph, inputs));
    }
  }
}

TEST_CASE("threads that call models whose sizes only elements tell with different sizes at once") {
  for (unsigned seed = 100; seed < 106; ++seed) {
    const std::string text = RandomModel(seed).text();
    INFO("seed " << seed << "\n" << text);
    const auto session = prepare_session(cpu::cpu_backend(), import_onnx_bytes(text_bytes(text), "test"), {});
    std::mt19937 random(seed);
    const Tensor weights = random_rows(random, kWidth);
    std::vector<std::vector<Datum>> inputs, expected;
    for (std::int64_t rows = 0; rows < 40; rows += 2) {
      inputs.push_back({random_rows(random, rows), weights});
      expected.push_back(
          prepare_session(cpu::cpu_backend(), import_onnx_bytes(text_bytes(text), "test"), {})->execute(inputs.back()));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t round = 0; round < 40; ++round) {
          const std::size_t n = (round * (2 * t + 1) + 5 * t) % inputs.size();
          const std::vector<Datum> results = session->execute(inputs[n]);
          for (std::size_t o = 0; o < results.size(); ++o) wrong += results[o].tensor() == expected[n][o].tensor() ? 0 : 1;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a part that is given many sizes is the same graph as one that is given types") {
  // Operators, attributes and types in order; or what is wrong.
  const auto text_of = [](const auto& make) {
    try {
      const Graph graph = make();
      std::string text;
      for (const auto& node : graph.nodes()) {
        text += node->op->name() + " " + std::to_string(hash(node->attributes));
        for (const auto* values : {&node->inputs, &node->outputs})
          for (const ValueId id : *values) text += id == kNoValue ? " -" : " " + to_string(graph.value(id).type);
        text += "\n";
      }
      for (const GraphOutput& output : graph.outputs()) text += output.name + to_string(graph.value(output.value).type);
      return text;
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  int compared = 0;
  for (unsigned seed = 200; seed < 260; ++seed) {
    const std::string text = RandomModel(seed).text();
    INFO("seed " << seed << "\n" << text);
    std::mt19937 random(seed);
    const Graph graph = import_onnx_bytes(text_bytes(text), "test");
    const std::vector<bool> constant = graph.constant_values();
    for (Stage& stage : stages_of(graph)) {
      CHECK(std::none_of(stage.part.inputs.begin(), stage.part.inputs.end(), [&](ValueId id) { return constant[id]; }));
      if (stage.part.graph.nodes().empty()) continue;
      const OpenPart open(std::move(stage.part));
      for (int round = 0; round < 6; ++round) {
        std::map<std::string, Index> numbers;
        const Substitution sizes = [&](const Atom& atom) -> std::optional<Index> {
          if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
          return numbers.emplace(atom.name, Index(static_cast<std::int64_t>(random() % 5))).first->second;
        };
        std::vector<TensorType> types;
        for (const ValueId id : open.part().graph.inputs()) {
          TensorType type = open.part().graph.value(id).type;
          type.shape = substitute(type.shape, sizes);
          if (round % 3 == 2 && type.rank() > 0) type.shape[random() % type.rank()] = Index(3);  // not as the names say
          types.push_back(type);
        }
        CHECK(text_of([&] { return open.with_types(types, sizes); }) ==
              text_of([&] { return with_types(open.part(), types, sizes); }));
        ++compared;
      }
    }
  }
  CHECK(compared > 300);
}

TEST_CASE("a run that would need more memory than there is ends in an error, and the session goes on") {
  const std::size_t left = available_bytes();
  if (left > std::size_t{1} << 44) return;  // the system does not say
  const std::string outer = "agraph (float[N, 1] x, float[1, M] y) => (float[N, M] z";
  const std::string sums = ") {\n  s = Add(x, y)\n  z = Tanh(s)\n", places = "  places = NonZero(z)\n";
  for (const std::string& text : {outer + sums + "}", outer + ", int64[2, K] places" + sums + places + "}"}) {
    const auto session = prepare_session(cpu::cpu_backend(), import_onnx_bytes(text_bytes(text), "test"), {});
    const auto zeros = [](Sizes sizes) {
      Tensor tensor(DataType::kFloat, std::move(sizes));
      std::ranges::fill(tensor.mutable_data<float>(), 0.0f);
      return tensor;
    };
    const auto run = [&](std::int64_t rows, std::int64_t columns) {
      const std::vector<Tensor> inputs{zeros({rows, 1}), zeros({1, columns})};
      return session->run(inputs).at(0).sizes();
    };
    CHECK(run(3, 4) == Sizes{3, 4});
    // More than all of it, and more than any number of bytes.
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(left) * 1.2 / 4)) + 1;
    for (const std::int64_t size : {side, std::int64_t{1} << 26}) {
      try {
        run(size, size);
        FAIL("it was not refused");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kMissing);
        CHECK_THAT(error.what(), Catch::Contains("memory"));
      }
      CHECK(run(5, 2) == Sizes{5, 2});
    }
  }
}

TEST_CASE("what was asked for lately is kept, and the rest is made again") {
  RecentlyUsed<int, int> kept(3);
  int made = 0;
  const auto get = [&](int key) { return *kept.get(key, [&] { return ++made, std::make_shared<int>(10 * key); }); };
  for (const int key : {1, 2, 3, 1, 2, 3}) CHECK(get(key) == 10 * key);
  CHECK(made == 3);
  CHECK(get(1) == 10);
  CHECK(get(4) == 40);  // in place of 2
  CHECK(kept.find(2) == nullptr);
  CHECK(*kept.find(1) == 10);
  CHECK(*kept.last() == 10);
  CHECK_THROWS(kept.get(7, []() -> std::shared_ptr<int> { throw Error(ErrorCode::kBadInput, "no"); }));
  CHECK(kept.find(7) == nullptr);
  CHECK(get(7) == 70);
}

}  // namespace rewright::runtime
