#include "tests/kernel_sweep/cases.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tests/kernel_sweep/case_builder.h"
#include "tests/kernel_sweep/operator_cases.h"

namespace rewright::testing {

namespace {

struct Builder : CaseBuilder {
  using CaseBuilder::CaseBuilder;

  // ---- Neighbours
  ValueId function(ValueId y) {
    static constexpr const char* kPlain[] = {"Relu", "HardSwish", "Tanh",     "Sigmoid", "LeakyRelu",  "Elu",
                                             "Gelu", "Softplus",  "Softsign", "Mish",    "HardSigmoid"};
    switch (pick(0, 4)) {
      case 0:
        return op("Mul", {y, op("Sigmoid", {y})});
      case 1:
        return op("Clip", {y, number(0), number(6)});
      case 2:
        return op("Relu", {y});
      default:
        return op(kPlain[pick(0, std::ssize(kPlain) - 1)], {y});
    }
  }
  ValueId with_channel_affine(ValueId y) {
    const Sizes s = sizes(y);
    if (chance(0.4) && s.size() > 2)
      return op("BatchNormalization",
                {y, constant({s[1]}, 0.5, 1.5), constant({s[1]}), constant({s[1]}), constant({s[1]}, 0.5, 2)});
    return op(chance(0.7) ? "Add" : "Mul", {y, constant(by_channel(s[1], s.size()), 0.5, 1.5)});
  }
  ValueId followed(ValueId y) {
    for (std::int64_t n = pick(0, 3); n > 0; --n) {
      const Sizes s = sizes(y);
      const double next = std::uniform_real_distribution<double>(0, 1)(random);
      if (next < 0.45)
        y = function(y);
      else if (next < 0.7 && s.size() > 1)
        y = with_channel_affine(y);
      else if (next < 0.9)
        y = op("Add", {y, input(s)});
      else if (s.size() > 2 && s[1] > 1)
        y = op("Concat", {y, input(s)}, {{"axis", Index(1)}});
    }
    return y;
  }
  ValueId preceded(const Sizes& s) {
    const ValueId x = input(s);
    if (chance(0.85)) return x;
    return chance(0.5) ? op("Relu", {x}) : op("Mul", {x, op("Sigmoid", {x})});
  }

  // ---- Windows
  struct Window {
    Sizes x, w, y;
    Indices kernel, strides, dilations, begin, end, more;
    std::int64_t group = 1;
  };
  void window_axes(Window& r, std::size_t rank, bool transposed) {
    const bool one_size = chance(0.75);
    std::int64_t kernel = 0, stride = 0, dilation = 0, size = 0;
    for (std::size_t a = 0; a < rank; ++a) {
      if (a == 0 || !one_size) {
        kernel = chance(0.7) ? std::vector<std::int64_t>{1, 2, 3, 3, 4, 5}[pick(0, 5)] : pick(1, rank == 3 ? 4 : 9);
        stride = chance(0.5) ? 1 : pick(1, 3);
        dilation = chance(0.85) ? 1 : pick(2, 3);
        size = log_pick(1, rank == 1 ? 400 : rank == 2 ? 64 : 12);
      }
      const std::int64_t reach = (kernel - 1) * dilation + 1;
      std::int64_t before = chance(0.6) ? kernel / 2 * dilation : pick(0, reach - 1);
      std::int64_t after = chance(0.6) ? before : pick(0, reach - 1);
      const std::int64_t extra = transposed && chance(0.3) ? pick(0, std::max(stride, dilation) - 1) : 0;
      std::int64_t n = std::max<std::int64_t>(1, size + (chance(0.3) ? pick(-1, 1) : 0)), result = 0;
      for (;; ++n) {
        result = transposed ? (n - 1) * stride + reach + extra - before - after : (n + before + after - reach) / stride + 1;
        if (result >= 1 && (transposed || n + before + after >= reach)) break;
      }
      r.x.push_back(n);
      r.w.push_back(kernel);
      r.y.push_back(result);
      r.kernel.emplace_back(kernel);
      r.strides.emplace_back(stride);
      r.dilations.emplace_back(dilation);
      r.begin.emplace_back(before);
      r.end.emplace_back(after);
      r.more.emplace_back(extra);
    }
  }
  // A random convolution window within the limits.
  Window convolution_window(bool transposed) {
    for (;;) {
      Window r;
      const std::size_t rank = chance(0.8) ? 2 : chance(0.6) ? 1 : 3;
      std::int64_t in = channels(), out = channels();
      if (chance(0.15)) {
        r.group = in;
        out = chance(0.8) ? in : 2 * in;
      } else if (chance(0.15)) {
        r.group = log_pick(2, 32);
        in = (in + r.group - 1) / r.group * r.group;
        out = (out + r.group - 1) / r.group * r.group;
      }
      r.x = r.y = {chance(0.8) ? 1 : pick(2, 4), in};
      r.y[1] = out;
      r.w = transposed ? Sizes{in, out / r.group} : Sizes{out, in / r.group};
      window_axes(r, rank, transposed);
      const double weights = static_cast<double>(element_count(r.w));
      const Sizes& pixels = transposed ? r.x : r.y;
      const double multiplications = weights * static_cast<double>(pixels[0] * element_count(std::span(pixels).subspan(2)));
      if (weights > limit.weights || multiplications > limit.multiplications) continue;
      if (static_cast<double>(std::max(element_count(r.x), element_count(r.y))) <= limit.elements) return r;
    }
  }
  ValueId weights(const Sizes& s, std::int64_t terms) {
    const double high = std::sqrt(3.0 / static_cast<double>(std::max<std::int64_t>(1, terms)));
    return chance(0.1) ? input(s, -high, high) : constant(s, -high, high);
  }
  ValueId convolution(bool transposed) {
    const Window r = convolution_window(transposed);
    const std::int64_t terms = transposed ? element_count(r.w) / r.w[1] / r.group : element_count(r.w) / r.w[0];
    std::vector<ValueId> operands{preceded(r.x), weights(r.w, terms)};
    if (chance(0.6)) operands.push_back(chance(0.1) ? input({r.y[1]}, -1, 1) : constant({r.y[1]}));
    Named attributes{{"strides", r.strides},
                     {"dilations", r.dilations},
                     {"pads_begin", r.begin},
                     {"pads_end", r.end},
                     {"group", Index(r.group)}};
    if (transposed) attributes.emplace_back("output_padding", r.more);
    return followed(op(transposed ? "ConvTranspose" : "Conv", std::move(operands), std::move(attributes)));
  }
  ValueId weight_gradient() {
    const Window r = convolution_window(false);
    return op("ConvWeightGradient", {input(r.x), input(r.y)},
              {{"kernel", r.kernel},
               {"strides", r.strides},
               {"dilations", r.dilations},
               {"pads_begin", r.begin},
               {"group", Index(r.group)}});
  }
  // 1x1 windows with strides, for channels that fill no vector: here libraries first gather their input.
  ValueId strided_points() {
    const std::size_t rank = chance(0.8) ? 2 : 1;
    Window r;
    const std::int64_t in = log_pick(1, 100), out = log_pick(1, 200);
    r.x = r.y = {pick(1, 3), in};
    r.y[1] = out;
    for (std::size_t a = 0; a < rank; ++a) {
      const std::int64_t stride = pick(a == 0 ? 2 : 1, 3), n = pick(1, 20);
      r.x.push_back(n);
      r.y.push_back((n - 1) / stride + 1);
      r.kernel.emplace_back(1);
      r.strides.emplace_back(stride);
      r.dilations.emplace_back(1);
      r.begin.emplace_back(0);
    }
    Named attributes{{"strides", r.strides}, {"dilations", r.dilations}, {"pads_begin", r.begin}, {"group", Index(1)}};
    const std::int64_t kind = pick(0, 2);
    if (kind == 0) {
      attributes.emplace_back("kernel", r.kernel);
      return op("ConvWeightGradient", {input(r.x), input(r.y)}, attributes);
    }
    attributes.emplace_back("pads_end", r.begin);
    Sizes w(rank + 2, 1);
    w[0] = out;
    w[1] = in;
    if (kind == 1) return followed(op("Conv", {input(r.x), weights(w, in)}, attributes));
    attributes.emplace_back("output_padding", r.begin);
    return followed(op("ConvTranspose", {input(r.y), weights(w, out)}, attributes));
  }
  ValueId pool() {
    static constexpr const char* kWhole[] = {"GlobalAveragePool", "GlobalMaxPool"};
    Window r;
    do {
      r = {};
      r.x = r.y = {pick(1, 3), channels()};
      window_axes(r, chance(0.85) ? 2 : pick(1, 3), false);
    } while (static_cast<double>(element_count(r.x)) > limit.elements);
    const ValueId x = preceded(r.x);
    if (chance(0.25)) return followed(op(kWhole[pick(0, 1)], {x}));
    Named attributes{{"kernel", r.kernel}, {"strides", r.strides}, {"dilations", r.dilations}};
    for (std::size_t a = 0; a < r.kernel.size(); ++a) {  // pads are smaller than the window, so no window is in padding alone
      r.begin[a] = std::min(r.begin[a].value(), r.kernel[a].value() - 1);
      r.end[a] = std::min(r.end[a].value(), r.kernel[a].value() - 1);
      if (r.x[a + 2] + r.begin[a].value() + r.end[a].value() < (r.kernel[a].value() - 1) * r.dilations[a].value() + 1)
        return followed(op(kWhole[pick(0, 1)], {x}));
    }
    attributes.emplace_back("pads_begin", r.begin);
    attributes.emplace_back("pads_end", r.end);
    const bool average = chance(0.5);
    if (average) attributes.emplace_back("count_include_pad", chance(0.5));
    return followed(op(average ? "AveragePool" : "MaxPool", {x}, std::move(attributes)));
  }

  // ---- Products
  ValueId product() {
    const Matrices r = matrices();
    const double high = std::sqrt(3.0 / static_cast<double>(r.k));
    Sizes left = r.batch, right;
    left.insert(left.end(), {r.m, r.k});
    if (chance(0.3)) {
      const bool ta = chance(0.4), tb = chance(0.4);
      const ValueId a = input(ta ? Sizes{r.k, r.m} : Sizes{r.m, r.k}), b = weights(tb ? Sizes{r.n, r.k} : Sizes{r.k, r.n}, r.k);
      std::vector<ValueId> operands{a, b};
      if (chance(0.7)) operands.push_back(constant(chance(0.8) ? Sizes{r.n} : Sizes{r.m, r.n}));
      return after_product(
          op("Gemm", operands,
             {{"alpha", Real(chance(0.7) ? 1 : 0.5)}, {"beta", Real(chance(0.7) ? 1 : 2)}, {"transA", ta}, {"transB", tb}}));
    }
    const bool together =
        !r.batch.empty() && chance(0.4) && static_cast<double>(element_count(r.batch) * r.k * r.n) <= limit.elements;
    if (together) right = r.batch;
    right.insert(right.end(), {r.k, r.n});
    if (chance(0.25)) {  // read across
      std::swap(right[right.size() - 1], right[right.size() - 2]);
      Indices perm;
      for (std::size_t a = 0; a < right.size(); ++a) perm.emplace_back(a);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      const ValueId b = op("Transpose", {together ? input(right, -high, high) : weights(right, r.k)}, {{"perm", perm}});
      return after_product(op("MatMul", {preceded(left), b}));
    }
    return after_product(op("MatMul", {preceded(left), together ? input(right, -high, high) : weights(right, r.k)}));
  }
  ValueId after_product(ValueId y) {
    for (std::int64_t n = pick(0, 3); n > 0; --n) {
      const Sizes s = sizes(y);
      switch (pick(0, 3)) {
        case 0:
          y = op("Add", {y, constant({s.back()})});
          break;
        case 1:
          y = op("Add", {y, input(s)});
          break;
        default:
          y = function(y);
      }
    }
    return y;
  }
  // Each head so many times, one after the other.
  ValueId repeated(ValueId x, std::int64_t times) {
    const Sizes s = sizes(x);
    x = op("Reshape", {x}, {{"shape", Indices{s[0], s[1], 1, s[2], s[3]}}});
    x = op("Expand", {x}, {{"shape", Indices{s[0], s[1], times, s[2], s[3]}}});
    return op("Reshape", {x}, {{"shape", Indices{s[0], s[1] * times, s[2], s[3]}}});
  }
  ValueId attention() {
    std::int64_t b = 0, h = 0, n = 0, m = 0, d = 0, times = 1;
    do {
      b = pick(1, 2), h = log_pick(1, 16), n = log_pick(1, 600), m = chance(0.7) ? n : log_pick(1, 1200), d = log_pick(4, 128);
      times = chance(0.4) ? pick(2, 8) : 1;
      if (chance(0.3)) n = pick(1, 8);
    } while (h % times != 0 || 2.0 * static_cast<double>(b * h * n * m * d) > limit.multiplications ||
             static_cast<double>(b * h * n * m) > limit.elements);
    const ValueId q = input({b, h, n, d});
    ValueId k = input({b, h / times, m, d}), v = input({b, h / times, m, d});
    if (times > 1) k = repeated(k, times), v = repeated(v, times);
    ValueId s = op("MatMul", {q, op("Transpose", {k}, {{"perm", Indices{0, 1, 3, 2}}})});
    s = chance(0.5) ? op("Mul", {s, number(1 / std::sqrt(static_cast<double>(d)))})
                    : op("Div", {s, number(std::sqrt(static_cast<double>(d)))});
    if (chance(0.5)) s = op("Add", {s, input({b, 1, chance(0.5) ? 1 : n, m}, -4, 0)});
    const ValueId y = op("MatMul", {op("Softmax", {s}, {{"axis", Index(-1)}}), v});
    return chance(0.5) ? op("Transpose", {y}, {{"perm", Indices{0, 2, 1, 3}}}) : y;
  }
  ValueId einsum() {
    static constexpr const char* kEquations[] = {"bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd",
                                                 "bqd,dk->bqk",     "bij,bjk->bik",    "bid,bjd->bij"};
    const std::string equation = kEquations[pick(0, std::ssize(kEquations) - 1)];
    for (;;) {
      std::map<char, std::int64_t> size;
      double all = 1;
      for (const char c : equation)
        if (std::isalpha(static_cast<unsigned char>(c)) && !size.contains(c))
          all *= static_cast<double>(size[c] = c == 'b' || c == 'h' ? log_pick(1, 12) : log_pick(1, 512));
      if (all > limit.multiplications) continue;
      Sizes first, second;
      for (const char c : equation.substr(0, equation.find(','))) first.push_back(size[c]);
      for (const char c : equation.substr(equation.find(',') + 1, equation.find('-') - equation.find(',') - 1))
        second.push_back(size[c]);
      if (static_cast<double>(element_count(first) + element_count(second)) > limit.elements) continue;
      return op("Einsum", {input(first), input(second)}, {{"equation", equation}});
    }
  }

  // ---- Rows, and what only moves
  ValueId rows() {
    static constexpr const char* kReductions[] = {"ReduceSum",    "ReduceMean", "ReduceMax",       "ReduceMin",
                                                  "ReduceL1",     "ReduceL2",   "ReduceSumSquare", "ReduceLogSumExp",
                                                  "ReduceLogSum", "ReduceProd"};
    const Sizes s = some_sizes(2, 4);
    const auto last = static_cast<std::int64_t>(s.size()) - 1;
    const std::int64_t axis = chance(0.7) ? last : pick(0, last);
    switch (pick(0, 7)) {
      case 0:
        return op("Softmax", {preceded(s)}, {{"axis", Index(axis)}});
      case 1:
        return op("LogSoftmax", {preceded(s)}, {{"axis", Index(axis)}});
      case 2:
        return op("LayerNormalization", {preceded(s), constant({s.back()}, 0.5, 1.5), constant({s.back()})},
                  {{"axis", Index(last)}});
      case 3:
        return op("RMSNormalization", {preceded(s), constant({s.back()}, 0.5, 1.5)}, {{"axis", Index(last)}});
      case 4:
        if (s.size() > 2)
          return followed(op("InstanceNormalization", {preceded(s), constant({s[1]}, 0.5, 1.5), constant({s[1]})}));
        return op("CumSum", {input(s)}, {{"axis", Index(axis)}});
      case 5:
        return op(chance(0.5) ? "ArgMax" : "ArgMin", {input(s)}, {{"axis", Index(axis)}});
      default: {
        Indices axes{axis};
        if (chance(0.3) && axis > 0) axes.insert(axes.begin(), Index(axis - 1));
        const std::size_t which = static_cast<std::size_t>(pick(0, std::ssize(kReductions) - 1));
        const bool logarithm = which == 8, product = which == 9;
        const ValueId x = logarithm || product ? input(s, product ? 0.98 : 0.1, product ? 1.02 : 2) : preceded(s);
        return op(kReductions[which], {x}, {{"axes", axes}, {"keepdims", chance(0.5)}});
      }
    }
  }
  ValueId movement() {
    const Sizes s = some_sizes(2, 4);
    const ValueId x = input(s);
    Indices perm;
    for (std::size_t a = 0; a < s.size(); ++a) perm.emplace_back(a);
    std::shuffle(perm.begin(), perm.end(), random);
    const std::int64_t axis = pick(0, static_cast<std::int64_t>(s.size()) - 1);
    switch (pick(0, 5)) {
      case 0:
        return op("Transpose", {function(x)}, {{"perm", perm}});
      case 1:
        return function(op("Transpose", {x}, {{"perm", perm}}));
      case 2:
        return op("Concat", {x, op("Relu", {input(s)})}, {{"axis", Index(axis)}});
      case 3: {
        const std::int64_t n = s[static_cast<std::size_t>(axis)];
        return op("Gather", {x, input(integers(DataType::kInt64, {log_pick(1, 50)}, 0, n - 1))}, {{"axis", Index(axis)}});
      }
      case 4: {
        Indices begin(s.size(), Index(0)), length = to_indices(s), step(s.size(), Index(1));
        const auto a = static_cast<std::size_t>(axis);
        begin[a] = pick(0, s[a] - 1);
        step[a] = pick(1, 3);
        length[a] = (s[a] - begin[a].value() + step[a].value() - 1) / step[a].value();
        return function(op("Slice", {x}, {{"begin", begin}, {"length", length}, {"step", step}}));
      }
      default: {
        Indices before, after;
        for (std::size_t a = 0; a < s.size(); ++a) before.emplace_back(pick(0, 2)), after.emplace_back(pick(0, 2));
        static constexpr const char* kModes[] = {"constant", "constant", "edge", "reflect", "wrap"};
        const std::string mode = kModes[pick(0, std::ssize(kModes) - 1)];
        return op("Pad", {x}, {{"pads_begin", before}, {"pads_end", after}, {"mode", mode}});
      }
    }
  }
  ValueId elementwise() {
    static constexpr const char* kBinary[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const Sizes s = some_sizes(1, 4);
    ValueId y = input(s);
    for (std::int64_t n = pick(1, 6); n > 0; --n) {
      if (chance(0.4)) {
        y = function(y);
        continue;
      }
      Sizes other = s;
      for (std::int64_t& size : other)
        if (chance(0.4)) size = 1;
      y = op(kBinary[pick(0, 4)], {y, chance(0.5) ? input(other) : constant(other)});
    }
    return y;
  }

  // ---- Integers of 8 bits
  ValueId quantized() {
    const DataType x_type = byte_type(), w_type = byte_type(), y_type = byte_type();
    if (chance(0.4)) {
      const Matrices r = matrices();
      const double root = std::sqrt(static_cast<double>(r.k));
      Sizes left = r.batch;
      left.insert(left.end(), {r.m, r.k});
      const ValueId a = input(bytes(x_type, left)), b = graph.add_constant(bytes(w_type, {r.k, r.n}));
      if (chance(0.4)) return op("MatMulInteger", {a, b, zero_point(x_type), zero_point(w_type)});
      return op("QLinearMatMul", {a, scale(0.01, 0.1), zero_point(x_type), b, scale(0.01, 0.1, chance(0.5) ? r.n : 0),
                                  zero_point(w_type), scale(0.1 * root, root), zero_point(y_type)});
    }
    const Window r = convolution_window(false);
    const double root = std::sqrt(static_cast<double>(element_count(r.w) / r.w[0]));
    const Named attributes{{"strides", r.strides},
                           {"dilations", r.dilations},
                           {"pads_begin", r.begin},
                           {"pads_end", r.end},
                           {"group", Index(r.group)}};
    const ValueId x = input(bytes(x_type, r.x)), w = graph.add_constant(bytes(w_type, r.w));
    if (chance(0.5))
      return op("QLinearConv",
                {x, scale(0.01, 0.1), zero_point(x_type), w, scale(0.01, 0.1, chance(0.5) ? r.w[0] : 0), zero_point(w_type),
                 scale(0.1 * root, root), zero_point(y_type)},
                attributes);
    std::vector<ValueId> operands{op("DequantizeLinear", {x, scale(0.01, 0.1), zero_point(x_type)}),
                                  op("DequantizeLinear", {w, scale(0.01, 0.1), zero_point(w_type)})};
    if (chance(0.5)) operands.push_back(constant({r.y[1]}));
    ValueId y = op("Conv", operands, attributes);
    if (chance(0.5)) y = op("Relu", {y});
    return op("QuantizeLinear", {y, scale(0.005 * root, 0.05 * root), zero_point(y_type)});
  }
};

struct Family {
  std::string_view name;
  int share;
  ValueId (*build)(Builder&);
};
constexpr Family kFamilies[] = {
    {"convolution", 30, [](Builder& b) { return b.convolution(false); }},
    {"transposed convolution", 15, [](Builder& b) { return b.convolution(true); }},
    {"gradient of weights", 6, [](Builder& b) { return b.weight_gradient(); }},
    {"pool", 6, [](Builder& b) { return b.pool(); }},
    {"product", 16, [](Builder& b) { return b.product(); }},
    {"attention", 4, [](Builder& b) { return b.attention(); }},
    {"einsum", 3, [](Builder& b) { return b.einsum(); }},
    {"rows", 7, [](Builder& b) { return b.rows(); }},
    {"movement", 3, [](Builder& b) { return b.movement(); }},
    {"elementwise", 3, [](Builder& b) { return b.elementwise(); }},
    {"8 bits", 7, [](Builder& b) { return b.quantized(); }},
    {"linear function", 3, [](Builder& b) { return linear_function(b); }},
    {"integer product", 3, [](Builder& b) { return integer_product(b); }},
    {"placed columns", 3, [](Builder& b) { return placed_columns(b); }},
    {"repeated elements", 3, [](Builder& b) { return repeated_elements(b); }},
    {"scatter", 3, [](Builder& b) { return scattered(b); }},
    {"statistics", 3, [](Builder& b) { return with_statistics(b); }},
    {"written out", 3, [](Builder& b) { return written_out(b); }},
    {"best elements", 3, [](Builder& b) { return best_elements(b); }},
    {"running totals", 2, [](Builder& b) { return running_totals(b); }},
    {"strided points", 0, [](Builder& b) { return b.strided_points(); }},  // only if requested
};

}  // namespace

const std::vector<std::string_view>& sweep_families() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> result;
    for (const Family& f : kFamilies) result.push_back(f.name);
    return result;
  }();
  return names;
}

SweepCase make_sweep_case(std::uint64_t seed, std::string_view family, const SweepSizes& sizes) {
  Builder b(seed, sizes);
  std::int64_t all = 0;
  for (const Family& f : kFamilies) all += f.share;
  std::int64_t at = b.pick(0, all - 1);
  const Family* chosen = nullptr;
  for (const Family& f : kFamilies) {
    if (family.empty() ? at >= 0 && at < f.share : f.name == family) chosen = &f;
    at -= f.share;
  }
  if (chosen == nullptr) throw Error(ErrorCode::kUsage, "there is no family of that name", std::string(family));
  b.graph.add_output("y", chosen->build(b));
  return {std::string(chosen->name), std::move(b.graph), std::move(b.inputs)};
}

}  // namespace rewright::testing
