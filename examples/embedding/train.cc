// Trains a model with one input and classes as its output on numbers made here, and writes it: train MODEL.onnx TRAINED.onnx
#include <rewright.h>

#include <cmath>
#include <cstdio>

namespace {

// Random points around one centre a class, and the class of each.
struct Points {
  rewright::Array x, targets;
};

Points points(std::int64_t count, std::int64_t width, std::int64_t classes, std::uint32_t seed) {
  const auto random = [&seed] {  // from -1 to 1
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
  };
  std::vector<float> x;
  std::vector<std::int64_t> targets;
  for (std::int64_t n = 0; n < count; ++n) {
    targets.push_back(n % classes);
    for (std::int64_t i = 0; i < width; ++i)
      x.push_back(std::sin(static_cast<float>((n % classes + 1) * (i + 1))) + 0.5F * random());
  }
  constexpr std::int32_t kInt64 = 7;
  return {rewright::Array::floats({count, width}, x), rewright::Array::of(kInt64, {count}, targets)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: train MODEL.onnx TRAINED.onnx\n"), 2;
  try {
    const rewright::Model model = rewright::Model::read(argv[1]);
    const rewright::ValueInfo input = model.inputs().at(0), output = model.outputs().at(0);
    const Points data = points(240, input.sizes.at(1), output.sizes.at(1), 1);
    const Points held_out = points(60, input.sizes.at(1), output.sizes.at(1), 2);

    rewright::Training training{{"loss", "softmax-cross-entropy"}, {"optimizer", "adam"}, {"rate", "0.01"}, {"epochs", "10"}};
    training.data(input.name, data.x).data("targets", data.targets);
    training.held_out(input.name, held_out.x).held_out("targets", held_out.targets);
    training.progress([](const rewright::Step& step) {
      if (step.step % 20 == 0)
        std::printf("step %lld of %lld: loss %.4f\n", static_cast<long long>(step.step), static_cast<long long>(step.steps),
                    step.loss);
      return true;
    });
    const rewright::Trained trained = rewright::train(model, training);
    trained.model().write(argv[2]);
    std::printf("%s\n", trained.report().c_str());
    return 0;
  } catch (const rewright::Failure& failure) {
    return std::fprintf(stderr, "%s: %s (%s)\n", failure.where().c_str(), failure.what(), failure.hint().c_str()), 3;
  }
}
