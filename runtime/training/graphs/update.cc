#include "runtime/training/graphs/update.h"

#include <array>
#include <utility>

#include "graph/builder.h"

namespace rewright::training {

namespace {

constexpr std::array<std::pair<std::string_view, UpdateMethod>, 8> kMethodNames{{{"sgd", UpdateMethod::kSgd},
                                                                                 {"momentum", UpdateMethod::kMomentum},
                                                                                 {"nesterov", UpdateMethod::kNesterov},
                                                                                 {"adagrad", UpdateMethod::kAdagrad},
                                                                                 {"adam", UpdateMethod::kAdam},
                                                                                 {"adamw", UpdateMethod::kAdamW},
                                                                                 {"lars", UpdateMethod::kLars},
                                                                                 {"lamb", UpdateMethod::kLamb}}};

// Arithmetic on values of a graph, all of one type.
class Formulas {
 public:
  Formulas(Graph& graph, DataType type) : b_(graph), type_(type) {}
  ValueId number(double v) { return b_.scalar(type_, v); }
  ValueId sum(ValueId a, ValueId c) { return b_.add("Add", {a, c}); }
  ValueId less(ValueId a, ValueId c) { return b_.add("Sub", {a, c}); }
  ValueId times(ValueId a, ValueId c) { return b_.add("Mul", {a, c}); }
  ValueId times(double a, ValueId c) { return a == 1 ? c : times(number(a), c); }
  ValueId over(ValueId a, ValueId c) { return b_.add("Div", {a, c}); }
  ValueId root(ValueId a) { return b_.add("Sqrt", {a}); }
  ValueId power(double base, ValueId exponent) { return b_.add("Pow", {number(base), exponent}); }
  ValueId where(ValueId condition, ValueId a, ValueId c) { return b_.add("Where", {condition, a, c}); }
  ValueId length(ValueId a) { return root(b_.add("ReduceSumSquare", {a}, {{"keepdims", false}})); }
  // a / c, or 1 where either is 0.
  ValueId ratio(ValueId a, ValueId c) {
    const auto is_zero = [&](ValueId v) { return b_.add("Equal", {v, number(0)}); };
    const ValueId useless = b_.add("Or", {is_zero(a), is_zero(c)});
    return b_.add("Where", {useless, number(1), over(a, b_.add("Where", {useless, number(1), c}))});
  }

 private:
  NodeBuilder b_;
  DataType type_;
};

}  // namespace

UpdateMethod update_method_from_name(std::string_view name) {
  std::string known;
  for (const auto& [text, method] : kMethodNames) {
    if (text == name) return method;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(ErrorCode::kUsage, "no optimizer is called '" + std::string(name) + "'; there are " + known);
}

bool updates_by_elements(UpdateMethod method) { return method != UpdateMethod::kLars && method != UpdateMethod::kLamb; }

std::vector<std::string> states_of(UpdateMethod method) {
  switch (method) {
    case UpdateMethod::kSgd:
      return {};
    case UpdateMethod::kMomentum:
    case UpdateMethod::kNesterov:
    case UpdateMethod::kLars:
      return {"velocity"};
    case UpdateMethod::kAdagrad:
      return {"square"};
    case UpdateMethod::kAdam:
    case UpdateMethod::kAdamW:
    case UpdateMethod::kLamb:
      return {"mean", "square"};
  }
  return {};
}

Updated add_update(Graph& graph, const Update& update, ValueId w, ValueId g, const std::vector<ValueId>& states, ValueId rate,
                   ValueId step, ValueId allowed) {
  const TensorType type = graph.value(w).type;
  Formulas f(graph, type.type);
  const double decay = type.rank() > 1 ? update.weight_decay : 0;
  const auto kept = [&](ValueId after, ValueId before) {
    return allowed == kNoValue ? after : f.where(allowed, after, before);
  };
  const auto decayed = [&](ValueId v) { return decay == 0 ? v : f.sum(v, f.times(decay, w)); };
  switch (update.method) {
    case UpdateMethod::kSgd:
      return {kept(f.less(w, f.times(rate, decayed(g))), w), {}};
    case UpdateMethod::kMomentum:
    case UpdateMethod::kNesterov: {
      const ValueId gradient = decayed(g), velocity = kept(f.sum(f.times(update.momentum, states[0]), gradient), states[0]);
      const bool ahead = update.method == UpdateMethod::kNesterov;
      const ValueId direction = ahead ? f.sum(gradient, f.times(update.momentum, velocity)) : velocity;
      return {kept(f.less(w, f.times(rate, direction)), w), {velocity}};
    }
    case UpdateMethod::kAdagrad: {
      const ValueId gradient = decayed(g), square = kept(f.sum(states[0], f.times(gradient, gradient)), states[0]);
      const ValueId direction = f.over(gradient, f.sum(f.root(square), f.number(update.epsilon)));
      return {kept(f.less(w, f.times(rate, direction)), w), {square}};
    }
    case UpdateMethod::kLars: {
      const ValueId gradient = decayed(g);
      const ValueId share = type.rank() > 1 ? f.times(update.trust, f.ratio(f.length(w), f.length(gradient))) : f.number(1);
      const ValueId velocity =
          kept(f.sum(f.times(update.momentum, states[0]), f.times(f.times(rate, share), gradient)), states[0]);
      return {kept(f.less(w, velocity), w), {velocity}};
    }
    case UpdateMethod::kAdam:
    case UpdateMethod::kAdamW:
    case UpdateMethod::kLamb: {
      const ValueId gradient = update.method == UpdateMethod::kAdam ? decayed(g) : g;
      const auto averaged = [&](double beta, ValueId old, ValueId now) {
        return f.sum(f.times(beta, old), f.times(1 - beta, now));
      };
      const auto unbiased = [&](double beta, ValueId v) { return f.over(v, f.less(f.number(1), f.power(beta, step))); };
      const ValueId mean = kept(averaged(update.beta1, states[0], gradient), states[0]);
      const ValueId square = kept(averaged(update.beta2, states[1], f.times(gradient, gradient)), states[1]);
      ValueId direction =
          f.over(unbiased(update.beta1, mean), f.sum(f.root(unbiased(update.beta2, square)), f.number(update.epsilon)));
      if (update.method != UpdateMethod::kAdam) direction = decayed(direction);
      if (update.method == UpdateMethod::kLamb && type.rank() > 1)
        direction = f.times(f.ratio(f.length(w), f.length(direction)), direction);
      return {kept(f.less(w, f.times(rate, direction)), w), {mean, square}};
    }
  }
  throw Error(ErrorCode::kUsage, "unknown optimizer");
}

}  // namespace rewright::training
