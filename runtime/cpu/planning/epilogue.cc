#include "runtime/cpu/planning/epilogue.h"

#include <algorithm>
#include <cmath>

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
    // Parameters are floats in models: they carry a relative error.
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

// A loop of ours that is faster or more precise than oneDNN's; null: none.
RowLoops::Unary loop_of_ours(const Eltwise& f, Isa isa) {
  const RowLoops& loops = row_loops(isa);
  if (f.algorithm == algorithm::eltwise_swish && f.alpha == 1) return loops.swish;
  if (f.algorithm == algorithm::eltwise_soft_relu) return loops.softplus;
  if (f.algorithm == algorithm::eltwise_mish) return loops.mish;
  return nullptr;
}

// Does the expression read nothing but the element of the first operand at the position of the result?
bool is_elementwise(const Planner& planner, const Chain& chain) {
  const Sizes sizes = planner.info(chain.result).sizes;
  bool result = true;
  rewrite(chain.element,
          [&](const ElementNode& read) -> Element {
            result = result && read.operand == 0 && at_result_position(read, chain.position, sizes);
            return nullptr;
          },
          {});
  return result;
}

}  // namespace

bool only_in_loops_of_ours(const Eltwise& f) {
  return f.algorithm == algorithm::eltwise_soft_relu || f.algorithm == algorithm::eltwise_mish;
}

bool at_result_position(const ElementNode& read, const Indices& position, const Sizes& sizes) {
  if (read.position.size() != position.size()) return false;
  for (std::size_t a = 0; a < position.size(); ++a)
    if (!(read.position[a] == position[a]) && !(sizes[a] == 1 && read.position[a] == Index(0))) return false;
  return true;
}

std::optional<Eltwise> match_eltwise(const Planner& planner, const Chain& chain) {
  if (!is_elementwise(planner, chain)) return std::nullopt;
  const auto& points = sample_points();
  const std::vector<double> f = sample_function(chain.element, 0, points);
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

std::optional<ChannelAffine> match_channel_affine(const Planner& planner, const Chain& chain, std::size_t axis) {
  const std::uint64_t channel_atom = chain.position[axis].as_atom() ? chain.position[axis].as_atom()->id : 0;
  bool fits = true;
  std::vector<TileOperand> operands;
  std::vector<const std::byte*> data;
  for (std::size_t k = 1; k < chain.operands.size(); ++k) {
    const Tensor& t = planner.constant(chain.operands[k]);
    if (!t || !is_real(t.type())) return std::nullopt;
    operands.push_back({t.type(), t.sizes(), kPlain});
    data.push_back(t.bytes().data());
  }
  const Sizes sizes = planner.info(chain.result).sizes;
  const std::int64_t channels = sizes[axis];
  const Index c = Index::fresh("c");
  // f(y) by channel, for a number y.
  const auto evaluate = [&](double y) {
    const Element e = rewrite(
        chain.element,
        [&](const ElementNode& read) -> Element {
          if (read.operand == 0) {
            fits = fits && at_result_position(read, chain.position, sizes);
            return real(y);
          }
          Indices position = read.position;
          for (Index& i : position) {
            for_each_atom(i, [&](const Atom& a) { fits = fits && a.kind == Atom::Kind::kBound && a.id == channel_atom; });
            i = substitute(i, [&](const Atom&) { return std::optional<Index>(c); });
          }
          const Tensor& t = planner.constant(chain.operands[static_cast<std::size_t>(read.operand)]);
          return Operand(read.operand - 1, {t.type(), to_indices(t.sizes())})(position);
        },
        {});
    std::vector<double> result(static_cast<std::size_t>(channels));
    if (!fits) return result;
    const auto program = compile_tiles(e, {c}, {DataType::kDouble, {channels}, kPlain}, operands, {Isa::kBaseline, true});
    fits = program != nullptr;
    if (fits) program->run(data.data(), reinterpret_cast<std::byte*>(result.data()), Workers(1));
    return result;
  };
  ChannelAffine affine;
  affine.shift = evaluate(0);
  if (!fits) return std::nullopt;
  affine.scale = evaluate(1);
  for (std::size_t n = 0; n < affine.scale.size(); ++n) affine.scale[n] -= affine.shift[n];
  for (const double y : {-37.5, -0.7, 2.3, 91.0}) {
    const std::vector<double> f = evaluate(y);
    for (std::size_t n = 0; n < f.size(); ++n) {
      const double expected = affine.scale[n] * y + affine.shift[n];
      const double size = std::fabs(affine.scale[n] * y) + std::fabs(affine.shift[n]);
      if (!(std::fabs(f[n] - expected) <= 1e-9 * size)) return std::nullopt;
    }
  }
  return affine;
}

std::optional<ValueId> match_addition(const Planner& planner, const Chain& chain) {
  const ElementNode& e = *chain.element;
  if (e.kind != Kind::kAdd) return std::nullopt;
  const Sizes sizes = planner.info(chain.result).sizes;
  for (int side = 0; side < 2; ++side) {
    const ElementNode &start = *e.arguments[side], &other = *e.arguments[1 - side];
    if (start.kind != Kind::kRead || other.kind != Kind::kRead || start.operand != 0 || other.operand == 0) continue;
    if (!at_result_position(start, chain.position, sizes)) continue;
    const ValueId operand = chain.operands[static_cast<std::size_t>(other.operand)];
    if (planner.info(operand).sizes != sizes || !at_result_position(other, chain.position, sizes)) continue;
    if (planner.info(operand).type != planner.info(chain.result).type) continue;
    return operand;
  }
  return std::nullopt;
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
        for (std::size_t c = 0; c < affine->scale.size(); ++c) {
          affine_->scale[c] *= affine->scale[c];
          affine_->shift[c] = affine_->shift[c] * affine->scale[c] + affine->shift[c];
        }
      }
      return true;
    }
  }
  // What is added by channel may be added before tensors are.
  const bool sums =
      std::none_of(operations_.begin(), operations_.end(), [](const Operation& o) { return o.eltwise.has_value(); });
  if (sums && !operations_.empty()) {
    const auto affine = match_channel_affine(planner, chain, axis_);
    if (affine && std::all_of(affine->scale.begin(), affine->scale.end(), [](double f) { return f == 1; })) {
      if (!affine_) affine_ = ChannelAffine{affine->scale, std::vector<double>(affine->shift.size())};
      for (std::size_t c = 0; c < affine->shift.size(); ++c) affine_->shift[c] += affine->shift[c];
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

RowLoops::Unary Epilogue::take_last_function(Isa isa) {
  if (operations_.empty() || !operations_.back().eltwise) return nullptr;
  const RowLoops::Unary result = loop_of_ours(*operations_.back().eltwise, isa);
  if (result != nullptr) operations_.pop_back();
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
    } else if (const RowLoops::Unary function = loop_of_ours(*o.eltwise, isa); function != nullptr && stage < kEnd) {
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
