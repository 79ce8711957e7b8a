#include "graph/onnx/parts.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "graph/onnx/given.h"
#include "graph/onnx/wire.h"

namespace rewright::graph {

namespace {

constexpr std::size_t kProtobufLimit = std::numeric_limits<std::int32_t>::max();

std::map<std::string, int> read_opsets(const onnx::ModelProto& model) {
  std::map<std::string, int> opsets;
  for (const auto& import : model.opset_import()) {
    const std::string domain = canonical_domain(import.domain());
    const std::int64_t version = import.version();
    if (domain.empty() && version > newest_opset())
      throw Error(ErrorCode::kBadInput,
                  "asks for opset " + std::to_string(version) + ", the newest known is " + std::to_string(newest_opset()));
    if (version < 1 || version > std::numeric_limits<int>::max())
      throw Error(ErrorCode::kBadInput,
                  "asks for opset " + std::to_string(version) + " of domain " + in_quotes(domain) + ", which does not exist");
    opsets[domain] = static_cast<int>(version);
  }
  constexpr int kOpsetsAreSaid = 3;  // IR version
  if (model.ir_version() < kOpsetsAreSaid && opsets.empty()) opsets[""] = 1;
  return opsets;
}

}  // namespace

std::string where_of(const onnx::NodeProto& node) {
  if (!node.name().empty()) return "node " + in_quotes(node.name());
  for (const std::string& output : node.output())
    if (!output.empty()) return node.op_type() + " of " + in_quotes(output);
  return "a " + node.op_type();
}

namespace {

// Splits the bytes into parts without validating them.
ModelParts take_apart(std::string_view bytes) {
  ModelParts parts;
  std::string rest, graph_rest;
  bool has_graph = false;
  wire::Reader reader(bytes);
  while (auto part = reader.next()) {
    if (part->number != field::kModelGraph || part->type != wire::Type::kBytes) {
      rest += part->whole;
      continue;
    }
    has_graph = true;
    wire::Reader graph(part->content);
    while (auto inner = graph.next()) {
      if (inner->number == field::kGraphNode && inner->type == wire::Type::kBytes)
        parts.node_bytes.push_back(inner->content);
      else if (inner->number == field::kGraphInitializer && inner->type == wire::Type::kBytes)
        parts.initializer_bytes.push_back(inner->content);
      else
        graph_rest += inner->whole;
    }
  }
  if (rest.size() > kProtobufLimit || graph_rest.size() > kProtobufLimit)
    throw Error(ErrorCode::kBadInput, "has more than 2 GB beside its nodes and weights");
  if (!parts.skeleton.ParseFromString(rest)) throw Error(ErrorCode::kBadInput, "is not an ONNX model");
  if (has_graph && !parts.skeleton.mutable_graph()->ParseFromString(graph_rest))
    throw Error(ErrorCode::kBadInput, "is not an ONNX model: its graph cannot be read");
  parts.nodes.resize(parts.node_bytes.size());
  for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
    const std::string_view node = parts.node_bytes[i];
    if (node.size() > kProtobufLimit || !parts.nodes[i].ParseFromArray(node.data(), static_cast<int>(node.size())))
      throw Error(ErrorCode::kBadInput, "is not an ONNX model: node " + std::to_string(i) + " cannot be read");
  }
  return parts;
}

}  // namespace

bool is_readable_model(std::string_view bytes) {
  try {
    take_apart(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

ModelParts split_model(std::string_view bytes) {
  ModelParts parts = take_apart(bytes);
  if (!parts.skeleton.has_graph()) throw Error(ErrorCode::kBadInput, "is not an ONNX model: it has no graph");
  const std::int64_t version = parts.skeleton.ir_version();
  if (version < 1) throw Error(ErrorCode::kBadInput, "is not an ONNX model: it has no IR version");
  if (version > newest_ir_version())
    throw Error(ErrorCode::kBadInput,
                "has IR version " + std::to_string(version) + ", the newest known is " + std::to_string(newest_ir_version()));
  parts.opsets = read_opsets(parts.skeleton);
  return parts;
}

NodeOrder order_nodes(const ModelParts& parts, const std::function<bool(const std::string&)>& is_defined) {
  const std::vector<onnx::NodeProto>& nodes = parts.nodes;
  std::unordered_map<std::string, std::size_t> producer;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].output())
      if (!output.empty() && (is_defined(output) || !producer.emplace(output, i).second))
        throw Error(ErrorCode::kBadInput, "is defined twice, the second time by " + where_of(nodes[i]),
                    "tensor " + in_quotes(output));

  NodeOrder result;
  result.captured.resize(nodes.size());
  std::vector<std::uint32_t> waiting(nodes.size());
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto need = [&](const std::string& name) {
      if (name.empty()) return;
      result.read_names.insert(name);
      if (is_defined(name)) return;
      const auto from = producer.find(name);
      if (from == producer.end())
        throw Error(ErrorCode::kBadInput, "its input " + in_quotes(name) + " is not defined", where_of(nodes[i]));
      ++waiting[i];
      followers[from->second].push_back(i);
    };
    for (const std::string& name : nodes[i].input()) need(name);
    result.captured[i] = captured_names(nodes[i]);
    for (const std::string& name : result.captured[i]) need(name);
    for (const std::string& name : differentiated_names(nodes[i]))
      if (is_defined(name) || producer.contains(name)) need(name);
  }

  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(i);
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    result.order.push_back(i);
    for (std::size_t follower : followers[i])
      if (--waiting[follower] == 0) ready.push(follower);
  }
  if (result.order.size() != nodes.size()) {
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](std::uint32_t count) { return count > 0; });
    throw Error(ErrorCode::kBadInput, "the model has a cycle through it, or before it",
                where_of(nodes[static_cast<std::size_t>(stuck - waiting.begin())]));
  }
  return result;
}

}  // namespace rewright::graph
