// A model taken apart: what stands in its bytes, before anything is made of it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/onnx/model.h"

namespace rewright::graph {

inline std::string in_quotes(const std::string& name) { return "\"" + name + "\""; }

// ONNX's own operators have the empty domain, which may also be written out.
inline std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// A node, for messages.
std::string where_of(const onnx::NodeProto& node);

struct ModelParts {
  onnx::ModelProto skeleton;  // without nodes and initializers
  std::vector<std::string_view> node_bytes, initializer_bytes;
  std::vector<onnx::NodeProto> nodes;
  std::map<std::string, int> opsets;
};

// Throws Error(kBadInput) if the bytes are no model, or one of a newer kind than is known here.
ModelParts split_model(std::string_view bytes);

// The nodes in topological order (that of the file, where it is one), and what each captures.
struct NodeOrder {
  std::vector<std::size_t> order;
  std::vector<std::vector<std::string>> captured;
  std::unordered_set<std::string> read_names;  // by a node or a subgraph
};
// `is_defined` says which names initializers and inputs define. Throws Error(kBadInput) where a value is defined twice or not
// at all, or the nodes go round in a circle.
NodeOrder order_nodes(const ModelParts& parts, const std::function<bool(const std::string&)>& is_defined);

}  // namespace rewright::graph
