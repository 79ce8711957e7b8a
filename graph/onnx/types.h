// The types that a model declares for its inputs, outputs and inner values, and the names of its sizes.
//
// Equal symbols are equal sizes: rules and executions rely on it. The names that a model gives to the sizes of its inputs are
// symbols, since whoever runs the model is held to them. Every other size that is not known gets a symbol of its own: exporters
// call unrelated sizes by one name, and nothing checks the names of outputs and inner values.
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
  TensorType type;         // kUndefined: no type, or not one of tensors
  bool has_shape = false;  // false: type.shape says nothing
  bool is_complete() const { return has_shape && type.type != DataType::kUndefined; }
};

class DeclaredTypes {
 public:
  // Throws Error(kBadInput) where sizes in `options` contradict the declared ones.
  DeclaredTypes(const onnx::GraphProto& graph, const ImportOptions& options, const std::string& size_scope);

  const DeclaredType& of_input(const std::string& name) const { return inputs_.at(name); }
  // Of an output or inner value; nothing known if it is not declared. Of names those of inputs' sizes are believed, at inner
  // values: those of outputs are made up by hand.
  DeclaredType of_value(const std::string& name);
  bool is_of_input(const std::string& symbol) const { return input_size_symbols_.contains(symbol); }
  // A size that nothing names or computes: equal to no other. The same symbol each time for the same axis of a value.
  Index own_size(const std::string& value, std::size_t axis);
  // Throws Error(kBadInput) if the declared elements of a value are of another type than those that were found. Sizes that are
  // declared otherwise than they are computed count for nothing: exporters get them wrong, and what runs models goes by what is
  // computed.
  void check(const std::string& name, const TensorType& found) const;

 private:
  DeclaredType read(const std::string& name, const onnx::TypeProto& type);
  void give_size(const onnx::ValueInfoProto& input, const Sizes& sizes);

  std::unordered_map<std::string, DeclaredType> inputs_;
  std::unordered_map<std::string, const onnx::TypeProto*> values_;
  std::unordered_set<std::string> outputs_;
  std::set<std::string> input_size_names_, input_size_symbols_;           // as declared; with those made up for inputs
  std::set<std::string> taken_;                                           // names of sizes: the model's, and those given out
  std::map<std::pair<std::string, std::size_t>, std::string> own_sizes_;  // by value and axis
  std::string scope_;                                                     // of the names given out
  std::map<std::string, std::int64_t> sizes_;                             // given for names
  std::map<std::string, const Sizes*> given_;                             // given for inputs
};

// A tensor's type; `size_of` says each size that is no number, by the dimension and the axis. Not complete for other types.
using SizeOfDim = std::function<Index(const onnx::TensorShapeProto::Dimension&, std::size_t)>;
DeclaredType read_type(const onnx::TypeProto& type, const SizeOfDim& size_of);

}  // namespace rewright::graph
