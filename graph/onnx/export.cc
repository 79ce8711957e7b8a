// Export: from a graph to ONNX's bytes. Parts that were not rewritten are written as they were read.
#include <algorithm>
#include <fstream>

#include "graph/onnx/function.h"
#include "graph/onnx/model.h"
#include "graph/onnx/naming.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/opset.h"
#include "graph/onnx/sink.h"
#include "graph/onnx/tree_calls.h"
#include "graph/onnx/weights.h"
#include "graph/onnx/wire.h"
#include "graph/onnx/written_graphs.h"

namespace rewright::graph {

int opset_of(const Graph& graph) {
  if (graph.model() == nullptr) return kDefaultOpset;
  const auto opset = graph.model()->opsets.find("");
  return opset == graph.model()->opsets.end() ? kDefaultOpset : opset->second;
}

namespace {

class Exporter {
 public:
  Exporter(const Graph& graph, std::size_t external_above, ExternalPart external, bool unused_weights)
      : graph_(graph), external_above_(external_above), unused_weights_(unused_weights), external_(std::move(external)) {
    if (graph.model() == nullptr) {
      auto fresh = std::make_shared<ImportedModel>();
      fresh->skeleton.set_ir_version(kDefaultIrVersion);
      fresh->skeleton.set_producer_name("rewright");
      fresh->skeleton.mutable_graph()->set_name("graph");
      model_ = std::move(fresh);
    } else {
      model_ = graph.model();
    }
    skeleton_ = model_->skeleton;
    sizes_given_ = model_->sizes_given || has_sizes_set_since();
    size_names_ = given_size_names(graph_);
    named_ = name_values(graph_, *model_);
  }

  // ---- The model

  Pieces run() {
    NodeSink sink(graph_, opset_of(graph_), named_.table, named_.names);
    for (ValueId id : graph_.inputs()) sink.set_available(id);
    for (const Written& written : order_of_writing(graph_)) {
      if (written.call)
        write_call(*written.node->expansion, *written.call, sink);
      else
        write_node(*written.node, sink);
    }
    for (const auto& [value, name] : named_.identities) {
      sink.use(value);
      onnx::NodeProto proto;
      proto.set_name(name);
      proto.set_op_type("Identity");
      proto.add_input(named_.names[value]);
      proto.add_output(name);
      sink.add_bytes(serialize(proto));
      writes_default_domain_ = true;
    }
    for (const GraphOutput& output : graph_.outputs()) sink.use(output.value);
    writes_default_domain_ = writes_default_domain_ || sink.domains().contains("");

    Pieces graph;
    std::unordered_map<ValueId, const ImportedModel::ConstantNode*> constant_nodes;
    for (const auto& node : model_->constant_nodes) {
      if (node.value >= graph_.value_count() || !sink.is_used(node.value) ||
          !is_same_tensor(graph_.value(node.value).constant, node.tensor))
        continue;
      constant_nodes.emplace(node.value, &node);
      std::string bytes = node.node_proto;
      onnx::NodeProto proto;
      if (proto.ParseFromString(bytes) && proto.output(0) != named_.names[node.value]) {
        proto.set_output(0, named_.names[node.value]);
        bytes = serialize(proto);
      }
      graph.own_field(field::kGraphNode, std::move(bytes));
    }
    for (const std::string& bytes : sink.nodes()) graph.own_field(field::kGraphNode, bytes);

    collect_weights(sink, constant_nodes);
    write_weights(weights_, external_above_, graph, external_);
    finish_skeleton(sink);
    graph.own(serialize(skeleton_.graph()));

    Pieces model;
    onnx::ModelProto rest = skeleton_;
    rest.clear_graph();
    model.own(serialize(rest));
    model.own(wire::bytes_prefix(field::kModelGraph, graph.size()));
    model.append(std::move(graph));
    return model;
  }

  ExternalPart& external() { return external_; }

 private:
  // ---- Nodes

  void write_node(const Node& node, NodeSink& sink) {
    for (ValueId id : node.outputs)
      if (id != kNoValue) {
        sink.begin(named_.names[id]);
        break;
      }
    if (node.origin)
      write_origin(node, sink);
    else if (node.op != nullptr)
      write_operator(node, sink);
    else
      throw Error(ErrorCode::kUnsupported, "an opaque node without its ONNX form cannot be written");
    for (ValueId id : node.outputs)
      if (id != kNoValue) sink.set_available(id);
  }

  void write_operator(const Node& node, NodeSink& sink) {
    std::vector<OnnxValue> inputs, outputs;
    for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? kAbsent : static_cast<OnnxValue>(id));
    for (ValueId id : node.outputs) outputs.push_back(id == kNoValue ? kAbsent : static_cast<OnnxValue>(id));
    const OnnxMapping& mapping = node.op->onnx();
    const std::string where =
        outputs.empty() || outputs[0] == kAbsent ? node.op->name() : "node of \"" + sink.name_of(outputs[0]) + "\"";
    bool written = false;
    try {
      written = mapping.write ? mapping.write(sink, node.attributes, inputs, outputs)
                              : write_default(*node.op, sink, node.attributes, inputs, outputs);
    } catch (const Error& error) {
      throw error.within(where);
    }
    if (!written)
      throw Error(ErrorCode::kUnsupported, node.op->name() + " cannot be written in opset " + std::to_string(sink.opset()),
                  where);
  }

  void write_origin(const Node& node, NodeSink& sink) {
    const Origin& origin = *node.origin;
    onnx::NodeProto proto;
    if (!proto.ParseFromString(origin.node_proto))
      throw Error(ErrorCode::kBadInput, "a node's ONNX form is broken", origin.name);
    bool changed = false;
    auto set = [&](std::string* text, const std::string& name) {
      if (*text == name) return;
      *text = name;
      changed = true;
    };
    for (std::size_t i = 0; i < origin.inputs.size() && i < static_cast<std::size_t>(proto.input_size()); ++i) {
      const Origin::Input& from = origin.inputs[i];
      if (from.kind == Origin::Input::Kind::kAbsent) continue;
      const ValueId id = (from.kind == Origin::Input::Kind::kInput ? node.inputs : node.parameters).at(from.number);
      if (id == kNoValue) continue;
      set(proto.mutable_input(static_cast<int>(i)), named_.names[id]);
      sink.use(id);
    }
    if (node.op == nullptr) {
      std::unordered_map<std::string, std::string> renamed;
      const std::vector<std::string> captured = captured_names(proto);
      for (std::size_t i = 0; i < captured.size(); ++i) {
        const ValueId id = node.inputs.at(static_cast<std::size_t>(proto.input_size()) + i);
        sink.use(id);
        if (captured[i] != named_.names[id]) renamed.emplace(captured[i], named_.names[id]);
      }
      if (!renamed.empty()) {
        rename_captured(proto, renamed);
        changed = true;
      }
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty()) continue;
      const auto n = static_cast<std::size_t>(i);
      const ValueId id = n < node.outputs.size() ? node.outputs[n] : kNoValue;
      if (id != kNoValue && !graph_.is_constant(id))
        set(proto.mutable_output(i), named_.names[id]);
      else  // no reader is left
        set(proto.mutable_output(i), named_.table.unique(proto.output(i)));
    }
    sink.add_bytes(changed ? serialize(proto) : origin.node_proto);
  }

  // Writes a function call in place of the nodes of its body.
  void write_call(const Expansion& expansion, const IntactCall& call, NodeSink& sink) {
    onnx::NodeProto proto;
    if (!proto.ParseFromString(expansion.node_proto))
      throw Error(ErrorCode::kBadInput, "a node's ONNX form is broken", expansion.name);
    const std::string before = serialize(proto);
    for (int i = 0; i < proto.input_size() && static_cast<std::size_t>(i) < call.inputs.size(); ++i) {
      const ValueId id = call.inputs[static_cast<std::size_t>(i)];
      if (id == kNoValue) continue;
      proto.set_input(i, named_.names[id]);
      sink.use(id);
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty()) continue;
      const auto n = static_cast<std::size_t>(i);
      const ValueId id = n < call.outputs.size() ? call.outputs[n] : kNoValue;
      proto.set_output(i, id != kNoValue && !graph_.is_constant(id) ? named_.names[id] : named_.table.unique(proto.output(i)));
      if (id != kNoValue) sink.set_available(id);
    }
    std::string after = serialize(proto);
    sink.add_bytes(after == before ? expansion.node_proto : std::move(after));
  }

  // ---- Weights

  void collect_weights(const NodeSink& sink,
                       const std::unordered_map<ValueId, const ImportedModel::ConstantNode*>& constant_nodes) {
    std::vector<bool> done(graph_.value_count());
    for (const auto& [id, tensor] : model_->outer_constants)
      if (id < graph_.value_count() && is_same_tensor(graph_.value(id).constant, tensor)) done[id] = true;
    for (const auto& initializer : model_->initializers) {
      const ValueId id = initializer.value;
      if (initializer.is_default) {
        weights_.push_back(
            {initializer.name, initializer.tensor, initializer.is_external ? std::string_view() : initializer.proto});
        continue;
      }
      const bool here = id < graph_.value_count() && graph_.value(id).name == initializer.name;
      const bool used = here && sink.is_used(id);
      if (!used && !(initializer.is_unused && is_kept(initializer.name))) continue;
      if (here) done[id] = true;
      const bool untouched = !used || !initializer.tensor || is_same_tensor(graph_.value(id).constant, initializer.tensor);
      const Tensor tensor = untouched ? initializer.tensor : graph_.value(id).constant;
      weights_.push_back(
          {initializer.name, tensor, untouched && !initializer.is_external ? initializer.proto : std::string_view()});
    }
    keep_sparse_weights(sink, done);
    for (ValueId id = 0; id < graph_.value_count(); ++id)
      if (graph_.is_constant(id) && sink.is_used(id) && !done[id] && !constant_nodes.contains(id))
        weights_.push_back({named_.names[id], graph_.value(id).constant, {}});
    for (const auto& [name, tensor] : sink.constants()) weights_.push_back({name, tensor, {}});
  }

  // Keeps unchanged sparse weights in sparse form, and drops the others from the skeleton.
  void keep_sparse_weights(const NodeSink& sink, std::vector<bool>& done) {
    onnx::GraphProto kept;
    const auto& given = model_->sparse_initializers;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const ValueId id = given[i].value;
      const bool here = id < graph_.value_count() && graph_.value(id).name == given[i].name;
      const bool used = here && sink.is_used(id) && is_same_tensor(graph_.value(id).constant, given[i].tensor);
      const bool unread = here && sink.is_used(id) && !given[i].tensor;
      if (!used && !unread && !(given[i].is_unused && is_kept(given[i].name))) continue;
      if (used) done[id] = true;
      sparse_names_.insert(given[i].name);
      *kept.add_sparse_initializer() = model_->skeleton.graph().sparse_initializer(static_cast<int>(i));
    }
    skeleton_.mutable_graph()->mutable_sparse_initializer()->Swap(kept.mutable_sparse_initializer());
  }

  // Must a weight that nothing reads be written? Yes if callers may override it, or if annotations refer to it (scales).
  bool is_kept(const std::string& name) const {
    const auto& inputs = skeleton_.graph().input();
    return unused_weights_ || skeleton_.graph().quantization_annotation_size() > 0 ||
           std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name() == name; });
  }

  // ---- All else

  void finish_skeleton(const NodeSink& sink) {
    onnx::GraphProto& graph = *skeleton_.mutable_graph();
    std::unordered_map<std::string, ValueId> by_name;
    for (const auto& node : graph_.nodes())
      for (ValueId id : node->outputs)
        if (id != kNoValue) by_name.emplace(named_.names[id], id);
    std::unordered_set<std::string> weight_names = sparse_names_;
    for (const Weight& weight : weights_) weight_names.insert(weight.name);

    finish_inputs(graph, weight_names);
    auto* outputs = graph.mutable_output();
    std::unordered_map<std::string, onnx::ValueInfoProto> declared;
    for (const auto& info : *outputs) declared.emplace(info.name(), info);
    outputs->Clear();
    for (const GraphOutput& output : graph_.outputs()) {
      const auto found = declared.find(output.name);
      if (found == declared.end())
        *outputs->Add() = declaration(output.name, output.type, output.shape_known);
      else
        *outputs->Add() = with_sizes_given(found->second, output.type, output.shape_known);
    }

    onnx::GraphProto kept;
    for (const auto& info : graph.value_info()) {
      const auto found = by_name.find(info.name());
      if (found != by_name.end()) {
        const Value& value = graph_.value(found->second);
        *kept.add_value_info() = value.name == info.name() ? with_sizes_computed(info, value.type, value.shape_known)
                                                           : declaration(info.name(), value.type, value.shape_known);
      } else if (weight_names.contains(info.name())) {
        *kept.add_value_info() = info;
      }
    }
    for (const auto& annotation : graph.quantization_annotation())
      if (by_name.contains(annotation.tensor_name()) || weight_names.contains(annotation.tensor_name()) ||
          is_input_name(annotation.tensor_name()))
        *kept.add_quantization_annotation() = annotation;
    graph.mutable_value_info()->Swap(kept.mutable_value_info());
    graph.mutable_quantization_annotation()->Swap(kept.mutable_quantization_annotation());

    auto import_domain = [&](const std::string& domain, int version) {
      for (const auto& import : skeleton_.opset_import())
        if (import.domain() == domain || (domain.empty() && import.domain() == "ai.onnx")) return;
      auto* import = skeleton_.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    };
    if (writes_default_domain_ || skeleton_.opset_import_size() == 0) import_domain("", kDefaultOpset);
    for (const std::string& domain : sink.domains())
      if (!domain.empty()) import_domain(domain, 1);
  }

  bool is_input_name(const std::string& name) const {
    for (ValueId id : graph_.inputs())
      if (graph_.value(id).name == name) return true;
    return false;
  }

  // Has a size that the model leaves open been set on an input (with_sizes)?
  bool has_sizes_set_since() const {
    for (const auto& info : skeleton_.graph().input()) {
      const auto& dims = info.type().tensor_type().shape().dim();
      for (ValueId id : graph_.inputs()) {
        const Value& value = graph_.value(id);
        if (value.name != info.name() || value.type.shape.size() != static_cast<std::size_t>(dims.size())) continue;
        for (int axis = 0; axis < dims.size(); ++axis)
          if (!(dims[axis].has_dim_value() && dims[axis].dim_value() >= 0) &&
              value.type.shape[static_cast<std::size_t>(axis)].constant())
            return true;
      }
    }
    return false;
  }

  // Only with size names of the model's author: unknown sizes must not be declared equal to each other.
  onnx::ValueInfoProto declaration(const std::string& name, const TensorType& type, bool shape_known) const {
    return value_info(name, type, shape_known, &size_names_);
  }

  // An inner value as the model declares it, but with the computed sizes. Exporters often declare wrong ones, and ONNX Runtime
  // reuses memory between values whose sizes have the same names.
  onnx::ValueInfoProto with_sizes_computed(const onnx::ValueInfoProto& info, const TensorType& type, bool shape_known) const {
    onnx::ValueInfoProto changed = info;
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return changed;
    if (!shape_known || type.type == DataType::kUndefined)
      changed.mutable_type()->mutable_tensor_type()->clear_shape();
    else
      *changed.mutable_type()->mutable_tensor_type()->mutable_shape() =
          declaration(info.name(), type, shape_known).type().tensor_type().shape();
    return changed;
  }

  // Sizes were given for the model, so its earlier declarations no longer hold.
  onnx::ValueInfoProto with_sizes_given(const onnx::ValueInfoProto& info, const TensorType& type, bool shape_known) const {
    if (!sizes_given_ || !shape_known || type.type == DataType::kUndefined) return info;
    onnx::ValueInfoProto changed = info;
    onnx::TensorShapeProto shape = declaration(info.name(), type, shape_known).type().tensor_type().shape();
    const auto& before = info.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size() && before.dim_size() == shape.dim_size(); ++axis)
      if (auto* dim = shape.mutable_dim(axis);
          !dim->has_dim_value() && !dim->has_dim_param() && before.dim(axis).has_dim_param())
        dim->set_dim_param(before.dim(axis).dim_param());
    *changed.mutable_type()->mutable_tensor_type()->mutable_shape() = std::move(shape);
    return changed;
  }

  void finish_inputs(onnx::GraphProto& graph, const std::unordered_set<std::string>& weight_names) {
    std::unordered_map<std::string, ValueId> inputs;
    for (ValueId id : graph_.inputs()) inputs.emplace(graph_.value(id).name, id);
    onnx::GraphProto kept;
    std::unordered_set<std::string> written;
    for (const auto& info : graph.input()) {
      const auto found = inputs.find(info.name());
      const bool is_input = found != inputs.end();
      if (!is_input && !weight_names.contains(info.name())) continue;
      written.insert(info.name());
      if (is_input) {
        const Value& value = graph_.value(found->second);
        *kept.add_input() = with_sizes_given(info, value.type, value.shape_known);
      } else {
        *kept.add_input() = info;
      }
    }
    for (ValueId id : graph_.inputs()) {
      const Value& value = graph_.value(id);
      if (!written.contains(value.name)) *kept.add_input() = declaration(value.name, value.type, value.shape_known);
    }
    if (skeleton_.ir_version() < kWeightsNeedNoInput)
      for (const Weight& weight : weights_)
        if (weight.tensor && !written.contains(weight.name))
          *kept.add_input() = value_info(weight.name, {weight.tensor.type(), to_indices(weight.tensor.sizes())}, true);
    graph.mutable_input()->Swap(kept.mutable_input());
  }

  const Graph& graph_;
  std::size_t external_above_;
  bool unused_weights_;
  std::shared_ptr<const ImportedModel> model_;
  onnx::ModelProto skeleton_;
  ValueNames named_;
  std::set<std::string> size_names_;
  bool sizes_given_ = false;
  bool writes_default_domain_ = false;
  std::vector<Weight> weights_;
  std::unordered_set<std::string> sparse_names_;
  ExternalPart external_;
};

void check(const Graph& graph, std::string_view model, const std::string& where) {
  const auto objection = checker_objection(model);
  if (!objection) return;
  // Some models in use fail ONNX's checker. If the original failed, the result may fail too.
  if (graph.model() && !graph.model()->source.bytes.empty() && checker_objection(graph.model()->source.text())) return;
  throw Error(ErrorCode::kUnsupported, "the result does not pass ONNX's checker: " + *objection, where);
}

}  // namespace

void export_onnx(const Graph& graph, const std::filesystem::path& file, const ExportOptions& options) {
  const Graph written = with_tree_calls(graph);
  Exporter exporter(written, options.external_data_above, {.location = file.filename().string() + ".data"},
                    options.unused_weights);
  const Pieces pieces = exporter.run();
  const ExternalPart& external = exporter.external();
  std::optional<FileWriter> data;
  if (!external.tensors.empty()) {
    data.emplace(file.parent_path() / external.location);
    for (const auto& [offset, bytes] : external.tensors) {
      data->write(std::string(offset - data->written(), '\0'));
      data->write(bytes);
    }
    data->finish();
  }
  FileWriter writer(file);
  for (std::string_view piece : pieces.list()) writer.write(piece);
  writer.finish();
  if (options.check) check(graph, map_file(writer.temporary()).text(), file.string());
  if (data) data->commit();
  writer.commit();
}

WrittenGraphs::WrittenGraphs(std::size_t least_shared)
    : least_shared_(least_shared), shared_(std::make_unique<ExternalPart>()) {
  shared_->location = "weights";
  shared_->is_shared = true;
}

WrittenGraphs::~WrittenGraphs() = default;

std::filesystem::path WrittenGraphs::write(const Graph& graph) {
  const std::pair key{graph.hash(), graph.nodes().size()};
  if (const auto found = files_.find(key); found != files_.end()) return folder_ / found->second;
  const std::size_t before = shared_->size;
  const Graph written = with_tree_calls(graph);
  Exporter exporter(written, least_shared_, *shared_, /*unused_weights=*/true);
  const Pieces pieces = exporter.run();
  // Not forced to the disk, as FileWriter does: the files are read at once, and then removed.
  std::ofstream weights(folder_ / shared_->location, std::ios::binary | std::ios::app);
  std::size_t end = before;
  for (const auto& [offset, bytes] : exporter.external().tensors) {
    weights << std::string(offset - end, '\0');
    weights.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    end = offset + bytes.size();
  }
  const std::string name = "model_" + std::to_string(files_.size() + 1) + ".onnx";
  std::ofstream file(folder_ / name, std::ios::binary);
  for (const std::string_view piece : pieces.list()) file << piece;
  weights.close();
  file.close();
  if (!weights || !file) throw Error(ErrorCode::kMissing, "cannot be written", (folder_ / name).string());
  *shared_ = std::move(exporter.external());
  shared_->tensors.clear();
  return folder_ / (files_[key] = name);
}

std::string export_onnx_bytes(const Graph& graph, const ExportOptions& options) {
  const Graph written = with_tree_calls(graph);
  Exporter exporter(written, 0, {}, options.unused_weights);
  const Pieces pieces = exporter.run();
  std::string bytes;
  bytes.reserve(pieces.size());
  for (std::string_view piece : pieces.list()) bytes += piece;
  if (options.check) check(graph, bytes, "the model");
  return bytes;
}

onnx::GraphProto inner_graph_proto(const Graph& graph) {
  ExportOptions options;
  options.check = false;
  options.unused_weights = false;
  onnx::ModelProto model;
  if (!model.ParseFromString(export_onnx_bytes(graph, options)))
    throw Error(ErrorCode::kUnsupported, "is too big to be written into a node");
  for (const auto& import : model.opset_import())
    if (!graph.model()->opsets.contains(import.domain() == "ai.onnx" ? "" : import.domain()))
      throw Error(ErrorCode::kUnsupported, "needs operators of domain \"" + import.domain() + "\"");
  return std::move(*model.mutable_graph());
}

std::string export_node_bytes(const Graph& graph, const Node& node, bool keep_constants) {
  Graph single;
  std::unordered_map<ValueId, ValueId> copies;
  auto copy = [&](ValueId id, bool as_constant) {
    if (id == kNoValue) return id;
    if (auto known = copies.find(id); known != copies.end()) return known->second;
    const Value& value = graph.value(id);
    const std::string name = "input_" + std::to_string(copies.size());
    if (!value.shape_known)
      throw Error(ErrorCode::kUnsupported, "the type of its input \"" + value.name + "\" is not known", "a node");
    const ValueId made =
        as_constant && value.constant ? single.add_constant(value.constant, name) : single.add_input(name, value.type);
    copies.emplace(id, made);
    return made;
  };
  Node alone = node;
  for (ValueId& id : alone.inputs) id = copy(id, keep_constants);
  if (alone.op != nullptr) {  // exported from its attributes, which contain its parameters
    alone.origin = nullptr;
    alone.parameters.clear();
  }
  for (std::size_t i = 0; i < alone.outputs.size(); ++i) {
    if (alone.outputs[i] == kNoValue) continue;
    Value value = graph.value(alone.outputs[i]);
    value.name = "output_" + std::to_string(i);
    value.constant = Tensor();
    alone.outputs[i] = single.add_value(std::move(value));
  }
  std::vector<ValueId> outputs = alone.outputs;
  single.add_raw(std::move(alone));
  for (ValueId id : outputs)
    if (id != kNoValue) single.add_output(single.value(id).name, id);

  auto model = std::make_shared<ImportedModel>();
  model->skeleton.set_ir_version(kDefaultIrVersion);
  model->skeleton.mutable_graph()->set_name("node");
  if (graph.model()) {
    model->opsets = graph.model()->opsets;
    model->skeleton.set_ir_version(std::max<std::int64_t>(graph.model()->skeleton.ir_version(), 4));
    *model->skeleton.mutable_opset_import() = graph.model()->skeleton.opset_import();
    *model->skeleton.mutable_functions() = graph.model()->skeleton.functions();
  }
  single.set_model(std::move(model));
  ExportOptions options;
  options.check = false;
  return export_onnx_bytes(single, options);
}

}  // namespace rewright::graph
