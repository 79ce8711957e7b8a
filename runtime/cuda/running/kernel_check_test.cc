// Wrong library kernels, and their replacements.
#include "runtime/checked_kernels.h"
#include "runtime/cuda/running/execution.h"
#include "runtime/cuda/running/prepare.h"
#include "runtime/cuda/testing/tested_graph.h"

namespace rewright::cuda {

namespace {

// A convolution with a bias and an activation, a product after it, and other operators.
TestedGraph mixed_graph(unsigned seed) {
  TestedGraph b(seed);
  const ValueId y = b.node("Relu", {b.convolution(b.input(DataType::kFloat, {2, 4, 9, 7}), 6, 3)});
  const ValueId z = b.node("Add", {b.node("MatMul", {y, b.constant({7, 5})}), b.constant({5})});
  b.output(b.node("Softmax", {z}, {{"axis", Index(3)}}));
  b.output(b.node("ReduceSum", {y}, {{"axes", indices({1})}, {"keepdims", false}}));
  return b;
}

}  // namespace

TEST_CASE("a wrong operation of a library is found, named and replaced", "[host]") {
  TestedGraph b = mixed_graph(1);
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  for (const bool last : {false, true})
    for (const bool of_convolutions : {false, true}) {
      CAPTURE(last, of_convolutions);
      const auto driver = make_host_driver({.is_wrong = [=](const LibraryShape& shape) {
        return of_convolutions ? std::holds_alternative<ConvolutionShape>(shape) : std::holds_alternative<ProductShape>(shape);
      }});
      for (const bool checked : {false, true}) {
        SessionOptions options;
        if (checked) options.check_kernels.emplace();
        const auto session = make_session(driver, b.graph, options, {.channels_last = last});
        if (!checked) {
          const std::vector<Tensor> wrong = session->run(b.inputs);
          CHECK(wrong[of_convolutions ? 1 : 0].reals().back() != Approx(expected[of_convolutions ? 1 : 0].reals().back()));
          continue;
        }
        for (int run = 0; run < 3; ++run) b.require_close(session->run(b.inputs), expected, 2e-5);
        REQUIRE(session->warnings().size() == 1);
        const std::string warning = session->warnings()[0];
        CHECK(warning.find(of_convolutions ? "a convolution (the only one) of host compiler computes"
                                           : "a product (the only one) of host compiler computes") != warning.npos);
        CHECK(warning.find("where the definition gives") != warning.npos);
        CHECK(warning.find("; generated code takes its place") != warning.npos);
        const CheckedKernels counts = checked_kernels(*session);
        CHECK(counts.steps > 0);
        CHECK(counts.checked == counts.steps);
      }
    }
}

TEST_CASE("every node by generated code, and by the interpreter") {
  for (unsigned seed = 0; seed < 3; ++seed) {
    TestedGraph b = mixed_graph(seed);
    const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
    const auto driver = tested_driver();
    ConstantStore constants(driver);
    for (const Instead instead : {Instead::kGenerated, Instead::kReference}) {
      InsteadOf all;
      for (int n = 0; n < static_cast<int>(b.graph.nodes().size()); ++n) all[n] = instead;
      const InUse in_use(*driver);
      const auto execution = prepare(driver, b.graph, constants, {}, {}, all);
      CHECK(library_steps(execution->plan()).empty());
      for (const Step& step : execution->plan().steps)
        CHECK(std::holds_alternative<HostStep>(step.work) == (instead == Instead::kReference));
      b.require_close(execution->run(b.inputs), expected, 2e-5);
    }
  }
}

TEST_CASE("open sizes are checked once each") {
  TestedGraph b(5);
  const ValueId x = b.graph.add_input("x", {DataType::kFloat, {Index::symbol("n"), Index(6)}});
  b.output(b.node("MatMul", {x, b.constant({6, 4})}));
  SessionOptions options;
  options.check_kernels.emplace();
  const auto session = make_session(tested_driver(), b.graph, options, {});
  for (const std::int64_t n : {3, 3, 5, 3, 5}) {
    const std::vector<Tensor> inputs{random_tensor(b.random, DataType::kFloat, {n, 6})};
    b.require_close(session->run(inputs), interpret(b.graph, inputs), 2e-5);
  }
  CHECK(checked_kernels(*session).steps == 2);
}

}  // namespace rewright::cuda
