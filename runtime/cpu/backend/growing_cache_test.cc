// One plan for all lengths of a cache: the bits of a plan made for each.
#include "runtime/cpu/backend/growing_cache.h"

#include <random>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::cpu_backend;
using rewright::testing::random_tensor;
using rewright::testing::require_close;

namespace {

// Two layers of a decoder as onnxruntime-genai writes it: a mask that counts, products, attention with a cache.
constexpr const char* kDecoder = R"(
agraph (float[B, S, 32] x, int64[B, T] mask, float[B, 2, P, 8] pk0, float[B, 2, P, 8] pv0, float[B, 2, P, 8] pk1,
        float[B, 2, P, 8] pv1, float[32, 64] w, float[32, 32] u, float[200, 4] c, float[200, 4] s)
    => (float[B, S, 32] y, float[B, 2, K, 8] nk0, float[B, 2, K, 8] nv0, float[B, 2, K, 8] nk1, float[B, 2, K, 8] nv1) {
  one = Constant <value = int64[1] {1}> ()
  ones = ReduceSum <keepdims = 0> (mask, one)
  less = Sub (ones, one)
  last = Cast <to = 6> (less)
  shape = Shape (mask)
  at = Constant <value = int64 {1}> ()
  count = Gather <axis = 0> (shape, at)
  total = Cast <to = 6> (count)
  qkv0 = MatMul (x, w)
  a0, nk0, nv0 = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (qkv0, , , pk0, pv0, last, total, c, s)
  o0 = MatMul (a0, u)
  h = Add (o0, x)
  qkv1 = MatMul (h, w)
  a1, nk1, nv1 = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (qkv1, , , pk1, pv1, last, total, c, s)
  o1 = MatMul (a1, u)
  y = Add (o1, h)
}
)";

struct Decoder {
  Graph graph = import_onnx_bytes(text_bytes(kDecoder, 21, ", \"com.microsoft\" : 1"), "decoder");
  std::mt19937 random{3};
  std::vector<Tensor> weights;

  // `used` of `room` positions of the cache are filled.
  std::vector<Tensor> inputs(std::int64_t batch, std::int64_t length, std::int64_t used, std::int64_t room) {
    std::vector<Tensor> result;
    for (const ValueId id : graph.inputs()) {
      const Value& value = graph.value(id);
      const std::size_t i = result.size();
      if (value.name == "mask")
        result.push_back(
            Tensor::from_integers(DataType::kInt64, {batch, used + length},
                                  std::vector<std::int64_t>(static_cast<std::size_t>(batch * (used + length)), 1)));
      else if (value.name == "x")
        result.push_back(random_tensor(random, DataType::kFloat, {batch, length, 32}));
      else if (value.name[0] == 'p')
        result.push_back(random_tensor(random, DataType::kFloat, {batch, 2, room, 8}));
      else
        result.push_back(weight(i, value.type.shape));
    }
    return result;
  }

 private:
  // Small weights: the exponentials of large scores would multiply their rounding.
  Tensor weight(std::size_t i, const Indices& shape) {
    if (weights.size() <= i) weights.resize(i + 1);
    if (!weights[i]) weights[i] = random_tensor(random, DataType::kFloat, values(shape), -0.2, 0.2);
    return weights[i];
  }
};

// The bits of results.
std::vector<std::vector<std::byte>> bits_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<std::byte>> result;
  for (const Tensor& t : tensors) result.emplace_back(t.bytes().begin(), t.bytes().end());
  return result;
}

}  // namespace

TEST_CASE("a cache that grows is found, with the few nodes that depend on its length") {
  const Decoder decoder;
  const auto found = find_growing_cache(with_whole_operators(decoder.graph));
  REQUIRE(found);
  REQUIRE(found->before.nodes().size() == 1);  // its results have no open sizes but B
  CHECK(found->before.nodes()[0]->op->name() == "ReduceSum");
  CHECK(found->rest.inputs().size() == decoder.graph.inputs().size() + 1);
  CHECK(found->past == Index::symbol("P"));
  CHECK(found->total == Index::symbol("T"));
}

TEST_CASE("one plan for all lengths of a cache gives the bits of a plan for each") {
  Decoder decoder;
  SessionOptions options;
  const auto session = cpu_backend().prepare(decoder.graph, options);
  std::mt19937 random(4);
  for (int round = 0; round < 24; ++round) {
    const std::int64_t batch = round % 5 == 4 ? 2 : 1, length = round % 6 == 5 ? 20 : 1 + round % 3;
    const std::int64_t used = round % 7 == 0 ? 0 : static_cast<std::int64_t>(random() % 150);
    const std::int64_t room = round % 4 == 3 ? 180 : used;
    CAPTURE(round, batch, length, used, room);
    const std::vector<Tensor> inputs = decoder.inputs(batch, length, used, room);
    const std::vector<Tensor> actual = session->run(inputs);
    require_close(decoder.graph, actual, interpret(decoder.graph, inputs), {1e-5});
    const auto fresh = cpu_backend().prepare(decoder.graph, options);  // its first plan is for these sizes
    CHECK(bits_of(actual) == bits_of(fresh->run(inputs)));
  }
}

TEST_CASE("the present is written to the memory of the past") {
  Decoder decoder;
  SessionOptions options;
  for (std::size_t o = 1; o <= 4; ++o) options.replacements.push_back({o + 1, o});
  const auto session = cpu_backend().prepare(decoder.graph, options), plain = cpu_backend().prepare(decoder.graph, {});
  std::vector<Tensor> caches, expected_caches;
  for (int step = 0; step < 30; ++step) {
    CAPTURE(step);
    const std::int64_t length = step == 0 ? 9 : 1, used = step == 0 ? 0 : 8 + step;
    std::vector<Tensor> inputs = decoder.inputs(1, length, used, 64), copies = inputs;
    for (std::size_t c = 0; c < 4 && step > 0; ++c) inputs[c + 2] = std::move(caches[c]), copies[c + 2] = expected_caches[c];
    std::vector<const std::byte*> before;
    for (std::size_t c = 0; c < 4; ++c) before.push_back(inputs[c + 2].bytes().data());
    const std::vector<Tensor> expected = plain->run(copies);
    std::vector<Tensor> actual = session->advance(std::move(inputs));
    CHECK(bits_of({actual[0]}) == bits_of({expected[0]}));
    expected_caches.assign(expected.begin() + 1, expected.end());
    for (std::size_t c = 0; c < 4; ++c) CHECK(actual[c + 1].bytes().data() == before[c]);
    caches.assign(std::make_move_iterator(actual.begin() + 1), std::make_move_iterator(actual.end()));
  }
}
