// Recurrent networks: RNN, GRU, LSTM. What one step computes is said by operators, and so is the product of all steps' inputs
// with their weights; the way through the sequences is a loop.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

constexpr ValueId kNone = kNoGradient;  // a value that is absent

// An activation with its parameters, as far as they are given.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

ValueId activated(GraphBuilder& graph, const Activation& f, ValueId x) {
  const DataType type = graph.type_of(x).type;
  const auto alpha = [&](double otherwise) { return Real(f.alpha.value_or(otherwise)); };
  const auto scaled = [&](ValueId v, double by) { return graph.add("Mul", {v, graph.scalar(type, by)}); };
  for (const std::string_view plain : {"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"})
    if (f.name == plain) return graph.add(plain, {x});
  if (f.name == "LeakyRelu") return graph.add("LeakyRelu", {x}, {{"alpha", alpha(0.01)}});
  if (f.name == "ThresholdedRelu" || f.name == "Elu") return graph.add(f.name, {x}, {{"alpha", alpha(1)}});
  if (f.name == "HardSigmoid")
    return graph.add("HardSigmoid", {x}, {{"alpha", alpha(0.2)}, {"beta", Real(f.beta.value_or(0.5))}});
  if (f.name == "Affine") return graph.add("Add", {scaled(x, f.alpha.value_or(1)), graph.scalar(type, f.beta.value_or(0))});
  if (f.name == "ScaledTanh") return scaled(graph.add("Tanh", {scaled(x, f.beta.value_or(1))}), f.alpha.value_or(1));
  throw Error(ErrorCode::kBadInput, "there is no activation '" + f.name + "'");
}

// Elements of a tensor from the one at `first` on, without a copy.
Tensor part_of(const std::shared_ptr<const Tensor>& tensor, std::int64_t first, Sizes sizes) {
  const std::byte* bytes = tensor->bytes().data() + static_cast<std::size_t>(first) * byte_size(tensor->type());
  return {tensor->type(), std::move(sizes), tensor, bytes};
}
Tensor part_of(const Tensor& tensor, std::int64_t first, Sizes sizes) {
  return part_of(std::make_shared<const Tensor>(tensor), first, std::move(sizes));
}

Tensor zero_tensor(DataType type, const Sizes& sizes) {
  require_few(element_count(sizes));
  Tensor tensor(type, sizes);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  return tensor;
}

// One step of one direction, being described.
struct Step {
  GraphBuilder& graph;
  std::span<const Activation> activations;
  std::optional<double> clip;
  std::int64_t hidden;
  ValueId x;  // [batch, gates * hidden]: x W^T with the biases that only need to be added
  ValueId r;  // [gates * hidden, hidden]
  bool r_is_constant;
  std::vector<ValueId> states;  // [batch, hidden] each: h, and the cell
  ValueId state_bias;           // [gates * hidden], where it is not in x; kNone: zero
  ValueId peepholes;            // [3 * hidden]; kNone: zero

  ValueId sum(ValueId a, ValueId b) const { return graph.add("Add", {a, b}); }
  ValueId product(ValueId a, ValueId b) const { return graph.add("Mul", {a, b}); }
  ValueId complement(ValueId a) const { return graph.add("Sub", {graph.scalar(graph.type_of(a).type, 1), a}); }
  // a b^T + c, where b is r or a part of it. Constants are transposed once, and rows of the transposed are faster to add up.
  ValueId matrix_product(ValueId a, ValueId b, ValueId c) const {
    if (r_is_constant) {
      const ValueId product = graph.add("MatMul", {a, graph.transposed(b, {1, 0})});
      return c == kNone ? product : sum(product, c);
    }
    std::vector<ValueId> operands{a, b};
    if (c != kNone) operands.push_back(c);
    return graph.add("Gemm", std::move(operands), {{"transB", true}});
  }
  // What belongs to `count` gates from this one on: entries of an axis.
  ValueId gates(ValueId v, std::int64_t first, std::int64_t count, std::size_t axis) const {
    const Indices& shape = graph.shape_of(v);
    Indices begin(shape.size(), 0), length = shape;
    begin[axis] = first * hidden, length[axis] = count * hidden;
    return graph.add("Slice", {v}, {{"begin", begin}, {"length", length}});
  }
  ValueId gate(ValueId v, std::int64_t number) const { return gates(v, number, 1, 1); }
  ValueId with_peephole(ValueId v, std::int64_t number, ValueId cell) const {
    return peepholes == kNone ? v : sum(v, product(gates(peepholes, number, 1, 0), cell));
  }
  ValueId f(std::size_t number, ValueId v) const {
    const DataType type = graph.type_of(v).type;
    if (clip) v = graph.add("Clip", {v, graph.scalar(type, -*clip), graph.scalar(type, *clip)});
    return activated(graph, activations[number], v);
  }
};
// Returns the next states.
using Cell = std::function<std::vector<ValueId>(const Step&)>;

// What RNN, GRU and LSTM share: operands, directions, activations, and the way through a sequence.
class Network {
 public:
  // `splits_biases`: of the two biases, that of the state's product is given to the step.
  Network(Call& call, std::int64_t gates, const std::vector<std::string>& defaults, bool splits_biases = false)
      : call_(call), gates_(gates), batch_first_(call.integer("layout", 0) != 0), splits_biases_(splits_biases) {
    const Tensor& x = call.tensor(0);
    const Sizes &w = call.tensor(1).sizes(), &r = call.tensor(2).sizes();
    if (x.sizes().size() != 3 || w.size() != 3 || r.size() != 3)
      throw Error(ErrorCode::kBadInput, "X, W and R must have rank 3");
    if (!is_real(x.type())) throw Error(ErrorCode::kBadInput, "X must have real elements");
    length_ = x.sizes()[batch_first_ ? 1 : 0];
    batch_ = x.sizes()[batch_first_ ? 0 : 1];
    inputs_ = x.sizes()[2];
    hidden_ = r[2];
    const std::string direction = call.text("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    backward_first_ = direction == "reverse";
    if (w != Sizes{directions_, rows(), inputs_} || r != Sizes{directions_, rows(), hidden_})
      throw Error(ErrorCode::kBadInput, "the sizes of X, W and R do not fit together");
    require_few(element_count(Sizes{length_, batch_, directions_, rows() + 1}));
    lengths_ = call.has_input(4) ? call.integers(4) : std::vector<std::int64_t>(static_cast<std::size_t>(batch_), length_);
    if (static_cast<std::int64_t>(lengths_.size()) != batch_)
      throw Error(ErrorCode::kBadInput, "sequence_lens has a wrong size");
    for (const std::int64_t l : lengths_)
      if (l < 0 || l > length_) throw Error(ErrorCode::kBadInput, "a sequence's length is " + std::to_string(l));
    if (call.has("clip")) clip_ = call.real("clip", 0);
    read_activations(defaults);
  }

  // Gives Y, Y_h and, with cells, Y_c. `initial_states`: the numbers of their inputs.
  void run(std::span<const std::size_t> initial_states, const Cell& cell) {
    const DataType type = call_.tensor(0).type();
    Tensor all = zero_tensor(
        type, batch_first_ ? Sizes{batch_, length_, directions_, hidden_} : Sizes{length_, directions_, batch_, hidden_});
    std::vector<Tensor> last;
    for (const std::size_t input : initial_states) last.push_back(initial(input));
    for (std::int64_t d = 0; d < directions_; ++d) {
      std::vector<Tensor> states;
      for (const Tensor& state : last) states.push_back(moved_rows(state, [&](std::int64_t b) { return state_row(d, b); }));
      run_direction(d, cell, states, all);
      for (std::size_t s = 0; s < last.size(); ++s)
        for (std::int64_t b = 0; b < batch_; ++b) copy_rows(states[s], b, last[s], state_row(d, b), 1, hidden_);
    }
    call_.give(std::move(all));
    for (Tensor& state : last) call_.give(std::move(state));
  }

 private:
  std::int64_t rows() const { return gates_ * hidden_; }

  void read_activations(const std::vector<std::string>& defaults) {
    per_direction_ = defaults.size();
    std::vector<std::string> names = call_.texts("activations");
    if (names.empty())
      for (std::int64_t d = 0; d < directions_; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() < defaults.size() * static_cast<std::size_t>(directions_))
      throw Error(ErrorCode::kBadInput, "has too few activations");
    const std::vector<double> alphas = call_.reals("activation_alpha"), betas = call_.reals("activation_beta");
    for (std::size_t i = 0; i < names.size(); ++i) {
      Activation& f = activations_.emplace_back(Activation{names[i], {}, {}});
      if (i < alphas.size()) f.alpha = alphas[i];
      if (i < betas.size()) f.beta = betas[i];
    }
  }

  // One direction's part of an operand that has an axis for them first; empty if it is absent.
  Call::Given operand(std::size_t input, std::int64_t d, const Sizes& sizes) const {
    if (!call_.has_input(input)) return {};
    const Tensor& whole = call_.tensor(input);
    const std::int64_t count = element_count(sizes);
    if (whole.size() != directions_ * count)
      throw Error(ErrorCode::kBadInput, "input " + std::to_string(input) + " has " + std::to_string(whole.size()) +
                                            " elements, " + std::to_string(directions_ * count) + " are needed");
    return {part_of(whole, d * count, sizes), call_.is_constant(input)};
  }
  Tensor initial(std::size_t input) const {
    const Sizes sizes = batch_first_ ? Sizes{batch_, directions_, hidden_} : Sizes{directions_, batch_, hidden_};
    Tensor state = zero_tensor(call_.tensor(0).type(), sizes);
    if (!call_.has_input(input)) return state;
    const Tensor& given = call_.tensor(input);
    if (given.type() != state.type() || given.size() != state.size())
      throw Error(ErrorCode::kBadInput, "input " + std::to_string(input) + " has " + std::to_string(given.size()) +
                                            " elements, " + std::to_string(state.size()) + " of X's type are needed");
    copy_rows(given, 0, state, 0, directions_ * batch_, hidden_);
    return state;
  }

  // Rows of `width` elements, which both tensors are made of.
  static void copy_rows(const Tensor& from, std::int64_t first, Tensor& to, std::int64_t to_first, std::int64_t count,
                        std::int64_t width) {
    const std::size_t bytes = static_cast<std::size_t>(width) * byte_size(from.type());
    if (bytes == 0 || count == 0) return;
    std::memcpy(to.mutable_bytes().data() + static_cast<std::size_t>(to_first) * bytes,
                from.bytes().data() + static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes);
  }
  // [batch, hidden], each row from where `row_of` says.
  template <class RowOf>
  Tensor moved_rows(const Tensor& from, RowOf row_of) const {
    Tensor result(from.type(), {batch_, hidden_});
    for (std::int64_t b = 0; b < batch_; ++b) copy_rows(from, row_of(b), result, b, 1, hidden_);
    return result;
  }
  std::int64_t state_row(std::int64_t d, std::int64_t b) const { return batch_first_ ? b * directions_ + d : d * batch_ + b; }
  std::int64_t input_row(std::int64_t t, std::int64_t b) const { return batch_first_ ? b * length_ + t : t * batch_ + b; }
  std::int64_t output_row(std::int64_t d, std::int64_t t, std::int64_t b) const {
    return batch_first_ ? (b * length_ + t) * directions_ + d : (t * directions_ + d) * batch_ + b;
  }

  // All inputs, one a row, times the weights, plus the biases.
  Tensor projected(std::int64_t d) const {
    std::vector<Call::Given> given{{call_.tensor(0).reshaped({length_ * batch_, inputs_})}, operand(1, d, {rows(), inputs_})};
    const Call::Given biases = operand(3, d, {2, rows()});
    if (biases.tensor) {
      given.push_back({part_of(biases.tensor, 0, {rows()}), biases.is_constant});
      if (!splits_biases_) given.push_back({part_of(biases.tensor, rows(), {rows()}), biases.is_constant});
    }
    const auto describe = [](GraphBuilder& graph, const std::vector<ValueId>& values) {
      std::vector<ValueId> operands(values.begin(), values.begin() + std::min<std::ptrdiff_t>(3, std::ssize(values)));
      if (values.size() > 3) operands[2] = graph.add("Add", {values[2], values[3]});
      return std::vector<ValueId>{graph.add("Gemm", std::move(operands), {{"transB", true}})};
    };
    return call_.graph("inputs " + std::to_string(d), given, describe)->run(inputs_of(given)).at(0).tensor();
  }

  static std::vector<Datum> inputs_of(std::span<const Call::Given> given) {
    std::vector<Datum> inputs;
    for (const Call::Given& value : given)
      if (!value.is_constant) inputs.emplace_back(value.tensor);
    return inputs;
  }

  // Made for values that are x, the states, and the weights of a step.
  std::shared_ptr<Executable> step_graph(std::int64_t d, const Cell& cell, std::span<const Call::Given> given, bool has_bias,
                                         bool has_peepholes, std::size_t states) const {
    const auto describe = [&](GraphBuilder& graph, const std::vector<ValueId>& values) {
      const std::span functions = std::span(activations_).subspan(static_cast<std::size_t>(d) * per_direction_);
      const std::size_t r = 1 + states;
      std::size_t next = r + 1;
      const ValueId bias = has_bias ? values[next++] : kNone, peepholes = has_peepholes ? values[next] : kNone;
      return cell({graph, functions, clip_, hidden_, values[0], values[r], given[r].is_constant,
                   std::vector(values.begin() + 1, values.begin() + static_cast<std::ptrdiff_t>(r)), bias, peepholes});
    };
    return call_.graph("step " + std::to_string(d), given, describe);
  }

  // From the states on, which become those after the last step.
  void run_direction(std::int64_t d, const Cell& cell, std::vector<Tensor>& states, Tensor& all) const {
    const std::int64_t steps = batch_ == 0 || hidden_ == 0 ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
    if (steps == 0) return;
    const bool is_backward = backward_first_ || d == 1;
    const bool is_whole = std::all_of(lengths_.begin(), lengths_.end(), [&](std::int64_t l) { return l == steps; });
    const auto x = std::make_shared<const Tensor>(projected(d));
    // Of a sequence that has ended any entry will do.
    const auto entry = [&](std::int64_t n, std::int64_t b) {
      return is_backward ? std::max<std::int64_t>(lengths_[static_cast<std::size_t>(b)] - 1 - n, 0) : n;
    };
    const auto inputs_at = [&](std::int64_t n) {
      if (is_whole && !batch_first_) return part_of(x, input_row(entry(n, 0), 0) * rows(), {batch_, rows()});
      Tensor gathered(x->type(), {batch_, rows()});
      for (std::int64_t b = 0; b < batch_; ++b) copy_rows(*x, input_row(entry(n, b), b), gathered, b, 1, rows());
      return gathered;
    };

    std::vector<Call::Given> given{{inputs_at(0)}};
    for (const Tensor& state : states) given.push_back({state});
    given.push_back(operand(2, d, {rows(), hidden_}));
    const Call::Given biases = splits_biases_ ? operand(3, d, {2, rows()}) : Call::Given();
    if (biases.tensor) given.push_back({part_of(biases.tensor, rows(), {rows()}), biases.is_constant});
    const Call::Given peepholes = states.size() > 1 ? operand(7, d, {3 * hidden_}) : Call::Given();
    if (peepholes.tensor) given.push_back(peepholes);
    const auto graph = step_graph(d, cell, given, biases.tensor.size() > 0, peepholes.tensor.size() > 0, states.size());

    std::vector<Datum> inputs = inputs_of(given);
    for (std::int64_t n = 0; n < steps; ++n) {
      call_.checkpoint();
      if (n > 0) inputs[0] = inputs_at(n);
      const std::vector<Datum> next = graph->run(inputs);
      for (std::size_t s = 0; s < states.size(); ++s)
        inputs[1 + s] = is_whole ? next.at(s) : going_on(inputs[1 + s].tensor(), next.at(s).tensor(), n);
      for (std::int64_t b = 0; b < batch_; ++b)
        if (n < lengths_[static_cast<std::size_t>(b)])
          copy_rows(inputs[1].tensor(), b, all, output_row(d, entry(n, b), b), 1, hidden_);
    }
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = inputs[1 + s].tensor();
  }

  // Step n's states of the sequences that are longer, and of the others the states before.
  Tensor going_on(const Tensor& before, const Tensor& after, std::int64_t n) const {
    Tensor result(after.type(), {batch_, hidden_});
    for (std::int64_t b = 0; b < batch_; ++b)
      copy_rows(n < lengths_[static_cast<std::size_t>(b)] ? after : before, b, result, b, 1, hidden_);
    return result;
  }

  Call& call_;
  std::int64_t gates_;
  bool batch_first_, backward_first_ = false, splits_biases_;
  std::int64_t length_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0, directions_ = 1;
  std::vector<std::int64_t> lengths_;
  std::optional<double> clip_;
  std::vector<Activation> activations_;
  std::size_t per_direction_ = 1;
};

constexpr std::size_t kInitialH = 5, kInitialC = 6;

// h = f(x W^T + h R^T + b)
void run_rnn(Call& call) {
  Network(call, 1, {"Tanh"}).run(std::vector{kInitialH}, [](const Step& s) {
    return std::vector{s.f(0, s.matrix_product(s.states[0], s.r, s.x))};
  });
}

// Gates z (update), r (reset) and the new value; linear_before_reset says whether r comes after the state's product.
void run_gru(Call& call) {
  const bool reset_after = call.integer("linear_before_reset", 0) != 0;
  Network(call, 3, {"Sigmoid", "Tanh"}, reset_after).run(std::vector{kInitialH}, [reset_after](const Step& s) {
    const ValueId h = s.states[0];
    ValueId z = kNone, value = kNone;
    if (reset_after) {
      const ValueId products = s.matrix_product(h, s.r, s.state_bias);
      const auto gate = [&](std::int64_t n) { return s.f(0, s.sum(s.gate(s.x, n), s.gate(products, n))); };
      z = gate(0);
      value = s.f(1, s.sum(s.gate(s.x, 2), s.product(gate(1), s.gate(products, 2))));
    } else {
      const ValueId sums = s.matrix_product(h, s.gates(s.r, 0, 2, 0), s.gates(s.x, 0, 2, 1));
      const ValueId reset = s.product(s.f(0, s.gate(sums, 1)), h);
      z = s.f(0, s.gate(sums, 0));
      value = s.f(1, s.matrix_product(reset, s.gates(s.r, 2, 1, 0), s.gate(s.x, 2)));
    }
    return std::vector{s.sum(s.product(s.complement(z), value), s.product(z, h))};
  });
}

// Gates i, o, f and the new cell value c, with peepholes from the cell to the first three.
void run_lstm(Call& call) {
  const bool couples = call.integer("input_forget", 0) != 0;
  Network(call, 4, {"Sigmoid", "Tanh", "Tanh"}).run(std::vector{kInitialH, kInitialC}, [couples](const Step& s) {
    const ValueId before = s.states[1], sums = s.matrix_product(s.states[0], s.r, s.x);
    const ValueId in = s.f(0, s.with_peephole(s.gate(sums, 0), 0, before));
    const ValueId forget = couples ? s.complement(in) : s.f(0, s.with_peephole(s.gate(sums, 2), 2, before));
    const ValueId cell = s.sum(s.product(forget, before), s.product(in, s.f(1, s.gate(sums, 3))));
    const ValueId out = s.f(0, s.with_peephole(s.gate(sums, 1), 1, cell));
    return std::vector{s.product(out, activated(s.graph, s.activations[2], cell)), cell};
  });
}

}  // namespace

void register_recurrent(Procedures& p) {
  p.add("RNN", run_rnn);
  p.add("GRU", run_gru);
  p.add("LSTM", run_lstm);
}

}  // namespace rewright
