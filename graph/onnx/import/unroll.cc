// Loops unrolled: a Loop or Scan as a function whose body contains all iterations in sequence.
#include <algorithm>
#include <set>

#include "graph/onnx/attributes.h"
#include "graph/onnx/function.h"
#include "graph/onnx/parts.h"

namespace rewright::graph {

namespace {

// Does the body return its condition input unchanged, or the constant true?
bool always_goes_on(const onnx::GraphProto& body) {
  std::string name = body.output(0).name();
  for (int step = 0; step <= body.node_size(); ++step) {
    if (name == body.input(1).name()) return true;
    for (const onnx::TensorProto& weight : body.initializer())
      if (weight.name() == name) return to_tensor(weight).integers().at(0) != 0;
    const auto maker = std::find_if(body.node().begin(), body.node().end(), [&](const onnx::NodeProto& node) {
      return node.output_size() == 1 && node.output(0) == name;
    });
    if (maker == body.node().end()) return false;
    if (maker->op_type() == "Constant")
      return maker->attribute_size() == 1 && maker->attribute(0).has_t() &&
             to_tensor(maker->attribute(0).t()).integers().at(0) != 0;
    if ((maker->op_type() != "Identity" && maker->op_type() != "Cast") || maker->input_size() != 1) return false;
    name = maker->input(0);
  }
  return false;
}

// The function being written. Names: those of the captured values and of the node's inputs stay; all others get a prefix.
class Unrolling {
 public:
  Unrolling(const onnx::NodeProto& node, const onnx::GraphProto& body, const std::map<std::string, int>& opsets)
      : opsets_(opsets) {
    result_.function.set_name(node.op_type());
    *result_.call.mutable_output() = node.output();
    std::set<std::string> seen;
    for (const std::string& name : node.input()) take_input(name, seen);
    for (const std::string& name : captured_names(node)) captured_.push_back(name), take_input(name, seen);
    add_body(body, iteration_);
    for (const auto& input : body.input()) iteration_.add_input(input.name());
    for (const std::string& name : captured_)
      if (std::none_of(body.input().begin(), body.input().end(), [&](const auto& i) { return i.name() == name; }))
        iteration_.add_input(name);
    for (const auto& output : body.output()) iteration_.add_output(output.name());
  }

  // Adds the body for these values; returns the names of its results.
  std::vector<std::string> iterate(const std::vector<std::string>& inputs) {
    onnx::NodeProto call;
    for (const std::string& name : inputs) call.add_input(name);
    for (int i = static_cast<int>(inputs.size()); i < iteration_.input_size(); ++i) call.add_input(iteration_.input(i));
    for (const std::string& name : iteration_.output()) call.add_output(name);
    const FunctionBody written = body_of_call(iteration_, call, opsets_, fresh());
    for (std::size_t i = 0; i < written.inputs.size(); ++i)
      add("Identity", {call.input(static_cast<int>(i))}, written.inputs[i]);
    for (const onnx::NodeProto& node : written.nodes) *result_.function.add_node() = node;
    return written.outputs;
  }

  std::string integer(std::int64_t value, bool is_truth = false) {
    const Tensor tensor = Tensor::from_integers(is_truth ? DataType::kBool : DataType::kInt64, {}, std::vector{value});
    const std::string name = fresh();
    add_constant_node(result_.function, to_tensor_proto(tensor, name), name);
    return name;
  }
  std::string integers(std::int64_t value) {
    const std::string name = fresh();
    add_constant_node(result_.function, to_tensor_proto(Tensor::from_integers(DataType::kInt64, {1}, std::vector{value}), name),
                      name);
    return name;
  }
  // One position of an axis, with the axis removed.
  std::string entry(const std::string& of, std::int64_t axis, std::int64_t position) {
    onnx::NodeProto& node = add("Gather", {of, integer(position)}, fresh());
    set_axis(node, axis);
    return node.output(0);
  }
  // Entries stacked along a new axis, for opsets where Unsqueeze takes its axes as an input.
  std::string stacked(std::vector<std::string> parts, std::int64_t axis) {
    constexpr int kAxesAreInput = 13;
    for (std::string& part : parts) {
      if (opsets_.at("") >= kAxesAreInput) {
        part = add("Unsqueeze", {part, integers(axis)}, fresh()).output(0);
        continue;
      }
      onnx::NodeProto& node = add("Unsqueeze", {part}, fresh());
      onnx::AttributeProto& axes = *node.add_attribute();
      axes.set_name("axes");
      axes.set_type(onnx::AttributeProto::INTS);
      axes.add_ints(axis);
      part = node.output(0);
    }
    onnx::NodeProto& node = add("Concat", parts, fresh());
    set_axis(node, axis);
    return node.output(0);
  }

  FunctionCall finished(const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs) result_.function.add_output(add("Identity", {name}, fresh()).output(0));
    return std::move(result_);
  }

 private:
  void take_input(const std::string& name, std::set<std::string>& seen) {
    if (name.empty() || !seen.insert(name).second) return;
    result_.function.add_input(name);
    result_.call.add_input(name);
  }
  std::string fresh() { return "\x02" + std::to_string(next_++) + "/"; }
  onnx::NodeProto& add(const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto& node = *result_.function.add_node();
    node.set_op_type(type);
    for (const std::string& name : inputs) node.add_input(name);
    node.add_output(output);
    return node;
  }
  static void set_axis(onnx::NodeProto& node, std::int64_t axis) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("axis");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(axis);
  }

  const std::map<std::string, int>& opsets_;
  onnx::FunctionProto iteration_;
  FunctionCall result_;
  std::vector<std::string> captured_;
  std::size_t next_ = 0;
};

constexpr std::int64_t kMostIterations = 1000;

std::optional<FunctionCall> unrolled(const onnx::NodeProto& node, const onnx::GraphProto& body, const LoopFacts& facts,
                                     const std::map<std::string, int>& opsets, std::string& reason) {
  const auto given = [&](int i) { return i < node.input_size() && !node.input(i).empty(); };
  const std::optional<std::int64_t> count = given(0) ? facts.inputs[0].number : std::nullopt;
  if (!count || (given(1) && facts.inputs[1].number.value_or(0) == 0) || body.output_size() == 0 || !always_goes_on(body)) {
    reason = "how often it goes round is not known";
    return std::nullopt;
  }
  const int carried = body.input_size() - 2;
  if (*count < 1 || *count > kMostIterations || body.output_size() < 1 + carried || node.input_size() < 2 + carried) {
    reason = "it goes round " + std::to_string(*count) + " times";
    return std::nullopt;
  }
  Unrolling loop(node, body, opsets);
  std::vector<std::string> values(node.input().begin() + 2, node.input().begin() + 2 + carried);
  std::vector<std::vector<std::string>> parts(static_cast<std::size_t>(body.output_size() - 1 - carried));
  for (std::int64_t n = 0; n < *count; ++n) {
    std::vector<std::string> inputs{loop.integer(n), loop.integer(1, true)};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const std::vector<std::string> results = loop.iterate(inputs);
    values.assign(results.begin() + 1, results.begin() + 1 + carried);
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k].push_back(results[1 + static_cast<std::size_t>(carried) + k]);
  }
  for (const auto& entries : parts) values.push_back(loop.stacked(entries, 0));
  return loop.finished(values);
}

std::optional<FunctionCall> unrolled_scan(const onnx::NodeProto& node, const onnx::GraphProto& body, const LoopFacts& facts,
                                          const std::map<std::string, int>& opsets, std::string& reason) {
  const PlainAttributes attributes(node);
  const std::int64_t scanned = attributes.integer("num_scan_inputs", 0);
  const int carried = node.input_size() - static_cast<int>(scanned);
  if (scanned < 1 || carried < 0 || body.input_size() != node.input_size() || body.output_size() < carried) {
    reason = "its inputs are not those of its body";
    return std::nullopt;
  }
  const std::vector<std::int64_t> axes = attributes.integers("scan_input_axes"),
                                  turns = attributes.integers("scan_input_directions");
  const std::vector<std::int64_t> to = attributes.integers("scan_output_axes"),
                                  back = attributes.integers("scan_output_directions");
  const auto at = [](const std::vector<std::int64_t>& list, std::size_t i) { return i < list.size() ? list[i] : 0; };
  std::optional<std::int64_t> count;
  for (std::size_t i = 0; i < static_cast<std::size_t>(scanned); ++i) {
    const auto& sizes = facts.inputs[static_cast<std::size_t>(carried) + i].sizes;
    std::int64_t axis = at(axes, i);
    if (sizes && axis < 0) axis += static_cast<std::int64_t>(sizes->size());
    if (!sizes || axis < 0 || axis >= static_cast<std::int64_t>(sizes->size())) break;
    count = (*sizes)[static_cast<std::size_t>(axis)].constant();
    if (!count) break;
  }
  if (!count || *count < 1 || *count > kMostIterations) {
    reason = count ? "it goes round " + std::to_string(*count) + " times" : "how often it goes round is not known";
    return std::nullopt;
  }
  Unrolling loop(node, body, opsets);
  std::vector<std::string> values(node.input().begin(), node.input().begin() + carried);
  std::vector<std::vector<std::string>> parts(static_cast<std::size_t>(body.output_size() - carried));
  for (std::int64_t n = 0; n < *count; ++n) {
    std::vector<std::string> inputs = values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(scanned); ++i)
      inputs.push_back(
          loop.entry(node.input(carried + static_cast<int>(i)), at(axes, i), at(turns, i) != 0 ? *count - 1 - n : n));
    const std::vector<std::string> results = loop.iterate(inputs);
    values.assign(results.begin(), results.begin() + carried);
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k].push_back(results[static_cast<std::size_t>(carried) + k]);
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (at(back, k) != 0) std::reverse(parts[k].begin(), parts[k].end());
    values.push_back(loop.stacked(parts[k], at(to, k)));
  }
  return loop.finished(values);
}

}  // namespace

std::optional<FunctionCall> unrolled_loop(const onnx::NodeProto& node, int opset, const LoopFacts& facts,
                                          const std::map<std::string, int>& opsets, std::string& reason) {
  const bool is_scan = node.op_type() == "Scan";
  if (!is_scan && node.op_type() != "Loop") return std::nullopt;
  const auto* body = find_attribute(node, "body", onnx::AttributeProto::GRAPH);
  if (body == nullptr || body->g().sparse_initializer_size() > 0 || !opsets.contains("")) return std::nullopt;
  if (!is_scan) return unrolled(node, body->g(), facts, opsets, reason);
  constexpr int kWithoutBatches = 9;
  if (opset >= kWithoutBatches) return unrolled_scan(node, body->g(), facts, opsets, reason);
  reason = "its form before opset 9 has batches";
  return std::nullopt;
}

}  // namespace rewright::graph
