#include <algorithm>

#include "runtime/cpu/kernels/convolution/convolution_steps.h"

namespace rewright::cpu {

namespace {

// The result's storage: a slot of the concatenation that it belongs to, or one of its own.
int add_target(Planner& planner, ValueId result, Finish& finish) {
  const auto slot = planner.take_slot(result, !finish.function);
  if (!slot) return planner.add_value(result, kChannelsLast);
  finish.y_stride = slot->stride;
  finish.low = std::clamp(finish.low, slot->low, slot->high);
  finish.high = std::clamp(finish.high, slot->low, slot->high);
  return slot->storage;
}

void add_step(Planner& planner, ValueId input, const Epilogue& epilogue, std::unique_ptr<Kernel> kernel, int target) {
  std::vector<int> inputs{planner.storage(input, kChannelsLast)};
  for (const ValueId v : epilogue.additions()) inputs.push_back(planner.storage(v, kChannelsLast));
  planner.add_step(std::move(kernel), std::move(inputs), {target});
}

// The sum of the biases of convolutions that are added, rounded once.
std::vector<float> bias_of_all(const Planner& planner, std::span<const FoldedConvolution* const> convolutions) {
  std::vector<double> sum(static_cast<std::size_t>(convolutions.back()->shape.y[1]));
  for (const FoldedConvolution* const c : convolutions) {
    const std::vector<double> bias = c->exact_bias(planner);
    for (std::size_t n = 0; n < bias.size(); ++n) sum[n] += bias[n];
  }
  return {sum.begin(), sum.end()};
}

std::unique_ptr<Kernel> make_kernel(const ImageShape& image, ConvolutionMethod method, const Weights& weights, Finish finish,
                                    const PlanOptions& options) {
  const Isa isa = options.isa;
  switch (method) {
    case ConvolutionMethod::kGrouped:
      return make_grouped_convolution(image, weights, std::move(finish), isa, options.threads);
    case ConvolutionMethod::kFourier:
      return make_fourier_convolution(image, fourier_size(image, isa), weights, std::move(finish), isa, options.threads);
    case ConvolutionMethod::kWinograd2:
      return make_winograd_convolution(image, 2, weights, std::move(finish), isa, options.threads);
    case ConvolutionMethod::kWinograd4:
      return make_winograd_convolution(image, 4, weights, std::move(finish), isa, options.threads);
    case ConvolutionMethod::kByChannel:
      return make_window_convolution({image, {}}, weights, std::move(finish), isa);
    default:
      return make_direct_convolution(image, weights, std::move(finish), isa, options.threads);
  }
}

}  // namespace

void add_own_convolution(Planner& planner, const FoldedConvolution& c, ConvolutionMethod method, ValueId result) {
  Finish finish = c.finish(planner);
  const int target =
      method == ConvolutionMethod::kGrouped ? planner.add_value(result, kChannelsLast) : add_target(planner, result, finish);
  auto kernel = make_kernel(*c.image(), method, c.weights(planner), std::move(finish), planner.options());
  add_step(planner, c.input, c.epilogue, std::move(kernel), target);
}

void add_volume_convolution(Planner& planner, const FoldedConvolution& c, ValueId result) {
  Finish finish = c.finish(planner);
  const int target = add_target(planner, result, finish);
  const VolumeShape volume = *c.volume();
  const bool by_channel = volume.image.group == volume.image.channels && volume.image.group == volume.image.outputs;
  const PlanOptions& options = planner.options();
  auto kernel = by_channel && volume.image.group > 1
                    ? make_window_convolution(volume, c.weights(planner), std::move(finish), options.isa)
                    : make_volume_convolution(volume, c.weights(planner), std::move(finish), options.isa, options.threads);
  add_step(planner, c.input, c.epilogue, std::move(kernel), target);
}

void add_transposed_convolution(Planner& planner, const FoldedConvolution& c, ValueId result) {
  auto kernel = make_transposed_convolution(*c.shape.transposed_image(), c.weights(planner), c.finish(planner),
                                            planner.options().isa, planner.options().threads);
  const int target = planner.add_value(result, kChannelsLast);
  add_step(planner, c.input, c.epilogue, std::move(kernel), target);
}

void add_depthwise_convolutions(Planner& planner, std::span<const FoldedConvolution* const> convolutions, ValueId result) {
  std::vector<DepthwiseConvolution> parts;
  const FoldedConvolution& last = *convolutions.back();
  for (const FoldedConvolution* const c : convolutions) {
    DepthwiseConvolution part{*c->image(), c->weights(planner), {}, last.floor};
    if (c == &last) part.finish = c->finish(planner);
    parts.push_back(std::move(part));
  }
  parts.back().finish.bias = bias_of_all(planner, convolutions);
  parts.front().finish.addend = parts.back().finish.addend;
  auto kernel = make_depthwise_convolution(parts, planner.options().isa);
  const int target = planner.add_value(result, kChannelsLast);
  add_step(planner, last.input, last.epilogue, std::move(kernel), target);
}

void add_plain_convolution(Planner& planner, const FoldedConvolution& c, ValueId result) {
  auto kernel = make_plain_convolution({*c.image(), c.weights(planner), c.finish(planner), c.floor}, planner.options().isa);
  std::vector<int> inputs{planner.storage(c.input, kPlain)};
  for (const ValueId v : c.epilogue.additions()) inputs.push_back(planner.storage(v, kPlain));
  const int target = planner.add_value(result, kPlain);
  planner.add_step(std::move(kernel), std::move(inputs), {target});
}

void add_separable_convolution(Planner& planner, const FoldedConvolution& depthwise, const FoldedConvolution& pointwise,
                               ValueId result) {
  const DepthwiseConvolution first{*depthwise.image(), depthwise.weights(planner), depthwise.finish(planner), depthwise.floor};
  Finish finish = pointwise.finish(planner);
  const int target = add_target(planner, result, finish);
  auto kernel = make_separable_convolution(first, pointwise.shape.y[1], pointwise.weights(planner), std::move(finish),
                                           planner.options().isa, planner.options().threads);
  add_step(planner, depthwise.input, pointwise.epilogue, std::move(kernel), target);
}

void add_parallel_convolutions(Planner& planner, std::span<const FoldedConvolution* const> convolutions, ValueId result) {
  std::vector<Weights> weights;
  const FoldedConvolution& last = *convolutions.back();
  Finish finish = last.finish(planner);
  for (const FoldedConvolution* const c : convolutions) weights.push_back(c->weights(planner));
  finish.bias = bias_of_all(planner, convolutions);
  const int target = add_target(planner, result, finish);
  auto kernel =
      make_parallel_convolution(*last.image(), weights, std::move(finish), planner.options().isa, planner.options().threads);
  add_step(planner, last.input, last.epilogue, std::move(kernel), target);
}

}  // namespace rewright::cpu
