// RNN, GRU and LSTM with all their steps as nodes of a graph.
#include <utility>

#include "operators/procedures/recurrent_cell.h"
#include "operators/source_builder.h"

namespace rewright::operators {

namespace {

constexpr ValueId kNone = kNoGradient;

class Unrolled {
 public:
  explicit Unrolled(OnnxSource& source)
      : b_(source),
        kind_(recurrent_kind(source)),
        batch_first_(source.integer("layout", 0) != 0),
        direction_(source.text("direction", "forward")) {
    const Indices &x = b_.shape_of(b_.input(0)), &w = b_.shape_of(b_.input(1)), &r = b_.shape_of(b_.input(2));
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) throw Error(ErrorCode::kBadInput, "X, W and R must have rank 3");
    length_ = x[batch_first_ ? 1 : 0], batch_ = x[batch_first_ ? 0 : 1];
    if (source.has("clip")) clip_ = source.real("clip", 0);
    known_ = length_.is_constant() && all_constant(w) && all_constant(r);
    if (!known_) return;
    inputs_ = w[2].value(), hidden_ = r[2].value(), directions_ = direction_ == "bidirectional" ? 2 : 1;
    if (w != Indices{directions_, rows(), x[2]} || r != Indices{directions_, rows(), hidden_})
      throw Error(ErrorCode::kBadInput, "the sizes of X, W and R do not fit together");
    lengths_ = b_.input(4) == kNone ? kNone : b_.cast(b_.input(4), DataType::kInt64);
  }
  bool is_known() const { return known_ && length_.value() > 0; }

  // Y, Y_h and, with cells, Y_c.
  std::vector<ValueId> run() {
    const ValueId x = batch_first_ ? b_.transposed(b_.input(0), {1, 0, 2}) : b_.input(0);
    std::vector<ValueId> all;
    std::vector<std::vector<ValueId>> last(kind_.initial_states.size());
    for (std::int64_t d = 0; d < directions_; ++d) {
      std::vector<ValueId> states;
      for (const std::size_t input : kind_.initial_states) states.push_back(initial(input, d));
      const bool backward = direction_ == "reverse" || d == 1;
      const ValueId projected = turned(projection(x, d), backward);
      const ValueId results = turned(steps(projected, d, states), backward);
      all.push_back(b_.reshaped(results, {length_, 1, batch_, hidden_}));
      for (std::size_t s = 0; s < states.size(); ++s) last[s].push_back(b_.reshaped(states[s], {1, batch_, hidden_}));
    }
    std::vector<ValueId> results{concatenated(all, 1)};
    if (batch_first_) results[0] = b_.transposed(results[0], {2, 0, 1, 3});
    for (const auto& of_directions : last) {
      const ValueId state = concatenated(of_directions, 0);
      results.push_back(batch_first_ ? b_.transposed(state, {1, 0, 2}) : state);
    }
    return results;
  }

 private:
  std::int64_t rows() const { return kind_.gates * hidden_; }
  ValueId concatenated(const std::vector<ValueId>& parts, std::int64_t axis) {
    return parts.size() == 1 ? parts[0] : b_.add("Concat", parts, {{"axis", Index(axis)}});
  }
  // `length` entries of an axis, from `first` on.
  ValueId entries(ValueId v, std::size_t axis, const Index& first, const Index& length) {
    Indices begin(b_.shape_of(v).size(), 0), sizes = b_.shape_of(v);
    begin[axis] = first, sizes[axis] = length;
    return b_.add("Slice", {v}, {{"begin", begin}, {"length", sizes}});
  }
  // One direction's part of an operand whose first axis is that of directions; kNone if it is absent.
  ValueId operand(std::size_t input, std::int64_t d, const Indices& sizes) {
    if (b_.input(input) == kNone) return kNone;
    return b_.reshaped(entries(b_.input(input), 0, d, 1), sizes);
  }
  ValueId initial(std::size_t input, std::int64_t d) {
    const ValueId given = b_.input(input);
    if (given == kNone) return b_.filled({b_.type_of(b_.input(0)).type, {batch_, hidden_}}, 0);
    return b_.reshaped(entries(given, batch_first_ ? 1 : 0, d, 1), {batch_, hidden_});
  }

  // All inputs, as rows, times the weights, plus the biases: [length, batch, rows].
  ValueId projection(ValueId x, std::int64_t d) {
    std::vector<ValueId> operands{b_.reshaped(x, {length_ * batch_, inputs_}), operand(1, d, {rows(), inputs_})};
    if (const ValueId biases = operand(3, d, {2 * rows()}); biases != kNone) {
      const ValueId of_inputs = entries(biases, 0, 0, rows());
      operands.push_back(kind_.splits_biases ? of_inputs : b_.add("Add", {of_inputs, entries(biases, 0, rows(), rows())}));
    }
    return b_.reshaped(b_.add("Gemm", std::move(operands), {{"transB", true}}), {length_, batch_, rows()});
  }

  // [length, batch, ...] with each sequence reversed.
  ValueId turned(ValueId v, bool backward) {
    if (!backward) return v;
    const Indices shape = b_.shape_of(v);
    if (lengths_ == kNone)
      return b_.add("Slice", {v}, {{"begin", Indices{length_ - 1, 0, 0}}, {"length", shape}, {"step", Indices{-1, 1, 1}}});
    const ValueId t = b_.reshaped(b_.add("Range", {}, {{"count", length_}}), {length_, 1, 1});
    const ValueId one = integer(1), lengths = b_.reshaped(lengths_, {1, batch_, 1});
    const ValueId from_end = b_.add("Sub", {b_.add("Sub", {lengths, one}), t});
    const ValueId places = b_.add("Where", {b_.add("Less", {t, lengths}), from_end, t});
    return b_.add("GatherElements", {v, b_.add("Expand", {places}, {{"shape", shape}})});
  }
  ValueId integer(std::int64_t n) { return b_.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{n})); }

  // One direction: the results of all steps, [length, batch, hidden]. `states` become the last ones.
  ValueId steps(ValueId projected, std::int64_t d, std::vector<ValueId>& states) {
    const std::span functions =
        std::span(kind_.activations).subspan(static_cast<std::size_t>(d) * kind_.activations_per_direction);
    const ValueId r = operand(2, d, {rows(), hidden_}), biases = kind_.splits_biases ? operand(3, d, {2 * rows()}) : kNone;
    const ValueId state_bias = biases == kNone ? kNone : entries(biases, 0, rows(), rows());
    const ValueId peepholes = states.size() > 1 ? operand(7, d, {3 * hidden_}) : kNone;
    const DataType type = b_.type_of(projected).type;
    std::vector<ValueId> results;
    for (std::int64_t n = 0; n < length_.value(); ++n) {
      const ValueId x = b_.reshaped(entries(projected, 0, n, 1), {batch_, rows()});
      std::vector<ValueId> next = kind_.cell({b_, functions, clip_, hidden_, x, r, false, states, state_bias, peepholes});
      ValueId result = next[0];
      if (lengths_ != kNone) {
        const ValueId going = b_.reshaped(b_.add("Less", {integer(n), lengths_}), {batch_, 1});
        for (std::size_t s = 0; s < states.size(); ++s) next[s] = b_.add("Where", {going, next[s], states[s]});
        result = b_.add("Where", {going, result, b_.scalar(type, 0)});
      }
      results.push_back(b_.reshaped(result, {1, batch_, hidden_}));
      states = std::move(next);
    }
    return concatenated(results, 0);
  }

  SourceBuilder b_;
  RecurrentKind kind_;
  bool batch_first_, known_ = false;
  std::string direction_;
  std::optional<double> clip_;
  Index length_, batch_;
  std::int64_t inputs_ = 0, hidden_ = 0, directions_ = 1;
  ValueId lengths_ = kNone;
};

}  // namespace

std::optional<std::vector<OnnxValue>> graph_of_recurrent(OnnxSource& source, std::string& reason) {
  Unrolled network(source);
  if (!network.is_known()) {
    reason = "the length of its sequences is not known";
    return std::nullopt;
  }
  return SourceBuilder::results(network.run());
}

}  // namespace rewright::operators
