#include "runtime/text_moves.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "graph/sizes.h"
#include "operators/texts.h"

namespace rewright::runtime {

namespace {

// The least texts in the operands. Fewer are interpreted in the time that preparing a session takes, which ever new sizes need.
constexpr std::int64_t kLeastMovedTexts = 1000;
constexpr std::size_t kRememberedMoves = 16;  // by sizes

bool is_text_tensor(const Datum& datum) { return datum.is_tensor() && datum.tensor().type() == DataType::kString; }

// The types of a call's operands.
std::vector<std::optional<operators::TensorType>> types_of_operands(std::span<const Datum> operands) {
  std::vector<std::optional<operators::TensorType>> types;
  for (const Datum& operand : operands) {
    if (operand.empty())
      types.emplace_back();
    else
      types.emplace_back(operators::TensorType{operand.tensor().type(), to_indices(operand.tensor().sizes())});
  }
  return types;
}

// Numbers first, first + 1, ... for the texts of a tensor; 0 stands for the empty text that definitions fill with.
Tensor numbers_of_texts(const Tensor& texts, std::int64_t first) {
  Tensor numbers(DataType::kInt64, texts.sizes());
  const auto elements = numbers.mutable_data<std::int64_t>();
  std::iota(elements.begin(), elements.end(), first);
  return numbers;
}

bool counts_up_from_one(std::span<const std::int64_t> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<std::int64_t>(i) + 1) return false;
  return true;
}

}  // namespace

struct TextMoves::Prepared {
  std::unique_ptr<Session> session;  // null: the interpreter executes these sizes
  std::vector<bool> makes_text;      // by output
};

TextMoves::TextMoves(const Node& node, const Backend& backend, const SessionOptions& options, std::vector<Tensor> constants)
    : node_(node), backend_(backend), options_(options), constants_(std::move(constants)), prepared_(kRememberedMoves) {}

std::unique_ptr<TextMoves> TextMoves::of(const Graph& graph, const Node& node, const Backend& backend,
                                         const SessionOptions& options) {
  if (node.op == nullptr || node.op->execute() || !symbols_of(node.attributes).empty()) return nullptr;
  const bool has_text = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    return id != kNoValue && graph.value(id).type.type == DataType::kString;
  });
  if (!has_text) return nullptr;
  std::vector<Tensor> constants;
  for (const ValueId id : node.inputs) {
    const bool is_number = id != kNoValue && graph.is_constant(id) && graph.value(id).type.type != DataType::kString;
    constants.push_back(is_number ? graph.value(id).constant : Tensor());
  }
  SessionOptions own = options;
  own.plan_cache.clear();
  return std::unique_ptr<TextMoves>(new TextMoves(node, backend, own, std::move(constants)));
}

std::shared_ptr<const TextMoves::Prepared> TextMoves::find(std::span<const Datum> operands) {
  Key key;
  for (const Datum& operand : operands) {
    const Tensor tensor = operand.empty() ? Tensor() : operand.tensor();
    key.push_back(static_cast<std::int64_t>(tensor.type()));
    key.push_back(static_cast<std::int64_t>(tensor.sizes().size()));
    key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return prepared_.get(key, [&] { return std::make_shared<const Prepared>(prepare(operands)); });
}

TextMoves::Prepared TextMoves::prepare(std::span<const Datum> operands) const {
  const auto types = types_of_operands(operands);
  const operators::Definition definition = node_.op->define(node_.attributes, operators::Inputs::of(types));
  if (!definition.has_denotation() || operators::compares(definition)) return {};
  operators::require_meaning_on_texts(*node_.op, node_.attributes, types);

  Graph graph;
  std::vector<ValueId> inputs;
  for (std::size_t k = 0; k < types.size(); ++k) {
    if (!types[k]) {
      inputs.push_back(kNoValue);
    } else if (constants_[k].type() != DataType::kUndefined) {
      inputs.push_back(graph.add_constant(constants_[k]));
    } else {
      const DataType type = types[k]->type == DataType::kString ? DataType::kInt64 : types[k]->type;
      inputs.push_back(graph.add_input("operand_" + std::to_string(k), {type, types[k]->shape}));
    }
  }
  const std::vector<ValueId> outputs = graph.add_node(*node_.op, node_.attributes, inputs);
  Prepared prepared;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const bool is_text = definition.outputs()[k].type.type == DataType::kString;
    // An operator whose attributes name the type of its result makes texts from numbers: that is for the interpreter.
    if (is_text && graph.value(outputs[k]).type.type != DataType::kInt64) return {};
    prepared.makes_text.push_back(is_text);
    graph.add_output("result_" + std::to_string(k), outputs[k]);
  }
  prepared.session = backend_.prepare(graph, options_);
  return prepared;
}

void TextMoves::for_each_session(const std::function<void(const Session&)>& visit) const {
  prepared_.for_each([&](const Prepared& prepared) {
    if (prepared.session) visit(*prepared.session);
  });
}

std::optional<std::vector<Datum>> TextMoves::run(std::span<const Datum> operands) {
  std::int64_t count = 0;
  for (const Datum& operand : operands) {
    if (!operand.empty() && !operand.is_tensor()) return std::nullopt;
    if (is_text_tensor(operand)) count += operand.tensor().size();
  }
  if (count < kLeastMovedTexts) return std::nullopt;
  const std::shared_ptr<const Prepared> prepared = find(operands);
  if (!prepared->session) return std::nullopt;

  static const std::string kEmptyText;
  std::vector<const std::string*> texts{&kEmptyText};  // by number
  texts.reserve(static_cast<std::size_t>(count) + 1);
  std::vector<Datum> inputs;
  const Tensor* only = nullptr;  // the operand of texts, where there is one
  bool is_only = true;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].empty() || constants_[k].type() != DataType::kUndefined) continue;
    const Tensor& tensor = operands[k].tensor();
    if (!is_text_tensor(operands[k])) {
      inputs.emplace_back(tensor);
      continue;
    }
    inputs.emplace_back(numbers_of_texts(tensor, static_cast<std::int64_t>(texts.size())));
    for (const std::string& text : tensor.strings()) texts.push_back(&text);
    is_only = only == nullptr;
    only = &tensor;
  }

  std::vector<Datum> results = prepared->session->execute(inputs);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!prepared->makes_text[k]) continue;
    const Tensor& numbers = results[k].tensor();
    const std::span<const std::int64_t> places = numbers.data<std::int64_t>();
    if (is_only && numbers.size() == count && counts_up_from_one(places)) {
      results[k] = Datum(only->reshaped(numbers.sizes()));
      continue;
    }
    std::vector<std::string> moved;
    moved.reserve(places.size());
    for (const std::int64_t place : places) moved.push_back(*texts[static_cast<std::size_t>(place)]);
    results[k] = Datum(Tensor::from_strings(numbers.sizes(), std::move(moved)));
  }
  return results;
}

}  // namespace rewright::runtime
