// The types that a model declares for its inputs, outputs and inner values, and the names of its sizes.
//
// Rules and executions rely on equal symbols being equal sizes. The names that a model gives to the sizes of its inputs become
// symbols, since execution checks them. Every other unknown size gets a symbol of its own: exporters reuse one name for
// unrelated sizes, and nothing checks the names of outputs and inner values.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

struct DeclaredType {
  TensorType type;         // kUndefined: not declared, or not a tensor
  bool has_shape = false;  // false: type.shape is meaningless
  bool is_complete() const { return has_shape && type.type != DataType::kUndefined; }
};

class DeclaredTypes {
 public:
  // Throws Error(kBadInput) if sizes in `options` contradict the declared ones.
  DeclaredTypes(const onnx::GraphProto& graph, const ImportOptions& options, const std::string& size_scope);

  const DeclaredType& of_input(const std::string& name) const { return inputs_.at(name); }
  // The type of an output or inner value; empty if it is not declared. A named size is used only at inner values, and only if
  // an input has that name: names at outputs are often written by hand.
  DeclaredType of_value(const std::string& name);
  bool is_of_input(const std::string& symbol) const { return input_size_symbols_.contains(symbol); }
  // A symbol for a size that nothing names or computes, different from all others; the same at each call for an axis of a
  // value.
  Index own_size(const std::string& value, std::size_t axis);
  // Throws Error(kBadInput) if the declared element type of a value differs from the inferred one. Declared sizes that differ
  // from inferred ones are ignored: exporters get them wrong, and runtimes use the computed ones.
  void check(const std::string& name, const TensorType& found) const;

 private:
  DeclaredType read(const std::string& name, const onnx::TypeProto& type);
  void give_size(const onnx::ValueInfoProto& input, const Sizes& sizes);

  std::unordered_map<std::string, DeclaredType> inputs_;
  std::unordered_map<std::string, const onnx::TypeProto*> values_;
  std::unordered_set<std::string> outputs_;
  std::set<std::string> input_size_names_, input_size_symbols_;           // as declared; also those generated for inputs
  std::set<std::string> taken_;                                           // names of sizes: the model's and generated ones
  std::map<std::pair<std::string, std::size_t>, std::string> own_sizes_;  // by value and axis
  std::string scope_;                                                     // prefix of generated names
  std::map<std::string, std::int64_t> sizes_;                             // given sizes by name
  std::map<std::string, const Sizes*> given_;                             // given shapes by input
};

// A tensor's type. `size_of` gives the size of a dimension that is not a number, from the dimension and its axis. For other
// types the result is not complete.
using SizeOfDim = std::function<Index(const onnx::TensorShapeProto::Dimension&, std::size_t)>;
DeclaredType read_type(const onnx::TypeProto& type, const SizeOfDim& size_of);

}  // namespace rewright::graph
