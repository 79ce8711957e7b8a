#include "runtime/conformance.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "graph/file.h"
#include "graph/onnx.h"

namespace rewright {

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

// input_0.pb, input_1.pb, ... as far as there are any.
std::vector<Tensor> read_tensors(const std::filesystem::path& folder, const std::string& kind, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    const auto file = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!std::filesystem::exists(file)) break;
    tensors.push_back(read_tensor_proto(file));
  }
  return tensors;
}

std::string describe(const Tensor& tensor) { return to_string(TensorType{tensor.type(), to_indices(tensor.sizes())}); }

// Empty if they agree.
std::string difference(const Tensor& result, const Tensor& expected, Tolerance tolerance) {
  if (expected.type() == DataType::kHalf) tolerance.relative = std::max(tolerance.relative, 0x2p-10);
  if (expected.type() == DataType::kBfloat16) tolerance.relative = std::max(tolerance.relative, 0x2p-7);
  if (result.type() != expected.type() || result.sizes() != expected.sizes())
    return "is " + describe(result) + ", expected " + describe(expected);
  if (is_integer(expected.type()) || expected.type() == DataType::kBool) {
    const auto a = result.integers(), b = expected.integers();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) >
          tolerance.absolute + tolerance.relative * std::abs(static_cast<double>(b[i])))
        return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", expected " + std::to_string(b[i]);
    return {};
  }
  const auto a = result.reals(), b = expected.reals();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * std::abs(b[i])) || std::isinf(b[i]))
      return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", expected " + std::to_string(b[i]);
  }
  return {};
}

const Node* first_opaque(const Graph& graph) {
  for (const auto& node : graph.nodes())
    if (node->op == nullptr) return node.get();
  return nullptr;
}

// A failure to agree is an Error, as every other failure is.
void run_data_set(const std::filesystem::path& model, const std::filesystem::path& folder, const Executor& execute,
                  const Tolerance& tolerance) {
  Graph graph = import_onnx(model);
  for (ValueId id : graph.inputs())
    if (byte_size(graph.value(id).type.type) == 0) {
      const Node* opaque = first_opaque(graph);
      throw Error(ErrorCode::kUnsupported,
                  opaque != nullptr ? opaque->opaque_reason : "input \"" + graph.value(id).name + "\" is no tensor of numbers");
    }
  const std::vector<Tensor> inputs = read_tensors(folder, "input", graph.inputs().size());
  if (first_opaque(graph) != nullptr) {
    ImportOptions options;
    for (std::size_t i = 0; i < inputs.size(); ++i) options.input_values[graph.value(graph.inputs()[i]).name] = inputs[i];
    graph = import_onnx(model, options);
  }
  if (const Node* opaque = first_opaque(graph)) throw Error(ErrorCode::kUnsupported, opaque->opaque_reason);
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kBadInput,
                std::to_string(inputs.size()) + " tensors for " + std::to_string(graph.inputs().size()) + " inputs",
                folder.filename().string());
  const std::vector<Tensor> expected = read_tensors(folder, "output", graph.outputs().size());
  const std::vector<Tensor> results = execute(graph, inputs);
  if (results.size() != expected.size())
    throw Error(ErrorCode::kBadInput, std::to_string(results.size()) + " results, expected " + std::to_string(expected.size()),
                folder.filename().string());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string wrong = difference(results[i], expected[i], tolerance);
    if (!wrong.empty())
      throw Error(ErrorCode::kBadInput, wrong, folder.filename().string() + ": output \"" + graph.outputs()[i].name + "\"");
  }
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

}  // namespace rewright
