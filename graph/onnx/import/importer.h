// The importer: from ONNX's bytes to a graph. Only the .cc files of graph/onnx/import/ include this header.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/onnx/function.h"
#include "graph/onnx/given.h"
#include "graph/onnx/import/source.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/parts.h"
#include "graph/onnx/types.h"

namespace rewright::graph {

// Names for symbolic sizes in ONNX's inference, which has no expressions.
class NamedIndices {
 public:
  const std::string& name_of(const Index& size);
  const Index* find(const std::string& name) const;

 private:
  std::map<Index, std::string, IndexOrder> names_;
  std::unordered_map<std::string, Index> sizes_;
};

// Imports one model. Every function may throw Error(kBadInput), to which its caller adds the place in the model.
class Importer {
 public:
  // `size_scope`: prefix for names of the body's own sizes. `overridden`: weights that become inputs (overridable.h).
  Importer(FileBytes source, ExternalData external, const ImportOptions& options, const GivenParts& given,
           std::string size_scope, std::set<std::string> overridden)
      : external_(std::move(external)), options_(options), given_(given), overridden_(std::move(overridden)) {
    model_->source = std::move(source);
    model_->size_scope = std::move(size_scope);
    model_->outer_names = options.outer_names;
    model_->foreign = options.foreign;
  }

  // Called once.
  Graph run();

 private:
  // A node to be imported, from the model or from a function's body.
  struct Source {
    const onnx::NodeProto& proto;
    std::string_view bytes;                                           // in the model; empty: from a function's body
    std::span<const std::string> captured;                            // values that its subgraphs capture
    const std::shared_ptr<const std::map<std::string, int>>& opsets;  // null: the model's
    int depth = 0;                                                    // the number of functions around it
    bool is_of_model() const { return !bytes.empty(); }
  };

  // ---- import_given.cc: replaced parts (GivenParts)

  // Writes the given sizes into open dimensions of the graph's inputs, outputs and values.
  void give_sizes(onnx::GraphProto& graph) const;
  static Tensor given_weight(const GivenParts::Weight& given, const onnx::TensorProto& model);

  // ---- import.cc: values

  void define(const std::string& name, ValueId id, const std::string& by);
  ValueId id_of(const std::string& name) const;
  // Copies external data into the nodes whose attributes and subgraphs refer to them.
  void embed_external_data();
  void read_initializers();
  // Sets `where` to the initializer's name as soon as that is read.
  ImportedModel::Initializer read_initializer(std::string_view bytes, std::string& where);
  void read_sparse_initializer(const onnx::SparseTensorProto& proto);
  // Adds a constant of an unsupported element type; its users are opaque.
  ValueId add_unread(const std::string& name, std::optional<DataType> type, const Sizes& sizes);
  bool is_overridden(const std::string& name) const;  // is it a weight that becomes an input?
  void read_inputs();
  void give_value(ValueId id, Value& value, const Tensor& tensor);
  void read_outputs();
  // The tensor of a constant, or of a value computed from constants; null if it is not known.
  const Tensor* known_tensor(ValueId id) const;

  // ---- import_nodes.cc: nodes, by the definitions of their operators

  void import_node(std::size_t number);
  const std::map<std::string, int>& opsets_of(const Source& source) const;
  // Imports a node by its operator's definition or its function's body. Returns false, with the reason, if it must stay opaque.
  bool import_known(const Source& source, std::string& reason);
  // Imports SequenceLength and SequenceAt at a known position of a sequence from a SequenceConstruct in the graph.
  bool find_in_sequence(const Source& source);
  // A node's inputs if operators support the types of all; else nullopt with the reason.
  std::optional<std::vector<ValueId>> typed_inputs(const onnx::NodeProto& proto, std::string& reason) const;
  bool import_operator(const Source& source_node, const Operator& op, int opset, std::string& reason);
  // Is the symbol a size of the model's inputs? Others depend on elements.
  bool is_of_input(const std::string& symbol) const { return !options_.outer_names && declared_->is_of_input(symbol); }
  // May these sizes be assumed to be equal? Sizes of inputs may, since execution checks them. Others depend on elements, so
  // that a node may or may not broadcast its operands: it stays opaque.
  bool may_assume(const std::vector<Condition>& equal_sizes, std::string& reason) const;
  // Does the definition have every output that something reads?
  bool defines_all(const onnx::NodeProto& proto, const std::vector<OnnxValue>& results, std::string& reason) const;
  void name_results(const Source& source, const std::vector<OnnxValue>& results, std::size_t values_before);
  // Are these the outputs of the graph's last node, in order?
  bool is_one_node(const std::vector<OnnxValue>& results) const;
  // Notes that the graph's last node alone is the ONNX node, so that this can be written back unchanged.
  void attach_origin(const Source& source, const std::vector<ValueId>& proto_inputs);

  // ---- import_bodies.cc: nodes that become several others

  // Imports a node by the function body in ONNX's schema.
  bool import_schema_function(const Source& source, int opset, std::string& reason);
  // Replaces an If whose condition is known by that branch. Unsupported nodes in it stay opaque.
  bool decide(const Source& source);
  // Replaces a Scan that applies its body to each entry alone by that body on all entries.
  bool map_scan(const Source& source, int opset);
  // Replaces ONNX's Gradient by the nodes that compute it. `names`: y, the variables, and the other values y is computed from.
  bool import_gradient(const Source& source, const std::vector<std::string>& names, std::string& reason);
  // Replaces a call by the function's body. If parts of the body are unsupported the call stays, unless the graph will be
  // executed or the call need not be written back.
  enum class Expand { kAsCall, kReplace };
  bool expand(const Source& source, const onnx::FunctionProto& function, const onnx::NodeProto& call, std::string& reason,
              Expand how = Expand::kAsCall);
  // Drops the results of a call that neither the model nor the nodes behind other results read, of the nodes from `first` on: a
  // call is no less whole where tidying has removed what computes them.
  void forget_unread(const onnx::NodeProto& call, std::size_t first, std::vector<ValueId>& results) const;
  bool import_body(const Source& call, const FunctionBody& body, std::string& reason, bool keep_unknown);
  // Replaces a procedure by its graph, or a loop by its iterations.
  bool import_procedure(const Source& source_node, const Procedure& procedure, int opset, std::string& reason);
  // Replaces a node by the graph that `graph` builds, as an expansion of the node.
  using GraphOfNode = std::function<std::optional<std::vector<OnnxValue>>(OnnxSource& source, std::string& reason)>;
  bool import_as_graph(const Source& source_node, const GraphOfNode& graph, int opset, std::string& reason);
  // A loop as the sequence of all its iterations, if their number is known.
  std::optional<FunctionCall> unrolled(const Source& source, int opset, std::string& reason) const;
  LoopFacts loop_facts(const onnx::NodeProto& proto) const;

  // ---- import_opaque.cc: nodes that stay opaque

  void import_opaque(const Source& source, std::string reason);
  // The type of an opaque node's output: as the model declares it, else from ONNX's own inference.
  DeclaredType opaque_type(const Source& source, std::uint64_t number, const std::string& name);
  // Runs ONNX's inference on the single node with the types of its inputs: inference functions in ONNX rely on the types of all
  // inputs being known.
  void infer_outputs(const Source& source);
  // Adds a node's input to a graph for inference. False if nothing is known of its type.
  bool add_for_inference(const std::string& name, onnx::GraphProto& graph);
  // Takes over the inferred types of a node's outputs. Sizes to which inference gives one name are one size.
  void take_inferred(const onnx::NodeProto& proto, const std::unordered_map<std::string, onnx::TypeProto>& types);
  const onnx::ModelProto& functions_for_inference();

  ExternalData external_;
  const ImportOptions& options_;
  const GivenParts& given_;
  const std::set<std::string> overridden_;
  std::shared_ptr<ImportedModel> model_ = std::make_shared<ImportedModel>();
  Graph graph_;
  ModelParts parts_;
  std::deque<std::string> embedded_;  // nodes that differ from the model's bytes: external data were embedded
  NodeOrder order_;
  const std::shared_ptr<const std::map<std::string, int>> opsets_of_model_;  // null
  bool as_graphs_ = false;                                                   // procedures
  std::size_t initializer_bytes_ = 0, calls_ = 0, expanded_nodes_ = 0;
  std::unordered_map<std::string, ValueId> names_;
  std::optional<DeclaredTypes> declared_;
  std::unordered_map<std::string, onnx::TypeProto> inferred_;  // types of opaque nodes' outputs, with the names of sizes_
  NamedIndices sizes_;
  std::optional<onnx::ModelProto> functions_;
  std::unordered_set<std::string> unread_outputs_;  // the model's outputs that no node reads
  std::uint64_t opaque_nodes_ = 0;
  std::optional<std::uint64_t> inferred_for_;  // the opaque node for which inferred_ was last computed
  KnownTensors known_;
  std::unordered_map<ValueId, std::vector<ValueId>> sequences_;  // of SequenceConstruct nodes: their elements
};

// import_onnx_bytes with these weights as inputs.
Graph import_overridden(std::string_view bytes, const std::string& name, const ImportOptions& options,
                        std::set<std::string> overridden);

}  // namespace rewright::graph
