#include "runtime/cpu/kernels/epilogue.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;
using dnnl::algorithm;

constexpr std::size_t kMaxOperations = 4;

const std::vector<double>& sample_points() {
  static const std::vector<double> points = [] {
    std::vector<double> p{-1e4, -100, -1, 0, 1, 100, 1e4};
    for (int k = -40; k <= 40; ++k) p.push_back(0.31 * k + 0.013 * (k % 5));
    return p;
  }();
  return points;
}

bool agrees(const std::vector<double>& f, double (*g)(double x, double alpha, double beta), double alpha, double beta) {
  const auto& points = sample_points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double expected = g(points[i], alpha, beta);
    // Parameters are floats in models, with a relative error.
    if (!(std::fabs(f[i] - expected) <= 4e-7 * std::max(std::fabs(expected), std::fabs(points[i])) + 1e-9)) return false;
  }
  return true;
}

double relu(double x, double a, double) { return x > 0 ? x : a * x; }
double clip(double x, double a, double b) { return std::min(std::max(x, a), b); }
double logistic(double x, double, double) { return 1 / (1 + std::exp(-x)); }
double swish(double x, double a, double) { return x / (1 + std::exp(-a * x)); }
double hardsigmoid(double x, double a, double b) { return std::max(0.0, std::min(1.0, a * x + b)); }
double hardswish(double x, double a, double b) { return x * hardsigmoid(x, a, b); }
double tanh_of(double x, double, double) { return std::tanh(x); }
double gelu_erf(double x, double, double) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x, double, double) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x)));
}
double elu(double x, double a, double) { return x > 0 ? x : a * std::expm1(x); }
double linear(double x, double a, double b) { return a * x + b; }
double absolute(double x, double, double) { return std::fabs(x); }
double softplus(double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double mish(double x, double, double) { return x * std::tanh(softplus(x, 0, 0)); }

// One of our loops that is faster or more precise than oneDNN's, or ready sooner.
ResultFunction better_loop(const Eltwise& f, Isa isa) {
  const RowLoops& loops = loops_for<RowLoops>(isa);
  if (f.algorithm == algorithm::eltwise_swish && f.alpha == 1) return ResultFunction(loops.swish);
  if (f.algorithm == algorithm::eltwise_soft_relu) return ResultFunction(loops.softplus);
  if (f.algorithm == algorithm::eltwise_mish) return ResultFunction(loops.mish);
  // oneDNN generates code for these two for every block of a result, which takes longer than many convolutions.
  if (f.algorithm == algorithm::eltwise_gelu_erf) return ResultFunction(loops.gelu);
  if (f.algorithm == algorithm::eltwise_gelu_tanh) return ResultFunction(loops.gelu_tanh);
  return {};
}

// One of our loops, for results of our kernels.
ResultFunction loop_of_ours(const Eltwise& f, Isa isa) {
  if (const ResultFunction better = better_loop(f, isa)) return better;
  const std::optional<RowFunction> function = row_function(f);
  return function ? ResultFunction(*function, f.alpha, f.beta, isa) : ResultFunction();
}

// Does the expression read only the first operand's element at the result's position?
bool is_elementwise(const Planner& planner, const Chain& chain) {
  const Sizes& sizes = planner.info(chain.result).sizes;
  bool result = true;
  rewrite(chain.element(),
          [&](const ElementNode& read) -> Element {
            result = result && read.operand == 0 && at_result_position(read, chain.position(), sizes);
            return nullptr;
          },
          {});
  return result;
}

}  // namespace

std::optional<RowFunction> row_function(const Eltwise& e) {
  switch (e.algorithm) {
    case algorithm::eltwise_relu:
      return RowFunction::kRelu;
    case algorithm::eltwise_clip:
      return RowFunction::kClip;
    case algorithm::eltwise_linear:
      return RowFunction::kLinear;
    case algorithm::eltwise_abs:
      return RowFunction::kAbsolute;
    case algorithm::eltwise_logistic:
      return RowFunction::kLogistic;
    case algorithm::eltwise_swish:
      return RowFunction::kSwish;
    case algorithm::eltwise_hardsigmoid:
      return RowFunction::kHardSigmoid;
    case algorithm::eltwise_hardswish:
      return RowFunction::kHardSwish;
    case algorithm::eltwise_elu:
      return RowFunction::kElu;
    case algorithm::eltwise_tanh:
      return RowFunction::kTanh;
    case algorithm::eltwise_gelu_erf:
      return RowFunction::kGelu;
    case algorithm::eltwise_gelu_tanh:
      return RowFunction::kGeluTanh;
    default:
      return std::nullopt;
  }
}

bool only_in_loops_of_ours(const Eltwise& f) {
  return f.algorithm == algorithm::eltwise_soft_relu || f.algorithm == algorithm::eltwise_mish;
}

namespace {

std::optional<Eltwise> find_eltwise(const Planner& planner, const Chain& chain) {
  if (!is_elementwise(planner, chain)) return std::nullopt;
  const auto& points = sample_points();
  const std::vector<double> f = sample_function(chain.element(), 0, points);
  if (f.empty()) return std::nullopt;
  const auto at = [&](double x) {
    return f[static_cast<std::size_t>(std::find(points.begin(), points.end(), x) - points.begin())];
  };
  struct Candidate {
    algorithm kind;
    double (*g)(double, double, double);
    double alpha, beta;
  };
  const double slope = at(1) - at(0);
  const Candidate candidates[] = {
      {algorithm::eltwise_relu, relu, -at(-1), 0},
      {algorithm::eltwise_clip, clip, at(-1e4), at(1e4)},
      {algorithm::eltwise_logistic, logistic, 0, 0},
      {algorithm::eltwise_swish, swish, 1, 0},
      {algorithm::eltwise_hardswish, hardswish, 1.0 / 6, 0.5},
      {algorithm::eltwise_hardsigmoid, hardsigmoid, 1.0 / 6, 0.5},
      {algorithm::eltwise_hardsigmoid, hardsigmoid, 0.2, 0.5},
      {algorithm::eltwise_tanh, tanh_of, 0, 0},
      {algorithm::eltwise_gelu_erf, gelu_erf, 0, 0},
      {algorithm::eltwise_gelu_tanh, gelu_tanh, 0, 0},
      {algorithm::eltwise_elu, elu, -at(-100), 0},
      {algorithm::eltwise_abs, absolute, 0, 0},
      {algorithm::eltwise_linear, linear, slope, at(0)},
      {algorithm::eltwise_soft_relu, softplus, 1, 0},
      {algorithm::eltwise_mish, mish, 0, 0},
  };
  for (const Candidate& c : candidates) {
    if (!agrees(f, c.g, c.alpha, c.beta)) continue;
    return Eltwise{c.kind, static_cast<float>(c.alpha), static_cast<float>(c.beta)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Eltwise> match_eltwise(const Planner& planner, const Chain& chain) {
  return planner.recognitions().functions.recall(function_name("function", planner, chain),
                                                 [&] { return find_eltwise(planner, chain); });
}

void Epilogue::begin_with_addition(ValueId value) {
  operations_.push_back({});
  additions_.push_back(value);
}

bool Epilogue::absorb(const Planner& planner, const Chain& chain) {
  if (planner.info(chain.result).sizes != planner.info(chain.start).sizes) return false;
  if (planner.info(chain.result).type != planner.info(chain.start).type) return false;
  if (!operations_.empty() && operations_.back().eltwise && only_in_loops_of_ours(*operations_.back().eltwise)) return false;
  if (operations_.empty()) {
    if (const auto affine = match_channel_affine(planner, chain, axis_)) {
      if (!affine_) {
        affine_ = affine;
      } else {
        ChannelAffine both = *affine_;
        for (std::size_t c = 0; c < affine->scale.size(); ++c) {
          both.scale[c] *= affine->scale[c];
          both.shift[c] = both.shift[c] * affine->scale[c] + affine->shift[c];
        }
        affine_ = std::make_shared<const ChannelAffine>(std::move(both));
      }
      return true;
    }
  }
  // Additions by channel may be moved before additions of tensors.
  const bool sums =
      std::none_of(operations_.begin(), operations_.end(), [](const Operation& o) { return o.eltwise.has_value(); });
  if (sums && !operations_.empty()) {
    const auto affine = match_channel_affine(planner, chain, axis_);
    if (affine && std::all_of(affine->scale.begin(), affine->scale.end(), [](double f) { return f == 1; })) {
      ChannelAffine both = affine_ ? *affine_ : ChannelAffine{affine->scale, std::vector<double>(affine->shift.size())};
      for (std::size_t c = 0; c < affine->shift.size(); ++c) both.shift[c] += affine->shift[c];
      affine_ = std::make_shared<const ChannelAffine>(std::move(both));
      return true;
    }
  }
  if (operations_.size() >= kMaxOperations) return false;
  if (const auto eltwise = match_eltwise(planner, chain)) {
    if (accepts_ != nullptr && !accepts_(*eltwise)) return false;
    operations_.push_back({eltwise});
    return true;
  }
  if (const auto other = match_addition(planner, chain)) {
    if (*other == chain.start) return false;
    operations_.push_back({});
    additions_.push_back(*other);
    return true;
  }
  return false;
}

Epilogue Epilogue::without(ValueId addition) const {
  Epilogue result(axis_, accepts_);
  result.affine_ = affine_;
  std::size_t next = 0;
  for (const Operation& o : operations_) {
    const ValueId added = o.eltwise ? kNoValue : additions_[next++];
    if (!o.eltwise && added == addition) continue;
    result.operations_.push_back(o);
    if (!o.eltwise) result.additions_.push_back(added);
  }
  return result;
}

ResultFunction Epilogue::take_last_function(Isa isa) {
  if (operations_.empty() || !operations_.back().eltwise) return {};
  const ResultFunction result = better_loop(*operations_.back().eltwise, isa);
  if (result) operations_.pop_back();
  return result;
}

std::optional<Epilogue::Simple> Epilogue::simple(Isa isa) const {
  enum Stage { kStart, kAdded, kBounded, kEnd } stage = kStart;
  Simple result;
  for (const Operation& o : operations_) {
    if (!o.eltwise && stage == kStart) {
      result.addition = true;
      stage = kAdded;
    } else if (!o.eltwise) {
      return std::nullopt;
    } else if (o.eltwise->algorithm == algorithm::eltwise_relu && o.eltwise->alpha == 0 && stage < kBounded) {
      result.low = 0;
      stage = kBounded;
    } else if (o.eltwise->algorithm == algorithm::eltwise_clip && stage < kBounded) {
      result.low = o.eltwise->alpha;
      result.high = o.eltwise->beta;
      stage = kBounded;
    } else if (const ResultFunction function = loop_of_ours(*o.eltwise, isa); function && stage < kEnd) {
      result.function = function;
      stage = kEnd;
    } else {
      return std::nullopt;
    }
  }
  return result;
}

dnnl::post_ops Epilogue::post_ops(const std::vector<dnnl::memory::desc>& additions) const {
  dnnl::post_ops result;
  std::size_t next = 0;
  for (const Operation& o : operations_) {
    if (o.eltwise)
      result.append_eltwise(o.eltwise->algorithm, o.eltwise->alpha, o.eltwise->beta);
    else
      result.append_binary(algorithm::binary_add, additions[next++]);
  }
  return result;
}

std::vector<int> Epilogue::argument_numbers() const {
  std::vector<int> result;
  for (std::size_t n = 0; n < operations_.size(); ++n)
    if (!operations_[n].eltwise) result.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(n)) | DNNL_ARG_SRC_1);
  return result;
}

}  // namespace rewright::cpu
