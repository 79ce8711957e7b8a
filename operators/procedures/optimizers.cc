// Steps of optimizers (ai.onnx.preview.training). Inputs: the rate, the number of the step, then all tensors, all gradients,
// and all states. Outputs: the new tensors, then the new states.
#include <cmath>

#include "operators/procedures/procedures.h"

namespace rewright::operators {

namespace {

// One element: its value, gradient and states, which `step` changes.
struct Parameter {
  double x, gradient, state[2];
};

template <class Step>
void run(Call& call, std::size_t states, const Step& step) {
  const std::size_t kinds = 2 + states, count = (call.input_count() - std::min<std::size_t>(call.input_count(), 2)) / kinds;
  if (call.input_count() != 2 + kinds * count) throw Error(ErrorCode::kBadInput, "the number of its inputs is wrong");
  const double norm = call.real("norm_coefficient", 0);
  std::vector<std::vector<Tensor>> results(1 + states);
  for (std::size_t n = 0; n < count; ++n) {
    const auto values = [&](std::size_t kind) {
      std::vector<double> v = call.reals(2 + kind * count + n);
      if (v.size() != static_cast<std::size_t>(call.tensor(2 + n).size()))
        throw Error(ErrorCode::kBadInput, "a tensor, its gradient and its states must have one size");
      return v;
    };
    std::vector<double> x = values(0), state[2];
    const std::vector<double> gradient = values(1);
    for (std::size_t s = 0; s < states; ++s) state[s] = values(2 + s);
    for (std::size_t i = 0; i < x.size(); ++i) {
      Parameter e{x[i], gradient[i] + norm * x[i], {state[0][i], states > 1 ? state[1][i] : 0}};
      step(e);
      x[i] = e.x;
      for (std::size_t s = 0; s < states; ++s) state[s][i] = e.state[s];
    }
    const Tensor& like = call.tensor(2 + n);
    results[0].push_back(Tensor::from_reals(like.type(), like.sizes(), x));
    for (std::size_t s = 0; s < states; ++s) results[1 + s].push_back(Tensor::from_reals(like.type(), like.sizes(), state[s]));
  }
  for (auto& kind : results)
    for (Tensor& t : kind) call.give(std::move(t));
}

void run_momentum(Call& call) {
  const double rate = call.real_input(0), alpha = call.real("alpha", 0);
  const double beta = call.real_input(1) > 0 ? call.real("beta", 0) : 1;
  const bool nesterov = call.text("mode", "standard") == "nesterov";
  run(call, 1, [&](Parameter& e) {
    e.state[0] = alpha * e.state[0] + beta * e.gradient;
    e.x -= rate * (nesterov ? e.gradient + alpha * e.state[0] : e.state[0]);
  });
}

void run_adagrad(Call& call) {
  const double rate = call.real_input(0) / (1 + call.real_input(1) * call.real("decay_factor", 0));
  const double epsilon = call.real("epsilon", 1e-6f);
  run(call, 1, [&](Parameter& e) {
    e.state[0] += e.gradient * e.gradient;
    e.x -= rate * e.gradient / (std::sqrt(e.state[0]) + epsilon);
  });
}

void run_adam(Call& call) {
  const double alpha = call.real("alpha", 0.9f), beta = call.real("beta", 0.999f), steps = call.real_input(1);
  const double epsilon = call.real("epsilon", 1e-6f), after = call.real("norm_coefficient_post", 0);
  double rate = call.real_input(0);
  if (steps > 0) rate *= std::sqrt(1 - std::pow(beta, steps)) / (1 - std::pow(alpha, steps));
  run(call, 2, [&](Parameter& e) {
    e.state[0] = alpha * e.state[0] + (1 - alpha) * e.gradient;
    e.state[1] = beta * e.state[1] + (1 - beta) * e.gradient * e.gradient;
    e.x = (1 - after) * (e.x - rate * e.state[0] / (std::sqrt(e.state[1]) + epsilon));
  });
}

}  // namespace

void register_optimizers(Procedures& p) {
  p.add("Momentum", run_momentum, "ai.onnx.preview.training");
  p.add("Adagrad", run_adagrad, "ai.onnx.preview.training");
  p.add("Adam", run_adam, "ai.onnx.preview.training");
}

}  // namespace rewright::operators
