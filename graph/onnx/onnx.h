// Reading and writing ONNX models.
//
//   Graph graph = import_onnx("model.onnx", {.input_sizes = {{"image", {1, 3, 224, 224}}}});
//   ...
//   export_onnx(graph, "faster.onnx", kRewritten);
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "operators/procedure.h"

namespace rewright::graph {

struct ImportOptions {
  // Sizes of inputs with symbolic or missing dimensions, by name ("--shape"). A size that contradicts the model throws
  // Error(kBadInput).
  std::map<std::string, Sizes> input_sizes = {};
  // Values of inputs, for a graph that will be executed on these only: shapes and parameters that the model computes from
  // inputs (axes, pads, scales, ...) are then known.
  std::map<std::string, Tensor> input_values = {};
  // The graph will be executed: functions are replaced by their bodies even if parts of these stay opaque.
  bool for_execution = false;
  // Procedures become graphs of operators where possible (Procedure::graph; loops with a known number of iterations), since
  // only operators have gradients. Always done for a model that contains ONNX's Gradient.
  bool procedures_as_graphs = false;
  // For a body (body_of): the captured values that are constants, and the names that its new values must not get.
  std::map<std::string, Tensor> outer_constants = {};
  std::shared_ptr<const std::unordered_set<std::string>> outer_names = {};
  std::shared_ptr<const Procedures> foreign =
      {};                                         // operators that neither ONNX nor the registry knows: Procedures::add_foreign
  std::size_t max_bytes = std::size_t{64} << 30;  // a model that needs more memory is refused
};

// Reads a model. Names, order, types, metadata, value info, functions, subgraphs and operators of any domain are kept; nodes
// that no definition covers become opaque. Weights are memory-mapped if possible, also external data, which must be in the
// model's folder. Throws Error(kBadInput) with file and node.
Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options = {});
Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options = {});

struct ExportOptions {
  bool check = true;                                // run ONNX's checker on the result
  bool unused_weights = true;                       // also write weights that nothing in the model reads
  std::size_t external_data_above = 1900ull << 20;  // more bytes of weights are written to a file beside the model
};

// For a rewritten graph: weights that nothing reads are left out.
inline constexpr ExportOptions kRewritten{.unused_weights = false};

// Writes a model in the opset of the model that it was imported from (21 for others), under a temporary name that is then
// renamed. Unchanged nodes are written as they were read.
void export_onnx(const Graph& graph, const std::filesystem::path& file, const ExportOptions& options = {});
std::string export_onnx_bytes(const Graph& graph, const ExportOptions& options = {});

// A model of a single node, to be timed or tested by another engine. Its inputs are the node's; constants are initializers if
// `keep_constants`, else inputs, too.
std::string export_node_bytes(const Graph& graph, const Node& node, bool keep_constants);

// Files of tensors: TensorProto (.pb), as in ONNX's test data, and NumPy's .npy. Reading throws Error(kBadInput).
Tensor read_tensor_proto(const std::filesystem::path& file);
// Read a .pb file for an input or output of a graph, which the model may declare to be a sequence or optional.
Datum read_input(const Graph& graph, std::size_t input, const std::filesystem::path& file);
Datum read_output(const Graph& graph, std::size_t output, const std::filesystem::path& file);
// Writes a file that read_output can read.
void write_output(const Graph& graph, std::size_t output, const Datum& datum, const std::filesystem::path& file);
Tensor read_npy(const std::filesystem::path& file);
bool is_npy_type(DataType type);  // can a .npy file hold it?
void write_npy(const Tensor& tensor, const std::filesystem::path& file);

std::string onnx_version();

}  // namespace rewright::graph
