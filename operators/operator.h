// The single definition of an operator: attributes, typing, shapes, denotation, ONNX mapping. All else is derived from it.
//
// An operator is a struct whose data members are its attributes:
//
//   struct LeakyRelu {
//     static constexpr std::string_view kName = "LeakyRelu";
//     Real alpha = 0.01;
//     template <class V> void fields(V&& v) { v("alpha", alpha); }
//     Definition define(const Inputs& in) const { ... }
//   };
//   void register_activation(Registry& r) { r.add<LeakyRelu>(); ... }
//
// Registry::add detects these optional members:
//
//   static constexpr InputCount kInputs{min, max};                            default: one input
//   static constexpr bool kCommutative, kRandom, kFill;                       properties of Operator, default: false
//   void normalize(const Inputs& in);                                         makes attributes canonical; may throw Error
//   std::vector<Tensor> execute(std::span<const Tensor> in) const;            for operators without a denotation
//   std::vector<ValueId> gradient(const GradientCall& call) const;            where none follows from the denotation
//   TrainingForm training_form(GraphBuilder& graph, const std::vector<ValueId>& in, double momentum) const;
//   static void onnx(OnnxMapping& m);                                         where ONNX's form differs (operators/onnx.h)
//
// Use:
//
//   const Operator& conv = registry().get("Conv");
//   const Inputs inputs = Inputs::of(std::span<const TensorType>(types));     // float[N, 3, 224, 224], float[64, 3, 7, 7]
//   const Definition d = conv.define(conv.normalized(conv.defaults(), inputs), inputs);
//   to_string(d.outputs()[0].type);                                           // "float[N, 64, 218, 218]"
//
// Operators whose results are no tensors, or whose output sizes depend on elements, are procedures (operators/procedure.h).
#pragma once

#include <cstdint>
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

// An input inside of a definition: its type, and its elements as expressions.
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

  // The element at a position, one index an axis. The position must be within the bounds; with `padded` elements outside are 0.
  Element operator()(const Indices& position) const { return read(position, false); }
  Element padded(const Indices& position) const { return read(position, true); }
  // The conditions under which a position is within the bounds, without those that always hold.
  std::vector<Condition> inside(const Indices& position) const;
  // The element that multidirectional broadcasting, as in ONNX, reads for a position of the result.
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
  static Inputs of(std::span<const std::optional<TensorType>> types);  // nullopt: absent
  std::size_t count() const { return operands_.size(); }
  // These inputs for a caller that needs only types and shapes: definitions skip denotations, Output::element stays null.
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
  Indices position;  // the index variables of `element`, one an axis
  Element element;   // the element at `position`; null: no denotation
};

// The meaning of an operator for given attributes and input types.
class Definition {
 public:
  explicit Definition(const Inputs& inputs) : wants_elements_(inputs.wants_elements()) {}

  // States that the operator is well-typed only if `condition` holds. Throws Error(kBadInput, message()) if it is known to be
  // false. If it depends on symbolic sizes, it is added to requirements().
  void require(const Condition& condition, const std::function<std::string()>& message);
  void require(bool condition, const std::function<std::string()>& message);
  // Throw Error(kBadInput) if the operand is absent or has another rank; if element types differ.
  void require_rank(const Operand& operand, std::size_t rank, std::string_view what);
  void require_same_type(const Operand& a, const Operand& b);

  // Add the next output: `element` gives its denotation at a position.
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

// The shape that ONNX's multidirectional broadcasting gives: a size of 1 yields to the other one; else both are required to be
// equal.
Indices broadcast_shapes(Definition& definition, const std::vector<Indices>& shapes);

struct OnnxMapping;  // operators/onnx.h

// Gradients are stated as graphs of operators (operators/gradient.h).
using ValueId = std::uint32_t;  // a value of a graph
class GraphBuilder;
struct GradientCall;
struct TrainingForm;
using GradientFunction = std::function<std::vector<ValueId>(const GradientCall& call)>;
using TrainingFunction = std::function<TrainingForm(GraphBuilder& graph, const Attributes& attributes,
                                                    const std::vector<ValueId>& inputs, double momentum)>;

struct Field {
  std::string name;
  AttributeValue default_value;
};

class Operator {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::optional<std::size_t> field(std::string_view name) const;  // its number in fields() and in Attributes
  int min_inputs() const { return min_inputs_; }
  int max_inputs() const { return max_inputs_; }
  bool commutative() const { return commutative_; }  // in its first two inputs
  bool random() const { return random_; }            // not a function of its inputs: never folded, never merged
  bool is_fill() const { return is_fill_; }          // without inputs; every element is the number in field "value"

  Attributes defaults() const;
  // Makes attributes canonical for these inputs: negative axes counted from the front, absent lists filled in. Throws Error.
  Attributes normalized(Attributes attributes, const Inputs& inputs) const { return normalize_(std::move(attributes), inputs); }
  // Types, shapes and denotations. Throws Error(kBadInput) if the node is ill-typed.
  Definition define(const Attributes& attributes, const Inputs& inputs) const { return define_(attributes, inputs); }
  // Only for operators without a denotation; null otherwise.
  const std::function<std::vector<Tensor>(const Attributes&, std::span<const Tensor>)>& execute() const { return execute_; }
  // The stated gradient; null where it follows from the denotation, or there is none. add_gradient() handles all three.
  const GradientFunction& gradient() const { return gradient_; }
  // Replaces the operator while a network is trained; null if training computes the same.
  const TrainingFunction& training_form() const { return training_form_; }
  const OnnxMapping& onnx() const { return *onnx_; }
  // A copy with another meaning, for tests that check that a wrong definition is noticed.
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
  bool commutative_ = false, random_ = false, is_fill_ = false;
  std::function<Attributes(Attributes, const Inputs&)> normalize_;
  std::function<Definition(const Attributes&, const Inputs&)> define_;
  std::function<std::vector<Tensor>(const Attributes&, std::span<const Tensor>)> execute_;
  GradientFunction gradient_;
  TrainingFunction training_form_;
  std::shared_ptr<const OnnxMapping> onnx_;
};

struct InputCount {
  int min, max;
};
inline constexpr int kVariadic = 1 << 20;  // as a maximum: any number

// A table of operators by name.
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
// All operators. Built at the first call, constant afterwards.
const Registry& registry();

// Attributes from an operator's struct and back, in the order of its fields(). from_attributes throws Error(kBadInput) if an
// attribute has the wrong type.
template <class T>
Attributes to_attributes(T op);
template <class T>
T from_attributes(const Attributes& attributes);

}  // namespace rewright::operators

#include "operators/onnx.h"  // OnnxMapping, needed by Registry::add
