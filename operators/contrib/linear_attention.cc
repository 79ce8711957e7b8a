// Linear attention: a matrix for each head, to which each position adds its key times its value.
#include "operators/procedures/linear_attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operators/contrib/attention_parts.h"
#include "operators/contrib/contrib.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

constexpr std::int64_t kMostPositions = 32;  // whose steps are nodes of a graph

// Each head of axis 1 `times` times.
ValueId repeated_heads(ContribNode& n, ValueId v, std::int64_t times) {
  if (times == 1) return v;
  const Indices shape = n.b.shape_of(v);
  Indices one{shape[0], shape[1], 1, shape[2], shape[3]}, all = one;
  all[2] = times;
  const ValueId wide = n.b.add("Expand", {n.b.reshaped(v, one)}, {{"shape", all}});
  return n.b.reshaped(wide, {shape[0], shape[1] * times, shape[2], shape[3]});
}

class Recurrence {
 public:
  Recurrence(ContribNode& n, const LinearAttentionForm& form, const Index& size) : n_(n), b_(n.b), form_(form) {
    type_ = n.has(3) ? n.type(3) : n.type(0);
    q_ = b_.cast(to_heads(n, n.input(0), form.query_heads), type_);
    const Index keys = n.shape(1).back();
    n.require(keys.is_constant() && keys.value() > 0 && keys.value() % size.value() == 0 &&
                  form.heads % (keys.value() / size.value()) == 0,
              keys.to_string() + " columns of keys are no heads of " + size.to_string());
    const std::int64_t key_heads = keys.value() / size.value();
    k_ = repeated_heads(n, b_.cast(to_heads(n, n.input(1), key_heads), type_), form.heads / key_heads);
    v_ = b_.cast(to_heads(n, n.input(2), form.heads), type_);
    if (form.heads > form.query_heads) q_ = repeated_heads(n, q_, form.heads / form.query_heads);
    if (form.decays) decay_ = b_.add("Exp", {b_.cast(to_heads(n, n.input(4), form.heads), type_)});
    if (form.is_delta) n.require_rank(5, 3), rate_ = b_.reshaped(b_.cast(n.swapped(n.input(5), 1, 2), type_), rate_sizes());
    const Indices value = b_.shape_of(v_);
    const Indices sizes{value[0], value[1], size, value[3]};
    if (n.has(3)) {
      n.require_rank(3, 4);
      for (std::size_t a = 0; a < sizes.size(); ++a)
        n.require_equal(n.shape(3)[a], sizes[a], "axis " + std::to_string(a) + " of its state");
      state_ = n.input(3);
    } else {
      state_ = b_.filled({type_, sizes}, 0);
    }
  }

  // All results, [batch, length, heads * size], and the last state.
  std::pair<ValueId, ValueId> run(std::int64_t length, double scale) {
    std::vector<ValueId> rows;
    for (std::int64_t t = 0; t < length; ++t) rows.push_back(n_.scaled(step(t), scale));
    return {b_.cast(n_.joined(rows, 1), n_.type(0)), state_};
  }

 private:
  Indices rate_sizes() const {
    const Indices rates = n_.shape(5);
    return {rates[0], rates[2], rates[1], 1};
  }
  ValueId at(ValueId v, std::int64_t t) { return n_.entries(v, 2, t, 1); }

  ValueId step(std::int64_t t) {
    const ValueId key = at(k_, t);
    if (form_.decays) state_ = b_.add("Mul", {state_, n_.swapped(at(decay_, t), 2, 3)});
    ValueId added = at(v_, t);
    if (form_.is_delta) added = b_.add("Mul", {at(rate_, t), b_.add("Sub", {added, b_.add("MatMul", {key, state_})})});
    state_ = b_.add("Add", {state_, b_.add("Mul", {n_.swapped(key, 2, 3), added})});
    // Queries that share a state are rows.
    ValueId query = at(q_, t);
    const Indices q = b_.shape_of(query), s = b_.shape_of(state_);
    if (form_.query_heads > form_.heads) query = b_.reshaped(query, {q[0], form_.heads, form_.query_heads / form_.heads, q[3]});
    const ValueId result = b_.add("MatMul", {query, state_});
    return b_.reshaped(result, {q[0], 1, std::max(form_.query_heads, form_.heads) * s[3]});
  }

  ContribNode& n_;
  GraphBuilder& b_;
  const LinearAttentionForm form_;
  DataType type_ = DataType::kFloat;
  ValueId q_ = kNoGradient, k_ = kNoGradient, v_ = kNoGradient, decay_ = kNoGradient, rate_ = kNoGradient,
          state_ = kNoGradient;  // [batch, heads, length, size], the state [batch, heads, size of k, size of v]
};

Results linear_attention(ContribNode& n, std::string& reason) {
  const LinearAttentionForm form = linear_attention_form(n.source);
  for (const std::size_t i : {0, 1, 2}) n.require_rank(i, 3);
  const Index length = n.shape(0)[1], width = n.shape(0)[2], value = n.shape(2)[2];
  if (n.source.integer("state_window", 0) != 0)
    reason = "states of several positions are not known";
  else if (!length.is_constant() || length.value() < 1 || length.value() > kMostPositions)
    reason = "the number of its positions is not known, or too large for a graph of all of them";
  else if (!width.is_constant() || !value.is_constant())
    reason = "the size of its heads is not known";
  else if (!n.has(3) && n.type(0) != DataType::kFloat)
    reason = "the type of its state is not known";
  if (!reason.empty()) return std::nullopt;
  n.require(width.value() % form.query_heads == 0 && width.value() > 0,
            width.to_string() + " columns cannot be divided into " + std::to_string(form.query_heads) + " heads");
  const Index size = width.value() / form.query_heads;
  const auto [y, state] = Recurrence(n, form, size).run(length.value(), attention_scale(n.source, size));
  return n.results({y, state});
}

// decay_scale * Softplus(a + dt_bias), and Sigmoid(b).
Results linear_attention_gate(ContribNode& n, std::string&) {
  const auto wide = [&](std::size_t i) { return n.b.cast(n.input(i), DataType::kFloat); };
  const DataType type = n.type(0);
  const ValueId decay = n.b.add("Mul", {wide(2), n.b.add("Softplus", {n.b.add("Add", {wide(0), wide(1)})})});
  std::vector<ValueId> results{n.b.cast(decay, type)};
  if (n.has(3)) results.push_back(n.b.cast(n.b.add("Sigmoid", {wide(3)}), type));
  return n.results(results);
}

}  // namespace

void register_contrib_linear_attention(ContribOperators& c) {
  c.add("LinearAttention", linear_attention);
  c.add("LinearAttentionGate", linear_attention_gate);
}

}  // namespace rewright::operators
