// Graphs for tests of whole sessions, built node by node and compared with the interpreter.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/temporary_folder.h"
#include "runtime/cuda/planning/choices.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/testing/device.h"
#include "runtime/testing.h"

namespace rewright::cuda {

using testing::indices;
using testing::random_tensor;

struct TestedGraph : testing::RandomGraph {
  using RandomGraph::RandomGraph;

  ValueId node(std::string_view name, std::vector<ValueId> operands,
               std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    return testing::node(graph, name, std::move(operands), std::move(attributes))[0];
  }
  void output(ValueId value) { graph.add_output("y" + std::to_string(graph.outputs().size()), value); }

  void check(bool libraries = true, double tolerance = 2e-5) {
    const std::vector<Tensor> expected = interpret(graph, inputs);
    const TemporaryFolder cache;  // of kernels, shared by both sessions
    const auto choices = std::make_shared<Choices>(std::filesystem::path(), "tested");
    for (const bool other : {false, true}) {
      INFO((other ? "in streams, channels last" : "one after the other, channels first"));
      SessionOptions options;  // check kernels in the first run
      options.check_kernels.emplace();
      const auto session =
          make_session(tested_driver(libraries), graph, options,
                       {.cache = cache.path(), .choices = choices, .in_streams = other, .channels_last = other});
      for (int round = 0; round < (other ? 5 : 3); ++round) require_close(session->run(inputs), expected, tolerance);
      CHECK(session->warnings() == std::vector<std::string>());
    }
  }

  void require_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, double tolerance) const {
    testing::require_close(graph, actual, expected, {tolerance, 2e-3});
  }

  ValueId convolution(ValueId x, std::int64_t channels, std::int64_t kernel) {
    const Sizes sizes = values(graph.value(x).type.shape);
    Sizes w{channels, sizes[1]};
    w.resize(sizes.size(), kernel);
    const std::vector<std::int64_t> pads(sizes.size() - 2, kernel / 2), ones(sizes.size() - 2, 1);
    return node("Conv", {x, constant(w), constant({channels})},
                {{"strides", to_indices(ones)},
                 {"dilations", to_indices(ones)},
                 {"pads_begin", to_indices(pads)},
                 {"pads_end", to_indices(pads)}});
  }
};

}  // namespace rewright::cuda
