// Models that read at positions that are data, and numbers that stand in an operator's definition: proved with certificates
// that the checker accepts, and that prove nothing else.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "equivalence/prove.h"
#include "equivalence/related_values.h"
#include "graph/file.h"
#include "graph/testing.h"
#include "rules/io.h"
#include "verifier/certificate.h"

namespace rewright::equivalence {

namespace {

// A proof of two models, with its certificate.
class Certified {
 public:
  Certified(const std::string& a, const std::string& b, int opset)
      : opset_(opset), a_(write("a.onnx", a)), b_(write("b.onnx", b)) {
    ProveOptions options;
    options.rules = shipped_rules().rules();
    options.executors = {reference_executor(1e7, 20)};
    options.certificate = folder_.path() / "proof";
    result_ = prove(a_, b_, options);
  }

  const Proving& result() const { return result_; }
  ProofCheck check() const { return check_proof(a_, b_, folder_.path() / "proof"); }

  // Is the proof, with a digest that fits, one of another second model?
  bool proves(const std::string& other) const {
    const std::filesystem::path c = write("c.onnx", other), json = folder_.path() / "proof" / "equality.json";
    const std::string bytes(map_file(json).text());
    Proof proof = read_proof(bytes, "proof");
    proof.second = proof::hexadecimal(proof::sha256(map_file(c).text()));
    write_file(json, write_proof(proof));
    bool accepted = false;
    try {
      accepted = check_proof(a_, c, folder_.path() / "proof").accepted;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
    }
    write_file(json, bytes);
    return accepted;
  }

 private:
  std::filesystem::path write(const char* name, const std::string& text) const {
    write_file(folder_.path() / name, graph::text_bytes(text, opset_));
    return folder_.path() / name;
  }

  const int opset_;
  const TemporaryFolder folder_;
  const std::filesystem::path a_, b_;
  Proving result_;
};

struct Models {
  std::string a, b, wrong;
  int opset = 17;
};

void require_certified(const Models& models) {
  const Certified certified(models.a, models.b, models.opset);
  INFO(models.b << ": " << certified.result().reason);
  for (const Place& place : certified.result().places) UNSCOPED_INFO(place.a << " / " << place.b << ": " << place.reason);
  REQUIRE(certified.result().verdict == Verdict::kProved);
  const ProofCheck check = certified.check();
  INFO(check.reason);
  REQUIRE(check.accepted);
  CHECK(!certified.proves(models.wrong));
  CHECK(Certified(models.a, models.wrong, models.opset).result().verdict != Verdict::kProved);
}

}  // namespace

TEST_CASE("prove: positions that are data have certificates") {
  const std::string w = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64 c = {-1}, int64[1] axes = {0}>";
  const auto models = [&](const std::string& type, const std::string& result, const std::string& a, const std::string& b,
                          const std::string& wrong) {
    const std::string head = "agraph (" + type + ") => (" + result + ") " + w;
    return Models{head + " { " + a + " }", head + " { " + b + " }", head + " { " + wrong + " }"};
  };
  // Rows, doubled, and what was read, doubled.
  require_certified(models("int64[3] i", "float[3, 2] y", "g = Gather(w, i) n = Neg(g) y = Sub(g, n)",
                           "g = Gather(w, i) y = Add(g, g)", "g = Gather(w, i) n = Neg(g) y = Add(g, n)"));
  // An axis more, before and after.
  require_certified(models("int64[3] i", "float[1, 3, 2] y", "u = Unsqueeze(i, axes) y = Gather(w, u)",
                           "g = Gather(w, i) y = Unsqueeze(g, axes)", "n = Neg(w) g = Gather(n, i) y = Unsqueeze(g, axes)"));
  // Positions that are computed.
  require_certified(models("int64[3] i, int64[3] k", "float[3, 2] y", "s = Add(i, k) g = Gather(w, s) n = Neg(g) y = Neg(n)",
                           "s = Add(k, i) y = Gather(w, s)", "s = Sub(k, i) y = Gather(w, s)"));
}

// Elements that the first model does not read at may lie outside of the tensor.
TEST_CASE("prove: positions that only the second model reads at are not proved to be inside") {
  const auto verdict = [](const std::string& inputs, const std::string& result, const std::string& a, const std::string& b) {
    const std::string head =
        "agraph (" + inputs + ") => (" + result +
        ") <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] from = {0}, int64[1] to = {2}, int64[1] axes = {0}> ";
    return Certified(head + "{ " + a + " }", head + "{ " + b + " }", 17).result().verdict;
  };
  const std::string few = "s = Slice(i, from, to, axes) y = Gather(w, s)",
                    all = "g = Gather(w, i) y = Slice(g, from, to, axes)";
  CHECK(verdict("int64[3] i", "float[2, 2] y", all, few) == Verdict::kProved);
  CHECK(verdict("int64[3] i", "float[2, 2] y", few, all) != Verdict::kProved);
  const std::string one = "y = Gather(w, i)", other = "d = Gather(w, k) z = Sub(d, d) g = Gather(w, i) y = Add(g, z)";
  const std::string both = "d = Gather(w, k) n = Neg(d) p = Neg(n) z = Sub(p, d) g = Gather(w, i) y = Add(g, z)";
  CHECK(verdict("int64[3] i, int64[3] k", "float[3, 2] y", one, other) != Verdict::kProved);
  CHECK(verdict("int64[3] i, int64[3] k", "float[3, 2] y", both, other) == Verdict::kProved);
  // An axis of another size has other positions.
  const std::string half =
      "v = Slice(w, from, to, axes) g = Gather(v, i) h = Gather(v, i) d = Sub(g, h) f = Gather(w, i) y = Add(f, d)";
  CHECK(verdict("int64[3] i", "float[3, 2] y", one, half) != Verdict::kProved);
}

TEST_CASE("prove: constants that are scaled by a number of the first model") {
  const std::string head = "agraph (float[2, 2] x) => (float[2, 3] y) ";
  const std::string a =
      "<float[2, 3] w = {1, 2, 3, 4, 5, 6}, float c = {0.25}, float[3] b = {1, -1, 2}> { m = MatMul(x, w) s = Add(m, b) y = "
      "Mul(s, c) }";
  const auto folded = [&](const std::string& last) {
    return head + "<float[3, 2] v = {0.25, 1, 0.5, 1.25, 0.75, " + last +
           "}, float[3] d = {0.25, -0.25, 0.5}> { y = Gemm<transB = 1>(x, v, d) }";
  };
  require_certified({head + a, folded("1.5"), folded("1.75")});
  std::string divided = a;
  divided.replace(divided.find("{0.25}"), 6, "{4}");
  divided.replace(divided.find("= Mul"), 5, "= Div");
  require_certified({head + divided, folded("1.5"), folded("1.75")});
}

// The number is no constant of the first model, but what it computes from one.
TEST_CASE("prove: constants that are scaled by a number that is computed") {
  const std::string head = "agraph (float[2, 2] x) => (float[2, 3] y) ";
  const auto folded = [&](const std::string& last) {
    return head +
           "<float[2, 3] v = {2.23606797749979, 4.47213595499958, 6.708203932499369, 8.94427190999916, 11.180339887498949, " +
           last + "}> { y = MatMul(x, v) }";
  };
  require_certified(
      {head + "<float[2, 3] w = {1, 2, 3, 4, 5, 6}, float c = {5}> { r = Sqrt(c) m = MatMul(x, w) y = Mul(m, r) }",
       folded("13.416407864998739"), folded("13.4")});
}

TEST_CASE("prove: a constant that is the product of two numbers") {
  const std::string head = "agraph (float[2, 4] x, float[4, 2] z) => (float[2, 2] y) ";
  const auto joined = [&](const std::string& factor) {
    return head + "<float c = {" + factor + "}> { m = MatMul(x, z) y = Mul(m, c) }";
  };
  const std::string apart = "a = Mul(x, r) b = Mul(z, r) y = MatMul(a, b) }";
  require_certified({head + "<float c = {0.125}> { r = Sqrt(c) " + apart, joined("0.125"), joined("0.25")});
  require_certified({head + "<float c = {0.35355338}> { r = Sqrt(c) " + apart, joined("0.3535534"), joined("0.3536")});
  require_certified({head + "<float c = {4}, float one = {1}> { s = Sqrt(c) t = Sqrt(s) r = Div(one, t) " + apart,
                     joined("0.5"), joined("0.25")});
}

TEST_CASE("prove: roots of squares are numbers") {
  const std::string head = "agraph (float[2, 4] x) => (float[2, 4] y) ";
  const auto written = [&](const std::string& factor) {
    return head + "<float c = {" + factor + "}, float h = {0.5}> { a = Mul(x, h) e = Erf(a) y = Mul(e, c) }";
  };
  require_certified({head + "<float c = {0.25}, float h = {0.5}> { r = Sqrt(c) a = Mul(x, h) e = Erf(a) y = Mul(e, r) }",
                     written("0.5"), written("0.25")});
}

TEST_CASE("prove: a constant that the first model computes for all inputs") {
  const std::string head = "agraph (float[2, 3, 1] x, float[2, 1, 4] z) => (float[2, 3, 4] y) ";
  const auto folded = [&](const std::string& last) {
    return head + "<float[2, 3, 1] one = {1, 1, 1, 1, 1, " + last + "}> { y = MatMul(one, z) }";
  };
  require_certified({head + "{ s = Softmax<axis = -1>(x) y = MatMul(s, z) }", folded("1"), folded("2")});
}

// Masks and tables of zeros: the first by computing with integers, the second since all rows are the same.
TEST_CASE("prove: what is added is zero wherever it is taken from") {
  const std::string head = "agraph (float[3, 4] x) => (float[3, 4] y) ", softmax = "y = Softmax<axis = -1>(a) }";
  const std::string plain = head + "<float c = {0.5}> { a = Mul(x, c) " + softmax,
                    wrong = head + "<float c = {0.75}> { a = Mul(x, c) " + softmax;
  require_certified({head +
                         "<float c = {0.5}, float[5, 2] t = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[6] i = {4, 2, 0, 1, 2, 3}, "
                         "int64[2] s = {3, 4}> { h = Mul(x, c) g = Gather(t, i) r = Reshape(g, s) a = Add(h, r) " +
                         softmax,
                     plain, wrong});
  require_certified({head +
                         "<float c = {0.5}, int64[4] n = {0, 1, 2, 3}, int64 low = {0}, float zero = {0}, float far = {-1000}> "
                         "{ h = Mul(x, c) k = GreaterOrEqual(n, low) m = Where(k, zero, far) a = Add(h, m) " +
                         softmax,
                     plain, wrong});
}

// A constant that cannot be computed is none.
TEST_CASE("prove: never of integers that are not defined") {
  const std::string head =
      "agraph (float[2] x) => (float[2] y) <int64[2] a = {4, 2}, int64[2] z = {0, 0}, int64[2] far = {7, 7}> { ";
  const auto verdict = [&](const std::string& c) {
    const std::string last = " f = Cast<to = 1>(c) y = Add(x, f) }";
    return Certified(head + "c = Identity(z)" + last, head + c + last, 17).result().verdict;
  };
  CHECK(verdict("c = Mul(a, z)") == Verdict::kProved);
  CHECK(verdict("g = Gather(a, far) c = Mul(g, z)") != Verdict::kProved);
  for (const char* divided : {"c = Div(a, z)", "c = Mod(a, z)", "d = Div(a, z) c = Mul(d, z)"}) {
    INFO(divided);
    CHECK(verdict(divided) != Verdict::kProved);
  }
}

// The second model divides by a number that may be 0 where the first one has a value.
TEST_CASE("prove: a certificate of an equation says nothing of what is undefined") {
  const Certified certified("agraph (int64[2] x, int64[2] k) => (int64[2] y) { y = Identity(x) }",
                            "agraph (int64[2] x, int64[2] k) => (int64[2] y) { d = Div(k, k) p = Mul(k, d) q = Sub(p, k) y = "
                            "Add(x, q) }",
                            17);
  CHECK(certified.result().verdict != Verdict::kProved);
  // Statements are asked, whatever a rule's certificate says.
  const auto less_defined = [](const std::string& a, const std::string& b) {
    const std::string head =
        "agraph (float[2] x, float[2] v, int64[2] k) => (float[2] y) <float[2] two = {2, 4}, float[2] none = "
        "{1, 0}> { ";
    const Graph first = testing::import_text(head + a + " }"), second = testing::import_text(head + b + " }");
    const Joint joint(first, second, {});
    const auto& [x, y] = joint.outputs().front();
    return may_be_less_defined(statement_of(joint, {x, y, {}}));
  };
  CHECK(less_defined("y = Mul(x, v)", "y = Div(x, v)"));
  CHECK(!less_defined("y = Div(x, v)", "y = Mul(x, v)"));
  CHECK(!less_defined("y = Mul(x, v)", "y = Div(x, two)"));
  CHECK(less_defined("y = Mul(x, v)", "y = Div(x, none)"));
  CHECK(less_defined("y = Div(x, v)", "d = Div(k, k) e = Cast<to = 1>(d) y = Div(x, e)"));
  CHECK(less_defined("z = Sub(v, v) d = Div(v, x) y = Add(d, z)", "z = Sub(v, v) d = Div(v, x) q = Div(z, v) y = Add(d, q)"));
  CHECK(!less_defined("p = Mul(v, x) y = Div(two, p)", "q = Div(two, v) y = Div(q, x)"));
}

// The first model has as a constant what the second one computes.
TEST_CASE("prove: small models that differ have constants of both models") {
  const auto b = [](const std::string& op) {
    return "agraph (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) <float[2, 3] one = {1, 1, 1, 1, 1, 1}> { d = Sub(z, z) c "
           "= "
           "Add(d, one) t = Add(c, c) y = " +
           op + "(x, t) }";
  };
  const std::string a =
      "agraph (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) <float[2, 3] two = {2, 2, 2, 2, 2, 2}> { y = Mul(x, two) }";
  const auto proving = [&](const std::string& second) {
    ProveOptions options;
    options.rules = shipped_rules().rules();
    options.executors = {reference_executor(1e7, 20)};
    return prove(testing::import_text(a), testing::import_text(second), options);
  };
  CHECK(proving(b("Mul")).verdict == Verdict::kProved);
  const Proving result = proving(b("Sub"));
  REQUIRE(result.verdict == Verdict::kRefuted);
  REQUIRE(result.smallest);
  CHECK(result.smallest->first.inputs().size() == 1);
  CHECK(result.smallest->second.inputs().size() == 1);
}

// Convolutions on channels in blocks have as many channels as fill the last block.
TEST_CASE("prove: folded weights that are filled up with zeros") {
  const std::string head = "agraph (float[1, 1, 3, 3] x) => (float[1, 2, 3, 3] y) ";
  const std::string a =
      "<float[2, 1, 1, 1] w = {3, 5}, float[2] gamma = {2, 4}, float[2] beta = {0, 1}, float[2] mean = {1, 0}, float[2] "
      "variance = {3, 3}> "
      "{ c = Conv(x, w) n = BatchNormalization<epsilon = 1.0>(c, gamma, beta, mean, variance) y = Relu(n) }";
  const auto filled = [&](const std::string& second) {
    return head + "<float[4, 1, 1, 1] w = {3, " + second +
           ", 0, 0}, float[4] b = {-1, 1, 0, 0}, int64[1] from = {0}, int64[1] to = {2}, "
           "int64[1] axes = {1}> { c = Conv(x, w, b) r = Relu(c) y = Slice(r, from, to, axes) }";
  };
  require_certified({head + a, filled("10"), filled("11")});
}

// sqrt(2 / pi) (x + 0.044715 x^3) in float, where the definition has the product: a quotient of its numbers.
TEST_CASE("prove: constants that are quotients of numbers of a definition") {
  const auto written = [](const std::string& inner) {
    return "agraph (float[3] x) => (float[3] y) <float half = {0.5}, float three = {3}, float inner = {" + inner +
           "}, float slope = {0.7978845834732056}, float one = {1}> { h = Mul(x, half) p = Pow(x, three) q = Mul(p, inner) a = "
           "Add(x, q) "
           "s = Mul(a, slope) t = Tanh(s) u = Add(t, one) y = Mul(h, u) }";
  };
  const std::string whole = "agraph (float[3] x) => (float[3] y) { y = Gelu<approximate = \"tanh\">(x) }";
  require_certified({written("0.044714998453855515"), whole, written("0.0447"), 20});
  require_certified({whole, written("0.044714998453855515"), written("0.0447"), 20});
}

namespace {

// Twelve operators on each element, one after the other.
std::string chain_of_twelve(const std::string& from, const std::string& to) {
  const char* operators[] = {"Tanh", "Neg", "Exp", "Neg", "Sigmoid", "Abs", "Softplus", "Tanh", "Neg", "Exp", "Tanh", "Abs"};
  std::string text, last = from;
  int number = 0;
  for (const char* op : operators) {
    const std::string next = number + 1 == std::ssize(operators) ? to : "v" + std::to_string(number);
    text += next + " = " + op + "(" + last + ") ";
    last = next, ++number;
  }
  return text;
}

}  // namespace

TEST_CASE("prove: axes in another order through several operators, and rows that are joined") {
  const auto in_order = [](const std::string& perm) {
    return "agraph (float[N, 3, 2, 4] x) => (float[N, 2, 4, 3] y) { " + chain_of_twelve("x", "t") + "y = Transpose<perm = [" +
           perm + "]>(t) }";
  };
  const std::string first = "agraph (float[N, 3, 2, 4] x) => (float[N, 2, 4, 3] y) { s = Transpose<perm = [0, 2, 1, 3]>(x) " +
                            chain_of_twelve("s", "t") + "y = Transpose<perm = [0, 1, 3, 2]>(t) }";
  const Certified certified(first, in_order("0, 2, 3, 1"), 17);
  INFO(certified.result().reason);
  REQUIRE(certified.result().verdict == Verdict::kProved);
  CHECK(certified.check().accepted);
  // The second model lacks an exchange of axes.
  const std::string square = "agraph (float[2, 4, 4] x) => (float[2, 4, 4] y) { ";
  const Certified wrong(square + "s = Transpose<perm = [0, 2, 1]>(x) " + chain_of_twelve("s", "y") + "}",
                        square + chain_of_twelve("x", "y") + "}", 17);
  CHECK(wrong.result().verdict == Verdict::kRefuted);

  const Certified rows("agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) { " + chain_of_twelve("x", "y") + "}",
                       "agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) <int64[2] s = {6, 4}, int64[3] u = {2, 3, 4}> "
                       "{ r = Reshape(x, s) " +
                           chain_of_twelve("r", "t") + "y = Reshape(t, u) }",
                       17);
  REQUIRE(rows.result().verdict == Verdict::kProved);
  CHECK(rows.check().accepted);
}

TEST_CASE("prove: channels that stay filled up with zeros") {
  const auto network = [](const std::string& sizes, const std::string& weights, const std::string& second) {
    std::string text = "agraph (float[N, 1, 5, 5] x) => (float[N, 1, 5, 5] y) <float[" + sizes + ", 1, 1, 1] v = {" + weights +
                       "}, float[" + sizes + ", 1, 1, 1] d = {" + weights + "}, float[1, " + sizes + ", 1, 1] w = {" + second +
                       "}> { a0 = Conv(x, v) ";
    for (int n = 0; n < 12; ++n) {
      const std::string from = "a" + std::to_string(n), conv = "c" + std::to_string(n), to = "a" + std::to_string(n + 1);
      text += conv + " = Conv<group = " + sizes + ">(" + from + ", d) " + to + " = " + (n % 2 == 0 ? "Relu" : "Tanh") + "(" +
              conv + ") ";
    }
    return text + "y = Conv(a12, w) }";
  };
  const Certified certified(network("3", "1, 2, -1", "1, -1, 2"), network("4", "1, 2, -1, 0", "1, -1, 2, 0"), 17);
  INFO(certified.result().reason);
  REQUIRE(certified.result().verdict == Verdict::kProved);
  CHECK(certified.check().accepted);
  CHECK_FALSE(certified.proves(network("4", "1, 2, -1, 0", "1, -1, 1, 0")));
  const Certified wrong(network("3", "1, 2, -1", "1, -1, 2"), network("4", "1, 2, -1, 0.5", "1, -1, 2, 1"), 17);
  CHECK(wrong.result().verdict != Verdict::kProved);
}

TEST_CASE("prove: zeros cut out of more of them are what an absent state stands for") {
  const std::string sizes = "agraph (float[3, 2, 4] x, float[1, 6, 4] w, float[1, 6, 2] r) => (float[3, 1, 2, 2] y) ";
  const Certified certified(
      sizes +
          "<float[1, 12] b = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[3] s = {2, 2, 2}, int64[1] one = {1}, "
          "int64[1] two = {2}, int64[1] zero = {0}> { all = ConstantOfShape(s) "
          "h = Slice(all, one, two, zero) y = GRU<hidden_size = 2>(x, w, r, b, , h) }",
      sizes + "{ y = GRU<hidden_size = 2>(x, w, r) }", 17);
  INFO(certified.result().reason);
  REQUIRE(certified.result().verdict == Verdict::kProved);
  CHECK(certified.check().accepted);
}

TEST_CASE("terms over a value have the type that they are made for", "[sampling]") {
  std::mt19937 random(3);
  std::size_t tried = 0;
  for (int run = 0; run < 1000; ++run) {
    const DataType types[] = {DataType::kFloat, DataType::kInt8, DataType::kUint8};
    Indices shape, other;
    for (std::size_t k = random() % 4; k-- > 0;) shape.emplace_back(1 + random() % 3), other = shape;
    std::shuffle(other.begin(), other.end(), random);
    if (!other.empty() && random() % 2 == 0) other[0] = Index(other[0].value() + static_cast<std::int64_t>(random() % 3));
    const TensorType from{types[random() % 3], shape}, to{types[random() % 3], other};
    Graph graph;
    graph.add_output("y", graph.add_input("x", from));
    for (const Relation& relation : relations_between(from, to)) {
      Joint joint(graph, graph, {});
      const ValueId made = add_value(joint, related_term(joint, graph.inputs()[0], to, relation));
      CHECK(joint.graph().value(made).type == to);
      ++tried;
    }
  }
  CHECK(tried > 50);
}

namespace {

// A convolution of quantized elements: between DequantizeLinear and QuantizeLinear, and as one operator on unsigned elements.
Models quantized_convolution(const std::string& bias_scale, const std::string& weight_scale) {
  const std::string io = "agraph (float[1, 2, 5, 5] x) => (float[1, 3, 4, 4] y) ";
  const std::string weights =
      "float s = {0.0503}, int8[3, 2, 2, 2] w = {1, -2, 3, 4, 5, -6, 7, 8, 9, -10, 11, 12, -13, 14, 15, 16, 17, 18, -19, 20, "
      "21, "
      "22, "
      "23, 24}, float" +
      weight_scale + ", int8" + (weight_scale.starts_with("[") ? "[3] u = {0, 0, 0}" : " u = {0}") +
      ", int32[3] b = {1000, -500, 20}, float q = {0.0411}";
  const std::string unsigned_one =
      "{ a = QuantizeLinear(x, s, z) c = QLinearConv<pads = [0, 0, 0, 0]>(a, s, z, w, t, u, q, p, b) y = DequantizeLinear(c, "
      "q, p) }";
  return {io + "<" + weights + ", int8 z = {-5}, int8 p = {-128}, float" + bias_scale +
              ", int32 v = {0}> { a = QuantizeLinear(x, s, z) d = DequantizeLinear(a, s, z) e = DequantizeLinear<axis = 0>(w, "
              "t, u) "
              "f = DequantizeLinear<axis = 0>(b, r" +
              (bias_scale.starts_with("[3]") ? "" : ", v") +
              ") c = Conv(d, e, f) k = Relu(c) g = QuantizeLinear(k, q, p) y = DequantizeLinear(g, q, p) }",
          io + "<" + weights + ", uint8 z = {123}, uint8 p = {0}> " + unsigned_one,
          io + "<" + weights + ", uint8 z = {122}, uint8 p = {0}> " + unsigned_one};
}

}  // namespace

TEST_CASE("prove: quantized elements that became unsigned, with a bias of their scale") {
  require_certified(quantized_convolution(" r = {0.00104121}", " t = {0.0207}"));
  require_certified(quantized_convolution("[1] r = {0.00104121}", " t = {0.0207}"));
  require_certified(
      quantized_convolution("[3] r = {0.00104121, 0.000508029945, 0.000266589981}", "[3] t = {0.0207, 0.0101, 0.0053}"));
  // The scale is the float nearest to the product, and no other one.
  for (const char* scale : {" r = {0.00105}", " r = {0.00104121014}"}) {
    const Models wrong = quantized_convolution(scale, " t = {0.0207}");
    CHECK(Certified(wrong.a, wrong.b, 17).result().verdict != Verdict::kProved);
  }
}

TEST_CASE("prove: pools and moves of quantized elements") {
  const std::string io = "agraph (float[1, 2, 6, 6] x) => (float[1, 3, 3, 2] y) <float s = {0.05}, ";
  const std::string reals =
      "{ a = QuantizeLinear(x, s, z) d = DequantizeLinear(a, s, z) m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d) "
      "g = QuantizeLinear(m, s, z) h = DequantizeLinear(g, s, z) y = Transpose<perm = [0, 2, 3, 1]>(h) }";
  const std::string integers =
      "{ a = QuantizeLinear(x, s, z) m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a) "
      "t = Transpose<perm = [0, 2, 3, 1]>(m) y = DequantizeLinear(t, s, z) }";
  require_certified({io + "int8 z = {-5}> " + reals, io + "uint8 z = {123}> " + integers, io + "uint8 z = {100}> " + integers});
}

TEST_CASE("prove: a sum that became its negative, with weights that undo it") {
  const std::string io =
      "agraph (float[2, 3] x, float[2, 3] v) => (float[2, 3] y) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}> { ";
  const std::string negated = io + "n = Neg(w) a = MatMul(x, n) s = Sub(a, v) u = Tanh(s) ";
  require_certified({io + "a = MatMul(x, w) s = Add(a, v) m = MatMul(s, w) r = Relu(m) t = Tanh(s) y = Add(r, t) }",
                     negated + "m = MatMul(s, n) r = Relu(m) y = Sub(r, u) }",
                     negated + "m = MatMul(s, w) r = Relu(m) y = Sub(r, u) }"});
}

TEST_CASE("prove: operators on channels in blocks") {
  const std::string io = "agraph (float[1, 8, 2, 3] x, float[1, 8, 2, 3] v) => (float[1, ";
  const std::string sizes = ", 2, 3] y) <int64[5] apart = {1, 2, 4, 2, 3}, int64[4] one = {1, 8, 2, 3}, int64[5] more = {1, ";
  const auto block = [](const std::string& from, const std::string& to) {
    return from + "1 = Reshape(" + from + ", apart) " + from + "2 = Transpose<perm = [0, 1, 3, 4, 2]>(" + from + "1) " + to +
           " = Reshape(" + from + "2, one) ";
  };
  const std::string plain = "f = Reshape(m, more) g = Transpose<perm = [0, 1, 4, 2, 3]>(f) h = Reshape(g, all) y = Relu(h) }";
  const std::string one = io + "8" + sizes + "2, 2, 3, 4}, int64[4] all = {1, 8, 2, 3}> { ";
  const auto on_blocks = [&](const std::string& op) { return one + block("x", "p") + block("v", "q") + op + plain; };
  require_certified({one + "t = Tanh(x) m = Mul(t, v) y = Relu(m) }", on_blocks("t = Tanh(p) m = Mul(t, q) "),
                     on_blocks("t = Tanh(q) m = Mul(t, p) ")});
  const std::string joined = io + "16" + sizes + "4, 2, 3, 4}, int64[4] all = {1, 16, 2, 3}> { ";
  const auto in_blocks = [&](const std::string& parts) {
    return joined + block("x", "p") + block("v", "q") + "t = Tanh(p) m = Concat<axis = 1>(" + parts + ") " + plain;
  };
  require_certified({joined + "t = Tanh(x) m = Concat<axis = 1>(t, v) y = Relu(m) }", in_blocks("t, q"), in_blocks("q, t")});
}

TEST_CASE("prove: constants of the first model do not explain one another in a circle") {
  const std::string text =
      "agraph (float[2] x) => (float[2] y) <float s = {0.05}, float t = {0.02}, float r = {0.001}> "
      "{ a = Mul(x, s) b = Mul(a, t) y = Mul(b, r) }";
  const Graph graph = testing::import_text(text);
  Joint joint(graph, graph, {});
  const auto named = [&](const std::string& name) {
    ValueId id = 0;
    while (joint.graph().value(id).name != name) ++id;
    return id;
  };
  const auto term = [&](const char* op, const char* x, const char* y) {
    return joint.add_term(registry().get(op), registry().get(op).defaults(), {named(x), named(y)});
  };
  CHECK(joint.explain(named("r"), term("Mul", "s", "t")));
  CHECK(!joint.explain(named("s"), term("Div", "r", "t")));
  CHECK(!joint.explain(named("t"), term("Sub", "s", "s")));
  CHECK(!joint.explain(named("r"), term("Mul", "t", "s")));
}

}  // namespace rewright::equivalence
