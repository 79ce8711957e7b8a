// The grid of operators measured for a device profile.
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "optimizer/costs/cost_model.h"
#include "optimizer/profiling/measure_profile.h"

namespace rewright::optimizer {

namespace {

using Named = std::initializer_list<std::pair<std::string_view, AttributeValue>>;

class Grid {
 public:
  // Adds one operator; operands from `first_constant` on are constant, others vary.
  void add(std::string_view name, const std::vector<Sizes>& operands, std::size_t first_constant, Named named = {}) {
    const Operator& op = registry().get(name);
    Attributes attributes = op.defaults();
    for (const auto& [field, value] : named) attributes[op.field(field).value()] = value;
    add(op, std::move(attributes), operands, first_constant);
  }

  // The same, if the operator accepts such operands and computes something.
  void try_to_add(const Operator& op, const std::vector<Sizes>& operands) {
    try {
      std::vector<std::optional<TensorType>> types;
      for (const Sizes& sizes : operands) types.emplace_back(TensorType{DataType::kFloat, Indices(sizes.begin(), sizes.end())});
      const Attributes attributes = op.normalized(op.defaults(), Inputs::of(types));
      const OperatorTraits traits = operator_traits(op, attributes, types);
      if (!op.define(attributes, Inputs::of(types)).has_denotation() || traits.free || traits.operations == 0) return;
      add(op, attributes, operands, operands.size());
    } catch (const Error&) {  // it has parameters, or needs other types
    }
  }

  std::vector<Graph> take() { return std::move(graphs_); }

 private:
  void add(const Operator& op, Attributes attributes, const std::vector<Sizes>& operands, std::size_t first_constant) {
    Graph graph;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(
          i < first_constant
              ? graph.add_input("x" + std::to_string(i), {DataType::kFloat, Indices(operands[i].begin(), operands[i].end())})
              : graph.add_constant(weights_.try_emplace(operands[i], DataType::kFloat, operands[i]).first->second));
    const std::vector<ValueId> made = graph.add_node(op, std::move(attributes), std::move(inputs));
    for (std::size_t i = 0; i < made.size(); ++i) graph.add_output("y" + std::to_string(i), made[i]);
    graphs_.push_back(std::move(graph));
  }

  std::vector<Graph> graphs_;
  std::map<Sizes, Tensor> weights_;  // their elements do not matter
};

// Kernels of size 1, 3, 5 or 7, or a row of 7; padding keeps the size at stride 1.
void add_convolutions(Grid& grid) {
  constexpr double kMostOperations = 3e9;
  struct Kernel {
    std::int64_t height, width, stride;
  };
  const auto add = [&](std::int64_t image, std::int64_t from, std::int64_t to, Kernel k, std::int64_t group) {
    const double operations = 2.0 * static_cast<double>(image * image / (k.stride * k.stride)) *
                              static_cast<double>(to * (from / group) * k.height * k.width);
    if (operations > kMostOperations) return;
    const Indices pads{(k.height - 1) / 2, (k.width - 1) / 2};
    grid.add("Conv", {{1, from, image, image}, {to, from / group, k.height, k.width}}, 1,
             {{"strides", Indices{k.stride, k.stride}}, {"pads_begin", pads}, {"pads_end", pads}, {"group", Index(group)}});
  };
  for (const std::int64_t image : {7, 14, 28, 56, 112}) {
    for (const std::int64_t channels : {16, 32, 64, 128, 256, 512, 1024}) {
      if (image * channels > 56 * 256) continue;
      add(image, channels, channels, {1, 1, 1}, 1);
      add(image, channels, 4 * channels, {1, 1, 1}, 1);
      add(image, 4 * channels, channels, {1, 1, 1}, 1);
      add(image, channels, channels, {3, 3, 1}, 1);
      add(image, channels, 2 * channels, {3, 3, 2}, 1);
      add(image, channels, channels, {3, 3, 1}, channels);
      if (channels >= 64) add(image, channels, channels, {3, 3, 1}, 32);
      if (channels <= 256) add(image, channels, channels, {5, 5, 1}, 1);
      if (channels <= 256) add(image, channels, channels, {5, 5, 1}, channels);
      if (channels <= 256) add(image, channels, channels, {1, 7, 1}, 1);
    }
  }
  for (const std::int64_t image : {64, 224}) {
    add(image, 3, 32, {3, 3, 2}, 1);
    add(image, 3, 64, {7, 7, 2}, 1);
  }
}

void add_products(Grid& grid) {
  for (const std::int64_t rows : {1, 4, 16, 64, 256})
    for (const std::int64_t depth : {16, 64, 256, 768, 3072})
      for (const std::int64_t columns : {16, 64, 256, 768, 3072}) grid.add("MatMul", {{rows, depth}, {depth, columns}}, 1);
  for (const std::int64_t heads : {1, 12})
    for (const std::int64_t tokens : {16, 64, 128, 256}) {
      grid.add("MatMul", {{1, heads, tokens, 64}, {1, heads, 64, tokens}}, 2);
      grid.add("MatMul", {{1, heads, tokens, tokens}, {1, heads, tokens, 64}}, 2);
    }
}

void add_with_parameters(Grid& grid, const Sizes& x) {
  const std::int64_t channels = x[1], height = x[2], width = x[3];
  const Sizes one{channels};
  const Indices two{2, 2}, ones{1, 1};
  for (const char* pool : {"MaxPool", "AveragePool"}) {
    grid.add(pool, {x}, 1, {{"kernel", Indices{3, 3}}, {"pads_begin", ones}, {"pads_end", ones}});
    grid.add(pool, {x}, 1, {{"kernel", two}, {"strides", two}});
  }
  grid.add("BatchNormalization", {x, one, one, one, one}, 1);
  grid.add("LayerNormalization", {x, {width}, {width}}, 1);
  grid.add("Transpose", {x}, 1, {{"perm", Indices{0, 2, 3, 1}}});
  grid.add("Transpose", {x}, 1, {{"perm", Indices{0, 2, 1, 3}}});
  grid.add("Concat", {x, x}, 2, {{"axis", Index(1)}});
  grid.add("Concat", {x, x, x, x}, 4, {{"axis", Index(1)}});
  grid.add("Split", {x}, 1, {{"axis", Index(1)}, {"sizes", Indices{channels / 2, channels - channels / 2}}});
  grid.add(
      "Slice", {x}, 1,
      {{"begin", Indices{0, 0, 0, 0}}, {"length", Indices{1, channels / 2, height, width}}, {"step", Indices{1, 1, 1, 1}}});
  grid.add("Pad", {x}, 1, {{"pads_begin", Indices{0, 0, 1, 1}}, {"pads_end", Indices{0, 0, 1, 1}}});
  for (const char* reduction : {"ReduceMean", "ReduceSum", "ReduceMax"}) {
    grid.add(reduction, {x}, 1, {{"axes", Indices{3}}});
    grid.add(reduction, {x}, 1, {{"axes", Indices{2, 3}}});
  }
}

}  // namespace

std::vector<Graph> profile_grid() {
  Grid grid;
  add_convolutions(grid);
  add_products(grid);
  for (const Sizes& x :
       {Sizes{1, 8, 4, 4}, Sizes{1, 64, 14, 14}, Sizes{1, 128, 28, 28}, Sizes{1, 64, 112, 112}, Sizes{1, 12, 128, 128}}) {
    add_with_parameters(grid, x);
    for (const Operator* op : registry().all()) {
      if (op->random()) continue;
      if (op->min_inputs() == 1) grid.try_to_add(*op, {x});
      if (op->min_inputs() <= 2 && op->max_inputs() >= 2) grid.try_to_add(*op, {x, x});
    }
  }
  return grid.take();
}

}  // namespace rewright::optimizer
