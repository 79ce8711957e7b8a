// Attention in whole sessions: recognized by its denotation, computed by a library or by separate kernels.
#include <catch2/catch.hpp>
#include <functional>

#include "runtime/cuda/driver/library_shapes.h"
#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/testing/tested_graph.h"

namespace rewright::cuda {

namespace {

// softmax(q k / 8 + mask) v for several heads, which are adjacent in the rows of the surrounding projections.
enum class Mask { kNone, kAdded, kByColumn, kChosen, kCausal, kCausalChoice, kComputed };
void add_attention(TestedGraph& b, DataType type, Mask mask, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                   std::int64_t keys) {
  constexpr std::int64_t kDepth = 8;
  const bool causal = mask == Mask::kCausal || mask == Mask::kCausalChoice;
  if (causal) keys = queries;
  const auto split = [&](std::int64_t length, std::initializer_list<std::int64_t> order) {
    const ValueId x = b.input(type, {batch, length, heads * kDepth});
    return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", indices({batch, length, heads, kDepth})}})},
                  {{"perm", indices(order)}});
  };
  const auto number = [&](double value) { return b.graph.add_constant(Tensor::scalar(type, value)); };
  ValueId s = b.node("MatMul", {split(queries, {0, 2, 1, 3}), split(keys, {0, 2, 3, 1})});
  if (mask != Mask::kByColumn) s = b.node("Div", {s, number(8)});
  const auto triangle = [&](DataType of, double below, double above) {
    std::vector<double> elements;
    for (std::int64_t r = 0; r < queries; ++r)
      for (std::int64_t c = 0; c < keys; ++c) elements.push_back(c <= r ? below : above);
    return b.graph.add_constant(Tensor::from_reals(of, {1, 1, queries, keys}, elements));
  };
  if (mask == Mask::kAdded) s = b.node("Add", {b.input(type, {batch, 1, queries, keys}), s});
  if (mask == Mask::kByColumn) s = b.node("Add", {s, b.input(type, {1, 1, 1, keys})});
  if (mask == Mask::kChosen) s = b.node("Where", {b.input(DataType::kBool, {batch, 1, 1, keys}, 0, 2), s, number(-3e4)});
  if (mask == Mask::kCausal) s = b.node("Add", {s, triangle(type, 0, -6e4)});
  if (mask == Mask::kCausalChoice) s = b.node("Where", {triangle(DataType::kBool, 0, 1), number(-6e4), s});
  if (mask == Mask::kComputed) s = b.node("Add", {s, b.node("Mul", {b.input(type, {batch, 1, 1, keys}), number(-2)})});
  s = b.node("Softmax", {s}, {{"axis", Index(3)}});
  const ValueId y = b.node("Transpose", {b.node("MatMul", {s, split(keys, {0, 2, 1, 3})})}, {{"perm", indices({0, 2, 1, 3})}});
  const ValueId joined = b.node("Reshape", {y}, {{"shape", indices({batch, queries, heads * kDepth})}});
  const Tensor weights = random_tensor(b.random, type, {heads * kDepth, 4}, -1, 1);
  b.output(b.node("MatMul", {joined, b.graph.add_constant(weights)}));
}

const AttentionShape* attention_in(const Plan& plan) {
  const AttentionShape* found = nullptr;
  for (const LibraryStep* step : library_steps(plan))
    if (const auto* a = std::get_if<AttentionShape>(&step->shape)) found = a;
  return found;
}

// Can the first step be one generated kernel, after at most one for the mask?
bool is_one_kernel(const Plan& plan) {
  const auto* const ways = std::get_if<EitherStep>(&plan.steps.front().work);
  const auto is_kernel = [](const Step& step) { return std::holds_alternative<KernelStep>(step.work); };
  return ways != nullptr && std::any_of(ways->alternatives.begin(), ways->alternatives.end(), [&](const auto& a) {
           return a.steps.size() <= 2 && std::all_of(a.steps.begin(), a.steps.end(), is_kernel);
         });
}

template <class Use>
void for_each_attention(const Use& use) {
  unsigned seed = 20;
  for (const Mask mask :
       {Mask::kNone, Mask::kAdded, Mask::kByColumn, Mask::kChosen, Mask::kCausal, Mask::kCausalChoice, Mask::kComputed})
    for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
      CAPTURE(static_cast<int>(mask), name(type));
      TestedGraph b(++seed);
      add_attention(b, type, mask, b.pick(1, 2), b.pick(2, 3), b.pick(2, 6), b.pick(2, 6));
      const double tolerance = type == DataType::kHalf ? 2e-2 : 1e-1;  // only one of the two ways rounds scores
      use(b, mask, type, tolerance);
    }
}

}  // namespace

TEST_CASE("attention is one operation of a library's, or products and a softmax") {
  for_each_attention([](TestedGraph& b, Mask mask, DataType, double tolerance) {
    const Plan plan = make_plan(b.graph);
    const AttentionShape* const a = attention_in(plan);
    REQUIRE(a != nullptr);
    const bool causal = mask == Mask::kCausal || mask == Mask::kCausalChoice;
    CHECK(a->causal == causal);
    CHECK(a->mask.empty() == (causal || mask == Mask::kNone));
    CHECK(a->scale == (mask == Mask::kByColumn ? 1 : 0.125));
    // No moves are needed before or after, since heads are adjacent.
    CHECK(a->q == std::vector<std::int64_t>{a->queries * a->heads * 8, 8, a->heads * 8, 1});
    CHECK(a->k == std::vector<std::int64_t>{a->keys * a->heads * 8, 8, 1, a->heads * 8});
    CHECK(a->y == a->q);
    CHECK(plan.steps.size() == 2);
    b.check(true, tolerance);
  });
}

TEST_CASE("a library's attention is used where it is there and fast", "[host]") {
  for_each_attention([](TestedGraph& b, Mask, DataType type, double tolerance) {
    if (type == DataType::kBfloat16) return;
    const auto slow = [](const LibraryShape& s) { return std::holds_alternative<AttentionShape>(s) ? 100.0 : 0.5; };
    const HostDriverOptions with_slow{.seconds = slow}, with_none{.libraries = false};
    for (const int which : {0, 1, 2}) {
      const HostDriverOptions options = which == 0 ? HostDriverOptions{} : which == 1 ? with_slow : with_none;
      const auto report = std::make_shared<HostDriverReport>();
      const auto session = make_session(make_host_driver(options, report), b.graph, {}, {});
      b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), tolerance);
      CHECK(report->recorded_last.contains("attention") == (which == 0));
    }
  });
}

TEST_CASE("attention of few queries is one generated kernel, in float too", "[host]") {
  unsigned seed = 70;
  for (const Mask mask : {Mask::kNone, Mask::kAdded, Mask::kByColumn, Mask::kChosen, Mask::kCausal, Mask::kComputed})
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
      TestedGraph b(++seed);
      const std::int64_t queries = b.pick(1, 10), keys = b.pick(1, 300);
      CAPTURE(static_cast<int>(mask), name(type), queries, keys);
      add_attention(b, type, mask, b.pick(1, 2), b.pick(1, 3), queries, keys);
      const auto slow = [](const LibraryShape& s) { return std::holds_alternative<AttentionShape>(s) ? 100.0 : 5.0; };
      const auto report = std::make_shared<HostDriverReport>();
      const auto session = make_session(make_host_driver({.seconds = slow}, report), b.graph, {}, {.in_streams = false});
      const double tolerance = type == DataType::kFloat ? 2e-5 : type == DataType::kHalf ? 2e-2 : 1e-1;
      b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), tolerance);
      const Plan plan = make_plan(b.graph);
      const bool alone = queries <= 8;
      if (mask != Mask::kCausal && keys > 1 && (alone || type != DataType::kFloat)) CHECK(plan.steps.size() == 2);
      CHECK(is_one_kernel(plan) == alone);
    }
}

TEST_CASE("heads of keys that several heads of queries share are attention of few queries", "[host]") {
  for (unsigned seed = 120; seed < 132; ++seed) {
    TestedGraph b(seed);
    const DataType type = seed % 3 == 0 ? DataType::kHalf : DataType::kFloat;
    const std::int64_t batch = b.pick(1, 2), heads = b.pick(1, 3), shared = b.pick(1, 4), queries = b.pick(1, 3),
                       keys = b.pick(2, 90);
    CAPTURE(batch, heads, shared, queries, keys);
    constexpr std::int64_t kDepth = 8;
    ValueId q = b.input(type, {batch, heads * shared, queries, kDepth});
    q = b.node("Reshape", {q}, {{"shape", indices({batch, heads, shared, queries, kDepth})}});
    const auto cached = [&] {
      return b.node("Reshape", {b.input(type, {batch, heads, keys, kDepth})},
                    {{"shape", indices({batch, heads, 1, keys, kDepth})}});
    };
    ValueId s = b.node("MatMul", {q, b.node("Transpose", {cached()}, {{"perm", indices({0, 1, 2, 4, 3})}})});
    s = b.node("Mul", {s, b.graph.add_constant(Tensor::scalar(type, 0.25))});
    const bool of_all_heads = b.pick(0, 1) == 0;
    const ValueId seen = b.input(DataType::kBool, {batch, 1, of_all_heads ? 1 : shared, queries, keys}, 0, 2);
    s = b.node("Where", {seen, s, b.graph.add_constant(Tensor::scalar(type, -6e4))});
    ValueId y = b.node("MatMul", {b.node("Softmax", {s}, {{"axis", Index(4)}}), cached()});
    y = b.node("Transpose", {b.node("Reshape", {y}, {{"shape", indices({batch, heads * shared, queries, kDepth})}})},
               {{"perm", indices({0, 2, 1, 3})}});
    b.output(b.node("Reshape", {y}, {{"shape", indices({batch, queries, heads * shared * kDepth})}}));
    const auto slow = [](const LibraryShape&) { return 100.0; };
    const auto session = make_session(make_host_driver({.seconds = slow}), b.graph, {}, {});
    b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), type == DataType::kFloat ? 2e-5 : 2e-2);
    const bool of_some_heads = !of_all_heads && heads > 1 && shared > 1;
    CHECK(is_one_kernel(make_plan(b.graph)) == !of_some_heads);
  }
}

TEST_CASE("what is no attention stays apart") {
  const auto found = [](const std::function<void(TestedGraph&)>& make) {
    TestedGraph b(41);
    make(b);
    return attention_in(make_plan(b.graph)) != nullptr;
  };
  const auto attention = [](TestedGraph& b, DataType type, std::int64_t axis, bool shown, double factor_behind) {
    const ValueId keys = b.node("Transpose", {b.input(type, {2, 3, 4, 8})}, {{"perm", indices({0, 1, 3, 2})}});
    const ValueId scores = b.node("MatMul", {b.input(type, {2, 3, 4, 8}), keys});
    ValueId s = b.node("Softmax", {scores}, {{"axis", Index(axis)}});
    if (factor_behind != 1) s = b.node("Mul", {s, b.graph.add_constant(Tensor::scalar(type, factor_behind))});
    b.output(b.node("MatMul", {s, b.input(type, {2, 3, 4, 8})}));
    if (shown) b.output(scores);
  };
  CHECK(found([&](TestedGraph& b) { attention(b, DataType::kHalf, 3, false, 1); }));
  CHECK_FALSE(found([&](TestedGraph& b) { attention(b, DataType::kFloat, 3, false, 1); }));
  CHECK_FALSE(found([&](TestedGraph& b) { attention(b, DataType::kHalf, 2, false, 1); }));
  CHECK_FALSE(found([&](TestedGraph& b) { attention(b, DataType::kHalf, 3, true, 1); }));
  CHECK_FALSE(found([&](TestedGraph& b) { attention(b, DataType::kHalf, 3, false, 2); }));
}

}  // namespace rewright::cuda
