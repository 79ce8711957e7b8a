// A model with an operator that nobody else knows is optimized around it, and executed: custom_operator MODEL.onnx FASTER.onnx
// The model has one input and nodes of the operator example.Swish: x * sigmoid(beta * x).
#include <rewright.h>

#include <cmath>
#include <cstdio>

// The output is of the type and the sizes of the input, also where these are not known yet.
static std::vector<rewright::ValueInfo> infer_swish(const rewright::Node& node) { return {node.input(0)}; }

static void compute_swish(const rewright::Node& node, const std::vector<rewright_tensor>& inputs,
                          std::vector<rewright_tensor>& outputs) {
  constexpr std::int32_t kFloat = 1;
  if (inputs.at(0).type != kFloat) throw std::invalid_argument("Swish computes floats alone");
  const std::vector<double> given = node.reals("beta");
  const float beta = given.empty() ? 1 : static_cast<float>(given[0]);
  const auto* x = static_cast<const float*>(inputs[0].data);
  auto* y = static_cast<float*>(outputs.at(0).data);
  for (std::size_t i = 0; i < inputs[0].bytes / sizeof(float); ++i) y[i] = x[i] / (1 + std::exp(-beta * x[i]));
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: custom_operator MODEL.onnx FASTER.onnx\n"), 2;
  try {
    rewright::Operators operators;
    operators.add("example", "Swish", infer_swish, compute_swish);
    const rewright::Model model = rewright::Model::read(argv[1], operators);
    // Estimated: a model of five small nodes takes microseconds, and measured times of that length depend on what else the
    // machine does.
    const rewright::Result result = rewright::optimize(model, {{"device", "cpu"}, {"estimate", "true"}, {"budget", "5s"}});
    result.model().write(argv[2]);

    const rewright::ValueInfo input = model.inputs().at(0);
    std::vector<std::int64_t> sizes = input.sizes;
    std::size_t count = 1;
    for (std::int64_t& size : sizes) count *= static_cast<std::size_t>(size = size < 0 ? 2 : size);
    std::vector<float> elements(count);
    for (std::size_t i = 0; i < count; ++i) elements[i] = std::sin(static_cast<float>(i));
    const std::string output = model.outputs().at(0).name;
    for (const rewright::Model& either : {model, result.model()}) {
      const auto found = rewright::Runner(either)
                             .run({{input.name, rewright::Array::floats(sizes, elements)}}, {output})
                             .at(0)
                             .elements<float>();
      for (const float element : found) std::printf("%.6f ", element);
      std::printf("\n");
    }
    return 0;
  } catch (const rewright::Failure& failure) {
    return std::fprintf(stderr, "%s: %s (%s)\n", failure.where().c_str(), failure.what(), failure.hint().c_str()), 3;
  }
}
