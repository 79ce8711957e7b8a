// Random networks with open sizes, and inputs for them.
#pragma once

#include <map>
#include <string>

#include "runtime/cpu/testing/graphs.h"

namespace rewright::testing {

// The constant as it is, or as exporters write weights that several layers share: behind nodes that change no element.
inline ValueId handed_on(RandomGraph& g, ValueId constant) {
  const Indices shape = g.graph.value(constant).type.shape;
  for (std::int64_t times = g.pick(0, 2); times > 0; --times) {
    const std::int64_t kind = g.pick(0, 2);
    if (kind == 0) constant = node(g.graph, "Identity", {constant})[0];
    if (kind == 1) constant = node(g.graph, "Reshape", {constant}, {{"shape", shape}})[0];
    if (kind == 2) {
      const ValueId longer = node(g.graph, "Unsqueeze", {constant}, {{"axes", Indices{0}}})[0];
      constant = node(g.graph, "Squeeze", {longer}, {{"axes", Indices{0}}})[0];
    }
  }
  return constant;
}

// A random network of rows: N x `width`.
inline Graph network_of_rows(RandomGraph& g) {
  std::int64_t width = g.pick(3, 40);
  ValueId x = g.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(width)}});
  for (std::int64_t layers = g.pick(1, 4); layers > 0; --layers) {
    const std::int64_t next = g.pick(1, 70);
    const ValueId y = node(g.graph, "MatMul", {x, handed_on(g, g.constant({width, next}))})[0];
    ValueId biased = node(g.graph, "Add", {y, handed_on(g, g.constant({next}))})[0];
    if (g.pick(0, 2) == 0) biased = node(g.graph, "Mul", {biased, g.constant({next})})[0];
    x = node(g.graph, g.pick(0, 1) == 0 ? "Relu" : "Tanh", {biased})[0];
    if (g.pick(0, 2) == 0) x = node(g.graph, "Softmax", {x})[0];
    if (g.pick(0, 2) == 0) x = node(g.graph, "Mul", {x, node(g.graph, "Sigmoid", {x})[0]})[0];
    width = next;
  }
  g.graph.add_output("y", x);
  if (g.pick(0, 1) == 0) {  // every row meets every other one
    const ValueId across = node(g.graph, "Transpose", {x}, {{"perm", Indices{1, 0}}})[0];
    const ValueId weights = node(g.graph, "Softmax", {node(g.graph, "MatMul", {x, across})[0]})[0];
    g.graph.add_output("z", node(g.graph, "MatMul", {weights, x})[0]);
  }
  return std::move(g.graph);
}

// A random encoder of texts: B x N x width, with rows of tables for every word and attention.
inline Graph network_of_texts(RandomGraph& g) {
  constexpr std::int64_t kLongest = 40, kKinds = 3;
  const Index batch = Index::symbol("B"), length = Index::symbol("N");
  const std::int64_t heads = g.pick(1, 3), depth = g.pick(1, 9), width = heads * depth;
  ValueId x = g.graph.add_input("x", {DataType::kFloat, {batch, length, Index(width)}});
  const auto first = [&](ValueId table, const Indices& lengths) {
    return node(g.graph, "Slice", {table}, {{"length", lengths}})[0];
  };
  std::vector<std::int64_t> kinds;
  for (std::int64_t n = 0; n < kLongest; ++n) kinds.push_back(g.pick(0, 1) == 0 ? 0 : g.pick(0, kKinds - 1));
  const ValueId kind = first(g.graph.add_constant(Tensor::from_integers(DataType::kInt64, {1, kLongest}, kinds)), {1, length});
  const ValueId all = node(g.graph, "Expand", {kind}, {{"shape", Indices{batch, length}}})[0];
  x = node(g.graph, "Add", {x, node(g.graph, "Gather", {g.constant({kKinds, width}), all}, {{"axis", Index(0)}})[0]})[0];
  x = node(g.graph, "Add", {x, first(g.constant({1, kLongest, width}), {1, length, width})})[0];
  // May a word read another one? As exporters write it: positions, compared.
  const auto positions = [&](std::int64_t axis) {
    const ValueId all_words = node(g.graph, "Range", {}, {{"count", length}})[0];
    return node(g.graph, "Unsqueeze", {all_words}, {{"axes", Indices{axis}}})[0];
  };
  const char* const relations[] = {"GreaterOrEqual", "LessOrEqual", "Equal"};
  const ValueId may_read = node(g.graph, relations[g.pick(0, 2)], {positions(1), positions(0)})[0];
  const bool masked = g.pick(0, 1) == 0;
  const auto by_head = [&](Indices perm) {
    const ValueId y =
        node(g.graph, "Add", {node(g.graph, "MatMul", {x, g.constant({width, width})})[0], g.constant({width})})[0];
    const ValueId apart = node(g.graph, "Reshape", {y}, {{"shape", Indices{batch, length, heads, depth}}})[0];
    return node(g.graph, "Transpose", {apart}, {{"perm", std::move(perm)}})[0];
  };
  for (std::int64_t layers = g.pick(1, 2); layers > 0; --layers) {
    const ValueId scores = node(g.graph, "MatMul", {by_head({0, 2, 1, 3}), by_head({0, 2, 3, 1})})[0];
    ValueId scaled = g.pick(0, 1) == 0 ? node(g.graph, "Mul", {scores, g.constant({}, 0.1, 0.5)})[0] : scores;
    if (masked)
      scaled = node(
          g.graph, "Where",
          {may_read, scaled, g.graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, std::vector<double>{-1e4}))})[0];
    const ValueId read = node(g.graph, "MatMul", {node(g.graph, "Softmax", {scaled})[0], by_head({0, 2, 1, 3})})[0];
    const ValueId moved = node(g.graph, "Transpose", {read}, {{"perm", Indices{0, 2, 1, 3}}})[0];
    const ValueId rows = node(g.graph, "Reshape", {moved}, {{"shape", Indices{batch, length, width}}})[0];
    x = node(g.graph, "Add", {x, node(g.graph, "MatMul", {rows, g.constant({width, width}, -0.3, 0.3)})[0]})[0];
    if (width > 1) x = node(g.graph, "LayerNormalization", {x, g.constant({width}), g.constant({width})})[0];
  }
  g.graph.add_output("y", x);
  return std::move(g.graph);
}

// A random network of images: N x channels x H x W.
inline Graph network_of_images(RandomGraph& g) {
  std::int64_t channels = g.pick(1, 9);
  ValueId x =
      g.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(channels), Index::symbol("H"), Index::symbol("W")}});
  const auto convolve = [&](std::int64_t outputs, std::int64_t size, std::int64_t group, std::int64_t stride = 1,
                            std::int64_t dilation = 1) {
    const std::int64_t pad = size / 2 * dilation;
    return node(g.graph, "Conv", {x, g.constant({outputs, channels / group, size, size}), g.constant({outputs})},
                {{"strides", Indices{stride, stride}},
                 {"dilations", Indices{dilation, dilation}},
                 {"pads_begin", Indices{pad, pad}},
                 {"pads_end", Indices{pad, pad}},
                 {"group", Index(group)}})[0];
  };
  for (std::int64_t layers = g.pick(1, 3); layers > 0; --layers) {
    const std::int64_t outputs = 8 * g.pick(1, 5), sizes[] = {1, 3, 5};
    const ValueId y = convolve(outputs, sizes[g.pick(0, 2)], 1);
    channels = outputs;
    const ValueId scaled = g.pick(0, 2) == 0 ? node(g.graph, "Mul", {y, g.constant({outputs, 1, 1})})[0] : y;
    x = node(g.graph, "Relu", {scaled})[0];
    if (g.pick(0, 1) == 0) x = node(g.graph, "Add", {x, convolve(channels, 3, channels)})[0];
    if (g.pick(0, 3) == 0) x = convolve(channels, 3, channels, g.pick(1, 3), g.pick(1, 2));
  }
  g.graph.add_output("y", x);
  g.graph.add_output("z", node(g.graph, "GlobalAveragePool", {x})[0]);
  return std::move(g.graph);
}

// A random network of volumes: N x channels x D x H x W. Windows of some layers have one position along some axes.
inline Graph network_of_volumes(RandomGraph& g) {
  std::int64_t channels = g.pick(1, 9);
  Indices shape{Index::symbol("N"), Index(channels), Index::symbol("D"), Index::symbol("H"), Index::symbol("W")};
  ValueId x = g.graph.add_input("x", {DataType::kFloat, std::move(shape)});
  for (std::int64_t layers = g.pick(1, 3); layers > 0; --layers) {
    const bool by_channel = channels > 1 && g.pick(0, 2) == 0;
    const std::int64_t group = by_channel ? channels : channels % 2 == 0 ? g.pick(1, 2) : 1;
    const std::int64_t outputs = by_channel ? group : group * g.pick(1, 4);
    Sizes w{outputs, channels / group};
    Indices pads;
    for (int axis = 0; axis < 3; ++axis) {
      w.push_back(2 * g.pick(0, 1) + 1);
      pads.emplace_back(w.back() / 2);
    }
    x = node(g.graph, "Conv", {x, g.constant(w), g.constant({outputs})},
             {{"strides", Indices{1, 1, 1}},
              {"dilations", Indices{1, 1, 1}},
              {"pads_begin", pads},
              {"pads_end", pads},
              {"group", Index(group)}})[0];
    if (g.pick(0, 1) == 0) x = node(g.graph, "Relu", {x})[0];
    channels = outputs;
  }
  g.graph.add_output("y", x);
  return std::move(g.graph);
}

// A random network of images that are split and shuffled by channels: N x channels x H x W.
inline Graph network_of_shuffles(RandomGraph& g) {
  const std::int64_t channels = 4 * g.pick(1, 3);
  const Index batch = Index::symbol("N"), height = Index::symbol("H"), width = Index::symbol("W");
  ValueId x = g.graph.add_input("x", {DataType::kFloat, {batch, Index(channels), height, width}});
  const auto convolve = [&](ValueId from, std::int64_t count, std::int64_t size, std::int64_t group) {
    const Indices ones{1, 1}, pads{size / 2, size / 2};
    const ValueId y =
        node(g.graph, "Conv", {from, g.constant({count, count / group, size, size}), g.constant({count})},
             {{"strides", ones}, {"dilations", ones}, {"pads_begin", pads}, {"pads_end", pads}, {"group", Index(group)}})[0];
    return g.pick(0, 1) == 0 ? node(g.graph, "Relu", {y})[0] : y;
  };
  const auto channels_of = [&](ValueId from, std::int64_t first, std::int64_t count) {
    return node(g.graph, "Slice", {from},
                {{"begin", Indices{0, first, 0, 0}}, {"length", Indices{batch, Index(count), height, width}}})[0];
  };
  for (std::int64_t layers = g.pick(1, 3); layers > 0; --layers) {
    const std::int64_t half = channels / 2;
    const ValueId kept = channels_of(x, 0, half);
    ValueId moved = channels_of(x, half, half);
    if (g.pick(0, 1) == 0) moved = convolve(moved, half, 1, 1);
    moved = convolve(moved, half, 3, g.pick(0, 1) == 0 ? half : 1);
    x = node(g.graph, "Concat", {kept, moved}, {{"axis", Index(1)}})[0];
    const ValueId apart = node(g.graph, "Reshape", {x}, {{"shape", Indices{batch, 2, half, height, width}}})[0];
    const ValueId turned = node(g.graph, "Transpose", {apart}, {{"perm", Indices{0, 2, 1, 3, 4}}})[0];
    x = node(g.graph, "Reshape", {turned}, {{"shape", Indices{batch, channels, height, width}}})[0];
  }
  g.graph.add_output("y", x);
  g.graph.add_output("z", node(g.graph, "GlobalAveragePool", {x})[0]);
  return std::move(g.graph);
}

inline std::vector<Tensor> inputs_of(const Graph& graph, RandomGraph& g, const std::vector<std::int64_t>& choices) {
  std::vector<Tensor> inputs;
  std::map<std::string, std::int64_t> bound;
  for (const ValueId id : graph.inputs()) {
    Sizes sizes;
    for (const Index& size : graph.value(id).type.shape) {
      if (all_constant({size}))
        sizes.push_back(size.value());
      else
        sizes.push_back(bound.emplace(to_string(size), choices[static_cast<std::size_t>(g.pick(0, std::ssize(choices) - 1))])
                            .first->second);
    }
    inputs.push_back(random_tensor(g.random, DataType::kFloat, sizes));
  }
  return inputs;
}

inline void require_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t o = 0; o < a.size(); ++o) REQUIRE(a[o] == b[o]);
}

inline Graph random_network(RandomGraph& g) {
  switch (g.pick(0, 3)) {
    case 0:
      return network_of_rows(g);
    case 1:
      return network_of_images(g);
    case 2:
      return network_of_volumes(g);
    default:
      return network_of_texts(g);
  }
}

}  // namespace rewright::testing
