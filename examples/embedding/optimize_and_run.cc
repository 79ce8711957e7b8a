// Optimizes a model, then runs it and the result on the same inputs: optimize_and_run MODEL.onnx FASTER.onnx
#include <rewright.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: optimize_and_run MODEL.onnx FASTER.onnx\n"), 2;
  try {
    const rewright::Model model = rewright::Model::read(argv[1]);
    const rewright::Result result = rewright::optimize(model, {{"device", "cpu"}, {"budget", "5s"}});
    result.model().write(argv[2]);
    std::printf("%.2f times as fast\n", result.speedup());

    std::vector<rewright::Array> inputs;
    for (const rewright::ValueInfo& input : model.inputs()) {
      std::size_t count = 1;
      std::vector<std::int64_t> sizes = input.sizes;
      for (std::int64_t& size : sizes) count *= static_cast<std::size_t>(size = std::max<std::int64_t>(size, 1));
      std::vector<float> elements(count);
      for (std::size_t i = 0; i < count; ++i) elements[i] = std::sin(static_cast<float>(i));
      inputs.push_back(rewright::Array::floats(sizes, elements));
    }
    const auto before = rewright::Runner(model).run(inputs).at(0).elements<float>();
    const auto after = rewright::Runner(rewright::Model::read(argv[2])).run(inputs).at(0).elements<float>();
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      largest = std::max(largest, std::abs(before[i]));
      difference = std::max(difference, std::abs(before[i] - after.at(i)));
    }
    std::printf("%zu numbers, largest difference %g of %g\n", before.size(), difference, largest);
    return difference <= 1e-3F * largest ? 0 : 1;
  } catch (const rewright::Failure& failure) {
    return std::fprintf(stderr, "%s: %s (%s)\n", failure.where().c_str(), failure.what(), failure.hint().c_str()), 3;
  }
}
