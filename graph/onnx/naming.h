// The names that a graph's values get in a written model.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/onnx/model.h"

namespace rewright::graph {

// Names that are taken; new ones get a number where they would not be unique.
class NameTable {
 public:
  void reserve(const std::string& name) { taken_.insert(name); }
  std::string unique(const std::string& wanted);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::uint32_t> next_;
};

struct ValueNames {
  std::vector<std::string> names;                           // of every value that is written
  std::vector<std::pair<ValueId, std::string>> identities;  // outputs that need an Identity node: its input, the name
  NameTable table;                                          // all of them, and those inside of subgraphs
};

// Inputs, weights and outputs keep their names; an output that is an input, a weight with another name or the same value as
// another output gets an Identity node. Other values keep their name where they have one, and are else named after the next
// value below.
ValueNames name_values(const Graph& graph, const ImportedModel& model);

bool is_same_tensor(const Tensor& a, const Tensor& b);  // the very same bytes

}  // namespace rewright::graph
