// From ONNX's bytes to a graph: what the parts of import share. Only graph/onnx_import*.cc include this.
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

// Names for sizes that are no numbers, for ONNX's inference, which knows no expressions.
class NamedIndices {
 public:
  const std::string& name_of(const Index& size);
  const Index* find(const std::string& name) const;

 private:
  std::map<Index, std::string, IndexOrder> names_;
  std::unordered_map<std::string, Index> sizes_;
};

// Makes the graph of one model. Every function may throw Error(kBadInput), which its caller gives the place in the model.
class Importer {
 public:
  // `size_scope`: what the names of its own sizes begin with. `overridden`: weights that become inputs
  // (graph/onnx/import/overridable.h).
  Importer(FileBytes source, ExternalData external, const ImportOptions& options, const GivenParts& given,
           std::string size_scope, std::set<std::string> overridden)
      : external_(std::move(external)), options_(options), given_(given), overridden_(std::move(overridden)) {
    model_->source = std::move(source);
    model_->size_scope = std::move(size_scope);
    model_->outer_names = options.outer_names;
    model_->foreign = options.foreign;
  }

  // To be called once.
  Graph run();

 private:
  // A node to be imported, from the model or from a function's body.
  struct Source {
    const onnx::NodeProto& proto;
    std::string_view bytes;                                           // as it stands in the model; empty: it is of a body
    std::span<const std::string> captured;                            // by its subgraphs
    const std::shared_ptr<const std::map<std::string, int>>& opsets;  // null: the model's
    int depth = 0;                                                    // of functions around it
    bool is_of_model() const { return !bytes.empty(); }
  };

  // ---- onnx_given.cc: what is given in place of the model's

  // Open dimensions of the graph's inputs, outputs and values get the sizes that are given for them.
  void give_sizes(onnx::GraphProto& graph) const;
  static Tensor given_weight(const GivenParts::Weight& given, const onnx::TensorProto& model);

  // ---- onnx_import.cc: values

  void define(const std::string& name, ValueId id, const std::string& by);
  ValueId id_of(const std::string& name) const;
  // Data in files beside the model become part of the nodes that have them in attributes and subgraphs.
  void embed_external_data();
  void read_initializers();
  // `where` becomes its name, once that is read.
  ImportedModel::Initializer read_initializer(std::string_view bytes, std::string& where);
  void read_sparse_initializer(const onnx::SparseTensorProto& proto);
  // A constant whose elements are not read: what uses it is opaque.
  ValueId add_unread(const std::string& name, std::optional<DataType> type, const Sizes& sizes);
  bool is_overridden(const std::string& name) const;  // a weight that is to be an input
  void read_inputs();
  void give_value(ValueId id, Value& value, const Tensor& tensor);
  void read_outputs();
  // The elements of a constant, or what was computed of constants; null if they are not known.
  const Tensor* known_tensor(ValueId id) const;

  // ---- onnx_import_nodes.cc: nodes, by the definitions of their operators

  void import_node(std::size_t number);
  const std::map<std::string, int>& opsets_of(const Source& source) const;
  // By the definition of its operator, or the body of its function. False, with the reason, if the node must stay as it is.
  bool import_known(const Source& source, std::string& reason);
  // Of a sequence that was put together in sight, the length and the element at a known position are known.
  bool find_in_sequence(const Source& source);
  // A node's inputs, if all of them have types that operators can speak of; else the reason.
  std::optional<std::vector<ValueId>> typed_inputs(const onnx::NodeProto& proto, std::string& reason) const;
  bool import_operator(const Source& source_node, const Operator& op, int opset, std::string& reason);
  // Is the symbol a size of the model's inputs, and not one that elements decide?
  bool is_of_input(const std::string& symbol) const { return !options_.outer_names && declared_->is_of_input(symbol); }
  // May these sizes be taken for equal? Callers' may, who are held to it where it counts. Others are equal or not: a node whose
  // operands are repeated or not, as the elements say, stays as it is.
  bool may_assume(const std::vector<Condition>& equal_sizes, std::string& reason) const;
  // Does a definition give every output that something reads?
  bool defines_all(const onnx::NodeProto& proto, const std::vector<OnnxValue>& results, std::string& reason) const;
  void name_results(const Source& source, const std::vector<OnnxValue>& results, std::size_t values_before);
  // Are these the outputs of the last node of the graph, in order?
  bool is_one_node(const std::vector<OnnxValue>& results) const;
  // The last node of the graph is the ONNX node, as one: it can be written back as it was.
  void attach_origin(const Source& source, const std::vector<ValueId>& proto_inputs);

  // ---- onnx_import_bodies.cc: nodes that stand for several others

  // By the body of the function that ONNX gives a node's operator.
  bool import_schema_function(const Source& source, int opset, std::string& reason);
  // A branch whose condition is known stands in the graph instead of its If. What is not understood of it stays as it is.
  bool decide(const Source& source);
  // ONNX's Gradient becomes the nodes that compute it. `names`: y, the variables, and what else y is computed from.
  bool import_gradient(const Source& source, const std::vector<std::string>& names, std::string& reason);
  // Replaces a call by the function's body. Where that is not understood as a whole the call stays, unless the graph is to be
  // executed, or the call is not to be written back.
  enum class Expand { kAsCall, kReplace };
  bool expand(const Source& source, const onnx::FunctionProto& function, const onnx::NodeProto& call, std::string& reason,
              Expand how = Expand::kAsCall);
  bool import_body(const Source& call, const FunctionBody& body, std::string& reason, bool keep_unknown);
  // The graph that a procedure is, as an expansion of its node.
  bool import_procedure(const Source& source_node, const Procedure& procedure, int opset, std::string& reason);
  // A loop with all its iterations, if their number is known.
  std::optional<FunctionCall> unrolled(const Source& source, int opset, std::string& reason) const;

  // ---- onnx_import_opaque.cc: nodes that stay as they are

  void import_opaque(const Source& source, std::string reason);
  // As the model declares it, else as ONNX's own inference finds it.
  DeclaredType opaque_type(const Source& source, std::uint64_t number, const std::string& name);
  // A node by itself, with the types that its inputs have here: operators' inference functions in ONNX take it for granted that
  // the types of all inputs are known.
  void infer_outputs(const Source& source);
  // Adds a node's input to a graph for inference. False if nothing is known of its type.
  bool add_for_inference(const std::string& name, onnx::GraphProto& graph);
  // Takes over what one inference found of a node's outputs. Where it calls sizes by one name, they are one size.
  void take_inferred(const onnx::NodeProto& proto, const std::unordered_map<std::string, onnx::TypeProto>& types);
  const onnx::ModelProto& functions_for_inference();

  ExternalData external_;
  const ImportOptions& options_;
  const GivenParts& given_;
  const std::set<std::string> overridden_;
  std::shared_ptr<ImportedModel> model_ = std::make_shared<ImportedModel>();
  Graph graph_;
  ModelParts parts_;
  std::deque<std::string> embedded_;  // nodes that are not as they stand in the model's bytes
  NodeOrder order_;
  const std::shared_ptr<const std::map<std::string, int>> opsets_of_model_;  // null
  bool as_graphs_ = false;                                                   // procedures
  std::size_t initializer_bytes_ = 0, calls_ = 0, expanded_nodes_ = 0;
  std::unordered_map<std::string, ValueId> names_;
  std::optional<DeclaredTypes> declared_;
  std::unordered_map<std::string, onnx::TypeProto> inferred_;  // of outputs of opaque nodes, sizes as sizes_ names them
  NamedIndices sizes_;
  std::optional<onnx::ModelProto> functions_;
  std::unordered_set<std::string> unread_outputs_;  // of the model, that no node reads
  std::uint64_t opaque_nodes_ = 0;
  std::optional<std::uint64_t> inferred_for_;  // the opaque node that this was asked for last
  KnownTensors known_;
  std::unordered_map<ValueId, std::vector<ValueId>> sequences_;  // of SequenceConstruct nodes: their elements
};

// As import_onnx_bytes.
Graph import_overridden(std::string_view bytes, const std::string& name, const ImportOptions& options,
                        std::set<std::string> overridden);

}  // namespace rewright::graph
