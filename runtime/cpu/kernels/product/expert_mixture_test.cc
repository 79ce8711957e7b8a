// Mixtures of experts, as a whole, beside the graph that the operator stands for.
#include <limits>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "runtime/cpu/testing/whole_calls.h"

using namespace rewright;
using namespace rewright::cpu;
using namespace rewright::testing;

namespace {

// A call of MoE or QMoE with random attributes, sizes and optional inputs.
struct MixtureCase {
  std::int64_t rows, width, inner, experts, chosen, bits, block;
  bool gated, rounded = false;
  std::string attributes, constants, operands;

  explicit MixtureCase(Random& random) {
    rows = std::vector<std::int64_t>{1, 2, 6, 90}[static_cast<std::size_t>(pick(random, 0, 3))];
    experts = pick(random, 1, 7), chosen = pick(random, 1, experts);
    bits = std::vector<std::int64_t>{0, 2, 4, 8}[static_cast<std::size_t>(pick(random, 0, 3))];
    block = bits == 0 || pick(random, 0, 2) == 0 ? 0 : std::int64_t{16} << pick(random, 0, 2);
    width = 4 * pick(random, 1, 30), inner = 4 * pick(random, 1, 30);
    const std::string kind =
        std::vector<std::string>{"relu", "gelu", "silu", "identity", "swiglu"}[static_cast<std::size_t>(pick(random, 0, 4))];
    gated = kind == "swiglu";
    attributes = "k = " + std::to_string(chosen) + ", activation_type = \"" + kind + "\"";
    if (pick(random, 0, 1) == 0) attributes += ", normalize_routing_weights = 1";
    if (gated) attributes += ", swiglu_fusion = " + std::to_string(pick(random, 1, 2));
    if (gated && pick(random, 0, 1) == 0) attributes += ", activation_alpha = 1.702, activation_beta = 1.0, swiglu_limit = 0.7";
    const std::int64_t hidden = gated ? 2 * inner : inner;
    operands = "x, scores";
    if (bits == 0) {
      for (const auto& [to, from] : {std::pair{hidden, width}, std::pair{width, inner}}) {
        add("float", {experts, to, from}, random);
        maybe("float", {experts, to}, random);
      }
      return;
    }
    attributes += ", expert_weight_bits = " + std::to_string(bits) + ", block_size = " + std::to_string(block);
    rounded = pick(random, 0, 3) == 0;
    if (rounded) attributes += ", accuracy_level = 4";
    const auto blocks = [&](std::int64_t from) { return (from + block - 1) / block; };
    const auto layers = {std::pair{hidden, width}, std::pair{width, inner}};
    for (const auto& [to, from] : layers) {
      add("uint8", {experts, to, from * bits / 8}, random);
      add("float", block == 0 ? Sizes{experts, to} : Sizes{experts, to, blocks(from)}, random);
      maybe("float", {experts, to}, random);
    }
    operands += ", , , ";
    const bool has_zeros = pick(random, 0, 1) == 0;
    for (const auto& [to, from] : layers) {
      const auto bytes = [&](std::int64_t count) { return (count * bits + 7) / 8; };
      if (has_zeros)
        add("uint8", block == 0 ? Sizes{experts, bytes(to)} : Sizes{experts, to, bytes(blocks(from))}, random);
      else
        operands += ", ";
    }
    operands += pick(random, 0, 2) == 0 ? ", , shares" : ", ";
  }

  // Rows of two layers that are rounded to 8 bits.
  Closeness closeness() const { return rounded ? Closeness{.tolerance = 5e-2, .of_largest = 1} : Closeness{5e-5}; }
  bool has_shares() const { return operands.ends_with("shares"); }

  void add(const std::string& element, const Sizes& sizes, Random& random) {
    const std::string name = "c" + std::to_string(constants.size());
    constants += (constants.empty() ? "" : ", ") + element + in_brackets(sizes) + " " + name + " = {";
    for (std::int64_t i = 0; i < element_count(sizes); ++i)
      constants +=
          (i > 0 ? ", " : "") + (element == "float" ? std::to_string(static_cast<double>(pick(random, -1000, 1000)) / 5000)
                                                    : std::to_string(pick(random, 0, 255)));
    constants += "}", operands += ", " + name;
  }
  void maybe(const std::string& element, const Sizes& sizes, Random& random) {
    if (pick(random, 0, 1) == 0)
      add(element, sizes, random);
    else
      operands += ", ";
  }

  Graph graph() const {
    const std::string shares = has_shares() ? ", float" + in_brackets({rows, experts}) + " shares" : "";
    return import_onnx_bytes(
        text_bytes("agraph (float" + in_brackets({rows, width}) + " x, float" + in_brackets({rows, experts}) + " scores" +
                       shares + ") => (float[A, B] y) <" + constants + "> {\ny = com.microsoft." +
                       (bits == 0 ? "MoE" : "QMoE") + " <" + attributes + "> (" + operands + ")\n}",
                   21, ", \"com.microsoft\" : 1"),
        "experts");
  }

  std::vector<Tensor> inputs(Random& random) const {
    std::vector<Tensor> result{random_tensor(random, DataType::kFloat, {rows, width}),
                               random_tensor(random, DataType::kFloat, {rows, experts})};
    if (has_shares()) {
      result.push_back(random_tensor(random, DataType::kFloat, {rows, experts}));
      for (float& share : result.back().mutable_data<float>()) share = std::abs(share) + 0.1f;
    }
    return result;
  }
};

}  // namespace

TEST_CASE("a mixture of experts computes what its graph does") {
  Random random(9);
  for (int round = 0; round < 80; ++round) {
    const MixtureCase c(random);
    CAPTURE(round, c.rows, c.width, c.inner, c.experts, c.bits, c.block, c.attributes);
    check_whole_call(c.graph(), ExpertMixture::kName, c.inputs(random), c.closeness());
  }
}

TEST_CASE("a mixture of experts: rows that are no integers, and scores without an order") {
  Random random(10);
  for (int round = 0; round < 8; ++round) {
    const MixtureCase c(random);
    const Graph graph = c.graph();
    std::vector<Tensor> inputs = c.inputs(random);
    inputs[0].mutable_data<float>()[0] = 1e-35f;
    const std::vector<Tensor> expected = interpret(graph, inputs);
    const auto session = cpu_backend().prepare(graph, {});
    require_close(graph, session->run(inputs), expected, c.closeness());
    for (float& score : inputs[1].mutable_data<float>()) score = std::numeric_limits<float>::quiet_NaN();
    session->run(inputs);
  }
}
