// A Scan whose states never change applies its body to each entry alone: then all entries are computed at once.
#include <algorithm>
#include <map>
#include <set>

#include "graph/onnx/attributes.h"
#include "graph/onnx/function.h"
#include "graph/onnx/types.h"

namespace rewright::graph {

namespace {

constexpr int kAxesAreInputs = 13;  // from this opset on those of Unsqueeze are

// The body with an axis of the entries in front of every value that depends on one.
class Mapped {
 public:
  Mapped(const onnx::NodeProto& node, const onnx::GraphProto& body, int opset) : node_(node), body_(body), opset_(opset) {}

  std::optional<FunctionCall> run(std::size_t states, const LoopFacts& facts) {
    for (int i = 0; i < body_.input_size(); ++i) {
      const auto& sizes = facts.inputs[static_cast<std::size_t>(i)].sizes;
      const bool is_entry = static_cast<std::size_t>(i) >= states;
      if (!sizes || (is_entry && sizes->empty())) return std::nullopt;
      values_[body_.input(i).name()] = {is_entry, sizes->size() - (is_entry ? 1 : 0)};
      call_.function.add_input(body_.input(i).name());
    }
    for (const onnx::TensorProto& weight : body_.initializer()) {
      values_[weight.name()] = {false, static_cast<std::size_t>(weight.dims_size())};
      weights_[weight.name()] = &weight;
      add_constant_node(call_.function, weight, weight.name());
    }
    for (const onnx::NodeProto& node : body_.node())
      if (!add(node)) return std::nullopt;
    for (int o = 0; o < body_.output_size(); ++o) {
      const std::string& name = body_.output(o).name();
      const bool is_state = static_cast<std::size_t>(o) < states;
      if (is_state ? source_of(name) != body_.input(o).name() : !values_.contains(name) || !values_.at(name).is_mapped)
        return std::nullopt;
      call_.function.add_output(name);
    }
    call_.function.set_name("mapped");
    *call_.call.mutable_input() = node_.input();
    *call_.call.mutable_output() = node_.output();
    return std::move(call_);
  }

 private:
  struct Known {
    bool is_mapped = false;
    std::size_t rank = 0;  // in the body
  };

  std::string source_of(std::string name) const {
    for (auto known = same_as_.find(name); known != same_as_.end(); known = same_as_.find(name)) name = known->second;
    return name;
  }

  bool add(const onnx::NodeProto& node) {
    static const std::set<std::string> kFunctions{"Identity", "Abs", "Neg", "Sqrt", "Exp", "Log", "Reciprocal"};
    static const std::set<std::string> kOfTwo{"Add", "Sub", "Mul", "Div", "Pow"};
    static const std::set<std::string> kReductions{"ReduceSum",  "ReduceSumSquare", "ReduceMax", "ReduceMin",
                                                   "ReduceMean", "ReduceL1",        "ReduceL2"};
    if (!node.domain().empty() || node.output_size() != 1) return false;
    for (const std::string& input : node.input())
      if (!values_.contains(input)) return false;
    const std::string& type = node.op_type();
    if (kFunctions.contains(type) && node.input_size() == 1) return add_function(node);
    if (kOfTwo.contains(type) && node.input_size() == 2) return add_of_two(node);
    return kReductions.contains(type) && add_reduction(node);
  }

  bool add_function(const onnx::NodeProto& node) {
    if (node.op_type() == "Identity") same_as_[node.output(0)] = node.input(0);
    values_[node.output(0)] = values_.at(node.input(0));
    *call_.function.add_node() = node;
    return true;
  }

  // The axes that broadcasting would put in front of an entry stand behind that of the entries.
  bool add_of_two(const onnx::NodeProto& node) {
    const Known &a = values_.at(node.input(0)), &b = values_.at(node.input(1));
    const Known result{a.is_mapped || b.is_mapped, std::max(a.rank, b.rank)};
    onnx::NodeProto changed = node;
    for (int i = 0; i < 2; ++i) {
      const Known& operand = i == 0 ? a : b;
      if (operand.is_mapped && operand.rank < result.rank)
        changed.set_input(i, with_axes(node.input(i), static_cast<std::int64_t>(result.rank - operand.rank)));
    }
    *call_.function.add_node() = changed;
    values_[node.output(0)] = result;
    return true;
  }

  std::string with_axes(const std::string& name, std::int64_t count) {
    const std::string result = name + "/entries/" + std::to_string(call_.function.node_size());
    onnx::NodeProto unsqueeze;
    unsqueeze.set_op_type("Unsqueeze");
    unsqueeze.add_input(name);
    unsqueeze.add_output(result);
    std::vector<std::int64_t> axes;
    for (std::int64_t axis = 1; axis <= count; ++axis) axes.push_back(axis);
    if (opset_ >= kAxesAreInputs)
      unsqueeze.add_input(constant(result + "/axes", axes));
    else
      set_axes(*unsqueeze.add_attribute(), axes);
    *call_.function.add_node() = unsqueeze;
    return result;
  }

  bool add_reduction(const onnx::NodeProto& node) {
    const Known x = values_.at(node.input(0));
    const auto* given = find_attribute(node, "axes", onnx::AttributeProto::INTS);
    const auto* keeps = find_attribute(node, "keepdims", onnx::AttributeProto::INT);
    std::vector<std::int64_t> axes;
    if (given != nullptr) {
      axes.assign(given->ints().begin(), given->ints().end());
    } else if (node.input_size() == 2 && weights_.contains(node.input(1))) {
      const Tensor tensor = to_tensor(*weights_.at(node.input(1)));
      if (!is_integer(tensor.type())) return false;
      axes = tensor.integers();
    }
    if (axes.empty()) return false;  // of all axes
    for (std::int64_t& axis : axes) axis += x.is_mapped && axis >= 0 ? 1 : 0;
    onnx::NodeProto changed = node;
    if (given != nullptr) {
      for (onnx::AttributeProto& attribute : *changed.mutable_attribute())
        if (attribute.name() == "axes") set_axes(attribute, axes);
    } else {
      changed.set_input(1, constant(node.output(0) + "/axes", axes));
    }
    *call_.function.add_node() = changed;
    const bool kept = keeps == nullptr || keeps->i() != 0;
    if (!kept && axes.size() > x.rank) return false;
    values_[node.output(0)] = {x.is_mapped, kept ? x.rank : x.rank - axes.size()};
    return true;
  }

  static void set_axes(onnx::AttributeProto& attribute, const std::vector<std::int64_t>& axes) {
    attribute.set_name("axes");
    attribute.set_type(onnx::AttributeProto::INTS);
    attribute.clear_ints();
    for (const std::int64_t axis : axes) attribute.add_ints(axis);
  }

  std::string constant(const std::string& name, const std::vector<std::int64_t>& axes) {
    const Tensor tensor = Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(axes.size())}, axes);
    add_constant_node(call_.function, to_tensor_proto(tensor, ""), name);
    return name;
  }

  const onnx::NodeProto& node_;
  const onnx::GraphProto& body_;
  const int opset_;
  FunctionCall call_;
  std::map<std::string, Known> values_;
  std::map<std::string, std::string> same_as_;
  std::map<std::string, const onnx::TensorProto*> weights_;
};

}  // namespace

std::optional<FunctionCall> mapped_scan(const onnx::NodeProto& node, int opset, const LoopFacts& facts) {
  constexpr int kWithoutBatches = 9;
  if (node.op_type() != "Scan" || opset < kWithoutBatches) return std::nullopt;
  const auto* body = find_attribute(node, "body", onnx::AttributeProto::GRAPH);
  const auto* scanned = find_attribute(node, "num_scan_inputs", onnx::AttributeProto::INT);
  if (body == nullptr || scanned == nullptr || body->g().sparse_initializer_size() > 0) return std::nullopt;
  for (const char* name : {"scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"})
    if (const auto* list = find_attribute(node, name, onnx::AttributeProto::INTS))
      if (std::any_of(list->ints().begin(), list->ints().end(), [](std::int64_t i) { return i != 0; })) return std::nullopt;
  const std::int64_t states = node.input_size() - scanned->i();
  if (states < 0 || scanned->i() < 1 || body->g().input_size() != node.input_size() ||
      body->g().output_size() != node.output_size() || states > node.output_size() ||
      facts.inputs.size() != static_cast<std::size_t>(node.input_size()))
    return std::nullopt;
  return Mapped(node, body->g(), opset).run(static_cast<std::size_t>(states), facts);
}

}  // namespace rewright::graph
