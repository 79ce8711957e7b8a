#include "runtime/conformance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "expressions/difference.h"
#include "graph/execute.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"

namespace rewright::runtime {

namespace {

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

Tolerance read_tolerance(const std::filesystem::path& folder) {
  Tolerance tolerance;
  const auto file = folder / "tolerance.json";
  if (!std::filesystem::exists(file)) return tolerance;
  const auto json = nlohmann::json::parse(map_file(file).text(), nullptr, false);
  if (!json.is_object()) throw Error(ErrorCode::kBadInput, "is not a JSON object", file.string());
  tolerance.relative = json.value("rtol", tolerance.relative);
  tolerance.absolute = json.value("atol", tolerance.absolute);
  return tolerance;
}

// The tensors of input_0.pb, input_1.pb, ... as far as these exist.
template <class Read>
std::vector<Datum> read_data(const std::filesystem::path& folder, const std::string& kind, std::size_t count,
                             const Read& read) {
  std::vector<Datum> data;
  for (std::size_t i = 0; i < count; ++i) {
    const auto file = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!std::filesystem::exists(file)) break;
    data.push_back(read(i, file));
  }
  return data;
}

std::string describe(const Datum& datum) {
  if (datum.empty()) return "nothing";
  if (datum.is_sequence()) return "a sequence of " + std::to_string(datum.elements().size());
  if (datum.is_map()) return "a map of " + std::to_string(datum.values().size());
  return to_string(TensorType{datum.tensor().type(), to_indices(datum.tensor().sizes())});
}

// The difference as text; empty if the results agree.
std::string difference(const Tensor& result, const Tensor& expected, Tolerance tolerance) {
  if (expected.type() == DataType::kHalf || expected.type() == DataType::kBfloat16)
    tolerance.relative = std::max(tolerance.relative, 4 * unit_roundoff(expected.type()));
  if (result.type() != expected.type() || result.sizes() != expected.sizes())
    return "is " + describe(result) + ", expected " + describe(expected);
  const auto wrong = [](std::size_t i, const std::string& is, const std::string& should) {
    return "element " + std::to_string(i) + " is " + is + ", expected " + should;
  };
  if (expected.type() == DataType::kString) {
    for (std::size_t i = 0; i < expected.strings().size(); ++i)
      if (result.strings()[i] != expected.strings()[i])
        return wrong(i, "\"" + result.strings()[i] + "\"", "\"" + expected.strings()[i] + "\"");
    return {};
  }
  if (is_integer(expected.type()) || expected.type() == DataType::kBool) {
    const auto a = result.integers(), b = expected.integers();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) >
          tolerance.absolute + tolerance.relative * std::abs(static_cast<double>(b[i])))
        return wrong(i, std::to_string(a[i]), std::to_string(b[i]));
    return {};
  }
  const auto a = result.reals(), b = expected.reals();
  double largest = 0;
  for (const double v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  if (expected.type() == DataType::kFloat) tolerance.absolute = std::max(tolerance.absolute, 0x1p-24 * largest);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * std::abs(b[i])) || std::isinf(b[i]))
      return wrong(i, std::to_string(a[i]), std::to_string(b[i]));
  }
  return {};
}

std::string difference(const Datum& result, const Datum& expected, const Tolerance& tolerance) {
  if (result.empty() != expected.empty() || result.is_sequence() != expected.is_sequence() ||
      result.is_map() != expected.is_map())
    return "is " + describe(result) + ", expected " + describe(expected);
  if (expected.empty()) return {};
  if (expected.is_map()) {
    if (!(*result.keys() == *expected.keys())) return "is a map with other keys";
    return difference(result.values(), expected.values(), tolerance);
  }
  if (!expected.is_sequence()) return difference(result.tensor(), expected.tensor(), tolerance);
  if (result.elements().size() != expected.elements().size())
    return "is " + describe(result) + ", expected " + describe(expected);
  for (std::size_t i = 0; i < expected.elements().size(); ++i)
    if (std::string wrong = difference(result.elements()[i], expected.elements()[i], tolerance); !wrong.empty())
      return "element " + std::to_string(i) + ": " + wrong;
  return {};
}

bool has_opaque(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return node->op == nullptr; });
}

// Does a Resize align corners where size * scale is not whole? ONNX's reference then aligns none
// (operators/definitions/resample.cc).
bool aligns_fractional_corners(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    if (node->op == nullptr || node->op->name() != "Resize") return false;
    const auto list = [&](std::string_view field) { return std::get<Indices>(node->attributes.at(*node->op->field(field))); };
    if (std::get<std::string>(node->attributes.at(*node->op->field("coordinates"))) != "align_corners") return false;
    const Indices sizes = list("sizes"), numerators = list("numerators"), denominators = list("denominators");
    const Indices& from = graph.value(node->inputs[0]).type.shape;
    for (std::size_t a = 0; a < sizes.size(); ++a)
      if (!(sizes[a] * denominators[a] == from[a] * numerators[a])) return true;
    return false;
  });
}

// Runs one data set. A wrong result is an Error, like every other failure.
void run_data_set(const std::filesystem::path& model, const std::filesystem::path& folder, const Executor& execute,
                  Tolerance tolerance) {
  Graph graph = import_onnx(model);
  const std::vector<Datum> inputs = read_data(folder, "input", graph.inputs().size(),
                                              [&](std::size_t i, const auto& file) { return read_input(graph, i, file); });
  if (has_opaque(graph)) {
    ImportOptions options;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].is_tensor()) options.input_values[graph.value(graph.inputs()[i]).name] = inputs[i].tensor();
    graph = import_onnx(model, options);
  }
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kBadInput,
                std::to_string(inputs.size()) + " tensors for " + std::to_string(graph.inputs().size()) + " inputs",
                folder.filename().string());
  const std::vector<Datum> expected = read_data(folder, "output", graph.outputs().size(),
                                                [&](std::size_t i, const auto& file) { return read_output(graph, i, file); });
  const std::vector<Datum> results = execute(graph, inputs);
  if (results.size() != expected.size())
    throw Error(ErrorCode::kBadInput, std::to_string(results.size()) + " results, expected " + std::to_string(expected.size()),
                folder.filename().string());
  // Random models are recognized by their operators, not by their results, which could be equal by chance.
  const bool random = has_random_results(graph);
  if (random) tolerance.absolute = std::numeric_limits<double>::infinity();  // compares types and sizes only
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string wrong = difference(results[i], expected[i], tolerance);
    if (!wrong.empty() && aligns_fractional_corners(graph))
      throw Error(ErrorCode::kUnsupported, "corners are aligned as in PyTorch and ONNX Runtime, not by a fractional size");
    if (!wrong.empty())
      throw Error(ErrorCode::kBadInput, wrong, folder.filename().string() + ": output \"" + graph.outputs()[i].name + "\"");
  }
  if (random) throw Error(ErrorCode::kUnsupported, "its results are random: those expected were drawn by another generator");
}

}  // namespace

std::string_view name(ConformanceCase::Status status) {
  switch (status) {
    case ConformanceCase::Status::kPassed:
      return "passed";
    case ConformanceCase::Status::kFailed:
      return "failed";
    case ConformanceCase::Status::kUnsupported:
      break;
  }
  return "unsupported";
}

std::size_t ConformanceReport::count(ConformanceCase::Status status) const {
  return static_cast<std::size_t>(
      std::count_if(cases.begin(), cases.end(), [&](const ConformanceCase& c) { return c.status == status; }));
}

ConformanceCase run_conformance_case(const std::filesystem::path& folder, const Executor& execute) {
  ConformanceCase result;
  result.name = folder.filename().string();
  auto end = [&](ConformanceCase::Status status, std::string reason) {
    result.status = status;
    result.reason = std::move(reason);
    return result;
  };
  try {
    const Tolerance tolerance = read_tolerance(folder);
    std::vector<std::filesystem::path> sets;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry.path());
    std::sort(sets.begin(), sets.end());
    if (sets.empty()) return end(ConformanceCase::Status::kFailed, "has no test data");
    for (const auto& set : sets) run_data_set(folder / "model.onnx", set, execute, tolerance);
  } catch (const Error& error) {
    return end(
        error.code() == ErrorCode::kUnsupported ? ConformanceCase::Status::kUnsupported : ConformanceCase::Status::kFailed,
        error.what());
  }
  return result;
}

ConformanceReport run_conformance(const std::filesystem::path& folder, const Executor& execute,
                                  const std::function<void(const ConformanceCase&)>& progress) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (std::filesystem::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  if (error) throw Error(ErrorCode::kBadInput, "cannot be read: " + error.message(), folder.string());
  if (folders.empty())
    throw Error(ErrorCode::kBadInput, "has no test cases", folder.string(), "cases are folders with a model.onnx");
  std::sort(folders.begin(), folders.end());
  ConformanceReport report;
  for (const auto& path : folders) {
    report.cases.push_back(run_conformance_case(path, execute));
    if (progress) progress(report.cases.back());
  }
  return report;
}

}  // namespace rewright::runtime
