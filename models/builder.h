// Layers for building networks: each adds a few nodes with weights of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace rewright::models {

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : state_(seed * 2 + 1) {}

  using NamedAttributes = std::initializer_list<std::pair<std::string_view, AttributeValue>>;
  ValueId input(const std::string& name, Sizes sizes, DataType type = DataType::kFloat);
  void output(const std::string& name, ValueId value) { graph_.add_output(name, value); }
  Graph finish() {
    graph_.tidy();
    return std::move(graph_);
  }

  // Adds a node; unnamed attributes have their defaults.
  std::vector<ValueId> nodes(std::string_view op, std::vector<ValueId> inputs, NamedAttributes attributes = {});
  ValueId node(std::string_view op, std::vector<ValueId> inputs, NamedAttributes attributes = {}) {
    return nodes(op, std::move(inputs), attributes).at(0);
  }
  std::int64_t size(ValueId value, std::size_t axis) const { return graph_.value(value).type.shape[axis].value(); }

  // Weights: normal around `mean`, or in a range (for variances, which must be positive).
  ValueId normal(Sizes sizes, double mean, double deviation);
  ValueId uniform(Sizes sizes, double low, double high);
  ValueId scalar(double value);
  // [1, 1, n, n]: 0 where a row may look at a column (not after itself), else a large negative number.
  ValueId causal_mask(std::int64_t n);

  struct Window {
    std::int64_t height, width;
    std::int64_t stride = 1;
    std::int64_t pad_height = 0, pad_width = 0;
    static Window square(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
      return {kernel, kernel, stride, pad, pad};
    }
    static Window same(std::int64_t kernel, std::int64_t stride = 1) { return square(kernel, stride, (kernel - 1) / 2); }
  };
  // x[N, C, H, W] -> [N, channels, ...]; He's initialization (He et al., 2015).
  ValueId conv(ValueId x, std::int64_t channels, Window window, std::int64_t group = 1, bool bias = false);
  // `gain` scales the result: a sum of n branches keeps its magnitude with a gain of 1 / sqrt(n).
  ValueId batch_norm(ValueId x, double epsilon = 1e-5, double gain = 1);
  ValueId conv_norm(ValueId x, std::int64_t channels, Window window, std::int64_t group = 1, double epsilon = 1e-5,
                    double gain = 1) {
    return batch_norm(conv(x, channels, window, group), epsilon, gain);
  }
  ValueId relu(ValueId x) { return node("Relu", {x}); }
  ValueId sigmoid(ValueId x) { return node("Sigmoid", {x}); }
  ValueId silu(ValueId x) { return mul(x, sigmoid(x)); }
  ValueId relu6(ValueId x) { return node("Clip", {x, scalar(0), scalar(6)}); }
  ValueId add(ValueId a, ValueId b) { return node("Add", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return node("Mul", {a, b}); }
  ValueId concat(std::vector<ValueId> parts, std::int64_t axis) {
    return node("Concat", std::move(parts), {{"axis", Index(axis)}});
  }
  ValueId max_pool(ValueId x, Window window, bool ceil_mode = false) { return pool("MaxPool", x, window, ceil_mode); }
  ValueId average_pool(ValueId x, Window window, bool count_include_pad = false);
  ValueId global_average_pool(ValueId x) { return node("GlobalAveragePool", {x}); }
  ValueId flatten(ValueId x) { return node("Flatten", {x}, {{"axis", Index(1)}}); }
  // [N, features] -> [N, count] with bias (Gemm, weights transposed as torch exports them).
  ValueId classifier(ValueId x, std::int64_t count);
  // Any rank: x W + b.
  ValueId linear(ValueId x, std::int64_t features, bool bias = true);
  ValueId layer_norm(ValueId x, double epsilon);
  ValueId reshape(ValueId x, Indices shape) { return node("Reshape", {x}, {{"shape", std::move(shape)}}); }
  ValueId transpose(ValueId x, Indices perm) { return node("Transpose", {x}, {{"perm", std::move(perm)}}); }

 private:
  ValueId pool(std::string_view op, ValueId x, Window window, bool ceil_mode);
  double next_uniform();  // in [0, 1)
  std::string weight_name(std::string_view kind);

  Graph graph_;
  std::uint64_t state_;
  std::int64_t weights_ = 0;
};

}  // namespace rewright::models
