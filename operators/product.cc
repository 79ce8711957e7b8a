// Matrix products.
#include <string>
#include <utility>

#include "operators/elementwise.h"
#include "operators/families.h"

namespace rewright {
namespace {

// y[..., m, n] = sum(k) a[..., m, k] * b[..., k, n]: leading axes broadcast; an operand of rank 1 is a row (a) or a column (b),
// whose other axis of size 1 is not there in the result.
struct MatMul {
  static constexpr std::string_view kName = "MatMul";
  static constexpr InputCount kInputs{2, 2};

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &a = in[0], &b = in[1];
    require_elements(d, a, Elements::kNumbers);
    d.require_same_type(a, b);
    d.require(a.rank() >= 1 && b.rank() >= 1, [] { return std::string("an operand has rank 0, must be at least 1"); });
    const bool has_rows = a.rank() > 1, has_columns = b.rank() > 1;
    const Index& depth = a.size(a.rank() - 1);
    const Index& depth_of_b = b.size(has_columns ? b.rank() - 2 : 0);
    d.require(equal(depth, depth_of_b), [&] {
      return "a has " + depth.to_string() + " columns (" + to_string(a.shape()) + "), b has " + depth_of_b.to_string() +
             " rows (" + to_string(b.shape()) + ")";
    });
    Indices shape = broadcast_shapes(d, {leading(a), leading(b)});
    const std::size_t batch = shape.size();
    if (has_rows) shape.push_back(a.size(a.rank() - 2));
    if (has_columns) shape.push_back(b.size(b.rank() - 1));
    d.output(a.type(), shape, [=](const Indices& i) {
      return sum("k", depth, [&](const Index& k) {
        Indices left(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch)), right = left;
        if (has_rows) left.push_back(i[batch]);
        left.push_back(k);
        right.push_back(k);
        if (has_columns) right.push_back(i.back());
        return a.broadcast(left) * b.broadcast(right);
      });
    });
    return d;
  }

 private:
  static Indices leading(const Operand& x) {
    return x.rank() <= 2 ? Indices() : Indices(x.shape().begin(), x.shape().end() - 2);
  }
};

// alpha * a' b' + beta * c, where a', b' are a, b or their transposes, and c broadcasts to the product's shape.
struct Gemm {
  static constexpr std::string_view kName = "Gemm";
  static constexpr InputCount kInputs{2, 3};
  Real alpha = 1.0;
  Real beta = 1.0;
  bool transA = false;
  bool transB = false;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
    v("beta", beta);
    v("transA", transA);
    v("transB", transB);
  }

  // Before opset 11 c must be there.
  static constexpr int kOptionalC = 11;
  static void onnx(OnnxMapping& m) {
    m.since = 7;
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      std::vector<OnnxValue> operands = inputs;
      operands.resize(3, kAbsent);
      if (sink.opset() >= kOptionalC || operands[2] != kAbsent)
        return write_default(registry().get(kName), sink, attributes, inputs, outputs);
      operands[2] = sink.constant(Tensor::scalar(sink.type_of(inputs[0]).type, 0));
      return write_default(registry().get(kName), sink, attributes, operands, outputs);
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &a = in[0], &b = in[1], &c = in[2];
    require_elements(d, a, Elements::kNumbers);
    d.require_same_type(a, b);
    d.require_rank(a, 2, "a");
    d.require_rank(b, 2, "b");
    const Index &rows = a.size(transA ? 1 : 0), &columns = b.size(transB ? 0 : 1);
    const Index &depth = a.size(transA ? 0 : 1), &depth_of_b = b.size(transB ? 1 : 0);
    d.require(equal(depth, depth_of_b), [&] {
      return std::string(transA ? "transposed a has " : "a has ") + depth.to_string() + " columns, " +
             (transB ? "transposed b has " : "b has ") + depth_of_b.to_string() + " rows";
    });
    if (c.present()) {
      d.require_same_type(a, c);
      require_broadcast_to(d, c, {rows, columns}, "c");
    }
    if (a.scalar() == Scalar::kInteger)
      d.require(is_integral(alpha) && is_integral(beta),
                [&] { return "alpha and beta must be integers for " + std::string(name(a.type())) + " elements"; });
    d.output(a.type(), {rows, columns}, [=, *this](const Indices& i) {
      const Element product = sum("k", depth, [&](const Index& k) {
        return a(transA ? Indices{k, i[0]} : Indices{i[0], k}) * b(transB ? Indices{i[1], k} : Indices{k, i[1]});
      });
      const Element scaled_product = scaled(alpha, product);
      return c.present() ? scaled_product + scaled(beta, c.broadcast(i)) : scaled_product;
    });
    return d;
  }

 private:
  static bool is_integral(const Real& factor) {
    return factor.symbol.empty() && factor.value >= -0x1p53 && factor.value <= 0x1p53 &&
           factor.value == static_cast<double>(static_cast<std::int64_t>(factor.value));
  }
  static Element scaled(const Real& factor, const Element& e) {
    if (factor == Real(1.0)) return e;
    return (e->scalar == Scalar::kReal ? real(factor) : integer(static_cast<std::int64_t>(factor.value))) * e;
  }
};

}  // namespace

void register_product(Registry& r) {
  r.add<MatMul>();
  r.add<Gemm>();
}

}  // namespace rewright
