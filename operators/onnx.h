// The mapping between operators and their ONNX form. It needs no header of ONNX or Protobuf: the importer and exporter in
// graph/onnx/ implement the interfaces OnnxSource and OnnxSink.
//
// The default mapping serves most operators: the ONNX operator has the operator's name, its attributes have the names of the
// fields, its inputs are the operator's inputs. An operator's struct states differences in an optional member:
//
//   static void onnx(OnnxMapping& m) {   // ReduceSum: "axes" is input 1 from opset 13 on, an attribute before
//     m.field_inputs = {{"axes", 1, 13}};
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

// A value during import or export, numbered by the importer or exporter. kAbsent: an optional input that is absent.
using OnnxValue = int;
inline constexpr OnnxValue kAbsent = -1;

// The attributes of a node. An absent one reads as `otherwise`, or as empty. Throws Error(kBadInput) if the attribute has
// another type.
class OnnxAttributes {
 public:
  virtual ~OnnxAttributes() = default;
  virtual const std::string& type() const = 0;  // the ONNX operator's name
  virtual bool has(std::string_view attribute) const = 0;
  virtual std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const = 0;
  virtual std::vector<std::int64_t> integers(std::string_view attribute) const = 0;
  virtual double real(std::string_view attribute, double otherwise) const = 0;
  virtual std::vector<double> reals(std::string_view attribute) const = 0;
  virtual std::string text(std::string_view attribute, std::string_view otherwise) const = 0;
  virtual std::vector<std::string> texts(std::string_view attribute) const = 0;
  virtual std::optional<Tensor> tensor(std::string_view attribute) const = 0;
};

// A node being imported: its ONNX form, and functions that build its meaning.
class OnnxSource : public OnnxAttributes {
 public:
  virtual int opset() const = 0;  // of its domain, in this model
  virtual std::size_t input_count() const = 0;
  virtual std::size_t output_count() const = 0;  // the outputs with a name
  virtual OnnxValue input(std::size_t i) const = 0;

  virtual const TensorType& type_of(OnnxValue value) const = 0;
  // The elements of a small integer tensor if they are known: constants, or expressions over the model's sizes.
  virtual std::optional<Indices> contents(OnnxValue value) const = 0;
  // The tensor, if the value is a constant.
  virtual std::optional<Tensor> constant_value(OnnxValue value) const = 0;
  // May a symbolic size be assumed to be at least 1? True for the sizes of the model's inputs: if one turns out to be 0, the
  // model is imported again. A size that depends on elements may be 0.
  virtual bool never_empty(const Index& size) const = 0;

  // Add a node of an operator in the registry (its attributes are normalized), and a constant.
  virtual std::vector<OnnxValue> node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) = 0;
  virtual OnnxValue constant(Tensor tensor) = 0;
};

// A node being exported. Nodes and constants are written in the model's own opset.
class OnnxSink {
 public:
  virtual ~OnnxSink() = default;
  virtual int opset() const = 0;
  virtual const TensorType& type_of(OnnxValue value) const = 0;
  // The tensor, if the value is a constant.
  virtual std::optional<Tensor> constant_value(OnnxValue value) const = 0;
  // Attributes are written by their type: Index as int, Indices as ints, Real as float, ...
  using NamedAttributes = std::vector<std::pair<std::string, AttributeValue>>;
  // Writes a node. `outputs` are fresh values or, in the last node, the values that the exported node defines.
  virtual void node(const std::string& type, NamedAttributes attributes, std::vector<OnnxValue> inputs,
                    std::vector<OnnxValue> outputs, const std::string& domain = {}) = 0;
  virtual OnnxValue fresh(const TensorType& type) = 0;
  virtual OnnxValue constant(Tensor tensor) = 0;
  // An int64 tensor of rank 1 with these elements: a constant if they are known, else computed from the sizes of the model's
  // inputs by nodes that the sink adds.
  virtual OnnxValue index_tensor(const Indices& elements) = 0;
};

struct OnnxMapping {
  std::string type;    // the ONNX operator; default: the operator's name
  std::string domain;  // default: ""
  int since = 1;       // the first opset in which this form exists

  // A field that is an input of the ONNX operator from opset `since` on, and an attribute before. It is not among the
  // operator's own inputs: the importer reads it from the input's contents, the exporter writes it as a constant.
  struct FieldInput {
    std::string field;
    int input;  // number of the ONNX input
    int since;
  };
  std::vector<FieldInput> field_inputs;
  // ONNX attributes whose names differ from the field's: field, attribute.
  std::vector<std::pair<std::string, std::string>> renamed;
  // Fields that ONNX does not have; they are never written.
  std::vector<std::string> internal_fields;

  // Other ONNX operators (domain "") that `import` of this mapping also imports.
  std::vector<std::string> also;

  // Replaces the default import: builds nodes for `source` and returns one value for each of the node's outputs. Returns
  // nullopt and sets `reason` if this form is not supported; the node then stays opaque.
  std::function<std::optional<std::vector<OnnxValue>>(OnnxSource& source, std::string& reason)> import;
  // Replaces the default export. Returns false if this opset cannot express the node.
  std::function<bool(OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                     const std::vector<OnnxValue>& outputs)>
      write;
};

// The operator that imports an ONNX operator; null if there is none.
const Operator* find_onnx(std::string_view domain, std::string_view type);

// The default import and export. Custom functions that only prepare something call them, too.
std::optional<std::vector<OnnxValue>> import_default(const Operator& op, OnnxSource& source, std::string& reason);
bool write_default(const Operator& op, OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                   const std::vector<OnnxValue>& outputs);

}  // namespace rewright::operators

#include "operators/operator_inl.h"
