// Transformers as exporters write them: products and bias additions separate, GELU decomposed.
#include <cmath>
#include <numbers>

#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

namespace {

constexpr std::int64_t kWidth = 768, kHeads = 12, kLayers = 12;

class Transformer {
 public:
  Transformer(Builder& builder, std::int64_t tokens) : b(builder), tokens_(tokens) {}

  // Vaswani et al., 2017, section 3.2; `mask` is added to the scores (kNoValue: none).
  ValueId attention(ValueId x, ValueId mask) {
    const std::int64_t head = kWidth / kHeads;
    const auto split = [&](ValueId v, Indices perm) {
      return b.transpose(b.reshape(v, {1, tokens_, kHeads, head}), std::move(perm));
    };
    const ValueId q = split(b.linear(x, kWidth), {0, 2, 1, 3}), k = split(b.linear(x, kWidth), {0, 2, 3, 1});
    const ValueId v = split(b.linear(x, kWidth), {0, 2, 1, 3});
    ValueId scores = b.node("Div", {b.node("MatMul", {q, k}), b.scalar(std::sqrt(static_cast<double>(head)))});
    if (mask != kNoValue) scores = b.add(scores, mask);
    const ValueId y = b.node("MatMul", {b.node("Softmax", {scores}, {{"axis", Index(-1)}}), v});
    return b.linear(b.reshape(b.transpose(y, {0, 2, 1, 3}), {1, tokens_, kWidth}), kWidth);
  }

  // x (1 + erf(x / sqrt 2)) / 2: Hendrycks and Gimpel, 2016.
  ValueId gelu_erf(ValueId x) {
    const ValueId e = b.node("Erf", {b.node("Div", {x, b.scalar(std::numbers::sqrt2)})});
    return b.mul(b.mul(x, b.add(e, b.scalar(1))), b.scalar(0.5));
  }
  // Its approximation by tanh, from the same paper.
  ValueId gelu_tanh(ValueId x) {
    const ValueId cube = b.node("Pow", {x, b.scalar(3)});
    const ValueId inner = b.add(x, b.mul(cube, b.scalar(0.044715)));
    const ValueId t = b.node("Tanh", {b.mul(inner, b.scalar(std::sqrt(2 / std::numbers::pi)))});
    return b.mul(b.mul(x, b.scalar(0.5)), b.add(t, b.scalar(1)));
  }

  // BERT's (Devlin et al., 2019).
  ValueId encoder_layer(ValueId x) {
    x = b.layer_norm(b.add(attention(x, kNoValue), x), 1e-12);
    return b.layer_norm(b.add(b.linear(gelu_erf(b.linear(x, 4 * kWidth)), kWidth), x), 1e-12);
  }

  ValueId embed(ValueId tokens, ValueId table) {
    const ValueId words = b.node("Gather", {table, tokens}, {{"axis", Index(0)}});
    return b.add(words, b.normal({1, tokens_, kWidth}, 0, 0.02));
  }

 private:
  Builder& b;
  std::int64_t tokens_;
};

}  // namespace

Graph build_bert_base(std::uint64_t seed) {
  constexpr std::int64_t kTokens = 128;
  Builder b(seed);
  Transformer t(b, kTokens);
  const ValueId tokens = b.input("input_ids", {1, kTokens}, DataType::kInt64);
  ValueId x = b.layer_norm(t.embed(tokens, b.normal({30522, kWidth}, 0, 0.02)), 1e-12);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) x = t.encoder_layer(x);
  b.output("last_hidden_state", x);
  return b.finish();
}

Graph build_bert_layer(std::uint64_t seed) {
  constexpr std::int64_t kTokens = 128;
  Builder b(seed);
  b.output("hidden_state", Transformer(b, kTokens).encoder_layer(b.input("input", {1, kTokens, kWidth})));
  return b.finish();
}

Graph build_gpt2(std::uint64_t seed) {
  constexpr std::int64_t kTokens = 64, kWords = 50257;
  Builder b(seed);
  Transformer t(b, kTokens);
  const ValueId tokens = b.input("input_ids", {1, kTokens}, DataType::kInt64);
  const ValueId table = b.normal({kWords, kWidth}, 0, 0.02);
  const ValueId mask = b.causal_mask(kTokens);
  ValueId x = t.embed(tokens, table);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    x = b.add(x, t.attention(b.layer_norm(x, 1e-5), mask));
    x = b.add(x, b.linear(t.gelu_tanh(b.linear(b.layer_norm(x, 1e-5), 4 * kWidth)), kWidth));
  }
  // The embedding table is used twice (Press and Wolf, 2017).
  b.output("logits", b.node("MatMul", {b.layer_norm(x, 1e-5), b.transpose(table, {1, 0})}));
  return b.finish();
}

Graph build_lora(std::uint64_t seed) {
  constexpr std::int64_t kAdapterLayers = 8, kRank = 16, kRows = 64;
  Builder b(seed);
  ValueId x = b.input("input", {kRows, kWidth});
  for (std::int64_t layer = 0; layer < kAdapterLayers; ++layer) {
    const ValueId adapted = b.mul(b.linear(b.linear(x, kRank, false), kWidth, false), b.scalar(2));
    x = b.relu(b.add(b.linear(x, kWidth), adapted));
  }
  b.output("output", x);
  return b.finish();
}

}  // namespace rewright::models
