// The parts of a model's bytes, before they are imported.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/onnx/model.h"

namespace rewright::graph {

inline std::string in_quotes(const std::string& name) { return "\"" + name + "\""; }

// The empty domain for "ai.onnx", its other name.
inline std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// The node's place in messages.
std::string where_of(const onnx::NodeProto& node);

struct ModelParts {
  onnx::ModelProto skeleton;  // without nodes and initializers
  std::vector<std::string_view> node_bytes, initializer_bytes;
  std::vector<onnx::NodeProto> nodes;
  std::map<std::string, int> opsets;
};

// Throws Error(kBadInput) if the bytes are not a model, or its IR version is too new.
ModelParts split_model(std::string_view bytes);

// The nodes in topological order (the file's order if it is one), and the values that each captures.
struct NodeOrder {
  std::vector<std::size_t> order;
  std::vector<std::vector<std::string>> captured;
  std::unordered_set<std::string> read_names;  // by a node or a subgraph
};
// `is_defined`: is a name an initializer or input? Throws Error(kBadInput) if a value is defined twice or not at all, or the
// nodes form a cycle.
NodeOrder order_nodes(const ModelParts& parts, const std::function<bool(const std::string&)>& is_defined);

}  // namespace rewright::graph
