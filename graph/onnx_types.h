// The types that a model declares for its inputs, outputs and inner values.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/onnx.h"
#include "graph/onnx_model.h"

namespace rewright {

struct DeclaredType {
  TensorType type;         // kUndefined: no type, or not one of tensors
  bool has_shape = false;  // false: type.shape says nothing
  bool is_complete() const { return has_shape && type.type != DataType::kUndefined; }
};

class DeclaredTypes {
 public:
  // Throws Error(kBadInput) where sizes in `options` contradict the declared ones.
  DeclaredTypes(const onnx::GraphProto& graph, const ImportOptions& options);

  const DeclaredType& of_input(const std::string& name) const { return inputs_.at(name); }
  // Of an output or inner value; nothing known if it is not declared.
  DeclaredType of_value(const std::string& name) const;
  DeclaredType read(const std::string& name, const onnx::TypeProto& type) const;
  // Throws Error(kBadInput) if the declared elements of a value are of another type than those that were found. Sizes that are
  // declared otherwise than they are computed count for nothing: exporters get them wrong, and what runs models goes by what is
  // computed.
  void check(const std::string& name, const TensorType& found) const;

 private:
  void note_names(const onnx::TypeProto& type);
  void give_size(const onnx::ValueInfoProto& input, const Sizes& sizes);
  Index unnamed_size(const std::string& name, std::size_t axis) const;

  std::unordered_map<std::string, DeclaredType> inputs_;
  std::unordered_map<std::string, const onnx::TypeProto*> values_;
  std::unordered_set<std::string> size_names_;  // that the model uses
  std::map<std::string, std::int64_t> sizes_;   // given for names
  std::map<std::string, const Sizes*> given_;   // given for inputs
};

}  // namespace rewright
