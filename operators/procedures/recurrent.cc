// Executes recurrent networks: RNN, GRU, LSTM, and ONNX Runtime's DynamicQuantizeLSTM, which has weights of 8 bits. One step,
// and the product of all steps' inputs with their weights, are graphs of operators; a loop runs through the sequences.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "operators/integer_products.h"
#include "operators/procedures/procedures.h"
#include "operators/procedures/recurrent_cell.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// The elements of a tensor from `first` on, without a copy.
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

constexpr const char* kQuantizedLstm = "DynamicQuantizeLSTM";

// Shared by RNN, GRU and LSTM: operands, directions, activations, and the order of a sequence.
class Network {
 public:
  explicit Network(Call& call)
      : call_(call),
        kind_(recurrent_kind(call)),
        is_quantized_(call.type() == kQuantizedLstm),
        batch_first_(call.integer("layout", 0) != 0) {
    const Tensor& x = call.tensor(0);
    const Sizes &w = call.tensor(1).sizes(), &r = call.tensor(2).sizes();
    if (x.sizes().size() != 3 || w.size() != 3 || r.size() != 3)
      throw Error(ErrorCode::kBadInput, "X, W and R must have rank 3");
    if (!is_real(x.type())) throw Error(ErrorCode::kBadInput, "X must have real elements");
    length_ = x.sizes()[batch_first_ ? 1 : 0];
    batch_ = x.sizes()[batch_first_ ? 0 : 1];
    inputs_ = x.sizes()[2];
    hidden_ = r[is_quantized_ ? 1 : 2];
    const std::string direction = call.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      throw Error(ErrorCode::kBadInput, "direction is " + direction + ", must be forward, reverse or bidirectional");
    directions_ = direction == "bidirectional" ? 2 : 1;
    backward_first_ = direction == "reverse";
    if (w != weight_sizes(inputs_, {directions_}) || r != weight_sizes(hidden_, {directions_}))
      throw Error(ErrorCode::kBadInput, "the sizes of X, W and R do not fit together");
    require_few(element_count(Sizes{length_, batch_, directions_, rows() + 1}));
    lengths_ = call.has_input(4) ? call.integers(4) : std::vector<std::int64_t>(static_cast<std::size_t>(batch_), length_);
    if (static_cast<std::int64_t>(lengths_.size()) != batch_)
      throw Error(ErrorCode::kBadInput, "sequence_lens has a wrong size");
    for (const std::int64_t l : lengths_)
      if (l < 0 || l > length_) throw Error(ErrorCode::kBadInput, "a sequence's length is " + std::to_string(l));
    if (call.has("clip")) clip_ = call.real("clip", 0);
  }

  // Gives Y, Y_h and, with cells, Y_c.
  void run() {
    const DataType type = call_.tensor(0).type();
    Tensor all = zero_tensor(
        type, batch_first_ ? Sizes{batch_, length_, directions_, hidden_} : Sizes{length_, directions_, batch_, hidden_});
    std::vector<Tensor> last;
    for (const std::size_t input : kind_.initial_states) last.push_back(initial(input));
    for (std::int64_t d = 0; d < directions_; ++d) {
      std::vector<Tensor> states;
      for (const Tensor& state : last) states.push_back(moved_rows(state, [&](std::int64_t b) { return state_row(d, b); }));
      run_direction(d, states, all);
      for (std::size_t s = 0; s < last.size(); ++s)
        for (std::int64_t b = 0; b < batch_; ++b) copy_rows(states[s], b, last[s], state_row(d, b), 1, hidden_);
    }
    call_.give(std::move(all));
    for (Tensor& state : last) call_.give(std::move(state));
  }

 private:
  std::int64_t rows() const { return kind_.gates * hidden_; }
  // The sizes of weights for `columns` inputs or states, behind these axes. Those of 8 bits are transposed.
  Sizes weight_sizes(std::int64_t columns, Sizes before = {}) const {
    before.insert(before.end(), {is_quantized_ ? columns : rows(), is_quantized_ ? rows() : columns});
    return before;
  }

  // One direction's scale or zero point of weights: one number, or one for each row.
  Call::Given quantization(std::size_t input, std::int64_t d) const {
    if (!call_.has_input(input)) throw Error(ErrorCode::kBadInput, "input " + std::to_string(input) + " is missing");
    return operand(input, d, call_.tensor(input).size() == directions_ ? Sizes{} : Sizes{rows()});
  }
  // Appends a direction's weights, with scale and zero point, which are the inputs from `first` on, if they are of 8 bits.
  void give_weights(std::vector<Call::Given>& given, std::size_t input, std::int64_t d, std::int64_t columns,
                    std::size_t first) const {
    given.push_back(operand(input, d, weight_sizes(columns)));
    if (!is_quantized_) return;
    if (!call_.has_input(first + 1) || call_.tensor(first + 1).type() != call_.tensor(input).type())
      throw Error(ErrorCode::kBadInput, "a zero point must have the type of its weights");
    given.push_back(quantization(first, d)), given.push_back(quantization(first + 1, d));
  }

  // One direction's part of an operand whose first axis is that of directions; empty if it is absent.
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

  // Copies rows of `width` elements between two tensors.
  static void copy_rows(const Tensor& from, std::int64_t first, Tensor& to, std::int64_t to_first, std::int64_t count,
                        std::int64_t width) {
    const std::size_t bytes = static_cast<std::size_t>(width) * byte_size(from.type());
    if (bytes == 0 || count == 0) return;
    std::memcpy(to.mutable_bytes().data() + static_cast<std::size_t>(to_first) * bytes,
                from.bytes().data() + static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes);
  }
  // [batch, hidden], each row from the position that `row_of` returns.
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

  // The inputs of the first `steps` steps, as rows, times the weights, plus the biases. There may be more rows, so that there
  // are few graphs for all numbers of steps; and with the batch in front all steps have them.
  Tensor projected(std::int64_t d, std::int64_t steps) const {
    const auto enough = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(steps)));
    // Numbers that become integers by their range are those of the steps alone.
    const std::int64_t count = batch_first_ ? length_ : is_quantized_ ? steps : std::min(length_, enough);
    std::vector<Call::Given> given{{part_of(call_.tensor(0), 0, {count * batch_, inputs_})}};
    give_weights(given, 1, d, inputs_, 8);
    const std::size_t weights = given.size();
    const Call::Given biases = operand(3, d, {2, rows()});
    if (biases.tensor) {
      given.push_back({part_of(biases.tensor, 0, {rows()}), biases.is_constant});
      if (!kind_.splits_biases) given.push_back({part_of(biases.tensor, rows(), {rows()}), biases.is_constant});
    }
    const auto describe = [this, weights](GraphBuilder& graph, const std::vector<ValueId>& values) {
      const ValueId bias = values.size() == weights       ? kNoGradient
                           : values.size() == weights + 1 ? values[weights]
                                                          : graph.add("Add", {values[weights], values[weights + 1]});
      if (is_quantized_) {
        const ValueId product = dynamic_integer_product(graph, values[0], values[1], values[2], values[3]);
        return std::vector<ValueId>{bias == kNoGradient ? product : graph.add("Add", {product, bias})};
      }
      std::vector<ValueId> operands{values[0], values[1]};
      if (bias != kNoGradient) operands.push_back(bias);
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

  // Compiles a step for operands like these: x, the states, and the weights.
  std::shared_ptr<Executable> step_graph(std::int64_t d, std::span<const Call::Given> given, bool has_bias, bool has_peepholes,
                                         std::size_t states) const {
    const auto describe = [&](GraphBuilder& graph, const std::vector<ValueId>& values) {
      const std::span functions =
          std::span(kind_.activations).subspan(static_cast<std::size_t>(d) * kind_.activations_per_direction);
      const std::size_t r = 1 + states;
      std::size_t next = r + (is_quantized_ ? 3 : 1);
      const ValueId bias = has_bias ? values[next++] : kNoGradient, peepholes = has_peepholes ? values[next] : kNoGradient;
      CellStep step{graph,
                    functions,
                    clip_,
                    hidden_,
                    values[0],
                    values[r],
                    given[r].is_constant,
                    std::vector(values.begin() + 1, values.begin() + static_cast<std::ptrdiff_t>(r)),
                    bias,
                    peepholes};
      if (is_quantized_)
        step.state_product = [&](ValueId h) {
          return dynamic_integer_product(graph, h, values[r], values[r + 1], values[r + 2]);
        };
      return kind_.cell(step);
    };
    return call_.graph("step " + std::to_string(d), given, describe);
  }

  // Runs all steps from these states, which become those after the last step.
  void run_direction(std::int64_t d, std::vector<Tensor>& states, Tensor& all) const {
    const std::int64_t steps = batch_ == 0 || hidden_ == 0 ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
    if (steps == 0) return;
    const bool is_backward = backward_first_ || d == 1;
    const bool is_whole = std::all_of(lengths_.begin(), lengths_.end(), [&](std::int64_t l) { return l == steps; });
    const auto x = std::make_shared<const Tensor>(projected(d, steps));
    // After the end of a sequence, any entry will do.
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
    give_weights(given, 2, d, hidden_, 10);
    const Call::Given biases = kind_.splits_biases ? operand(3, d, {2, rows()}) : Call::Given();
    if (biases.tensor) given.push_back({part_of(biases.tensor, rows(), {rows()}), biases.is_constant});
    const Call::Given peepholes = states.size() > 1 ? operand(7, d, {3 * hidden_}) : Call::Given();
    if (peepholes.tensor) given.push_back(peepholes);
    const auto graph = step_graph(d, given, biases.tensor.size() > 0, peepholes.tensor.size() > 0, states.size());

    // As in ONNX Runtime, states of sequences that ended count as zeros in the range by which states become integers.
    const Tensor none = zero_tensor(x->type(), {batch_, hidden_});
    std::vector<Datum> inputs = inputs_of(given);
    for (std::int64_t n = 0; n < steps; ++n) {
      call_.checkpoint();
      if (n > 0) inputs[0] = inputs_at(n);
      const std::vector<Datum> next = graph->run(inputs);
      for (std::size_t s = 0; s < states.size(); ++s)
        inputs[1 + s] =
            is_whole ? next.at(s) : going_on(is_quantized_ && s == 0 ? none : inputs[1 + s].tensor(), next.at(s).tensor(), n);
      for (std::int64_t b = 0; b < batch_; ++b)
        if (n < lengths_[static_cast<std::size_t>(b)])
          copy_rows(inputs[1].tensor(), b, all, output_row(d, entry(n, b), b), 1, hidden_);
    }
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = inputs[1 + s].tensor();
    if (!is_quantized_ || is_whole) return;
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t length = lengths_[static_cast<std::size_t>(b)];
      if (length > 0) {
        copy_rows(all, output_row(d, entry(length - 1, b), b), states[0], b, 1, hidden_);
      } else {  // as ONNX Runtime has it
        for (Tensor& state : states) copy_rows(none, b, state, b, 1, hidden_);
      }
    }
  }

  // The states after step n for sequences that are longer than n, and the states before it for the others.
  Tensor going_on(const Tensor& before, const Tensor& after, std::int64_t n) const {
    Tensor result(after.type(), {batch_, hidden_});
    for (std::int64_t b = 0; b < batch_; ++b)
      copy_rows(n < lengths_[static_cast<std::size_t>(b)] ? after : before, b, result, b, 1, hidden_);
    return result;
  }

  Call& call_;
  RecurrentKind kind_;
  bool is_quantized_, batch_first_, backward_first_ = false;
  std::int64_t length_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0, directions_ = 1;
  std::vector<std::int64_t> lengths_;
  std::optional<double> clip_;
};

void run_recurrent(Call& call) { Network(call).run(); }

Procedure::KnownTypes infer_quantized_lstm(const OnnxAttributes& source, const Procedure::KnownTypes& inputs, std::size_t) {
  if (inputs.size() < 3 || !inputs[0] || inputs[0]->sizes.size() != 3 || !inputs[2] || inputs[2]->sizes.size() != 3)
    return {std::nullopt, std::nullopt, std::nullopt};
  const Sizes &x = inputs[0]->sizes, &r = inputs[2]->sizes;
  const std::int64_t directions = source.text("direction", "forward") == "bidirectional" ? 2 : 1;
  const Procedure::KnownType state{inputs[0]->type, {directions, x[1], r[1]}};
  return {{{inputs[0]->type, {x[0], directions, x[1], r[1]}}}, state, state};
}

}  // namespace

void register_recurrent(Procedures& p) {
  for (const char* type : {"RNN", "GRU", "LSTM"}) {
    p.add(type, run_recurrent);
    p.add_graph(type, graph_of_recurrent);
  }
  p.add_foreign("com.microsoft", kQuantizedLstm, {.run = run_recurrent, .infer = infer_quantized_lstm});
}

}  // namespace rewright::operators
