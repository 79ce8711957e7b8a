// What an operator is, once: attributes, typing, shapes, denotation, ONNX mapping. All else is derived.
//
// An operator is written as a struct whose data members are its attributes:
//
//   struct LeakyRelu {
//     static constexpr std::string_view kName = "LeakyRelu";
//     Real alpha = 0.01;
//     template <class V> void fields(V&& v) { v("alpha", alpha); }
//     Definition define(const Inputs& in) const { ... }
//   };
//   void register_activations(Registry& r) { r.add<LeakyRelu>(); ... }
//
// Optional members (detected): kCommutative, kInputs{min, max}, normalize(inputs), the ONNX members of operators/onnx.h,
// execute(inputs) for operators without a denotation.
//
// Operators whose results are no tensors, or have sizes that only elements tell, are procedures: operators/procedure.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expressions/attributes.h"
#include "expressions/element.h"
#include "expressions/index.h"
#include "expressions/tensor.h"

namespace rewright::operators {

// The type and the sizes of a tensor; sizes may be symbolic.
struct TensorType {
  DataType type = DataType::kUndefined;
  Indices shape;
  std::size_t rank() const { return shape.size(); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "float[N, 3, 224, 224]"

// An input as a definition sees it: its type, and its elements as expressions.
class Operand {
 public:
  Operand() = default;  // an optional input that is absent
  Operand(int number, TensorType type) : number_(number), type_(std::move(type)), present_(true) {}
  bool present() const { return present_; }
  DataType type() const { return type_.type; }
  Scalar scalar() const { return rewright::scalar(type_.type); }
  const Indices& shape() const { return type_.shape; }
  const Index& size(std::size_t axis) const { return type_.shape[axis]; }
  std::size_t rank() const { return type_.rank(); }

  // The element at a position, which must be inside; the same with 0 outside of the bounds.
  Element operator()(const Indices& position) const { return read(position, false); }
  Element padded(const Indices& position) const { return read(position, true); }
  // The conditions under which a position is inside of the bounds (those not decided already).
  std::vector<Condition> inside(const Indices& position) const;
  // The element that broadcasting (ONNX, multidirectional) reads for a position of the result.
  Element broadcast(const Indices& position) const;

 private:
  Element read(const Indices& position, bool zero_outside) const;
  int number_ = -1;
  TensorType type_;
  bool present_ = false;
};

class Inputs {
 public:
  explicit Inputs(std::vector<Operand> operands) : operands_(std::move(operands)) {}
  static Inputs of(std::span<const TensorType> types);                 // all present
  static Inputs of(std::span<const std::optional<TensorType>> types);  // absent ones may be between
  std::size_t count() const { return operands_.size(); }
  // The caller wants types and shapes alone: definitions skip their denotations (Output::element stays null).
  Inputs types_only() const;
  bool wants_elements() const { return wants_elements_; }
  // Absent for a number beyond the last.
  const Operand& operator[](std::size_t i) const { return i < operands_.size() ? operands_[i] : absent_; }
  bool has(std::size_t i) const { return (*this)[i].present(); }

 private:
  std::vector<Operand> operands_;
  Operand absent_;
  bool wants_elements_ = true;
};

struct Requirement {
  Condition condition;
  std::string message;
};

struct Output {
  TensorType type;
  Indices position;  // the index variables, one an axis
  Element element;   // null: no denotation
};

// What an operator means for given attributes and input types.
class Definition {
 public:
  explicit Definition(const Inputs& inputs) : wants_elements_(inputs.wants_elements()) {}

  // The operator is well-typed only if `condition` holds. If it is decided now and false, throws Error(kBadInput, message());
  // if it is open (symbolic sizes), it is kept.
  void require(const Condition& condition, const std::function<std::string()>& message);
  void require(bool condition, const std::function<std::string()>& message);
  // Requires rank and equal element types; throw a uniform message.
  void require_rank(const Operand& operand, std::size_t rank, std::string_view what);
  void require_same_type(const Operand& a, const Operand& b);

  // Adds an output with its denotation at a position / without one.
  void output(DataType type, Indices shape, const std::function<Element(const Indices& position)>& element);
  void output_without_denotation(DataType type, Indices shape);

  const std::vector<Requirement>& requirements() const { return requirements_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  bool has_denotation() const;

 private:
  std::vector<Requirement> requirements_;
  std::vector<Output> outputs_;
  bool wants_elements_;
};

// ONNX's multidirectional broadcasting of shapes: where one size is 1 the other counts, else they are required to be equal.
Indices broadcast_shapes(Definition& definition, const std::vector<Indices>& shapes);

struct OnnxMapping;  // operators/onnx.h

struct Field {
  std::string name;
  AttributeValue default_value;
};

class Operator {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::optional<std::size_t> field(std::string_view name) const;
  int min_inputs() const { return min_inputs_; }
  int max_inputs() const { return max_inputs_; }
  bool commutative() const { return commutative_; }  // in its first two inputs
  bool random() const { return random_; }            // not a function of its inputs: never folded, never merged

  Attributes defaults() const;
  // Makes attributes canonical for these inputs: negative axes counted from the front, absent lists filled in. Throws Error.
  Attributes normalized(Attributes attributes, const Inputs& inputs) const { return normalize_(std::move(attributes), inputs); }
  // Types, shapes and denotations. Throws Error(kBadInput) if the node is ill-typed.
  Definition define(const Attributes& attributes, const Inputs& inputs) const { return define_(attributes, inputs); }
  // Only for operators without a denotation; null otherwise.
  const std::function<std::vector<Tensor>(const Attributes&, std::span<const Tensor>)>& execute() const { return execute_; }
  const OnnxMapping& onnx() const { return *onnx_; }
  // The same operator with another meaning: so that tests can see that a wrong definition is noticed.
  Operator with_definition(std::function<Definition(const Attributes&, const Inputs&)> define) const {
    Operator other = *this;
    other.define_ = std::move(define);
    return other;
  }

 private:
  friend class Registry;
  std::string name_;
  std::vector<Field> fields_;
  int min_inputs_ = 1, max_inputs_ = 1;
  bool commutative_ = false, random_ = false;
  std::function<Attributes(Attributes, const Inputs&)> normalize_;
  std::function<Definition(const Attributes&, const Inputs&)> define_;
  std::function<std::vector<Tensor>(const Attributes&, std::span<const Tensor>)> execute_;
  std::shared_ptr<const OnnxMapping> onnx_;
};

struct InputCount {
  int min, max;
};
inline constexpr int kVariadic = 1 << 20;

// All operators. Built once, explicitly (no registration by static constructors), and constant afterwards.
class Registry {
 public:
  template <class T>
  void add();
  const Operator* find(std::string_view name) const;
  const Operator& get(std::string_view name) const;  // throws Error(kUsage) if there is none
  std::vector<const Operator*> all() const;          // by name
  ~Registry();
  Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

 private:
  void insert(std::unique_ptr<Operator> op);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
const Registry& registry();

// Attributes from a typed struct and back; the struct's fields() gives the order.
template <class T>
Attributes to_attributes(T op);
template <class T>
T from_attributes(const Attributes& attributes);

}  // namespace rewright::operators

#include "operators/onnx.h"  // what a definition may say of ONNX; needed by Registry::add
