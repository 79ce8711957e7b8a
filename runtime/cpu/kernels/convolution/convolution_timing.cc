#include "runtime/cpu/kernels/convolution/convolution_timing.h"

#include <algorithm>
#include <limits>

#include "optimizer/inputs/inputs.h"
#include "runtime/cpu/planning/in_turn.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/cpu/running/runner.h"

namespace rewright::cpu {

namespace {

constexpr int kLeastRounds = 5, kMostRounds = 200;
constexpr double kEnoughSeconds = 0.02;  // of timing a convolution

// The problem's key in the cost database. Entries are lost if this text changes.
std::string problem_name(const ImageShape& s, bool of_volume, bool addend, bool function) {
  const auto two = [](const std::int64_t(&pair)[2]) { return std::to_string(pair[0]) + "x" + std::to_string(pair[1]); };
  const auto image = [](std::int64_t channels, std::int64_t height, std::int64_t width) {
    return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
  };
  return "convolution of " + std::to_string(s.images) + "x" + image(s.channels, s.height, s.width) + " to " +
         image(s.outputs, s.out_height, s.out_width) + ", window " + two(s.kernel) + ", strides " + two(s.strides) +
         ", dilations " + two(s.dilations) + ", pads " + two(s.pads_begin) + ", group " + std::to_string(s.group) +
         (of_volume ? ", of a volume" : "") + (addend ? ", addition" : "") + (function ? ", function" : "");
}

// Seconds for each method: the least of runs in turn.
// Converting the image's layout counts if it has few channels: such an image is a network's input, which oneDNN reads as it is.
std::vector<double> time_methods(const Graph& graph, std::span<const ConvolutionMethod> methods, bool few_channels,
                                 PlanOptions options) {
  options.cache = nullptr;
  options.choices = nullptr;
  options.loop_problems = nullptr;
  std::vector<std::unique_ptr<PlanRunner>> runners;
  for (const ConvolutionMethod method : methods) {
    options.convolution = method;
    runners.push_back(std::make_unique<PlanRunner>(make_plan(graph, options)));
    runners.back()->measure(true);
  }
  const std::vector<Tensor> inputs = random_inputs(graph, {}, 0);
  std::vector<double> least(methods.size(), std::numeric_limits<double>::infinity());
  in_turn(methods.size(), {kLeastRounds, kMostRounds, kEnoughSeconds}, [&](int, std::size_t m) {
    PlanRunner& runner = *runners[m];
    const std::vector<double> before = runner.seconds();
    runner.run(inputs);
    const std::vector<double> after = runner.seconds();
    double seconds = 0;
    bool computed = false;
    for (std::size_t n = 0; n < before.size(); ++n) {
      const bool layout = runner.plan().steps[n].changes_layout;
      if (!layout || (few_channels && !computed)) seconds += after[n] - before[n];
      computed = computed || !layout;
    }
    least[m] = std::min(least[m], seconds);
    return seconds;
  });
  return least;
}

// A graph of the convolution and the parts of its epilogue that take time.
Graph alone(const Planner& planner, const FoldedConvolution& c, const Epilogue::Simple& simple) {
  const auto typed = [&](ValueId value) {
    const ValueInfo& i = planner.info(value);
    return TensorType{i.type, to_indices(i.sizes)};
  };
  Graph graph;
  std::vector<ValueId> inputs{graph.add_input("x", typed(c.node.inputs[0])),
                              graph.add_constant(planner.constant(c.node.inputs[1])),
                              graph.add_constant(c.shifted_bias(planner))};
  ValueId y = graph.add_node(*c.node.op, c.node.attributes, inputs)[0];
  const auto then = [&](std::string_view op, const std::vector<ValueId>& operands) {
    const Operator& o = registry().get(op);
    return graph.add_node(o, o.defaults(), operands)[0];
  };
  if (simple.addition) y = then("Add", {y, graph.add_input("added", typed(c.node.outputs[0]))});
  if (simple.function) y = then("Mul", {y, then("Sigmoid", {y})});
  graph.add_output("y", y);
  return graph;
}

ConvolutionMethod estimate_method(FoldedConvolution& c, const ImageShape& image, const PlanOptions& options) {
  if (options.open_sizes) return open_convolution(image, options.isa, options.transformed_convolutions);
  const ConvolutionMethod estimate = fastest_convolution(image, options.isa, options.transformed_convolutions);
  if (image.group == image.channels || estimate != ConvolutionMethod::kLibrary) return estimate;
  c.with_bias = choose_convolution(c.shape, true, c.without_additions(), options.isa);
  if (c.with_bias->slow) return ConvolutionMethod::kDirect;
  return pays_to_share_weights(image, options.threads) ? ConvolutionMethod::kDirect : ConvolutionMethod::kLibrary;
}

}  // namespace

ConvolutionMethod choose_method(const Planner& planner, FoldedConvolution& c) {
  const PlanOptions& options = planner.options();
  if (options.convolution) return *options.convolution;
  const ImageShape image = *c.image();
  const ConvolutionMethod estimate = estimate_method(c, image, options);
  if (image.group == image.channels || options.choices == nullptr) return estimate;
  std::vector<ConvolutionMethod> methods = close_convolutions(image, options.isa, options.transformed_convolutions);
  if (options.open_sizes)
    std::erase_if(methods,
                  [](ConvolutionMethod m) { return m == ConvolutionMethod::kLibrary || m == ConvolutionMethod::kWinograd2; });
  const auto estimated = std::find(methods.begin(), methods.end(), estimate);
  if (estimated == methods.end()) return estimate;
  std::vector<std::string> names;
  for (const ConvolutionMethod m : methods) names.emplace_back(name(m));
  const Epilogue::Simple simple = *c.epilogue.simple(options.isa);
  const auto time = [&] { return time_methods(alone(planner, c, simple), methods, image.channels < kFewChannels, options); };
  const auto position = static_cast<std::size_t>(estimated - methods.begin());
  return methods[options.choices->choose(
      problem_name(image, c.shape.x.size() == 5, simple.addition, static_cast<bool>(simple.function)), names, position, time)];
}

}  // namespace rewright::cpu
