// Matrix products.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"

namespace rewright::operators {
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

// Sums of products given by an equation such as "bij,bjk->bik". Letters name axes; those that the result does not name are
// summed over. "..." stands for leading axes, which broadcast, and so do axes of size 1 with a common letter, as in NumPy,
// PyTorch and ONNX Runtime. Without "->" the result has the letters that occur once, in alphabetical order.
struct Einsum {
  static constexpr std::string_view kName = "Einsum";
  static constexpr InputCount kInputs{1, kVariadic};
  std::string equation;
  template <class V>
  void fields(V&& v) {
    v("equation", equation);
  }
  static void onnx(OnnxMapping& m) { m.since = 12; }

  // Letters, with '.' for the ellipsis.
  struct Terms {
    std::vector<std::string> operands;
    std::string result;
  };
  Terms terms() const {
    std::string text;
    for (const char c : equation)
      if (c != ' ') text += c;
    for (std::size_t at; (at = text.find("...")) != std::string::npos;) text.replace(at, 3, ".");
    Terms t;
    const std::size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    for (std::size_t comma; (comma = left.find(',')) != std::string::npos; left = left.substr(comma + 1))
      t.operands.push_back(left.substr(0, comma));
    t.operands.push_back(left);
    if (arrow != std::string::npos) {
      t.result = text.substr(arrow + 2);
    } else {
      std::map<char, int> counts;
      for (const std::string& operand : t.operands)
        for (const char c : operand) ++counts[c];
      for (const auto& [c, count] : counts)  // '.' comes before the letters
        if (count == 1 || c == '.') t.result += c;
    }
    for (const std::string& part : t.operands) require_letters(part);
    require_letters(t.result);
    return t;
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Terms t = terms();
    d.require(t.operands.size() == in.count(), [&] {
      return "'" + equation + "' has " + std::to_string(t.operands.size()) + " operands, " + std::to_string(in.count()) +
             " are given";
    });
    std::map<char, Index> sizes;
    std::vector<Indices> leading;
    for (std::size_t n = 0; n < in.count(); ++n) {
      const Operand& x = in[n];
      require_elements(d, x, Elements::kNumbers);
      d.require_same_type(in[0], x);
      const std::size_t dots = dots_of(d, t.operands[n], x);
      std::size_t axis = 0;
      for (const char c : t.operands[n]) {
        if (c == '.') {
          leading.emplace_back(x.shape().begin() + static_cast<std::ptrdiff_t>(axis),
                               x.shape().begin() + static_cast<std::ptrdiff_t>(axis + dots));
          axis += dots;
          continue;
        }
        const Index& size = x.size(axis++);
        const auto [at, is_new] = sizes.emplace(c, size);
        if (is_new || size.constant() == 1) continue;
        if (at->second.constant() == 1)
          at->second = size;
        else
          d.require(equal(at->second, size), [&] { return std::string("axes '") + c + "' have different sizes"; });
      }
    }
    const Indices batch = broadcast_shapes(d, leading);
    const bool sums_dots = t.result.find('.') == std::string::npos;
    Indices shape, bounds;
    std::string summed;
    for (const char c : t.result) {
      if (c == '.') {
        shape.insert(shape.end(), batch.begin(), batch.end());
        continue;
      }
      d.require(sizes.contains(c), [&] { return "no operand has the axis '" + std::string(1, c) + "'"; });
      shape.push_back(sizes.at(c));
    }
    for (const auto& [c, size] : sizes)
      if (t.result.find(c) == std::string::npos) summed += c, bounds.push_back(size);
    if (sums_dots) bounds.insert(bounds.end(), batch.begin(), batch.end());
    d.output(in[0].type(), shape, [=](const Indices& i) {
      std::map<char, Index> at;
      Indices dots;
      std::size_t next = 0;
      for (const char c : t.result) {
        if (c != '.') {
          at.emplace(c, i[next++]);
          continue;
        }
        dots.assign(i.begin() + static_cast<std::ptrdiff_t>(next),
                    i.begin() + static_cast<std::ptrdiff_t>(next + batch.size()));
        next += batch.size();
      }
      const auto product = [&](const Indices& s) {
        for (std::size_t k = 0; k < summed.size(); ++k) at[summed[k]] = s[k];
        if (sums_dots) dots.assign(s.begin() + static_cast<std::ptrdiff_t>(summed.size()), s.end());
        Element result;
        for (std::size_t n = 0; n < in.count(); ++n) {
          const Element e = in[n](position_in(in[n], t.operands[n], sizes, at, dots));
          result = result ? result * e : e;
        }
        return result;
      };
      return bounds.empty() ? product({}) : reduce(Reduction::kSum, "s", bounds, product);
    });
    return d;
  }

 private:
  void require_letters(const std::string& part) const {
    for (const char c : part)
      if (c != '.' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'))
        throw Error(ErrorCode::kBadInput, "the equation '" + equation + "' is not understood");
    if (std::count(part.begin(), part.end(), '.') > 1)
      throw Error(ErrorCode::kBadInput, "the equation '" + equation + "' has more than one ellipsis in a term");
  }
  std::size_t dots_of(Definition& d, const std::string& part, const Operand& x) const {
    const bool has_dots = part.find('.') != std::string::npos;
    const std::size_t letters = part.size() - (has_dots ? 1 : 0);
    d.require(has_dots ? x.rank() >= letters : x.rank() == letters, [&] {
      return "'" + part + "' of '" + equation + "' names the axes of an operand of rank " + std::to_string(x.rank());
    });
    return x.rank() - letters;
  }
  // An ellipsis is aligned at its last axes. Axes of size 1 broadcast.
  static Indices position_in(const Operand& x, const std::string& part, const std::map<char, Index>& sizes,
                             const std::map<char, Index>& at, const Indices& dots) {
    Indices position;
    for (const char c : part) {
      if (c != '.') {
        const bool is_broadcast = x.size(position.size()).constant() == 1 && sizes.at(c).constant() != 1;
        position.push_back(is_broadcast ? Index(0) : at.at(c));
        continue;
      }
      const std::size_t count = x.rank() - (part.size() - 1);
      for (std::size_t k = 0; k < count; ++k)
        position.push_back(x.size(position.size()).constant() == 1 ? Index(0) : dots.at(dots.size() - count + k));
    }
    return position;
  }
};

}  // namespace

void register_product(Registry& r) {
  r.add<MatMul>();
  r.add<Gemm>();
  r.add<Einsum>();
}

}  // namespace rewright::operators
