#include "optimizer/cost.h"

#include <algorithm>
#include <cmath>

namespace rewright {

struct CostModel::Signature {
  std::string text;
  OperatorTraits traits;
  bool opaque = false;
  bool asked = false;              // the database and the device have been asked
  bool failed = false;             // the device could not execute it
  std::optional<double> measured;  // seconds
  std::function<Graph()> sample;   // to be timed
};

namespace {

// Of a fused operator with another varying operand: that is still to be read, but its own input and output are not.
constexpr double kFusedShare = 0.5;

// Pointwise operators of so few operations an element wait for memory alone. They share one cost for the same operands, so
// that the noise of measuring does not make one of them look better than another.
constexpr double kCheapOperations = 2;

// What cannot be executed alone is not what a search should run into.
constexpr double kFailurePenalty = 10;

constexpr std::size_t kBatch = 32;  // operators measured before it is asked whether to go on

// Weights of a sample: their values do not matter, as long as none is a special case.
Tensor plausible_weights(const TensorType& type) {
  const Sizes sizes = values(type.shape);
  std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
  std::uint64_t state = 88172645463325252ull;
  for (double& element : elements) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    element = 0.01 + 0.1 * static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
  }
  return Tensor::from_reals(type.type, sizes, elements);
}

AttributeValue with_numbers(const AttributeValue& value, const Substitution& sizes) {
  if (const Index* index = std::get_if<Index>(&value)) return substitute(*index, sizes);
  if (const Indices* indices = std::get_if<Indices>(&value)) return substitute(*indices, sizes);
  return value;
}

struct OperandSample {
  TensorType type;
  bool present = false, constant = false;
  std::optional<Tensor> tensor;  // of a constant whose elements decide what is computed
};

// What a node's operands are to a sample of it.
std::vector<OperandSample> operand_samples(const MatchedGraph& matched, const Node& node, const Substitution& sizes) {
  std::vector<OperandSample> operands(node.inputs.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNoValue) continue;
    const Value& value = matched.graph->value(id);
    operands[i] = {{value.type.type, substitute(value.type.shape, sizes)}, true, matched.constant[id], std::nullopt};
    // Integers are positions, shapes and counts: what is computed depends on them.
    if (!is_real(value.type.type) && value.constant) operands[i].tensor = value.constant;
  }
  return operands;
}

std::vector<std::optional<TensorType>> types_of(const std::vector<OperandSample>& operands) {
  std::vector<std::optional<TensorType>> types;
  for (const OperandSample& operand : operands) types.push_back(operand.present ? std::optional(operand.type) : std::nullopt);
  return types;
}

std::string describe(const std::string& op, const Attributes& attributes, const std::vector<OperandSample>& operands) {
  std::string text = op + "(";
  for (const AttributeValue& attribute : attributes) text += to_string(attribute) + ";";
  text += ")";
  for (const OperandSample& operand : operands) {
    text += !operand.present ? " -" : (operand.constant ? " constant " : " ") + to_string(operand.type);
    if (operand.tensor) text += "#" + std::to_string(operand.tensor->content_hash());
  }
  return text;
}

Graph make_sample(const Operator& op, const Attributes& attributes, const std::vector<OperandSample>& operands) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandSample& operand = operands[i];
    if (!operand.present)
      inputs.push_back(kNoValue);
    else if (operand.tensor)
      inputs.push_back(graph.add_constant(*operand.tensor));
    else if (operand.constant)
      inputs.push_back(graph.add_constant(plausible_weights(operand.type)));
    else
      inputs.push_back(graph.add_input("x" + std::to_string(i), operand.type));
  }
  const std::vector<ValueId> outputs = graph.add_node(op, attributes, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) graph.add_output("y" + std::to_string(i), outputs[i]);
  return graph;
}

}  // namespace

CostModel::CostModel(Device* device, CostDatabase* database, CostOptions options)
    : device_(device), database_(database), options_(std::move(options)) {
  if (device_) {
    roofline_ = device_->roofline();
    identity_ = device_->identity();
  }
  const Substitution given = std::move(options_.sizes);
  options_.sizes = [given](const Atom& atom) -> std::optional<Index> {
    if (given)
      if (std::optional<Index> size = given(atom)) return size;
    if (atom.kind == Atom::Kind::kSymbol) return Index(1);
    return std::nullopt;
  };
}

CostModel::~CostModel() = default;

void CostModel::clear() { nodes_.clear(); }

std::uint32_t CostModel::signature_of(const MatchedGraph& matched, const std::shared_ptr<const Node>& node) {
  const auto known = nodes_.find(node.get());
  if (known != nodes_.end()) return known->second.signature;
  const auto remember = [&](std::uint32_t number) {
    nodes_.emplace(node.get(), Remembered{node, number});
    return number;
  };
  if (!node->op) return remember(add_signature("opaque", nullptr));

  std::vector<OperandSample> operands = operand_samples(matched, *node, options_.sizes);
  Attributes attributes;
  for (const AttributeValue& attribute : node->attributes) attributes.push_back(with_numbers(attribute, options_.sizes));
  const std::string text = describe(node->op->name(), attributes, operands);
  if (const auto found = by_text_.find(text); found != by_text_.end()) return remember(found->second);
  auto signature = std::make_unique<Signature>();
  try {
    signature->traits = operator_traits(*node->op, attributes, types_of(operands));
  } catch (const Error&) {
    return remember(by_text_[text] = add_signature("opaque", nullptr));  // sizes that are not known
  }
  if (signature->traits.contraction)
    while (operands.size() > static_cast<std::size_t>(node->op->min_inputs()) &&
           (!operands.back().present || (operands.back().constant && !signature->traits.reduced[operands.size() - 1])))
      operands.pop_back();
  signature->sample = [op = node->op, attributes, operands] { return make_sample(*op, attributes, operands); };
  const bool cheap = signature->traits.pointwise && !signature->traits.free &&
                     signature->traits.operations <= kCheapOperations * signature->traits.output_elements;
  const std::string canonical = cheap ? describe("pointwise", {}, operands) : describe(node->op->name(), attributes, operands);
  return remember(by_text_[text] = add_signature(canonical, std::move(signature)));
}

std::uint32_t CostModel::add_signature(const std::string& text, std::unique_ptr<Signature> signature) {
  const auto [entry, added] = by_text_.emplace(text, static_cast<std::uint32_t>(signatures_.size()));
  if (!added) return entry->second;
  if (!signature) {
    signature = std::make_unique<Signature>();
    signature->opaque = true;
  }
  signature->text = text;
  signatures_.push_back(std::move(signature));
  return entry->second;
}

template <class Visit>
void CostModel::visit(const MatchedGraph& matched, const Visit& visit) {
  const Graph& graph = *matched.graph;
  std::vector<bool> grouped(graph.nodes().size());  // a contraction, or fused into one
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    bool all_constant = !node.outputs.empty();
    for (const ValueId id : node.outputs)
      if (id != kNoValue && !matched.constant[id]) all_constant = false;
    if (all_constant) continue;
    Signature& signature = *signatures_[signature_of(matched, graph.nodes()[n])];
    bool fused = false, reads_more = false;
    if (signature.traits.pointwise) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || !signature.traits.aligned[i] || matched.constant[id]) continue;
        const std::int32_t producer = matched.producers[id];
        const bool joins = !fused && producer >= 0 && grouped[static_cast<std::size_t>(producer)] &&
                           matched.users(id).size() == 1 && !matched.is_output[id];
        if (joins)
          fused = true;
        else
          reads_more = true;
      }
    }
    grouped[n] = fused || signature.traits.contraction;
    visit(signature, !fused ? 1.0 : reads_more ? kFusedShare : 0.0);
  }
}

double CostModel::seconds(const Signature& signature) const {
  if (signature.measured) return *signature.measured;
  const OperatorTraits& traits = signature.traits;
  const double estimate = roofline_.call_seconds + std::max(traits.operations / roofline_.operations_per_second,
                                                            traits.bytes / roofline_.bytes_per_second);
  return signature.failed ? kFailurePenalty * estimate : estimate;
}

void CostModel::prepare(std::span<const MatchedGraph* const> graphs) {
  if (!device_ || !options_.measure) return;
  std::vector<Signature*> missing;
  for (const MatchedGraph* graph : graphs) {
    visit(*graph, [&](Signature& signature, double share) {
      if (share == 0 || signature.asked || signature.opaque || signature.traits.free) return;
      signature.asked = true;
      const auto known = database_ ? database_->find(identity_, signature.text) : std::nullopt;
      if (known)
        take(signature, *known);
      else
        missing.push_back(&signature);
    });
  }
  for (std::size_t first = 0; first < missing.size(); first += kBatch) {
    const std::span<Signature* const> batch = std::span(missing).subspan(first, std::min(kBatch, missing.size() - first));
    if (std::chrono::steady_clock::now() > deadline_ || options_.cancel.stop_requested())
      for (Signature* signature : batch) signature->asked = false;
    else
      measure(batch);
  }
}

void CostModel::take(Signature& signature, std::optional<double> seconds) {
  signature.measured = seconds;
  signature.failed = !seconds;
}

void CostModel::measure(std::span<Signature* const> batch) {
  std::vector<NodeSample> samples;
  for (const Signature* signature : batch) samples.push_back({signature->sample()});
  const std::vector<std::optional<double>> times = device_->time_nodes(samples);
  std::vector<CostDatabase::Entry> entries;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    take(*batch[i], times.at(i));
    entries.push_back({batch[i]->text, times[i]});
  }
  measured_ += batch.size();
  if (database_) database_->store(identity_, entries);
}

double CostModel::cost(const MatchedGraph& graph) {
  // A little for every node, so that of two graphs that cost the same the smaller one is preferred.
  const double least = 0.02 * roofline_.call_seconds;
  double total = 0;
  visit(graph, [&](const Signature& signature, double share) {
    total += least;
    if (signature.opaque)
      total += roofline_.call_seconds;
    else if (!signature.traits.free)
      total += share * seconds(signature);
  });
  return total;
}

}  // namespace rewright
