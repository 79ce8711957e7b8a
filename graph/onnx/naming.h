// The names of a graph's values in an exported model.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/onnx/model.h"

namespace rewright::graph {

// A set of used names. New names get a number if they would not be unique.
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
  NameTable table;                                          // all names, also those inside of subgraphs
};

// Inputs, weights and outputs keep their names. An output gets an Identity node if it is an input, a weight with another name,
// or the same value as another output. Other values keep their name if they have one, else they are named after the next named
// value that is computed from them.
ValueNames name_values(const Graph& graph, const ImportedModel& model);

bool is_same_tensor(const Tensor& a, const Tensor& b);  // do they share their bytes?

}  // namespace rewright::graph
