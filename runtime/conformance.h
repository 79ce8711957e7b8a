// Runs folders of ONNX's backend tests: CASE/model.onnx, CASE/test_data_set_N/input_K.pb and output_K.pb.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::runtime {

// Executes a graph on inputs, in the order of Graph::inputs. Error(kUnsupported) says that it cannot.
using Executor = std::function<std::vector<Datum>(const Graph& graph, std::span<const Datum> inputs)>;

struct ConformanceCase {
  enum class Status { kPassed, kFailed, kUnsupported };
  std::string name;
  Status status = Status::kPassed;
  std::string reason;  // why not passed
};

struct ConformanceReport {
  std::vector<ConformanceCase> cases;  // by name
  std::size_t count(ConformanceCase::Status status) const;
};

std::string_view name(ConformanceCase::Status status);  // "passed", "failed", "unsupported"

// Runs one case. Results are compared as in ONNX's own tests: same type and shape, |result - expected| <= atol + rtol *
// |expected|, with rtol 1e-3 and atol 1e-7 unless CASE/tolerance.json gives others; NaN equals NaN. Expected floats contain
// rounding errors of their own, so half a step of the largest one is always allowed. For types of at most 16 bits, whose steps
// are coarser, two steps are allowed. If a model reads axes, pads or the like from inputs, it is imported with the values of
// these.
ConformanceCase run_conformance_case(const std::filesystem::path& folder, const Executor& execute);

// All the cases of a folder; `progress` (may be empty) is called after each. Throws Error(kBadInput) if there is none.
ConformanceReport run_conformance(const std::filesystem::path& folder, const Executor& execute,
                                  const std::function<void(const ConformanceCase&)>& progress = {});

}  // namespace rewright::runtime
