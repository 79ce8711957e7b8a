// Optimizes a model with a rule of one's own beside those that are shipped: custom_rule MODEL.onnx FASTER.onnx
#include <rewright.h>

#include <cstdio>

// (x + y) + (x - y) = 2 x. What is written here is proved for all sizes before it is used.
static const char kRule[] = R"(
rule sum_and_difference: "a sum and a difference, added"
  x[S...], y[S...]
  (x + y) + (x - y) => x * 2
  reassociates
)";

// This one is wrong. It is refused, with inputs for which the sides differ.
static const char kWrongRule[] = R"(
rule not_so: "a sum and a difference, added"
  x[S...], y[S...]
  (x + y) + (x - y) => y * 2
  reassociates
)";

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: custom_rule MODEL.onnx FASTER.onnx\n"), 2;
  try {
    rewright::Options options{{"device", "cpu"}, {"estimate", "true"}};
    try {
      options.add_rules(kWrongRule, "custom_rule.cc");
      return 1;
    } catch (const rewright::Failure& failure) {
      std::printf("%s: %s\n", failure.where().c_str(), failure.what());
    }
    options.add_rules(kRule, "custom_rule.cc");
    const rewright::Result result = rewright::optimize(rewright::Model::read(argv[1]), options);
    result.model().write(argv[2]);
    const bool used = result.certificate().find("sum_and_difference") != std::string::npos;
    std::printf("the rule was %s\n", used ? "used" : "not used");
    return used ? 0 : 1;
  } catch (const rewright::Failure& failure) {
    return std::fprintf(stderr, "%s: %s (%s)\n", failure.where().c_str(), failure.what(), failure.hint().c_str()), 3;
  }
}
