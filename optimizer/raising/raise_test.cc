#include "optimizer/raising/raise.h"

#include <random>

#include <catch2/catch.hpp>

#include "graph/onnx/model.h"
#include "graph/testing.h"

namespace rewright::optimizer {

namespace {

using testing::import_text;

// The operators of the written model, with their domain where they have one.
std::vector<std::string> written(const Graph& graph) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(export_onnx_bytes(graph)));
  std::vector<std::string> types;
  for (const auto& node : model.graph().node())
    types.push_back(node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type());
  return types;
}

void check_same(const Graph& given, const Graph& found) {
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (const ValueId id : given.inputs()) inputs.push_back(testing::random_tensor(given.value(id).type, random));
  const auto expected = interpret(given, inputs);
  const auto results = interpret(import_onnx_bytes(export_onnx_bytes(found), "again"), inputs);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    for (std::size_t k = 0; k < results[i].reals().size(); ++k)
      CHECK(results[i].reals()[k] == Approx(expected[i].reals()[k]).margin(1e-5));
}

std::string attention(const std::string& scores, const std::string& mask) {
  return "agraph (float[2, 3, 8] q, float[2, 5, 8] k, float[2, 5, 12] v" + mask + R"() => (float[2, 3, 12] y)
  <int64[4] to_q = {2, 3, 2, 4}, int64[4] to_k = {2, 5, 2, 4}, int64[4] to_v = {2, 5, 2, 6}, int64[3] back = {2, 3, 12}, float s = {0.5}> {
    q4 = Reshape (q, to_q)
    a = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape (k, to_k)
    b = Transpose <perm = [0, 2, 3, 1]> (k4)
    v4 = Reshape (v, to_v)
    c = Transpose <perm = [0, 2, 1, 3]> (v4)
    )" + scores +
         R"(
    p = Softmax <axis = -1> (t)
    h = MatMul (p, c)
    r = Transpose <perm = [0, 2, 1, 3]> (h)
    y = Reshape (r, back)
  })";
}

}  // namespace

TEST_CASE("attention by heads becomes one call, wherever the scale stands and however the mask is broadcast") {
  for (const std::string scores :
       {"t = MatMul (a, b)", "u = MatMul (a, b)  t = Mul (u, s)", "as = Mul (a, s)  bs = Mul (b, s)  t = MatMul (as, bs)"})
    for (const std::string mask : {"", ", float[3, 5] m", ", float[2, 1, 1, 5] m", ", float[1, 1, 3, 5] m"}) {
      std::string body = scores;
      if (!mask.empty())
        body.replace(body.find(" t = ") == std::string::npos ? 0 : body.find(" t = ") + 1, 1, "w"), body += "  t = Add (w, m)";
      INFO(body + mask);
      const Graph given = import_text(attention(body, mask));
      const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
      CHECK(found.calls == std::map<std::string, int>{{"MultiHeadAttention", 1}});
      const std::vector<std::string> types = written(found.graph);
      CHECK(types.back() == "com.microsoft.MultiHeadAttention");
      CHECK(types.size() == (mask.empty() ? 1 : 2));
      check_same(given, found.graph);
    }
}

TEST_CASE("a mask of its own for each head is given as it is") {
  const Graph given = import_text(attention("w = MatMul (a, b)  t = Add (w, m)", ", float[1, 2, 3, 5] m"));
  const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
  CHECK(found.calls == std::map<std::string, int>{{"MultiHeadAttention", 1}});
  check_same(given, found.graph);
}

TEST_CASE("biases before Gelu are raised") {
  const Graph given = import_text(R"(agraph (float[2, 3, 4] x, float[4] b) => (float[2, 3, 4] y) {
    a = Add (b, x)
    p = Gelu (a)
    y = Relu (p)
  })",
                                  20);
  const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
  CHECK(found.calls == std::map<std::string, int>{{"BiasGelu", 1}});
  CHECK(written(found.graph) == std::vector<std::string>{"com.microsoft.BiasGelu", "Relu"});
  check_same(given, found.graph);
}

TEST_CASE("a skip connection and its normalization become one call, whether the sum is read again or not") {
  for (const std::string sum : {"t = Add (x, y)", "u = Add (x, c)  t = Add (y, u)"})
    for (const std::string shift : {"", ", b"})
      for (const bool is_read : {false, true}) {
        INFO(sum + shift << is_read);
        const Graph given = import_text(
            "agraph (float[2, 3, 4] x, float[2, 3, 4] y, float[4] c, float[4] s, float[4] b) => (float[2, 3, 4] z) {" + sum +
            "  n = LayerNormalization <axis = -1, epsilon = 0.001> (t, s" + shift + ")  r = Relu (n)  z = Add (r, " +
            (is_read ? "t" : "r") + ")}");
        const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
        CHECK(found.calls == std::map<std::string, int>{{"SkipLayerNormalization", 1}});
        CHECK(written(found.graph) == std::vector<std::string>{"com.microsoft.SkipLayerNormalization", "Relu", "Add"});
        check_same(given, found.graph);
      }
}

TEST_CASE("a skip connection before a root mean square normalization becomes one call") {
  const Graph given =
      import_text(R"(agraph (float[2, 3, 4] x, float[2, 3, 4] y, float[4] s) => (float[2, 3, 4] z, float[2, 3, 4] t) {
    t = Add (x, y)
    z = RMSNormalization <axis = -1> (t, s)
  })",
                  23);
  const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
  CHECK(found.calls == std::map<std::string, int>{{"SkipSimplifiedLayerNormalization", 1}});
  check_same(given, found.graph);
}

TEST_CASE("approximate Gelus, with a bias or without, and products with a logistic function are raised") {
  const auto calls_of = [](const std::string& body) {
    const Graph given =
        import_text("agraph (float[2, 3, 4] x, float[4] b) => (float[2, 3, 4] y) <float a = {1.702}> {" + body + "}", 20);
    const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
    check_same(given, found.graph);
    return found.calls;
  };
  using Calls = std::map<std::string, int>;
  CHECK(calls_of("u = Add (x, b)  y = Gelu <approximate = \"tanh\"> (u)") == Calls{{"FastGelu", 1}});
  CHECK(calls_of("u = Relu (x)  y = Gelu <approximate = \"tanh\"> (u)") == Calls{{"FastGelu", 1}});
  CHECK(calls_of("u = Mul (x, a)  v = Sigmoid (u)  y = Mul (x, v)") == Calls{{"QuickGelu", 1}});
}

TEST_CASE("torch's guard behind a softmax is dropped where all values may be taken for finite") {
  std::string text = attention("u = MatMul (a, b)  t = Mul (u, s)", "");
  text.replace(text.find("p = Softmax"), 1, "w");
  text.replace(text.find("h = MatMul (p, c)"), 0, "g = IsNaN (w)  p = Where (g, zero, w)\n    ");
  text.replace(text.find("float s ="), 0, "float zero = {0}, ");
  const Graph given = import_text(text);
  CHECK(raised(given, raisings(), {MathClass::kReassociates, false}).calls.empty());
  const Raised found = raised(given, raisings(), {MathClass::kNeedsFinite, false});
  CHECK(found.calls == std::map<std::string, int>{{"MultiHeadAttention", 1}});
  check_same(given, found.graph);
}

TEST_CASE("heads whose rows are written as one matrix are attention too") {
  std::string text = attention("u = MatMul (a, b)  t = Mul (u, s)", "");
  text.replace(text.find("=> (float[2, 3, 12] y)"), 22, "=> (float[6, 12] y)");
  text.replace(text.find("int64[3] back = {2, 3, 12}"), 26, "int64[2] back = {6, 12}");
  const Graph given = import_text(text);
  const Raised found = raised(given, raisings(), {MathClass::kReassociates, false});
  CHECK(found.calls == std::map<std::string, int>{{"MultiHeadAttention", 1}});
  check_same(given, found.graph);
}

}  // namespace rewright::optimizer
