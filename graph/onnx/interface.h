// A model's description, and the declarations of its inputs and outputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// An input or output as the model declares it, in ONNX's terms.
struct Declaration {
  struct Size {
    std::optional<std::int64_t> number;
    std::string name;  // of an open size; may be empty
  };
  std::string name;
  std::string type;                          // "tensor(float16)", "seq(tensor(int64))"; empty: not known
  DataType elements = DataType::kUndefined;  // of a tensor
  bool is_tensor = true;                     // false: a sequence, an optional, or not known
  std::optional<std::vector<Size>> shape;    // of a tensor; nullopt: not even the rank is known
};
std::string tensor_type_text(DataType elements);  // "tensor(float16)"
// In the order of the graph's inputs and outputs.
std::vector<Declaration> declared_inputs(const Graph& graph);
std::vector<Declaration> declared_outputs(const Graph& graph);

// The descriptive fields of a ModelProto.
struct ModelDescription {
  std::string producer_name, producer_version, domain, description, graph_name, graph_description;
  std::int64_t version = 0;
  std::map<std::string, std::string> metadata;
};
ModelDescription describe_model(const Graph& graph);

}  // namespace rewright::graph
