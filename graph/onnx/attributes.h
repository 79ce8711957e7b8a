// Implements OnnxAttributes (operators/onnx.h) for a NodeProto.
#pragma once

#include <string>
#include <vector>

#include "graph/onnx/model.h"
#include "operators/onnx.h"

namespace rewright::graph {

// Null if it is absent. Throws Error(kBadInput) if it is of another type.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name,
                                           onnx::AttributeProto::AttributeType type);

// ONNX's only attribute that is a sparse tensor, of Constant. It is read as a dense one.
inline constexpr std::string_view kSparseValue = "sparse_value";

template <class Base>
class NodeAttributes : public Base {
 public:
  explicit NodeAttributes(const onnx::NodeProto& proto) : proto_(proto) {}

  const std::string& type() const override { return proto_.op_type(); }
  bool has(std::string_view attribute) const override {
    for (const onnx::AttributeProto& a : proto_.attribute())
      if (a.name() == attribute) return true;
    return false;
  }
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::INT);
    return found != nullptr ? found->i() : otherwise;
  }
  std::vector<std::int64_t> integers(std::string_view attribute) const override {
    const auto* found = find(attribute, onnx::AttributeProto::INTS);
    if (found == nullptr) return {};
    return {found->ints().begin(), found->ints().end()};
  }
  double real(std::string_view attribute, double otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::FLOAT);
    return found != nullptr ? found->f() : otherwise;
  }
  std::vector<double> reals(std::string_view attribute) const override {
    const auto* found = find(attribute, onnx::AttributeProto::FLOATS);
    if (found == nullptr) return {};
    return {found->floats().begin(), found->floats().end()};
  }
  std::string text(std::string_view attribute, std::string_view otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::STRING);
    return found != nullptr ? found->s() : std::string(otherwise);
  }
  std::vector<std::string> texts(std::string_view attribute) const override {
    const auto* found = find(attribute, onnx::AttributeProto::STRINGS);
    if (found == nullptr) return {};
    return {found->strings().begin(), found->strings().end()};
  }
  std::optional<Tensor> tensor(std::string_view attribute) const override {
    if (const auto* sparse = attribute == kSparseValue ? find(attribute, onnx::AttributeProto::SPARSE_TENSOR) : nullptr) {
      constexpr std::size_t kMostBytes = std::size_t{1} << 28;
      ExternalData none;
      return to_tensor(sparse->sparse_tensor(), none, kMostBytes);
    }
    const auto* found = attribute == kSparseValue ? nullptr : find(attribute, onnx::AttributeProto::TENSOR);
    if (found == nullptr) return std::nullopt;
    return to_tensor(found->t());
  }

 protected:
  const onnx::AttributeProto* find(std::string_view name, onnx::AttributeProto::AttributeType type) const {
    return find_attribute(proto_, name, type);
  }
  const onnx::NodeProto& proto_;
};

class PlainAttributes final : public NodeAttributes<OnnxAttributes> {
 public:
  using NodeAttributes::NodeAttributes;
};

}  // namespace rewright::graph
