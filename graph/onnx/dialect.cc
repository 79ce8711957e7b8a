#include "graph/onnx/dialect.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/onnx/body.h"
#include "graph/onnx/function.h"
#include "graph/onnx/model.h"
#include "graph/onnx/naming.h"
#include "graph/onnx/opset.h"
#include "graph/onnx/parts.h"
#include "graph/onnx/sink.h"

namespace rewright::graph {

namespace {

// ONNX's own domains: "", ai.onnx.ml, ai.onnx.preview.training, ...
bool is_own_domain(const std::string& domain) { return domain.empty() || domain.starts_with("ai.onnx."); }

std::string type_of(const onnx::NodeProto& proto) {
  return proto.domain().empty() ? proto.op_type() : proto.domain() + "." + proto.op_type();
}

onnx::NodeProto parsed(const std::string& bytes) {
  onnx::NodeProto proto;
  if (!proto.ParseFromString(bytes)) throw Error(ErrorCode::kBadInput, "a node's ONNX form is broken");
  return proto;
}

std::string first_output(const onnx::NodeProto& proto) {
  for (const std::string& output : proto.output())
    if (!output.empty()) return output;
  return {};
}

// The domains of a node and of the nodes inside of it.
void add_domains(const onnx::NodeProto& proto, std::set<std::string>& domains) {
  domains.insert(canonical_domain(proto.domain()));
  const auto inside = [&](const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& inner : graph.node()) add_domains(inner, domains);
  };
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    if (attribute.has_g()) inside(attribute.g());
    for (const onnx::GraphProto& graph : attribute.graphs()) inside(graph);
  }
}

// A graph whose calls of other operators are known, and the graphs inside of its nodes likewise.
struct Part {
  Graph graph;
  int opset = 0;
  std::map<const Node*, onnx::NodeProto> kept;                 // opaque nodes
  std::map<const Expansion*, onnx::NodeProto> calls;           // all of them
  std::set<const Expansion*> lowered;                          // those that bodies replace
  std::map<std::pair<const Node*, std::string>, Part> inside;  // by node and attribute
  std::vector<NotStandard> left;
};

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : newest_(newest_opset()), whole_(read(graph)) {}

  StandardGraph run() {
    const int given = whole_.opset;
    int opset = given;
    while (opset <= newest_ && !fits(whole_, opset)) ++opset;
    if (opset > newest_) {  // something holds the opset back
      opset = given;
      keep_what_needs_more(whole_);
    }
    StandardGraph result{written(whole_, opset), opset, {}};
    collect(whole_, result.left);
    return result;
  }

 private:
  // ---- Reading

  Part read(const Graph& graph) {
    Part part;
    part.graph = graph;
    part.opset = opset_of(graph);
    const ImportedModel& model = *graph.model();
    const OuterNames names = outer_names(graph);
    std::map<const Expansion*, std::vector<const Node*>> members;
    for (const auto& node : graph.nodes()) {
      if (const Expansion* call = node->expansion.get()) {
        if (members[call].empty()) part.calls.emplace(call, parsed(call->node_proto));
        members[call].push_back(node.get());
      }
      if (node->op == nullptr) read_opaque(*node, names, part);
    }
    const std::vector<bool> has_form = writable(graph, newest_);
    std::map<const Node*, bool> form_of;
    for (std::size_t n = 0; n < has_form.size(); ++n) form_of.emplace(graph.nodes()[n].get(), has_form[n]);
    for (const auto& [call, nodes] : members) {
      const onnx::NodeProto& proto = part.calls.at(call);
      if (is_own(proto, model, part.opset)) continue;
      const auto without = std::find_if(nodes.begin(), nodes.end(), [&](const Node* node) { return !form_of.at(node); });
      if (without == nodes.end())
        part.lowered.insert(call);
      else
        leave(part, *call, "in its body " + name_of(**without) + " has no form in ONNX's own operators");
    }
    return part;
  }

  void read_opaque(const Node& node, const OuterNames& names, Part& part) {
    if (!node.origin) return;
    const onnx::NodeProto& proto = part.kept.emplace(&node, parsed(node.origin->node_proto)).first->second;
    if (!is_own(proto, *part.graph.model(), part.opset)) {
      part.left.push_back({node.origin->name.empty() ? first_output(proto) : node.origin->name, type_of(proto),
                           node.opaque_reason.empty() ? "it has no body" : node.opaque_reason});
      return;
    }
    for (const std::string& attribute : bodies_of(node)) {
      try {
        part.inside.emplace(std::pair(&node, attribute), read(body_of(part.graph, node, attribute, names)));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled) throw;
        std::set<std::string> domains;  // it stays as it is
        add_domains(proto, domains);
        for (const std::string& domain : domains)
          if (!is_own_domain(domain))
            part.left.push_back({node.origin->name, type_of(proto), "its graph cannot be read alone: " + error.text()});
      }
    }
  }

  static bool is_own(const onnx::NodeProto& proto, const ImportedModel& model, int opset) {
    if (find_local_function(model, proto) != nullptr) return false;
    const std::string domain = canonical_domain(proto.domain());
    return domain.empty() ? is_standard(proto.op_type(), opset) : is_own_domain(domain);
  }

  static std::string name_of(const Node& node) { return node.op != nullptr ? node.op->name() : onnx_operator(node); }

  void leave(Part& part, const Expansion& call, std::string reason) const {
    const onnx::NodeProto& proto = part.calls.at(&call);
    part.left.push_back({call.name.empty() ? first_output(proto) : call.name, type_of(proto), std::move(reason)});
  }

  // By node: can its meaning be written in this opset?
  static std::vector<bool> writable(const Graph& graph, int opset) {
    ValueNames named = name_values(graph, *graph.model());
    NodeSink sink(graph, opset, named.table, named.names);
    for (const ValueId id : graph.inputs()) sink.set_available(id);
    std::vector<bool> result;
    for (const auto& node : graph.nodes()) {
      result.push_back(node->op != nullptr && is_writable(*node, sink));
      for (const ValueId id : node->outputs)
        if (id != kNoValue) sink.set_available(id);
    }
    return result;
  }

  static bool is_valid(const onnx::NodeProto& proto, int opset) {
    const std::string domain = canonical_domain(proto.domain());
    return !domain.empty() || verify_node(proto, domain, opset);
  }

  // False also where the opset has no such attribute or number of inputs.
  static bool is_writable(const Node& node, NodeSink& sink) {
    const std::size_t before = sink.nodes().size();

    std::vector<OnnxValue> inputs, outputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? kAbsent : static_cast<OnnxValue>(id));
    for (const ValueId id : node.outputs) outputs.push_back(id == kNoValue ? kAbsent : static_cast<OnnxValue>(id));
    try {
      const OnnxMapping& mapping = node.op->onnx();
      const bool written = mapping.write ? mapping.write(sink, node.attributes, inputs, outputs)
                                         : write_default(*node.op, sink, node.attributes, inputs, outputs);
      return written && std::all_of(sink.nodes().begin() + static_cast<std::ptrdiff_t>(before), sink.nodes().end(),
                                    [&](const std::string& bytes) { return is_valid(parsed(bytes), sink.opset()); });
    } catch (const Error&) {
      return false;
    }
  }

  // ---- Choosing the opset

  // Is the ONNX node what it was, in another opset of ONNX's own domain?
  static bool is_unchanged(const onnx::NodeProto& proto, int from, int opset) {
    return !canonical_domain(proto.domain()).empty() || is_same_operator(proto.op_type(), from, opset);
  }

  static int opset_of_origin(const Part& part, const Node& node) {
    if (!node.origin->opsets) return part.opset;
    const auto found = node.origin->opsets->find("");
    return found == node.origin->opsets->end() ? part.opset : found->second;
  }

  // Is the node written from its meaning, in this opset?
  bool is_rewritten(const Part& part, const Node& node, int opset) const {
    if (node.op == nullptr) return false;
    if (const Expansion* call = node.expansion.get())
      return part.lowered.contains(call) || !is_unchanged(part.calls.at(call), part.opset, opset);
    return !node.origin || (opset != part.opset && !is_unchanged(parsed(node.origin->node_proto), part.opset, opset));
  }

  bool fits(const Part& part, int opset) const {
    const std::vector<bool> has_form = writable(part.graph, opset);
    for (std::size_t n = 0; n < has_form.size(); ++n) {
      const Node& node = *part.graph.nodes()[n];
      if (is_rewritten(part, node, opset) && !has_form[n]) return false;
      const auto kept = part.kept.find(&node);
      if (kept != part.kept.end() && !holds_still(part, node, kept->second, opset)) return false;
    }
    return std::all_of(part.inside.begin(), part.inside.end(), [&](const auto& entry) { return fits(entry.second, opset); });
  }

  bool holds_still(const Part& part, const Node& node, const onnx::NodeProto& proto, int opset) const {
    const int from = opset_of_origin(part, node);
    if (from == opset) return true;
    if (!is_unchanged(proto, from, opset)) return false;
    for (const onnx::AttributeProto& attribute : proto.attribute())
      if (attribute.has_g() && !part.inside.contains({&node, attribute.name()}) && !is_unchanged(attribute.g(), from, opset))
        return false;
    return true;
  }

  static bool is_unchanged(const onnx::GraphProto& graph, int from, int opset) {
    return std::all_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
      return is_unchanged(node, from, opset) &&
             std::all_of(node.attribute().begin(), node.attribute().end(),
                         [&](const auto& a) { return !a.has_g() || is_unchanged(a.g(), from, opset); });
    });
  }

  // In the model's own opset: calls whose bodies need a later one are left.
  void keep_what_needs_more(Part& part) {
    const std::vector<bool> has_form = writable(part.graph, part.opset);
    for (std::size_t n = 0; n < has_form.size(); ++n) {
      const Node& node = *part.graph.nodes()[n];
      if (has_form[n] || !node.expansion || part.lowered.erase(node.expansion.get()) == 0) continue;
      leave(part, *node.expansion,
            "in its body " + name_of(node) + " needs a later opset than the model's " + std::to_string(part.opset) +
                ", in which another node of the model would mean something else");
    }
    for (auto& [place, inner] : part.inside) keep_what_needs_more(inner);
  }

  static void collect(const Part& part, std::vector<NotStandard>& left) {
    left.insert(left.end(), part.left.begin(), part.left.end());
    for (const auto& [place, inner] : part.inside) collect(inner, left);
  }

  // ---- Writing

  bool changes(const Part& part, int opset) const {
    return opset != part.opset || !part.lowered.empty() ||
           std::any_of(part.inside.begin(), part.inside.end(), [&](const auto& entry) { return changes(entry.second, opset); });
  }

  Graph written(const Part& part, int opset) const {
    Graph result = part.graph;
    result.drop_nodes_from(0);
    std::set<std::string> domains;
    bool calls_functions = false;
    const auto note = [&](const onnx::NodeProto& proto) {
      add_domains(proto, domains);
      calls_functions = calls_functions || find_local_function(*part.graph.model(), proto) != nullptr;
    };
    for (const auto& node : part.graph.nodes()) {
      Node copy = *node;
      if (is_rewritten(part, *node, opset)) {
        copy.origin = nullptr, copy.expansion = nullptr;
        copy.parameters.clear();
      } else if (copy.expansion) {
        note(part.calls.at(copy.expansion.get()));
      }
      for (const std::string& attribute : bodies_of(*node))
        if (const auto inner = part.inside.find({node.get(), attribute}); inner != part.inside.end())
          if (changes(inner->second, opset)) copy = with_body(copy, attribute, written(inner->second, opset));
      if (copy.op == nullptr && copy.origin) {
        note(parsed(copy.origin->node_proto));
        if (copy.origin->opsets) {  // of a function: now the model's
          auto origin = std::make_shared<Origin>(*copy.origin);
          origin->opsets = nullptr;
          copy.origin = std::move(origin);
        }
      }
      result.add_raw(std::move(copy));
    }
    result.set_model(model_with(*part.graph.model(), opset, domains, calls_functions));
    return result;
  }

  static std::shared_ptr<const ImportedModel> model_with(const ImportedModel& given, int opset,
                                                         const std::set<std::string>& domains, bool calls_functions) {
    const auto model = std::make_shared<ImportedModel>(given);
    onnx::ModelProto& skeleton = model->skeleton;
    onnx::ModelProto imports;
    bool imports_own = false;
    for (const auto& import : skeleton.opset_import()) {
      const std::string domain = canonical_domain(import.domain());
      if (!domain.empty() && !domains.contains(domain) && !calls_functions) {
        model->opsets.erase(domain);
        continue;
      }
      auto* kept = imports.add_opset_import();
      *kept = import;
      if (!domain.empty()) continue;
      kept->set_version(opset);
      imports_own = true;
    }
    if (!imports_own) imports.add_opset_import()->set_version(opset);
    skeleton.mutable_opset_import()->Swap(imports.mutable_opset_import());
    model->opsets[""] = opset;
    if (!calls_functions) skeleton.clear_functions();
    model->functions.clear();  // they point into the given skeleton
    index_functions(*model);
    return model;
  }

  const int newest_;
  Part whole_;
};

}  // namespace

std::string_view name(Dialect dialect) {
  switch (dialect) {
    case Dialect::kAsGiven:
      return "as-given";
    case Dialect::kStandard:
      return "standard";
    case Dialect::kOnnxRuntime:
      return "onnxruntime";
  }
  return "";
}

StandardGraph in_standard_dialect(const Graph& graph) {
  if (!graph.model()) return {graph, opset_of(graph), {}};  // not read from a file: of the registry's operators alone
  return Lowering(graph).run();
}

}  // namespace rewright::graph
