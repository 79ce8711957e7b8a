// Attention with a cache, as a whole, beside the graph that the operator stands for.
#include <algorithm>
#include <random>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "runtime/cpu/testing/whole_calls.h"

using namespace rewright;
using namespace rewright::cpu;
using namespace rewright::testing;

namespace {

// A call of GroupQueryAttention with random attributes, sizes and optional inputs.
struct AttentionCase {
  std::int64_t batch, length, past, room, heads, shared, size, half;
  bool apart, has_past, rotates, has_positions, has_sinks, has_norms, evicts;
  std::string attributes, type = "float";  // of elements

  explicit AttentionCase(Random& random) {
    batch = pick(random, 1, 3), shared = pick(random, 1, 3), heads = shared * pick(random, 1, 4);
    const bool first = pick(random, 0, 2) == 0;
    length = pick(random, 0, 3) == 0 ? pick(random, 2, 70) : pick(random, 1, 3);
    past = first ? 0 : pick(random, 1, 300);
    room = past + (pick(random, 0, 1) == 0 ? 0 : length + pick(random, 0, 9));
    half = 4 * pick(random, 1, 3), size = 2 * half + (pick(random, 0, 3) == 0 ? 8 : 0);
    apart = pick(random, 0, 1) == 0, has_past = !first || pick(random, 0, 1) == 0;
    if (!has_past) room = 0;
    rotates = pick(random, 0, 2) > 0, has_positions = rotates && pick(random, 0, 2) == 0;
    attributes = "num_heads = " + std::to_string(heads) + ", kv_num_heads = " + std::to_string(shared);
    if (rotates) attributes += ", do_rotary = 1";
    if (rotates && pick(random, 0, 2) == 0) attributes += ", rotary_interleaved = 1";
    evicts = has_past && pick(random, 0, 3) == 0;
    const std::int64_t window = pick(random, 1, 40);
    if (evicts) room = window + pick(random, 0, 1) * pick(random, 0, 60), attributes += ", sliding_window_cache = 1";
    if (evicts || pick(random, 0, 2) == 0) attributes += ", local_window_size = " + std::to_string(window);
    if (pick(random, 0, 2) == 0) attributes += ", softcap = 2.5";
    if (pick(random, 0, 2) == 0) attributes += ", scale = 0.3";
    has_sinks = pick(random, 0, 2) == 0, has_norms = pick(random, 0, 2) == 0;
    if (!has_sinks && pick(random, 0, 2) == 0) attributes += ", smooth_softmax = 1";
    if (has_norms && pick(random, 0, 1) == 0) attributes += ", qk_norm_epsilon = 0.01";
  }

  std::int64_t total() const { return past + length; }
  Sizes cache(std::int64_t positions) const { return {batch, shared, positions, size}; }

  Graph graph() const {
    const std::int64_t width = (apart ? heads : heads + 2 * shared) * size;
    std::string inputs = type + in_brackets({batch, length, width}) + " q", operands = "q";
    const auto add = [&](bool present, const std::string& text, const std::string& name) {
      if (present) inputs += ", " + text + " " + name;
      operands += present ? ", " + name : ", ";
    };
    add(apart, type + in_brackets({batch, length, shared * size}), "k");
    add(apart, type + in_brackets({batch, length, shared * size}), "v");
    add(has_past, type + in_brackets(cache(room)), "pk");
    add(has_past, type + in_brackets(cache(room)), "pv");
    add(true, "int32" + in_brackets({batch}), "last");
    operands += ", total";
    add(rotates, type + in_brackets({400, half}), "c");
    add(rotates, type + in_brackets({400, half}), "s");
    add(has_positions, "int64" + in_brackets({batch, length}), "at");
    operands += ", ";
    add(has_sinks, type + in_brackets({heads}), "sinks");
    operands += ", , ";
    add(has_norms, type + in_brackets({size}), "nq");
    add(has_norms, type + in_brackets({size}), "nw");
    return import_onnx_bytes(
        text_bytes("agraph (" + inputs + ") => (" + type + "[A, B, C] y, " + type + "[D, E, F, G] nk, " + type +
                       "[H, I, J, K] nv) {\n" + "length = Constant <value_int = " + std::to_string(total()) +
                       "> ()\ntotal = Cast <to = 6> (length)\n" + "y, nk, nv = com.microsoft.GroupQueryAttention <" +
                       attributes + "> (" + operands + ")\n}",
                   21, ", \"com.microsoft\" : 1"),
        "attention");
  }

  std::vector<Tensor> inputs(const Graph& graph, Random& random) const {
    std::vector<Tensor> result;
    for (const ValueId id : graph.inputs()) {
      const Value& value = graph.value(id);
      const Sizes sizes = values(value.type.shape);
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < element_count(sizes); ++i)
        numbers.push_back(value.name == "last" ? total() - 1 : pick(random, 0, 399));
      result.push_back(is_real(value.type.type) ? random_tensor(random, value.type.type, sizes)
                                                : Tensor::from_integers(value.type.type, sizes, numbers));
    }
    return result;
  }
};

}  // namespace

TEST_CASE("attention with a cache computes what its graph does") {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    const AttentionCase c(random);
    CAPTURE(round, c.batch, c.length, c.past, c.room, c.heads, c.shared, c.size, c.attributes, c.apart, c.has_past,
            c.has_positions, c.has_sinks, c.has_norms, c.evicts);
    const Graph graph = c.graph();
    check_whole_call(graph, CachedAttention::kName, c.inputs(graph, random), {2e-5});
  }
}

TEST_CASE("attention with a cache of 16 bits computes what its graph does") {
  Random random(7);
  for (int round = 0; round < 30; ++round) {
    AttentionCase c(random);
    c.type = round % 3 == 0 ? "bfloat16" : "float16";
    CAPTURE(round, c.batch, c.length, c.past, c.room, c.heads, c.shared, c.size, c.attributes, c.apart, c.has_past,
            c.has_positions, c.has_sinks, c.has_norms, c.evicts);
    const Graph graph = c.graph();
    check_whole_call(graph, CachedAttention::kName, c.inputs(graph, random), {c.type == "float16" ? 1e-2 : 8e-2, 0, 1});
  }
}

TEST_CASE("attention with a cache: lengths and positions that do not fit") {
  Random random(6);
  AttentionCase c(random);
  c.batch = 1, c.length = 2, c.past = 3, c.room = 5, c.rotates = true, c.has_past = true, c.has_positions = true;
  c.has_sinks = false, c.has_norms = false, c.evicts = false;
  c.attributes = "num_heads = " + std::to_string(c.heads) + ", kv_num_heads = " + std::to_string(c.shared) + ", do_rotary = 1";
  const Graph graph = c.graph();
  std::vector<Tensor> inputs = c.inputs(graph, random);
  const auto session = cpu_backend().prepare(graph, {});
  const auto set = [&](const std::string& name, std::int64_t number) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph.value(graph.inputs()[i]);
      const std::vector<std::int64_t> numbers(static_cast<std::size_t>(inputs[i].size()), number);
      if (value.name == name) inputs[i] = Tensor::from_integers(value.type.type, inputs[i].sizes(), numbers);
    }
  };
  session->run(inputs);
  for (const std::int64_t last : {0, 5, 1000000, -7}) {
    set("last", last);
    CHECK_THROWS_WITH(session->run(inputs), Catch::Contains("ends at position " + std::to_string(last)));
  }
  set("last", 4);
  set("at", 400);
  CHECK_THROWS_WITH(session->run(inputs), Catch::Contains("beyond the rotation's table"));
  set("at", 399);
  session->run(inputs);
}
