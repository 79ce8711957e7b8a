#include "generator/pruning/rule_theory.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "generator/enumeration/exactness.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

Rule rule(const std::string& text) { return parse_algebra("rule r: \"\" " + text, "test").at(0); }

RuleTheory theory_of(const std::vector<std::string>& rules) {
  RuleTheory theory;
  for (const std::string& r : rules) theory.add(rule(r));
  return theory;
}

}  // namespace

TEST_CASE("what follows from rules, whatever their generality, is derived", "[rule_theory]") {
  const RuleTheory theory =
      theory_of({"x, y, z (x + y) + z => x + (y + z) reassociates", "x, y, z x * y + x * z => x * (y + z) reassociates",
                 "x[N, C, X...], w[K, D, R...], v[K, D, R...] "
                 "Conv(x, w; strides=s, dilations=d, pads_begin=p, pads_end=q, group=g) "
                 "+ Conv(x, v; strides=s, dilations=d, pads_begin=p, pads_end=q, group=g) "
                 "=> Conv(x, w + v; strides=s, dilations=d, pads_begin=p, pads_end=q, group=g) reassociates",
                 "x: any, y: any Concat(Relu(x), Relu(y); axis=a) => Relu(Concat(x, y; axis=a)) exact"});
  CHECK(theory.derives(rule("x[M, K], y[M, K], z[M, K], u[M, K] ((x + y) + z) + u => x + (y + (z + u)) reassociates")));
  CHECK(theory.derives(rule("x, y, z, u u * x + (u * y + u * z) => u * ((x + y) + z) reassociates")));
  CHECK(
      theory.derives(rule("x[N, C, H, W], w[K, C, 3, 3], v[K, C, 3, 3] "
                          "Conv(x, w + v; strides=[2, 2]) => Conv(x, w; strides=[2, 2]) + Conv(x, v; strides=[2, 2]) "
                          "reassociates")));
  CHECK(
      theory.derives(rule("x[A, B], y[A, B], z[A, B] Concat(Relu(x), Concat(Relu(y), Relu(z); axis=1); axis=1) "
                          "=> Relu(Concat(x, Concat(y, z; axis=1); axis=1)) exact")));
}

TEST_CASE("what does not follow is not derived", "[rule_theory]") {
  RuleTheory theory = theory_of({"x, y, z (x + y) + z => x + (y + z) reassociates", "x, y Relu(x) + y => y + Relu(x) exact"});
  CHECK(!theory.derives(rule("x, y, z (x * y) * z => x * (y * z) reassociates")));
  CHECK(!theory.derives(rule("x, y x + y => x reassociates")));
  const Rule nested = rule("x, y, z, u ((x + y) + z) + u => x + (y + (z + u)) reassociates");
  CHECK(theory.derives(nested));
  const std::size_t first = 0;
  CHECK(!theory.derives(nested, {}, std::span(&first, 1)));
  theory.set_active(0, false);
  CHECK(!theory.derives(nested));
}

TEST_CASE("rules of several outputs are applied to pairs", "[rule_theory]") {
  const RuleTheory theory =
      theory_of({"x[M, K], a[K, N], b[K, L] "
                 "let y = Split(MatMul(x, Concat(a, b; axis=1)); axis=1, sizes=[N, L]) "
                 "MatMul(x, a), MatMul(x, b) => y.0, y.1 exact"});
  CHECK(
      theory.derives(rule("x[M, K], a[K, N], b[K, N] "
                          "let y = Split(MatMul(x, Concat(a, b; axis=1)); axis=1, sizes=[N, N]) "
                          "Relu(MatMul(x, a)) + MatMul(x, b) => Relu(y.0) + y.1 exact")));
}

TEST_CASE("joint rewrites of several products and convolutions follow from the shipped rules", "[rule_theory]") {
  RuleTheory theory;
  for (const char* file : {"assembly", "product", "convolution", "elementwise", "generated"})
    for (const Rule& r : read_rules(std::filesystem::path("rules/database") / (std::string(file) + ".rules"))) theory.add(r);
  for (const char* text :
       {"x[M, K], a[K, N], b[K, L] let y = Split(Relu(MatMul(x, Concat(a, b; axis=1))); axis=1, sizes=[N, L]) "
        "Relu(MatMul(x, a)), Relu(MatMul(x, b)) => y.0, y.1 exact",
        "x[M, K], a[K, N], b[K, L], c[K, P] let y = Split(MatMul(x, Concat(a, b, c; axis=1)); axis=1, sizes=[N, L, P]) "
        "MatMul(x, a), MatMul(x, b), MatMul(x, c) => y.0, y.1, y.2 exact",
        "x[N, C, H, W], a[K, C, R, S], b[L, C, R, S], c[P, C, R, S] "
        "let y = Split(Conv(x, Concat(a, b, c; axis=0)); axis=1, sizes=[K, L, P]) "
        "Conv(x, a), Conv(x, b), Conv(x, c) => y.0, y.1, y.2 exact",
        "x[N, C, H, W], a[K, C, R, S], b[L, C, R, S] let y = Split(Relu(Conv(x, Concat(a, b; axis=0))); axis=1, sizes=[K, L]) "
        "Relu(Conv(x, a)), Relu(Conv(x, b)) => y.0, y.1 exact",
        "x[M, K], a[K, N] "
        "let y = Split(Relu(MatMul(x, MatMul(Eye(; size=K, type=T), Concat(Eye(; size=K, type=T), a; axis=1)))); axis=1, "
        "sizes=[K, N]) "
        "Relu(x), Relu(MatMul(x, a)) => y.0, y.1 reassociates",
        "x[M, K], y[L, K], a[K, N], b[K, P] "
        "MatMul(Concat(x, y; axis=0), Concat(a, b; axis=1)) => Concat(Concat(MatMul(x, a), MatMul(y, a); axis=0), "
        "Concat(MatMul(x, b), MatMul(y, b); axis=0); axis=1) exact",
        "x[K, C, 1, 3], y[L, C, 1, 3] Concat(Pad(x; pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 1, 0]), "
        "Pad(y; pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 1, 0]); axis=0) => "
        "Pad(Concat(x, y; axis=0); pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 1, 0]) exact"}) {
    INFO(text);
    CHECK(theory.derives(rule(text)));
  }
  CHECK(!theory.derives(
      rule("x[M, K], a[K, N], b[K, N] let y = Split(Relu(MatMul(x, Concat(a, b; axis=1))); axis=1, sizes=[N, N]) "
           "Relu(MatMul(x, b)), Relu(MatMul(x, a)) => y.0, y.1 exact")));
}

TEST_CASE("one output of a rule's several is enough", "[rule_theory]") {
  const RuleTheory theory = theory_of(
      {"x: any, y: any let p = Split(Concat(x, y; axis=a); axis=a, sizes=[size(x, a), size(y, a)]) p.0, p.1 => x, y exact"});
  CHECK(theory.derives(rule("x[M, N], y[K, N] Relu(Split(Concat(x, y; axis=0); axis=0, sizes=[M, K]).0) => Relu(x) exact")));
  CHECK(theory.derives(rule("x[M, N], y[K, N] Relu(Split(Concat(x, y; axis=0); axis=0, sizes=[M, K]).1) => Relu(y) exact")));
  CHECK(!theory.derives(rule("x[M, N], y[M, N] Relu(Split(Concat(x, y; axis=0); axis=0, sizes=[M, M]).0) => Relu(y) exact")));
}

TEST_CASE("what is computed from constants alone is evaluated", "[rule_theory]") {
  const RuleTheory theory = theory_of({"x[..., M, K] MatMul(x, Eye(; size=K, type=T)) => x reassociates",
                                       "x[X...] x * Fill(; value=1, shape=X, type=T) => x exact"});
  const std::string eye = "Eye(; size=N, type=T)";
  CHECK(theory.derives(rule("x[M, N] MatMul(x, Relu(" + eye + " * " + eye + ")) => x reassociates")));
  CHECK(theory.derives(rule("x[M, N] x * Relu(Fill(; value=1, shape=[M, N], type=T)) => x reassociates")));
  // A constant's origin is unknown.
  CHECK(theory.derives(
      rule("x[2, N] x * Concat(Fill(; value=1, shape=[1, N], type=T), Fill(; value=1, shape=[1, N], type=T); axis=0) "
           "=> x reassociates")));
  CHECK(!theory.derives(rule("x[N, N] MatMul(x, " + eye + " + " + eye + ") => x reassociates")));
  CHECK(!theory.derives(rule("x[M, N] x * Fill(; value=2, shape=[M, N], type=T) => x reassociates")));
}

TEST_CASE("rules that change nothing that is rounded are exact", "[exactness]") {
  const auto exact = [](const std::string& text) { return same_operations(rule(text), 8, 3); };
  CHECK(exact("x, y Concat(Relu(x), Relu(y); axis=a) => Relu(Concat(x, y; axis=a)) exact"));
  CHECK(exact("x[A, B], y[A, B] Transpose(x + y; perm=[1, 0]) => Transpose(y; perm=[1, 0]) + Transpose(x; perm=[1, 0]) exact"));
  CHECK(exact("x[M, K], a[K, N], b[K, L] Concat(MatMul(x, a), MatMul(x, b); axis=1) => MatMul(x, Concat(a, b; axis=1)) exact"));
  CHECK(
      exact("x[N, C, X...], w[K, C, R...], v[L, C, R...] Concat(Conv(x, w), Conv(x, v); axis=1) => "
            "Conv(x, Concat(w, v; axis=0)) exact"));
  CHECK(exact("x Relu(Relu(x)) => Relu(x) exact"));
  CHECK(exact("x x * 1 => x exact"));
  CHECK(!exact("x x + 0 => x exact"));  // not for -0
  CHECK(!exact("x[A], y[A], z[A] (x + y) + z => x + (y + z) exact"));
  CHECK(!exact("x[A], y[A], z[A] x * y + x * z => x * (y + z) exact"));
  CHECK(
      !exact("a[M, K], b[M, L], c[K, N], d[L, N] MatMul(a, c) + MatMul(b, d) => "
             "MatMul(Concat(a, b; axis=1), Concat(c, d; axis=0)) exact"));
  CHECK(!exact("x[A], y[A] x / y => x * Reciprocal(y) exact"));
}
