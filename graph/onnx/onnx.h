// Reading and writing ONNX models.
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
  // Sizes for symbolic or missing dimensions of inputs ("--shape"): input name -> sizes. A size that contradicts the model is
  // an Error.
  std::map<std::string, Sizes> input_sizes = {};
  // Values of inputs, for a graph that is executed on just these: shapes and parameters that a model computes from inputs
  // (axes, pads, scales, ...) are then known.
  std::map<std::string, Tensor> input_values = {};
  // Functions are replaced by their bodies even where parts of these are not understood: the graph is to be executed.
  bool for_execution = false;
  // Nodes that are executed by a procedure become graphs of operators, where these are known (Procedure::graph; loops with a
  // known number of iterations): only operators have gradients. Also done in a model that asks for gradients itself.
  bool procedures_as_graphs = false;
  // Of a graph that stands inside of another one: inputs that are constants there, and the names that its new values must not
  // take.
  std::map<std::string, Tensor> outer_constants = {};
  std::shared_ptr<const std::unordered_set<std::string>> outer_names = {};
  std::shared_ptr<const Procedures> foreign = {};  // operators that neither ONNX nor the registry know: see add_foreign
  std::size_t max_bytes = std::size_t{64} << 30;   // refuse to allocate beyond this
};

// Reads a model. Names, order, types, metadata, value info, functions, subgraphs and operators of any domain are kept; nodes
// that no definition covers become opaque. Weights are memory-mapped where the file allows it, external data included (which
// must lie inside of the model's folder). Throws Error(kBadInput) with file and node.
Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options = {});
Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options = {});

struct ExportOptions {
  bool check = true;                                // run ONNX's checker on the result
  bool unused_weights = true;                       // write those that nothing read in the model, too
  std::size_t external_data_above = 1900ull << 20;  // bytes of weights from which they are written beside the model
};

// For a graph that was rewritten: what nothing read in its model is left out.
inline constexpr ExportOptions kRewritten{.unused_weights = false};

// Writes a model in the opset of the model it was imported from (21 for graphs built here), under a temporary name that is then
// renamed. Untouched nodes are written as they were read.
void export_onnx(const Graph& graph, const std::filesystem::path& file, const ExportOptions& options = {});
std::string export_onnx_bytes(const Graph& graph, const ExportOptions& options = {});

// A model of one node with inputs of the node's input types (constants as initializers only if `keep_constants`), to be timed
// or tested by another engine.
std::string export_node_bytes(const Graph& graph, const Node& node, bool keep_constants);

// A TensorProto file (.pb), as ONNX's test data has them, and NumPy's .npy.
Tensor read_tensor_proto(const std::filesystem::path& file);
// The same for the value of an input or output of a graph, which the model may declare to be a sequence or optional.
Datum read_input(const Graph& graph, std::size_t input, const std::filesystem::path& file);
Datum read_output(const Graph& graph, std::size_t output, const std::filesystem::path& file);
// As read_output reads it.
void write_output(const Graph& graph, std::size_t output, const Datum& datum, const std::filesystem::path& file);
Tensor read_npy(const std::filesystem::path& file);
bool is_npy_type(DataType type);  // what NumPy's files can hold
void write_npy(const Tensor& tensor, const std::filesystem::path& file);

std::string onnx_version();

}  // namespace rewright::graph
