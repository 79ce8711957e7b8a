#include "graph/onnx/naming.h"

namespace rewright::graph {

namespace {

class Namer {
 public:
  Namer(const Graph& graph, const ImportedModel& model) : graph_(graph), model_(model) {}

  ValueNames run() {
    result_.names.assign(graph_.value_count(), {});
    if (model_.outer_names != nullptr)
      for (const std::string& name : *model_.outer_names) result_.table.reserve(name);
    for (ValueId id : graph_.inputs()) give(id, graph_.value(id).name);
    for (const auto& [id, tensor] : model_.outer_constants)
      if (id < graph_.value_count()) give(id, graph_.value(id).name);
    for (const auto& initializer : model_.initializers) {
      result_.table.reserve(initializer.name);
      if (initializer.value < graph_.value_count()) result_.names[initializer.value] = initializer.name;
    }
    for (const auto& sparse : model_.sparse_initializers) {
      result_.table.reserve(sparse.name);
      if (sparse.value < graph_.value_count()) result_.names[sparse.value] = sparse.name;
    }
    const std::vector<std::int32_t> producers = graph_.producers();
    for (ValueId id = 0; id < graph_.value_count(); ++id)  // constants that were not read
      if (producers[id] < 0 && !graph_.is_constant(id) && result_.names[id].empty()) result_.names[id] = graph_.value(id).name;
    for (const auto& node : graph_.nodes()) {
      if (node->op != nullptr || !node->origin) continue;
      onnx::NodeProto proto;
      if (proto.ParseFromString(node->origin->node_proto))
        inner_names(proto, [&](const std::string& name) { result_.table.reserve(name); });
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (result_.names[output.value] == output.name || (graph_.is_constant(output.value) && is_constant_node(output))) {
        result_.names[output.value] = output.name;
      } else if (result_.names[output.value].empty() && (!graph_.is_constant(output.value) || may_be_weight())) {
        result_.names[output.value] = output.name;
      } else {
        result_.identities.emplace_back(output.value, output.name);
      }
      result_.table.reserve(output.name);
    }
    name_others();
    return std::move(result_);
  }

 private:
  // Does a Constant node of the model define the output under its name?
  bool is_constant_node(const GraphOutput& output) const {
    for (const auto& node : model_.constant_nodes)
      if (node.value == output.value)
        return graph_.value(output.value).name == output.name &&
               is_same_tensor(graph_.value(output.value).constant, node.tensor);
    return false;
  }

  // Can an output be a weight? Not where weights must also be inputs. Nor in a body: its outputs may lack types, and ONNX's
  // inference only finds those of nodes' results.
  bool may_be_weight() const { return model_.outer_names == nullptr && model_.skeleton.ir_version() >= kWeightsNeedNoInput; }

  void give(ValueId id, const std::string& name) {
    result_.table.reserve(name);
    result_.names[id] = name;
  }

  // Values with a name keep it. Others are named after the nearest named value computed from them.
  void name_others() {
    std::vector<std::string> hints(graph_.value_count());
    const auto nodes = graph_.nodes();
    for (std::size_t i = nodes.size(); i-- > 0;) {
      std::string hint;
      for (ValueId id : nodes[i]->outputs) {
        if (id == kNoValue) continue;
        hint = !result_.names[id].empty()       ? result_.names[id]
               : !graph_.value(id).name.empty() ? graph_.value(id).name
                                                : hints[id];
        if (!hint.empty()) break;
      }
      for (const auto* ids : {&nodes[i]->inputs, &nodes[i]->parameters})
        for (ValueId id : *ids)
          if (id != kNoValue && hints[id].empty()) hints[id] = hint;
    }
    auto name = [&](ValueId id, const std::string& suffix) {
      if (id == kNoValue || !result_.names[id].empty()) return;
      const std::string& own = graph_.value(id).name;
      result_.names[id] = result_.table.unique(!own.empty() ? own : (hints[id].empty() ? "" : hints[id] + "/") + suffix);
    };
    // Named outputs first, so that no new name takes one of theirs.
    for (bool named : {true, false}) {
      for (const auto& node : nodes)
        for (ValueId id : node->outputs)
          if (id != kNoValue && graph_.value(id).name.empty() != named)
            name(id, node->op != nullptr ? node->op->name() : "value");
      for (ValueId id = 0; id < graph_.value_count(); ++id)
        if (graph_.is_constant(id) && graph_.value(id).name.empty() != named) name(id, "constant");
    }
  }

  const Graph& graph_;
  const ImportedModel& model_;
  ValueNames result_;
};

}  // namespace

std::string NameTable::unique(const std::string& wanted) {
  std::string name = wanted.empty() ? "value" : wanted;
  const std::string stem = name;
  while (!taken_.insert(name).second) name = stem + "_" + std::to_string(++next_[stem]);
  return name;
}

ValueNames name_values(const Graph& graph, const ImportedModel& model) { return Namer(graph, model).run(); }

bool is_same_tensor(const Tensor& a, const Tensor& b) {
  return a && b && a.bytes().data() == b.bytes().data() && a.type() == b.type() && a.sizes() == b.sizes();
}

}  // namespace rewright::graph
