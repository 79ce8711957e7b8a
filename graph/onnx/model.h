// Shared by import and export of ONNX. Only their .cc files may include this header, since it includes ONNX's own headers.
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

// All of a model but its graph of operators.
struct ImportedModel {
  FileBytes source;           // the model's bytes; initializers point into them
  onnx::ModelProto skeleton;  // without nodes and initializers
  std::map<std::string, int> opsets;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions;  // of the skeleton, by domain, name and overload
  bool sizes_given = false;  // ImportOptions gave sizes, so the types declared in the skeleton no longer hold

  struct Initializer {
    std::string name;
    ValueId value = kNoValue;
    Tensor tensor;           // empty if its element type is not supported
    std::string_view proto;  // the whole TensorProto, in `source`
    bool is_external = false;
    bool is_unused = false;   // nothing in the model reads it; it is written all the same
    bool is_default = false;  // the default of an input of the graph
  };
  std::vector<Initializer> initializers;

  // Unchanged ones are written back from the skeleton.
  struct SparseInitializer {
    std::string name;
    ValueId value = kNoValue;
    Tensor tensor;  // dense; empty if its element type is not supported
    bool is_unused = false;
  };
  std::vector<SparseInitializer> sparse_initializers;

  // ONNX's Constant nodes, which became constant leaves. Those that are still used are written back unchanged.
  struct ConstantNode {
    ValueId value;
    Tensor tensor;
    std::string node_proto;
  };
  std::vector<ConstantNode> constant_nodes;

  std::shared_ptr<const Procedures> foreign;  // from ImportOptions

  // For a body: the constants that it captures, and the names of values around it.
  std::vector<std::pair<ValueId, Tensor>> outer_constants;
  std::shared_ptr<const std::unordered_set<std::string>> outer_names;
  std::string size_scope;  // a prefix of the names of its own sizes, distinct for each body
};

inline constexpr int kDefaultOpset = 21;
inline constexpr int kDefaultIrVersion = 10;
inline constexpr int kWeightsNeedNoInput = 4;  // from this IR version on, weights need not be listed among the inputs

// Numbers of the Protobuf fields that are read and written without Protobuf.
namespace field {
inline constexpr std::uint32_t kModelGraph = 7, kGraphNode = 1, kGraphInitializer = 5, kTensorRawData = 9;
}

// Imports a body: a graph inside of another one.
Graph import_inner_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options, std::string size_scope);

// ---- Operators of callers (import/foreign.cc)

// The procedure of an operator, from the library or from ImportOptions::foreign; null if there is none.
const Procedure* find_procedure(const ImportedModel& model, const std::string& domain, const std::string& type);
// The types of a node's outputs, by name, that the procedure's `infer` gives.
std::unordered_map<std::string, onnx::TypeProto> infer_foreign(const Procedure& procedure, const onnx::NodeProto& node,
                                                               const std::function<const Value*(const std::string&)>& value);

// ---- Tensors (tensor.cc)

// A TensorProto whose raw_data is not copied.
struct TensorParts {
  onnx::TensorProto header;
  std::optional<std::string_view> raw;
};
TensorParts split_tensor(std::string_view proto);

// The files in which a model stores weights; each is mapped once (external.cc).
class ExternalData {
 public:
  // `given`: contents of files, by their names in the model. Other files are read from the model's folder.
  explicit ExternalData(std::map<std::string, FileBytes> given = {}) : given_(std::move(given)) {}
  ExternalData(const std::filesystem::path& model, std::map<std::string, FileBytes> given);
  // The bytes to which a TensorProto's external_data refers. The file, with links resolved, must be within the model's folder
  // or, if the model is a link, within the folder of its target, as in the caches of model hubs. Throws Error(kBadInput).
  FileBytes find(const onnx::TensorProto& tensor, std::size_t expected_bytes);

 private:
  const FileBytes& contents(const std::string& location);
  std::filesystem::path resolve(const std::string& location) const;

  std::map<std::string, FileBytes> given_;
  std::optional<std::filesystem::path> folder_;  // nullopt: the model is not in a file
  std::filesystem::path real_folder_;
  std::map<std::filesystem::path, FileBytes> files_;
};
// Copies external data of tensors in the node's attributes and subgraphs into the node. Returns false if there were none.
bool embed_external(onnx::NodeProto& node, ExternalData& external);

// nullopt for element types that Tensor does not support.
std::optional<DataType> data_type_of(int onnx_type);
// Throws Error(kUnsupported) for an unsupported element type, Error(kBadInput) for a broken tensor. `owner` keeps `parts.raw`
// alive.
Tensor to_tensor(const TensorParts& parts, const std::shared_ptr<const void>& owner, ExternalData& external);
Tensor to_tensor(const onnx::TensorProto& proto);
// A sparse tensor as a dense one (sparse.cc). Throws Error(kMissing) if it takes more than `max_bytes`.
Tensor to_tensor(const onnx::SparseTensorProto& proto, ExternalData& external, std::size_t max_bytes);
// The tensor with the bytes that ONNX stores: elements of less than 8 bits packed, others unchanged.
Tensor packed(const Tensor& tensor);
// A TensorProto without the data.
onnx::TensorProto tensor_header(const Tensor& tensor, const std::string& name);
onnx::TensorProto to_tensor_proto(const Tensor& tensor, const std::string& name);

// ---- Types

// An order for maps with Index keys. Texts of expressions cannot be keys: a model may name a size "N + 1".
struct IndexOrder {
  bool operator()(const Index& a, const Index& b) const { return Index::compare(a, b) < 0; }
};

// A declaration of a value. Sizes that are neither numbers nor plain names are left open. `names`: the names of sizes that may
// be written; null: all.
onnx::ValueInfoProto value_info(const std::string& name, const TensorType& type, bool shape_known,
                                const std::set<std::string>* names = nullptr);
// The names of sizes that the model's author gave: those of its inputs, outputs and inner values, and of inputs added to the
// graph later; not the names that import generates for unknown sizes.
std::set<std::string> given_size_names(const Graph& graph);
// Removes the names of sizes from the graphs inside of a node, where they denote other sizes than around it.
void forget_inner_size_names(onnx::NodeProto& node);
void forget_size_names(onnx::TypeProto& type);
void forget_size_names(onnx::TypeProto& type, const std::function<bool(const std::string&)>& keep);

struct Declaration;
Declaration declaration_of(const onnx::ValueInfoProto& info);  // interface.cc

// ---- Names (names.cc)

bool has_subgraphs(const onnx::NodeProto& node);
// The values of outer scopes that a node's subgraphs read, each once, in the order of their first use.
std::vector<std::string> captured_names(const onnx::NodeProto& node);
// For ONNX's Gradient node, the values that its attributes name: y, which is differentiated, and the xs and zs that it is
// computed from. Empty for other nodes.
std::vector<std::string> differentiated_names(const onnx::NodeProto& node);
// Every name that is defined inside of a node's subgraphs.
void inner_names(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit);
// Renames the values that the node's subgraphs read from outer scopes.
void rename_captured(onnx::NodeProto& node, const std::unordered_map<std::string, std::string>& names);
// A hash of a node's computation, without the names of values and of the node.
std::uint64_t computation_hash(const onnx::NodeProto& node);

// ---- ONNX's own library (library.cc)

int newest_opset();
int newest_ir_version();
// Throws Error(kBadInput) if the node violates ONNX's schema of the operator. Returns false if this opset has no such operator.
bool verify_node(const onnx::NodeProto& node, const std::string& domain, int opset);
// Does ONNX's own domain have the operator in this opset?
bool is_standard(const std::string& type, int opset);
// Is an operator of ONNX's own domain the same in two opsets: one schema, or one with the same attributes and defaults and the
// same inputs, for which only more element types or optional inputs were added in between?
bool is_same_operator(const std::string& type, int opset, int other);
// Adds the attributes that the node lacks and the schema has a default for.
void add_default_attributes(onnx::NodeProto& node, const std::string& domain, int opset);
// Does ONNX define the operator by a body of other nodes?
bool is_schema_function(const onnx::NodeProto& node, const std::string& domain, int opset);
// That body for inputs of these types (empty: not known, or absent), and the call with default attributes added.
struct SchemaFunction {
  onnx::FunctionProto function;
  onnx::NodeProto call;
};
std::optional<SchemaFunction> schema_function(const onnx::NodeProto& node, const std::string& domain, int opset,
                                              const std::vector<onnx::TypeProto>& input_types);
void check_function_calls(const onnx::ModelProto& model);
// The types of inner values that ONNX's own inference finds.
std::unordered_map<std::string, onnx::TypeProto> infer_types(onnx::ModelProto model);
// The message of ONNX's checker; nullopt if it accepts the model.
std::optional<std::string> checker_objection(std::string_view model);

// ---- Export (export.cc)

// The nodes and weights of a body, without the constants that it captures. Throws Error(kUnsupported) if they need an opset
// that the graph's model does not import.
onnx::GraphProto inner_graph_proto(const Graph& graph);

// ---- Serialization

std::string serialize(const google::protobuf::MessageLite& message);

}  // namespace rewright::graph
