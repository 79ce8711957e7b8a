// LinearAttention, an operator of ONNX Runtime's domain com.microsoft, position by position: where there are too many positions
// for a graph of them, or their number is not known.
#include "operators/procedures/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "operators/procedures/procedures.h"

namespace rewright::operators {

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::kBadInput, what);
}

class LinearAttentionRun {
 public:
  explicit LinearAttentionRun(Call& call)
      : call_(call), form_(linear_attention_form(call)), q_(input(0, 3)), k_(input(1, 3)), v_(input(2, 3)) {
    if (call.integer("state_window", 0) != 0) throw Error(ErrorCode::kUnsupported, "states of several positions are not known");
    batch_ = q_.sizes[0], length_ = q_.sizes[1];
    key_size_ = parts(q_.sizes[2], form_.query_heads), value_size_ = parts(v_.sizes[2], form_.heads);
    require(key_size_ > 0, "its queries have no columns");
    key_heads_ = parts(k_.sizes[2], key_size_);  // how many sizes there are in a row
    require(key_heads_ > 0 && form_.heads % key_heads_ == 0,
            std::to_string(key_heads_) + " heads of keys cannot be shared by " + std::to_string(form_.heads));
    for (const Given* given : {&k_, &v_}) require_rows(*given);
    if (form_.decays) {
      decay_ = input(4, 3);
      require_rows(decay_);
      decays_ = parts(decay_.sizes[2], form_.heads);
      require(decays_ == 1 || decays_ == key_size_, "its decay has " + std::to_string(decay_.sizes[2]) + " columns");
    }
    if (!form_.is_delta) return;
    rate_ = input(5, 3);
    require_rows(rate_);
    require(rate_.sizes[2] == 1 || rate_.sizes[2] == form_.heads,
            "its rate has " + std::to_string(rate_.sizes[2]) + " columns");
  }

  void run() {
    const Sizes sizes{batch_, form_.heads, key_size_, value_size_};
    Tensor state(DataType::kFloat, sizes);
    const std::span<float> all = state.mutable_data<float>();
    if (call_.has_input(3)) {
      const Given past = input(3, 4);
      require(call_.tensor(3).sizes() == sizes, "its state has other sizes than its keys and values");
      std::ranges::copy(past.data, all.begin());
    } else {
      std::ranges::fill(all, 0.0f);
    }
    const double given = call_.real("scale", 0);
    scale_ = static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(key_size_)));
    const std::int64_t results = std::max(form_.query_heads, form_.heads);
    Tensor y(DataType::kFloat, {batch_, length_, results * value_size_});
    added_.resize(static_cast<std::size_t>(value_size_));
    const auto matrix = static_cast<std::size_t>(key_size_ * value_size_);
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t h = 0; h < form_.heads; ++h)
        for (std::int64_t t = 0; t < length_; ++t) {
          if (t % 64 == 0) call_.checkpoint();
          const std::span<float> s = all.subspan(static_cast<std::size_t>(b * form_.heads + h) * matrix, matrix);
          update(s, b, t, h);
          const std::int64_t each = std::max<std::int64_t>(1, form_.query_heads / form_.heads);
          for (std::int64_t r = h * each; r < (h + 1) * each; ++r) {
            const std::int64_t query = form_.query_heads >= form_.heads ? r : r / (form_.heads / form_.query_heads);
            const auto at = static_cast<std::size_t>(((b * length_ + t) * results + r) * value_size_);
            read(s, head(q_, b, t, query, key_size_),
                 y.mutable_data<float>().subspan(at, static_cast<std::size_t>(value_size_)));
          }
        }
    call_.give(std::move(y));
    call_.give(std::move(state));
  }

 private:
  struct Given {
    std::span<const float> data{};
    Sizes sizes{};
  };

  Given input(std::size_t i, std::size_t rank) const {
    const Tensor& tensor = call_.tensor(i);
    if (tensor.type() != DataType::kFloat)
      throw Error(ErrorCode::kUnsupported, "its input " + std::to_string(i) + " has no elements of type float");
    require(tensor.sizes().size() == rank, "its input " + std::to_string(i) + " has rank " +
                                               std::to_string(tensor.sizes().size()) + ", must be " + std::to_string(rank));
    return {tensor.data<float>(), tensor.sizes()};
  }
  static std::int64_t parts(std::int64_t columns, std::int64_t count) {
    require(columns % count == 0, std::to_string(columns) + " columns cannot be divided by " + std::to_string(count));
    return columns / count;
  }
  void require_rows(const Given& given) const {
    require(given.sizes[0] == batch_ && given.sizes[1] == length_, "its inputs have other numbers of positions");
  }
  std::span<const float> head(const Given& given, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t size) const {
    const std::int64_t row = (b * length_ + t) * given.sizes[2] + h * size;
    return given.data.subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(size));
  }

  // The state of a head after position t.
  void update(std::span<float> s, std::int64_t b, std::int64_t t, std::int64_t h) {
    const auto width = static_cast<std::size_t>(value_size_);
    const std::span<const float> key = head(k_, b, t, h / (form_.heads / key_heads_), key_size_),
                                 value = head(v_, b, t, h, value_size_);
    if (form_.decays) {
      const std::span<const float> decay = head(decay_, b, t, h, decays_);
      float factor = std::exp(decay[0]);
      for (std::size_t d = 0; d < key.size(); ++d) {
        if (decays_ > 1 && d > 0) factor = std::exp(decay[d]);
        for (float& element : s.subspan(d * width, width)) element *= factor;
      }
    }
    std::ranges::copy(value, added_.begin());
    if (form_.is_delta) {
      std::vector<float> known(width, 0.0f);
      accumulate(s, key, known);
      const float rate = head(rate_, b, t, rate_.sizes[2] == 1 ? 0 : h, 1)[0];
      for (std::size_t e = 0; e < width; ++e) added_[e] = rate * (added_[e] - known[e]);
    }
    for (std::size_t d = 0; d < key.size(); ++d)
      for (std::size_t e = 0; e < width; ++e) s[d * width + e] += key[d] * added_[e];
  }

  void read(std::span<const float> s, std::span<const float> query, std::span<float> y) const {
    std::ranges::fill(y, 0.0f);
    accumulate(s, query, y);
    for (float& element : y) element *= scale_;
  }

  // y += x S
  static void accumulate(std::span<const float> s, std::span<const float> x, std::span<float> y) {
    for (std::size_t d = 0; d < x.size(); ++d)
      for (std::size_t e = 0; e < y.size(); ++e) y[e] += x[d] * s[d * y.size() + e];
  }

  Call& call_;
  const LinearAttentionForm form_;
  Given q_, k_, v_, decay_, rate_;
  std::int64_t batch_ = 0, length_ = 0, key_size_ = 0, value_size_ = 0, key_heads_ = 0, decays_ = 1;
  float scale_ = 1;
  std::vector<float> added_;
};

void run_linear_attention(Call& call) { LinearAttentionRun(call).run(); }

Procedure::KnownTypes infer_linear_attention(const OnnxAttributes& source, const Procedure::KnownTypes& inputs, std::size_t) {
  const LinearAttentionForm form = linear_attention_form(source);
  if (inputs.size() < 3 || !inputs[0] || !inputs[2]) return {std::nullopt, std::nullopt};
  const Sizes &q = inputs[0]->sizes, &v = inputs[2]->sizes;
  if (q.size() != 3 || v.size() != 3) return {std::nullopt, std::nullopt};
  const std::int64_t key = q[2] < 0 ? -1 : q[2] / form.query_heads, value = v[2] < 0 ? -1 : v[2] / form.heads;
  std::int64_t columns = -1;
  if (value >= 0 && __builtin_mul_overflow(value, std::max(form.query_heads, form.heads), &columns))
    return {std::nullopt, std::nullopt};
  const DataType state = inputs.size() > 3 && inputs[3] ? inputs[3]->type : inputs[0]->type;
  return {{{inputs[0]->type, {q[0], q[1], columns}}}, {{state, {q[0], form.heads, key, value}}}};
}

}  // namespace

LinearAttentionForm linear_attention_form(const OnnxAttributes& source) {
  LinearAttentionForm form;
  form.query_heads = source.integer("q_num_heads", 0), form.heads = source.integer("kv_num_heads", 0);
  for (const std::int64_t heads : {form.query_heads, form.heads})
    require(heads > 0, "a number of heads is " + std::to_string(heads) + ", must be positive");
  require(form.query_heads % form.heads == 0 || form.heads % form.query_heads == 0,
          std::to_string(form.query_heads) + " heads of queries cannot share " + std::to_string(form.heads));
  const std::string rule = source.text("update_rule", "gated_delta");
  form.decays = rule == "gated" || rule == "gated_delta", form.is_delta = rule == "delta" || rule == "gated_delta";
  require(form.decays || form.is_delta || rule == "linear",
          "update_rule is " + rule + ", must be linear, gated, delta or gated_delta");
  return form;
}

void register_linear_attention(Procedures& p) {
  p.add_foreign("com.microsoft", "LinearAttention", {.run = run_linear_attention, .infer = infer_linear_attention});
}

}  // namespace rewright::operators
