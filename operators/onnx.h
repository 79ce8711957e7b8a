// How operators stand in ONNX. No ONNX or Protobuf header is needed here: the importer and exporter in graph/ implement the
// two interfaces below.
//
// The default mapping serves most operators: the ONNX operator has the operator's own name, its attributes have the names of
// the fields, its inputs are the operator's inputs. What differs is said by these optional members of an operator's struct:
//
//   static void onnx(OnnxMapping& m)   fills in the mapping below
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

// A value during import or export, numbered by the importer or exporter. kAbsent: an optional input that is not there.
using OnnxValue = int;
inline constexpr OnnxValue kAbsent = -1;

// The attributes of a node. Those that are absent read as `otherwise`, or empty.
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

// A node being imported: what stands in the model, and how to build what it means.
class OnnxSource : public OnnxAttributes {
 public:
  virtual int opset() const = 0;  // of its domain, in this model
  virtual std::size_t input_count() const = 0;
  virtual std::size_t output_count() const = 0;  // those with a name
  virtual OnnxValue input(std::size_t i) const = 0;

  virtual const TensorType& type_of(OnnxValue value) const = 0;
  // The elements of a small integer tensor, as far as they are known: constants, or expressions over the model's sizes.
  virtual std::optional<Indices> contents(OnnxValue value) const = 0;
  // The tensor, if the value is a constant.
  virtual std::optional<Tensor> constant_value(OnnxValue value) const = 0;
  // May a symbolic size be taken to be at least 1? Those of the model's inputs are: where one is 0, the model is read again. A
  // size that elements decide may be 0.
  virtual bool never_empty(const Index& size) const = 0;

  // Building: a node of an operator in the registry (attributes are normalized), and a constant.
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
  // Attribute values are written by their type: Index as int, Indices as ints, Real as float, ...
  using NamedAttributes = std::vector<std::pair<std::string, AttributeValue>>;
  // Writes a node; `outputs` are fresh values, or the values the exported node must define, in its last node.
  virtual void node(const std::string& type, NamedAttributes attributes, std::vector<OnnxValue> inputs,
                    std::vector<OnnxValue> outputs, const std::string& domain = {}) = 0;
  virtual OnnxValue fresh(const TensorType& type) = 0;
  virtual OnnxValue constant(Tensor tensor) = 0;
  // An int64 tensor (of rank 1) with these elements: a constant where they are known; otherwise computed from the sizes of
  // the model's inputs by nodes that the sink adds.
  virtual OnnxValue index_tensor(const Indices& elements) = 0;
};

struct OnnxMapping {
  std::string type;    // the ONNX operator; default: the operator's name
  std::string domain;  // default: ""
  int since = 1;       // the first opset in which this form exists

  // A field that is an input of the ONNX operator from some opset on (before: an attribute). It is not one of the operator's
  // own inputs: the importer takes it from the input's contents, the exporter writes it as a constant.
  struct FieldInput {
    std::string field;
    int input;  // number of the ONNX input
    int since;  // opset from which it is an input
  };
  std::vector<FieldInput> field_inputs;
  // Names of ONNX attributes that differ from the field's: field, attribute.
  std::vector<std::pair<std::string, std::string>> renamed;
  // Fields that ONNX does not have at all (never written).
  std::vector<std::string> internal_fields;

  // Other ONNX operators (domain "") that this operator also stands for: imported by `import` of this mapping.
  std::vector<std::string> also;

  // Replaces the default import: builds nodes for `source`, returns one value for each of the node's outputs. Returns nothing
  // if this form cannot be understood (the node is then kept as it is, opaque, with `reason` said).
  std::function<std::optional<std::vector<OnnxValue>>(OnnxSource& source, std::string& reason)> import;
  // Replaces the default export. Returns false if the node cannot be said in this opset.
  std::function<bool(OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                     const std::vector<OnnxValue>& outputs)>
      write;
};

// The operator that imports an ONNX operator; null if there is none.
const Operator* find_onnx(std::string_view domain, std::string_view type);

// The default import and export (used by the importer and exporter, and by custom functions that only prepare something).
std::optional<std::vector<OnnxValue>> import_default(const Operator& op, OnnxSource& source, std::string& reason);
bool write_default(const Operator& op, OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                   const std::vector<OnnxValue>& outputs);

}  // namespace rewright::operators

#include "operators/operator_inl.h"
