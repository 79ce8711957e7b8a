#include "generator/enumeration/convolutions.h"

#include <string>
#include <utility>

#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

namespace {

struct Pads {
  Indices begin, end;
};

// As parse_padding, or "before": so many that no result reads beyond the end, and the size is kept at stride 1.
Pads parse_pads(const std::string& text, const KernelSize& size, const std::string& operator_name) {
  if (text == "before") return {{size.height - 1, size.width - 1}, {0, 0}};
  const Indices both = parse_padding(text, size, operator_name);
  return {both, both};
}

// The choice of one convolution, without a name for what is usual.
Choice convolution(const KernelSize& size, const Index& stride, std::int64_t dilation, const Pads& pads, std::string name) {
  const Operator& op = operator_named("Conv");
  if (dilation != 1) name += " dilation " + std::to_string(dilation);
  Choice choice{std::move(name), &op, 2, {}};
  choice.data_first = true;
  choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
    if (in[0].rank() != 4 || in[1].rank() != 4) return {};
    if (!(in[1].shape[2] == Index(size.height)) || !(in[1].shape[3] == Index(size.width))) return {};
    const Index groups = Index::symbol("G");  // of images that have as many
    for (const Index& group : {Index(1), Index(2), groups, groups * 2, in[0].shape[1]})
      if (in[1].shape[1] * group == in[0].shape[1])
        return {attributes_of(op, {{"strides", Indices{stride, stride}},
                                   {"dilations", Indices{dilation, dilation}},
                                   {"pads_begin", pads.begin},
                                   {"pads_end", pads.end},
                                   {"group", group}})};
    return {};
  };
  return choice;
}

Choice transposed_convolution(const KernelSize& size, const Index& stride, const Pads& pads, std::string name) {
  const Operator& op = operator_named("ConvTranspose");
  Choice choice{std::move(name), &op, 2, {}};
  choice.data_first = true;
  choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
    if (in[0].rank() != 4 || in[1].rank() != 4 || !(in[1].shape[0] == in[0].shape[1])) return {};
    if (!(in[1].shape[2] == Index(size.height)) || !(in[1].shape[3] == Index(size.width))) return {};
    return {attributes_of(op, {{"strides", Indices{stride, stride}}, {"pads_begin", pads.begin}, {"pads_end", pads.end}})};
  };
  return choice;
}

// With a bias if wanted.
void add_choice(Choice choice, bool bias, std::vector<Choice>& choices, Leaves& leaves) {
  if (bias) {
    leaves.channel_biases = true;
    choice.arity = 3;
    choice.name += " bias";
  }
  choices.push_back(std::move(choice));
}

}  // namespace

void add_convolutions(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const auto kernels = arguments.texts("kernel", {"3"}), strides = arguments.texts("stride", {"1"});
  const auto dilations = arguments.texts("dilation", {"1"});
  const auto paddings = arguments.texts("padding", {"same"}), activations = arguments.texts("activation", {"none"});
  const std::vector<bool> biases = arguments.truths("bias", "false");
  const bool variables = arguments.truths("variables", "true")[0];
  own_output_channels(arguments);
  arguments.finish();
  leaves.images = true;
  const auto add = [&](const std::string& k, const std::string& s, const std::string& p, const std::string& d,
                       const std::string& activation, bool bias) {
    const KernelSize size = parse_kernel(k, "kernel of conv2d");
    const std::int64_t dilation = parse_integer(d, "dilation of conv2d");
    Pads pads = parse_pads(p, size, "conv2d");
    for (Indices* side : {&pads.begin, &pads.end})
      for (Index& pad : *side) pad *= dilation;
    if (variables) leaves.kernels.insert(size);
    Choice choice =
        convolution(size, parse_integer(s, "stride of conv2d"), dilation, pads, "Conv " + k + " stride " + s + " " + p);
    add_choice(std::move(choice), bias, choices, leaves);
    if (activation == "relu") {
      choices.back().activation = &operator_named("Relu");
      choices.back().name += " relu";
    } else if (activation != "none") {
      wrong_operators("activation of conv2d is \"" + activation + "\", must be none or relu");
    }
  };
  for (const std::string& k : kernels)
    for (const std::string& s : strides)
      for (const std::string& p : paddings)
        for (const std::string& d : dilations)
          for (const std::string& activation : activations)
            for (const bool bias : biases) add(k, s, p, d, activation, bias);
}

void add_transposed_convolutions(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const auto kernels = arguments.texts("kernel", {"2"}), strides = arguments.texts("stride", {"1"});
  const auto paddings = arguments.texts("padding", {"valid"});
  const std::vector<bool> biases = arguments.truths("bias", "false");
  const bool variables = arguments.truths("variables", "true")[0];
  arguments.finish();
  leaves.images = true;
  const auto add = [&](const std::string& k, const std::string& s, const std::string& p, bool bias) {
    const KernelSize size = parse_kernel(k, "kernel of transposed2d");
    if (variables) leaves.transposed.insert(size);
    add_choice(transposed_convolution(size, parse_integer(s, "stride of transposed2d"), parse_pads(p, size, "transposed2d"),
                                      "ConvTranspose " + k + " stride " + s + " " + p),
               bias, choices, leaves);
  };
  for (const std::string& k : kernels)
    for (const std::string& s : strides)
      for (const std::string& p : paddings)
        for (const bool bias : biases) add(k, s, p, bias);
}

std::vector<bool> own_output_channels(OperatorArguments& conv2d) { return conv2d.truths("outputs", "same", "own", "same"); }

}  // namespace rewright::generator
