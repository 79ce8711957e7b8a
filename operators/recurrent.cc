// Recurrent networks: RNN, GRU, LSTM.
#include <algorithm>
#include <cmath>
#include <functional>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

using Activation = std::function<double(double)>;

Activation activation(const std::string& name, double alpha, double beta, bool has_alpha, bool has_beta) {
  const auto given = [](bool has, double value, double otherwise) { return has ? value : otherwise; };
  if (name == "Relu") return [](double x) { return std::max(x, 0.0); };
  if (name == "Tanh") return [](double x) { return std::tanh(x); };
  if (name == "Sigmoid") return [](double x) { return 1 / (1 + std::exp(-x)); };
  if (name == "Softsign") return [](double x) { return x / (1 + std::fabs(x)); };
  if (name == "Softplus") return [](double x) { return std::log1p(std::exp(x)); };
  if (name == "Affine") return [=](double x) { return given(has_alpha, alpha, 1) * x + given(has_beta, beta, 0); };
  if (name == "LeakyRelu") return [a = given(has_alpha, alpha, 0.01)](double x) { return x >= 0 ? x : a * x; };
  if (name == "ThresholdedRelu") return [a = given(has_alpha, alpha, 1)](double x) { return x > a ? x : 0; };
  if (name == "Elu") return [a = given(has_alpha, alpha, 1)](double x) { return x >= 0 ? x : a * (std::exp(x) - 1); };
  if (name == "ScaledTanh")
    return [=](double x) { return given(has_alpha, alpha, 1) * std::tanh(given(has_beta, beta, 1) * x); };
  if (name == "HardSigmoid")
    return [=](double x) { return std::clamp(given(has_alpha, alpha, 0.2) * x + given(has_beta, beta, 0.5), 0.0, 1.0); };
  throw Error(ErrorCode::kBadInput, "there is no activation '" + name + "'");
}

// What RNN, GRU and LSTM share: operands, directions, activations, and the way through a sequence.
class Network {
 public:
  Network(Call& call, std::size_t gates, const std::vector<std::string>& defaults)
      : call_(call), gates_(gates), batch_first_(call.integer("layout", 0) != 0) {
    const Tensor& x = call.tensor(0);
    const Sizes &w = call.tensor(1).sizes(), &r = call.tensor(2).sizes();
    if (x.sizes().size() != 3 || w.size() != 3 || r.size() != 3)
      throw Error(ErrorCode::kBadInput, "X, W and R must have rank 3");
    length_ = x.sizes()[batch_first_ ? 1 : 0];
    batch_ = x.sizes()[batch_first_ ? 0 : 1];
    inputs_ = x.sizes()[2];
    hidden_ = r[2];
    const std::string direction = call.text("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    backward_first_ = direction == "reverse";
    const auto rows = static_cast<std::int64_t>(gates) * hidden_;
    if (w != Sizes{directions_, rows, inputs_} || r != Sizes{directions_, rows, hidden_})
      throw Error(ErrorCode::kBadInput, "the sizes of X, W and R do not fit together");
    require_few(element_count(Sizes{length_, batch_, directions_, hidden_ + 1}));
    x_ = x.reals(), w_ = call.reals(1), r_ = call.reals(2);
    b_ = optional(3, directions_ * 2 * rows);
    lengths_ = call.has_input(4) ? call.integers(4) : std::vector<std::int64_t>(static_cast<std::size_t>(batch_), length_);
    if (static_cast<std::int64_t>(lengths_.size()) != batch_)
      throw Error(ErrorCode::kBadInput, "sequence_lens has a wrong size");
    for (const std::int64_t l : lengths_)
      if (l < 0 || l > length_) throw Error(ErrorCode::kBadInput, "a sequence's length is " + std::to_string(l));
    clip_ = call.has("clip") ? call.real("clip", 0) : HUGE_VAL;
    std::vector<std::string> names = call.texts("activations");
    if (names.empty())
      for (std::int64_t d = 0; d < directions_; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() < defaults.size() * static_cast<std::size_t>(directions_))
      throw Error(ErrorCode::kBadInput, "has too few activations");
    const std::vector<double> alphas = call.reals("activation_alpha"), betas = call.reals("activation_beta");
    for (std::size_t i = 0; i < names.size(); ++i)
      activations_.push_back(activation(names[i], i < alphas.size() ? alphas[i] : 0, i < betas.size() ? betas[i] : 0,
                                        i < alphas.size(), i < betas.size()));
    per_direction_ = defaults.size();
  }

  // An optional input as reals: zeros if it is absent.
  std::vector<double> optional(std::size_t i, std::int64_t count) const {
    if (!call_.has_input(i)) return std::vector<double>(static_cast<std::size_t>(count));
    if (call_.tensor(i).size() != count)
      throw Error(ErrorCode::kBadInput, "input " + std::to_string(i) + " has " + std::to_string(call_.tensor(i).size()) +
                                            " elements, " + std::to_string(count) + " are needed");
    return call_.reals(i);
  }
  std::vector<double> initial(std::size_t i) const {
    std::vector<double> state = optional(i, directions_ * batch_ * hidden_);
    return batch_first_ ? swapped(state, batch_, directions_) : state;
  }

  std::int64_t hidden() const { return hidden_; }
  std::int64_t directions() const { return directions_; }
  double clipped(double x) const { return std::clamp(x, -clip_, clip_); }
  const Activation& function(std::int64_t direction, std::size_t number) const {
    return activations_[static_cast<std::size_t>(direction) * per_direction_ + number];
  }

  // x W^T + both biases of a gate's unit; h R^T.
  double from_input(std::int64_t d, std::int64_t gate, std::int64_t unit, const double* x) const {
    return dot(w_.data() + ((d * rows()) + gate * hidden_ + unit) * inputs_, x, inputs_);
  }
  double from_state(std::int64_t d, std::int64_t gate, std::int64_t unit, const double* h) const {
    return dot(r_.data() + ((d * rows()) + gate * hidden_ + unit) * hidden_, h, hidden_);
  }
  double input_bias(std::int64_t d, std::int64_t gate, std::int64_t unit) const {
    return b_[static_cast<std::size_t>(d * 2 * rows() + gate * hidden_ + unit)];
  }
  double state_bias(std::int64_t d, std::int64_t gate, std::int64_t unit) const {
    return b_[static_cast<std::size_t>(d * 2 * rows() + rows() + gate * hidden_ + unit)];
  }

  // step(direction, x, h, c): updates the state of one element of the batch. Gives Y, Y_h and, with cells, Y_c.
  using Step = std::function<void(std::int64_t, const double*, std::vector<double>&, std::vector<double>&)>;
  void run(std::vector<double> states, std::vector<double> cells, const Step& step) const {
    std::vector<double> all(static_cast<std::size_t>(length_ * directions_ * batch_ * hidden_));
    for (std::int64_t d = 0; d < directions_; ++d)
      for (std::int64_t b = 0; b < batch_; ++b) {
        const std::int64_t at = (d * batch_ + b) * hidden_, length = lengths_[static_cast<std::size_t>(b)];
        std::vector<double> h(states.begin() + at, states.begin() + at + hidden_), c;
        if (!cells.empty()) c.assign(cells.begin() + at, cells.begin() + at + hidden_);
        for (std::int64_t n = 0; n < length; ++n) {
          call_.checkpoint();
          const std::int64_t t = backward_first_ || d == 1 ? length - 1 - n : n;
          step(d, x_.data() + (batch_first_ ? b * length_ + t : t * batch_ + b) * inputs_, h, c);
          const std::int64_t row = batch_first_ ? (b * length_ + t) * directions_ + d : (t * directions_ + d) * batch_ + b;
          std::copy(h.begin(), h.end(), all.begin() + row * hidden_);
        }
        std::copy(h.begin(), h.end(), states.begin() + at);
        if (!cells.empty()) std::copy(c.begin(), c.end(), cells.begin() + at);
      }
    const DataType type = call_.tensor(0).type();
    call_.give(Tensor::from_reals(
        type, batch_first_ ? Sizes{batch_, length_, directions_, hidden_} : Sizes{length_, directions_, batch_, hidden_}, all));
    give_state(type, states);
    if (!cells.empty()) give_state(type, cells);
  }

 private:
  std::int64_t rows() const { return static_cast<std::int64_t>(gates_) * hidden_; }
  static double dot(const double* a, const double* b, std::int64_t count) {
    double total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += a[i] * b[i];
    return total;
  }
  // [rows, columns, hidden] as [columns, rows, hidden].
  std::vector<double> swapped(const std::vector<double>& v, std::int64_t rows, std::int64_t columns) const {
    std::vector<double> result(v.size());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        std::copy_n(v.begin() + (r * columns + c) * hidden_, hidden_, result.begin() + (c * rows + r) * hidden_);
    return result;
  }
  void give_state(DataType type, const std::vector<double>& state) const {
    call_.give(batch_first_ ? Tensor::from_reals(type, {batch_, directions_, hidden_}, swapped(state, directions_, batch_))
                            : Tensor::from_reals(type, {directions_, batch_, hidden_}, state));
  }

  Call& call_;
  std::size_t gates_;
  bool batch_first_, backward_first_ = false;
  std::int64_t length_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0, directions_ = 1;
  std::vector<double> x_, w_, r_, b_;
  std::vector<std::int64_t> lengths_;
  double clip_ = HUGE_VAL;
  std::vector<Activation> activations_;
  std::size_t per_direction_ = 1;
};

// h = f(x W^T + h R^T + b)
void run_rnn(Call& call) {
  const Network net(call, 1, {"Tanh"});
  net.run(net.initial(5), {}, [&](std::int64_t d, const double* x, std::vector<double>& h, std::vector<double>&) {
    std::vector<double> next(h.size());
    for (std::int64_t u = 0; u < net.hidden(); ++u)
      next[static_cast<std::size_t>(u)] = net.function(d, 0)(net.clipped(
          net.from_input(d, 0, u, x) + net.from_state(d, 0, u, h.data()) + net.input_bias(d, 0, u) + net.state_bias(d, 0, u)));
    h = std::move(next);
  });
}

// Gates z (update), r (reset) and the new value; linear_before_reset says whether r comes after the state's product.
void run_gru(Call& call) {
  const Network net(call, 3, {"Sigmoid", "Tanh"});
  const bool reset_after = call.integer("linear_before_reset", 0) != 0;
  net.run(net.initial(5), {}, [&](std::int64_t d, const double* x, std::vector<double>& h, std::vector<double>&) {
    const auto count = h.size();
    std::vector<double> z(count), r(count), reset(count), next(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto u = static_cast<std::int64_t>(i);
      const auto gate = [&](std::int64_t g) {
        return net.function(d, 0)(net.clipped(net.from_input(d, g, u, x) + net.from_state(d, g, u, h.data()) +
                                              net.input_bias(d, g, u) + net.state_bias(d, g, u)));
      };
      z[i] = gate(0), r[i] = gate(1), reset[i] = r[i] * h[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto u = static_cast<std::int64_t>(i);
      const double state = reset_after ? r[i] * (net.from_state(d, 2, u, h.data()) + net.state_bias(d, 2, u))
                                       : net.from_state(d, 2, u, reset.data()) + net.state_bias(d, 2, u);
      const double value = net.function(d, 1)(net.clipped(net.from_input(d, 2, u, x) + net.input_bias(d, 2, u) + state));
      next[i] = (1 - z[i]) * value + z[i] * h[i];
    }
    h = std::move(next);
  });
}

// Gates i, o, f and the new cell value c, with peepholes from the cell to the first three.
void run_lstm(Call& call) {
  const Network net(call, 4, {"Sigmoid", "Tanh", "Tanh"});
  const std::vector<double> peepholes = net.optional(7, net.directions() * 3 * net.hidden());
  const bool couples = call.integer("input_forget", 0) != 0;
  const std::vector<double> cells = net.initial(6);
  net.run(net.initial(5), cells, [&](std::int64_t d, const double* x, std::vector<double>& h, std::vector<double>& c) {
    std::vector<double> next(h.size());
    for (std::size_t i = 0; i < h.size(); ++i) {
      const auto u = static_cast<std::int64_t>(i);
      const double* p = peepholes.data() + d * 3 * net.hidden() + u;
      const auto sum = [&](std::int64_t g) {
        return net.from_input(d, g, u, x) + net.from_state(d, g, u, h.data()) + net.input_bias(d, g, u) +
               net.state_bias(d, g, u);
      };
      const double in = net.function(d, 0)(net.clipped(sum(0) + p[0] * c[i]));
      const double forget = couples ? 1 - in : net.function(d, 0)(net.clipped(sum(2) + p[2 * net.hidden()] * c[i]));
      const double value = net.function(d, 1)(net.clipped(sum(3)));
      c[i] = forget * c[i] + in * value;
      const double out = net.function(d, 0)(net.clipped(sum(1) + p[net.hidden()] * c[i]));
      next[i] = out * net.function(d, 2)(c[i]);
    }
    h = std::move(next);
  });
}

}  // namespace

void register_recurrent(Procedures& p) {
  p.add("RNN", run_rnn);
  p.add("GRU", run_gru);
  p.add("LSTM", run_lstm);
}

}  // namespace rewright
