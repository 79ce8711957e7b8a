// What import and export of ONNX share. Only the .cc files of both include this: it brings in ONNX's own headers.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "graph/file.h"
#include "graph/graph.h"
#include "operators/procedure.h"

namespace rewright::graph {

struct ImportOptions;  // graph/onnx/onnx.h

// Everything of a model that is not its graph of operators.
struct ImportedModel {
  FileBytes source;           // the model as it was read; initializers point into it
  onnx::ModelProto skeleton;  // without nodes and initializers
  std::map<std::string, int> opsets;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions;  // of the skeleton, by domain, name and overload
  bool sizes_given = false;  // by ImportOptions: declared types are no longer those of the skeleton

  struct Initializer {
    std::string name;
    ValueId value = kNoValue;
    Tensor tensor;           // empty if elements of this type are not read
    std::string_view proto;  // the whole TensorProto, in `source`
    bool is_external = false;
    bool is_unused = false;   // nothing read it in the model: kept for its own sake
    bool is_default = false;  // the value that an input of the graph has where none is given
  };
  std::vector<Initializer> initializers;

  // They stay in the skeleton as long as they are what they were.
  struct SparseInitializer {
    std::string name;
    ValueId value = kNoValue;
    Tensor tensor;  // dense; empty if elements of this type are not read
    bool is_unused = false;
  };
  std::vector<SparseInitializer> sparse_initializers;

  // ONNX's Constant nodes became constant leaves; as long as they live they are written back as they were.
  struct ConstantNode {
    ValueId value;
    Tensor tensor;
    std::string node_proto;
  };
  std::vector<ConstantNode> constant_nodes;

  std::shared_ptr<const Procedures> foreign;  // by ImportOptions

  // Of a graph that stands inside of another one: constants that it captures, by name, and the names of the others' values.
  std::vector<std::pair<ValueId, Tensor>> outer_constants;
  std::shared_ptr<const std::unordered_set<std::string>> outer_names;
  std::string size_scope;  // which one: what the names of its own sizes begin with
};

inline constexpr int kDefaultOpset = 21;
inline constexpr int kDefaultIrVersion = 10;
inline constexpr int kWeightsNeedNoInput = 4;  // the IR version from which weights need not be inputs as well

// Numbers of Protobuf fields that are handled by hand.
namespace field {
inline constexpr std::uint32_t kModelGraph = 7, kGraphNode = 1, kGraphInitializer = 5, kTensorRawData = 9;
}

// Import of a graph that stands inside of another one.
Graph import_inner_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options, std::string size_scope);

// ---- Operators of others (onnx_foreign.cc)

// Of this library, or brought by whoever read the model. Null if the operator is not executed this way.
const Procedure* find_procedure(const ImportedModel& model, const std::string& domain, const std::string& type);
// The types of a node's outputs, by name, as far as the procedure's `infer` tells them.
std::unordered_map<std::string, onnx::TypeProto> infer_foreign(const Procedure& procedure, const onnx::NodeProto& node,
                                                               const std::function<const Value*(const std::string&)>& value);

// ---- Tensors (onnx_tensor.cc)

// A TensorProto with its raw_data left where it is.
struct TensorParts {
  onnx::TensorProto header;
  std::optional<std::string_view> raw;
};
TensorParts split_tensor(std::string_view proto);

// Files beside a model that hold weights; each is mapped once (onnx_external.cc).
class ExternalData {
 public:
  // `given`: contents of files, by the names under which the model speaks of them. Others are read from the model's folder.
  explicit ExternalData(std::map<std::string, FileBytes> given = {}) : given_(std::move(given)) {}
  ExternalData(const std::filesystem::path& model, std::map<std::string, FileBytes> given);
  // The bytes that the entries of a TensorProto name. A file's real place must be within the model's folder or, where the model
  // is a link, within the folder of the real model: so the caches of model hubs lay them out. Throws Error(kBadInput).
  FileBytes find(const onnx::TensorProto& tensor, std::size_t expected_bytes);

 private:
  const FileBytes& contents(const std::string& location);
  std::filesystem::path resolve(const std::string& location) const;

  std::map<std::string, FileBytes> given_;
  std::optional<std::filesystem::path> folder_;  // null: the model is not in a file
  std::filesystem::path real_folder_;
  std::map<std::filesystem::path, FileBytes> files_;
};
// Tensors of the node's attributes and subgraphs whose data are in files get them. False if there were none.
bool embed_external(onnx::NodeProto& node, ExternalData& external);

// Null for types that tensors here cannot have.
std::optional<DataType> data_type_of(int onnx_type);
// Throws Error(kUnsupported) for elements of a type that tensors here cannot have, Error(kBadInput) for broken ones.
// `owner` keeps `parts.raw` alive.
Tensor to_tensor(const TensorParts& parts, const std::shared_ptr<const void>& owner, ExternalData& external);
Tensor to_tensor(const onnx::TensorProto& proto);
// The dense tensor that a sparse one stands for (sparse.cc). Throws Error(kMissing) if it takes more than `max_bytes`.
Tensor to_tensor(const onnx::SparseTensorProto& proto, ExternalData& external, std::size_t max_bytes);
// A tensor whose bytes are those that ONNX stores: elements of less than 8 bits packed, all others as they are.
Tensor packed(const Tensor& tensor);
// Everything but the data.
onnx::TensorProto tensor_header(const Tensor& tensor, const std::string& name);
onnx::TensorProto to_tensor_proto(const Tensor& tensor, const std::string& name);

// ---- Types

// Keys of maps. The text of an expression is none: a model may call a size "N + 1".
struct IndexOrder {
  bool operator()(const Index& a, const Index& b) const { return Index::compare(a, b) < 0; }
};

// Sizes that are neither numbers nor plain names are left open. `names`: those that may be written; null: any.
onnx::ValueInfoProto value_info(const std::string& name, const TensorType& type, bool shape_known,
                                const std::set<std::string>* names = nullptr);
// The names of sizes that a graph's author has given: those of its model's inputs, outputs and inner values, and those of
// inputs that no model has. The names that import makes up for sizes that it does not know are none of them.
std::set<std::string> given_size_names(const Graph& graph);
// Takes the names of sizes from the graphs inside of a node: there they mean other sizes than around it.
void forget_inner_size_names(onnx::NodeProto& node);
void forget_size_names(onnx::TypeProto& type);
void forget_size_names(onnx::TypeProto& type, const std::function<bool(const std::string&)>& keep);

struct Declaration;
Declaration declaration_of(const onnx::ValueInfoProto& info);  // onnx_interface.cc

// ---- Names (onnx_names.cc)

bool has_subgraphs(const onnx::NodeProto& node);
// The values of outer scopes that a node's subgraphs read, each once, in the order in which they are met.
std::vector<std::string> captured_names(const onnx::NodeProto& node);
// Of ONNX's Gradient node, what is differentiated and what it is computed from: y, xs and zs, which its attributes name.
// Nothing for other nodes.
std::vector<std::string> differentiated_names(const onnx::NodeProto& node);
// Every name that is defined inside of a node's subgraphs.
void inner_names(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit);
// Renames what the node's subgraphs read from outer scopes.
void rename_captured(onnx::NodeProto& node, const std::unordered_map<std::string, std::string>& names);
// Of what a node computes: no names of values, no name of the node.
std::uint64_t computation_hash(const onnx::NodeProto& node);

// ---- ONNX's own library (onnx_library.cc)

int newest_opset();
int newest_ir_version();
// Throws Error(kBadInput) if ONNX's description of the operator forbids the node; false if there is no such operator (any
// more) in this opset.
bool verify_node(const onnx::NodeProto& node, const std::string& domain, int opset);
// Does ONNX's own domain have the operator in this opset?
bool is_standard(const std::string& type, int opset);
// Those that the operator's description gives a value and the node does not.
void add_default_attributes(onnx::NodeProto& node, const std::string& domain, int opset);
// Does ONNX define the operator by a body of other nodes?
bool is_schema_function(const onnx::NodeProto& node, const std::string& domain, int opset);
// That body, for inputs of these types (no value: not known, or absent), and the call's attributes with those that have
// defaults.
struct SchemaFunction {
  onnx::FunctionProto function;
  onnx::NodeProto call;
};
std::optional<SchemaFunction> schema_function(const onnx::NodeProto& node, const std::string& domain, int opset,
                                              const std::vector<onnx::TypeProto>& input_types);
void check_function_calls(const onnx::ModelProto& model);
// Types of the values between inputs and outputs as far as ONNX's own inference finds them.
std::unordered_map<std::string, onnx::TypeProto> infer_types(onnx::ModelProto model);
// What ONNX's checker objects to in a model.
std::optional<std::string> checker_objection(std::string_view model);

// ---- Export (onnx_export.cc)

// The nodes and weights of a graph that stands inside of another one, without the constants that it captures. Throws
// Error(kUnsupported) if they need an opset that the graph's model does not import.
onnx::GraphProto inner_graph_proto(const Graph& graph);

// ---- Serialization

std::string serialize(const google::protobuf::MessageLite& message);

}  // namespace rewright::graph
