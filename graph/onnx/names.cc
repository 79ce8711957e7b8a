// Names of values across the scopes of subgraphs.
#include <functional>
#include <unordered_set>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include "graph/onnx/model.h"

namespace rewright::graph {

namespace {

// Protobuf has bounded the depth of nesting when it read the model, so these functions may recurse.
template <class Node, class F>
void for_each_subgraph(Node& node, const F& visit) {
  if constexpr (std::is_const_v<Node>) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) visit(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) visit(graph);
    }
  } else {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) visit(*attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) visit(graph);
    }
  }
}

std::unordered_set<std::string> defined_in(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  for (const auto& node : graph.node())
    for (const auto& output : node.output()) names.insert(output);
  return names;
}

// Calls `visit` with every name that the graph reads and does not define.
template <class Graph>
using NameVisitor = std::function<void(std::conditional_t<std::is_const_v<Graph>, const std::string&, std::string&>)>;
template <class Graph>
void for_each_free_name(Graph& graph, const NameVisitor<Graph>& visit) {
  const std::unordered_set<std::string> local = defined_in(graph);
  const NameVisitor<Graph> free_name = [&](auto& name) {
    if (!name.empty() && !local.contains(name)) visit(name);
  };
  if constexpr (std::is_const_v<Graph>) {
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.input()) free_name(name);
      for_each_subgraph(node, [&](const onnx::GraphProto& inner) { for_each_free_name(inner, free_name); });
    }
    for (const auto& output : graph.output()) free_name(output.name());
  } else {
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (std::string& name : *node.mutable_input()) free_name(name);
      for_each_subgraph(node, [&](onnx::GraphProto& inner) { for_each_free_name(inner, free_name); });
    }
    for (auto& output : *graph.mutable_output()) free_name(*output.mutable_name());
  }
}

}  // namespace

bool has_subgraphs(const onnx::NodeProto& node) {
  bool found = false;
  for_each_subgraph(node, [&](const onnx::GraphProto&) { found = true; });
  return found;
}

std::vector<std::string> captured_names(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for_each_subgraph(node, [&](const onnx::GraphProto& graph) {
    for_each_free_name(graph, [&](const std::string& name) {
      if (seen.insert(name).second) names.push_back(name);
    });
  });
  return names;
}

std::vector<std::string> differentiated_names(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  if (node.op_type() != "Gradient" || node.domain() != "ai.onnx.preview.training") return names;
  for (const std::string_view attribute : {"y", "xs", "zs"})
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.name() != attribute) continue;
      if (a.has_s()) names.push_back(a.s());
      names.insert(names.end(), a.strings().begin(), a.strings().end());
    }
  return names;
}

void inner_names(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit) {
  for_each_subgraph(node, [&](const onnx::GraphProto& graph) {
    for (const std::string& name : defined_in(graph)) visit(name);
    for (const onnx::NodeProto& inner : graph.node()) inner_names(inner, visit);
  });
}

void rename_captured(onnx::NodeProto& node, const std::unordered_map<std::string, std::string>& names) {
  for_each_subgraph(node, [&](onnx::GraphProto& graph) {
    for_each_free_name(graph, [&](std::string& name) {
      if (auto found = names.find(name); found != names.end()) name = found->second;
    });
  });
}

std::uint64_t computation_hash(const onnx::NodeProto& node) {
  onnx::NodeProto anonymous = node;
  std::unordered_map<std::string, std::string> numbered;
  for (const std::string& name : captured_names(node)) numbered.emplace(name, "#" + std::to_string(numbered.size()));
  rename_captured(anonymous, numbered);
  anonymous.clear_name();
  anonymous.clear_doc_string();
  anonymous.clear_metadata_props();
  for (std::string& name : *anonymous.mutable_input()) name = name.empty() ? "" : "x";
  for (std::string& name : *anonymous.mutable_output()) name = name.empty() ? "" : "x";
  const std::string bytes = serialize(anonymous);
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string serialize(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!message.SerializePartialToCodedStream(&coded)) throw Error(ErrorCode::kUnsupported, "is too big for Protobuf");
  }
  return bytes;
}

void forget_size_names(onnx::TypeProto& type, const std::function<bool(const std::string&)>& keep) {
  const auto forget_in = [&](auto& tensor) {
    if (!tensor.has_shape()) return;
    for (auto& dim : *tensor.mutable_shape()->mutable_dim())
      if (dim.has_dim_param() && !keep(dim.dim_param())) dim.clear_dim_param();
  };
  if (type.has_tensor_type()) forget_in(*type.mutable_tensor_type());
  if (type.has_sparse_tensor_type()) forget_in(*type.mutable_sparse_tensor_type());
  if (type.has_sequence_type()) forget_size_names(*type.mutable_sequence_type()->mutable_elem_type(), keep);
  if (type.has_optional_type()) forget_size_names(*type.mutable_optional_type()->mutable_elem_type(), keep);
  if (type.has_map_type()) forget_size_names(*type.mutable_map_type()->mutable_value_type(), keep);
}

void forget_size_names(onnx::TypeProto& type) {
  forget_size_names(type, [](const std::string&) { return false; });
}

void forget_inner_size_names(onnx::NodeProto& node) {
  for_each_subgraph(node, [](onnx::GraphProto& graph) {
    for (auto* list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (onnx::ValueInfoProto& info : *list)
        if (info.has_type()) forget_size_names(*info.mutable_type());
    for (onnx::NodeProto& inner : *graph.mutable_node()) forget_inner_size_names(inner);
  });
}

std::set<std::string> given_size_names(const Graph& graph) {
  std::set<std::string> names;
  std::set<std::string> declared;
  const ImportedModel* const model = graph.model().get();
  if (model != nullptr && model->outer_names != nullptr) return names;  // those of another graph
  if (model != nullptr) {
    const onnx::GraphProto& skeleton = model->skeleton.graph();
    for (const auto* list : {&skeleton.input(), &skeleton.output(), &skeleton.value_info()})
      for (const onnx::ValueInfoProto& info : *list)
        for (const auto& dim : info.type().tensor_type().shape().dim())
          if (dim.has_dim_param()) names.insert(dim.dim_param());
    for (const onnx::ValueInfoProto& info : skeleton.input()) declared.insert(info.name());
  }
  for (const ValueId id : graph.inputs()) {
    if (declared.contains(graph.value(id).name)) continue;
    for (const Index& size : graph.value(id).type.shape)
      if (const Atom* atom = size.as_atom(); atom != nullptr && atom->kind == Atom::Kind::kSymbol) names.insert(atom->name);
  }
  return names;
}

onnx::ValueInfoProto value_info(const std::string& name, const TensorType& type, bool shape_known,
                                const std::set<std::string>* names) {
  onnx::ValueInfoProto info;
  info.set_name(name);
  if (type.type == DataType::kUndefined) return info;
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type.type));
  if (!shape_known) return info;
  auto* shape = tensor->mutable_shape();
  for (const Index& size : type.shape) {
    auto* dim = shape->add_dim();
    const Atom* atom = size.as_atom();
    if (size.is_constant())
      dim->set_dim_value(size.value());
    else if (atom != nullptr && atom->kind == Atom::Kind::kSymbol && (names == nullptr || names->contains(atom->name)))
      dim->set_dim_param(atom->name);
  }
  return info;
}

}  // namespace rewright::graph
