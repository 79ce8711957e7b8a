#include "operators/readings/interpreter.h"

#include "expressions/code_evaluator.h"
#include "expressions/flatten.h"
#include "operators/readings/number_system.h"
#include "operators/readings/zeros_outside.h"
#include "operators/texts.h"

namespace rewright::operators {

namespace {

// Operands with known elements.
template <class A>
struct OperandData {
  Sizes sizes;
  std::vector<typename A::Value> reals;
  std::vector<std::int64_t> integers;
};

template <class A>
class WholeOperands {
 public:
  explicit WholeOperands(const std::vector<OperandData<A>>& data) : data_(data) {}
  const Sizes& sizes(int operand) const { return data_[static_cast<std::size_t>(operand)].sizes; }
  const typename A::Value& real(int operand, std::int64_t at) const {
    return data_[static_cast<std::size_t>(operand)].reals[static_cast<std::size_t>(at)];
  }
  const typename A::Value* reals(int operand) const { return data_[static_cast<std::size_t>(operand)].reals.data(); }
  std::int64_t integer(int operand, std::int64_t at) const {
    return data_[static_cast<std::size_t>(operand)].integers[static_cast<std::size_t>(at)];
  }

 private:
  const std::vector<OperandData<A>>& data_;
};

// Evaluates all elements of one output into exactly one of the two results.
template <class A>
struct Evaluated {
  Sizes sizes;
  std::vector<typename A::Value> reals;
  std::vector<std::int64_t> integers;
};

template <class A>
Evaluated<A> evaluate(const Output& output, A arithmetic, const std::vector<OperandData<A>>& operands,
                      bool zeros_outside = false) {
  Evaluated<A> result{values(output.type.shape), {}, {}};
  const std::int64_t count = element_count(result.sizes);
  if (count > (std::int64_t{1} << 33))
    throw Error(ErrorCode::kMissing, "not enough memory for a result of " + std::to_string(count) + " elements");
  std::vector<Sizes> sizes;
  for (const auto& o : operands) sizes.push_back(o.sizes);
  Flattener flattener(std::move(sizes));
  if (zeros_outside) flattener.keep_zeros_outside();
  std::vector<int> position;
  for (std::size_t a = 0; a < result.sizes.size(); ++a)
    position.push_back(flattener.variable(output.position[a], result.sizes[a]));
  if (count == 0) return result;
  const CodePointer code = flattener.flatten(output.element);
  CodeEvaluator<A, WholeOperands<A>> evaluator(arithmetic, WholeOperands<A>(operands));
  evaluator.slots.assign(flattener.slot_count(), 0);
  evaluator.set_memory_count(flattener.memory_count());
  const bool is_real = code->scalar == Scalar::kReal;
  is_real ? result.reals.reserve(static_cast<std::size_t>(count)) : result.integers.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) {
    if (is_real)
      result.reals.push_back(evaluator.real(*code));
    else
      result.integers.push_back(evaluator.integer(*code));
    for (std::size_t a = position.size(); a-- > 0;) {  // the next position
      std::int64_t& i = evaluator.slots[static_cast<std::size_t>(position[a])];
      if (++i < result.sizes[a]) break;
      i = 0;
    }
  }
  return result;
}

template <class T>
std::vector<std::optional<TensorType>> types_of(std::span<const T> inputs) {
  std::vector<std::optional<TensorType>> types;
  for (const T& t : inputs) {
    if (t.type == DataType::kUndefined)
      types.emplace_back();
    else
      types.push_back(TensorType{t.type, to_indices(t.sizes)});
  }
  return types;
}

struct TypeAndSizes {
  DataType type;
  Sizes sizes;
};

std::vector<Tensor> interpreted(const Operator& op, const Attributes& attributes, std::span<const Tensor> inputs,
                                bool zeros_outside) {
  std::vector<TypeAndSizes> types_and_sizes;
  for (const Tensor& t : inputs) types_and_sizes.push_back({t.type(), t.sizes()});
  const auto types = types_of<TypeAndSizes>(types_and_sizes);
  const Definition definition = op.define(attributes, Inputs::of(types));
  if (op.execute()) return op.execute()(attributes, inputs);
  if (!definition.has_denotation())
    throw Error(ErrorCode::kUnsupported, "operator " + op.name() + " has neither a denotation nor an execution");
  if (has_texts(op, attributes, types)) require_meaning_on_texts(op.name(), definition, types);
  const bool compared = compares(definition);
  TextNumbers texts(compared);
  const auto is_text = [](const Tensor& t) { return t.type() == DataType::kString; };
  const auto first_text = std::find_if(inputs.begin(), inputs.end(), is_text);
  const auto all_texts_in_order = [&](std::span<const std::int64_t> numbers) {
    if (compared || std::count_if(inputs.begin(), inputs.end(), is_text) != 1) return false;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != static_cast<std::int64_t>(i) + 1) return false;  // 0 is the empty text
    return static_cast<std::int64_t>(numbers.size()) == first_text->size();
  };
  std::vector<OperandData<DoubleArithmetic>> operands;
  for (const Tensor& t : inputs) {
    OperandData<DoubleArithmetic>& o = operands.emplace_back();
    o.sizes = t.sizes();
    if (t.type() == DataType::kUndefined) continue;
    if (t.type() == DataType::kString)
      o.integers = texts.number(t);
    else if (scalar(t.type()) == Scalar::kReal)
      o.reals = t.reals();
    else
      o.integers = t.integers();
  }
  std::vector<Tensor> results;
  for (const Output& output : definition.outputs()) {
    Evaluated<DoubleArithmetic> e = evaluate(output, DoubleArithmetic{}, operands, zeros_outside);
    if (output.type.type == DataType::kString)
      results.push_back(all_texts_in_order(e.integers) ? first_text->reshaped(std::move(e.sizes))
                                                       : texts.texts(std::move(e.sizes), e.integers));
    else
      results.push_back(output.element->scalar == Scalar::kReal
                            ? Tensor::from_reals(output.type.type, std::move(e.sizes), e.reals)
                            : Tensor::from_integers(output.type.type, std::move(e.sizes), e.integers));
  }
  return results;
}

}  // namespace

std::vector<Tensor> interpret(const Operator& op, const Attributes& attributes, std::span<const Tensor> inputs) {
  return interpreted(op, attributes, inputs, false);
}

std::vector<Tensor> interpret_with_zeros_outside(const Operator& op, const Attributes& attributes,
                                                 std::span<const Tensor> inputs) {
  return interpreted(op, attributes, inputs, true);
}

std::vector<FieldTensor> interpret_in_field(const Operator& op, const Attributes& attributes,
                                            std::span<const FieldTensor> inputs, std::uint64_t key) {
  const Definition definition = op.define(attributes, Inputs::of(types_of<FieldTensor>(inputs)));
  if (!definition.has_denotation()) throw Error(ErrorCode::kUnsupported, "operator " + op.name() + " has no denotation");
  std::vector<OperandData<FieldArithmetic>> operands;
  for (const FieldTensor& t : inputs) {
    OperandData<FieldArithmetic>& o = operands.emplace_back();
    o.sizes = t.sizes;
    if (t.type == DataType::kUndefined) continue;
    if (scalar(t.type) == Scalar::kReal)
      o.reals = t.elements;
    else
      o.integers.assign(t.elements.begin(), t.elements.end());
  }
  std::vector<FieldTensor> results;
  for (const Output& output : definition.outputs()) {
    Evaluated<FieldArithmetic> e = evaluate(output, FieldArithmetic{key}, operands);
    FieldTensor& t = results.emplace_back();
    t.type = output.type.type;
    t.sizes = std::move(e.sizes);
    if (output.element->scalar == Scalar::kReal)
      t.elements = std::move(e.reals);
    else
      t.elements.assign(e.integers.begin(), e.integers.end());
  }
  return results;
}

}  // namespace rewright::operators
