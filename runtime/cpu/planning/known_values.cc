#include "runtime/cpu/planning/known_values.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/hash_mix.h"
#include "runtime/cpu/planning/evaluate_constants.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kWorthReleasing = 64 << 10;  // bytes

// A name for everything that a definition depends on, including the node: definitions of two nodes that are composed need
// distinct variables.
std::uint64_t definition_name(const Graph& graph, const Node& node, std::uint64_t operation) {
  std::uint64_t name = operands_name(graph, node, operation);
  for (const ValueId output : node.outputs) name = hash_mix(name, output);
  return name;
}

}  // namespace

Tensor part_of(const Tensor& tensor, std::int64_t first, DataType type, Sizes sizes) {
  const auto owner = std::make_shared<const Tensor>(tensor);
  return {type, std::move(sizes), owner, owner->bytes().data() + static_cast<std::size_t>(first) * byte_size(tensor.type())};
}

KnownValues::KnownValues(Graph graph, const PlanOptions& options)
    : graph_(std::move(graph)),
      constants_(graph_.value_count()),
      infos_(graph_.value_count()),
      producers_(graph_.producers()),
      operations_(graph_.nodes().size()),
      open_nodes_(options.open_graph, graph_),
      nodes_before_(graph_.nodes().size()),
      free_nodes_(graph_.nodes().size()),
      definitions_(graph_.nodes().size()),
      recognitions_(options.recognitions ? options.recognitions : std::make_shared<Recognitions>()),
      open_values_(options.open_values) {
  find_constants(options);
  needed_ = planning::needed_nodes(graph_, [&](ValueId v) { return is_constant(v); });
}

const ValueInfo& KnownValues::info(ValueId value) const {
  std::optional<ValueInfo>& info = infos_[value];
  if (!info) info = planning::value_info(graph_, value);
  return *info;
}

const Definition& KnownValues::define(const Node& node) const {
  std::shared_ptr<const Definition>& definition = definitions_[number_of(node)];
  if (definition) return *definition;
  const auto make = [&] { return std::make_shared<const Definition>(planning::define(graph_, node)); };
  definition = may_have_other_sizes(node)
                   ? make()
                   : recognitions_->definitions.recall(definition_name(graph_, node, operation(node)), make);
  return *definition;
}

std::size_t KnownValues::number_of(const Node& node) const {
  const ValueId result = *std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId o) { return o != kNoValue; });
  return static_cast<std::size_t>(producers_[result]);
}

std::uint64_t KnownValues::operation(const Node& node) const {
  const std::size_t number = number_of(node);
  std::uint64_t& known = operations_[number];
  if (known != 0) return known;
  const std::shared_ptr<const Node>& shared = graph_.nodes()[number];
  const std::shared_ptr<const Node>* const open = open_node(number);
  const bool is_made = open != nullptr && *open != shared;  // for these sizes: no other plan has it
  return known = is_made ? operation_name(node) : recognitions_->nodes.operation(shared);
}

const std::shared_ptr<const Node>* KnownValues::open_node(std::size_t number) const {
  std::optional<const std::shared_ptr<const Node>*>& known = nodes_before_[number];
  if (!known) known = open_nodes_.of(*graph_.nodes()[number]);
  return *known;
}

const std::shared_ptr<const Node>* KnownValues::free_node(const Node& node) const {
  const std::size_t number = number_of(node);
  std::optional<const std::shared_ptr<const Node>*>& known = free_nodes_[number];
  if (known) return *known;
  const std::shared_ptr<const Node>* const open = open_node(number);
  const bool free =
      open != nullptr && recognitions_->nodes.is_free(*open, [&] { return is_free_of_sizes(open_nodes_.graph(), **open); });
  known = free ? open : nullptr;
  return *known;
}

planning::Movement KnownValues::movement(const Node& node) const {
  return recognitions_->movements.recall(operands_name(graph_, node, operation(node)), [&] {
    return planning::movement_of(define(node), info(node.outputs[0]).sizes, info(node.inputs[0]).sizes);
  });
}

// Other plans do not ask for a definition of sizes that no other plan has.
bool KnownValues::may_have_other_sizes(const Node& node) const {
  if (open_values_ == nullptr) return true;
  const auto is_open = [&](ValueId v) { return v != kNoValue && (v >= open_values_->size() || (*open_values_)[v]); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_open) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_open);
}

planning::Traits KnownValues::traits(const Node& node) const {
  const std::size_t number = number_of(node);
  return recalled_traits(
      *recognitions_, graph_, graph_.nodes()[number], [&] { return planning::traits_of(define(node)); }, open_node(number));
}

const Node* KnownValues::producer(ValueId value) const {
  const int number = producer_number(value);
  return number < 0 ? nullptr : graph_.nodes()[static_cast<std::size_t>(number)].get();
}

int KnownValues::producer_number(ValueId value) const { return value >= producers_.size() ? -1 : producers_[value]; }

ValueId KnownValues::add_constant_value(Tensor tensor) {
  infos_.emplace_back(ValueInfo{tensor.type(), tensor.sizes()});
  constants_.push_back(std::move(tensor));
  return static_cast<ValueId>(constants_.size() - 1);
}

std::vector<ValueId> KnownValues::constants_read_by(const std::vector<int>& nodes) const {
  constexpr int kDepth = 3;  // for example a weight that is scaled or dequantized, then transposed
  std::set<ValueId> found;
  const std::function<void(const Node&, int)> add = [&](const Node& node, int depth) {
    for (const ValueId i : node.inputs) {
      if (i == kNoValue) continue;
      if (is_constant(i)) found.insert(i);
      if (const Node* const from = producer(i); from != nullptr && depth > 1) add(*from, depth - 1);
    }
  };
  for (const int n : nodes) add(*graph_.nodes()[static_cast<std::size_t>(n)], kDepth);
  return {found.begin(), found.end()};
}

Tensor KnownValues::release(ValueId value) {
  matrices_.erase(value);
  if (constants_[value].byte_count() < kWorthReleasing) return {};
  Tensor released = std::exchange(constants_[value], {});
  if (graph_.is_constant(value)) {
    Value without = graph_.value(value);
    without.type = {released.type(), to_indices(released.sizes())};
    without.shape_known = true;
    without.constant = {};
    graph_.set_value(value, std::move(without));
  }
  return released;
}

void KnownValues::find_constants(const PlanOptions& options) {
  for (ValueId v = 0; v < graph_.value_count(); ++v) constants_[v] = planning::known_tensor(graph_.value(v));
  if (!options.fold_constants) return;
  find_matrices();
  std::vector<bool> left_out(graph_.value_count());
  for (const auto& [value, matrix] : matrices_) left_out[value] = true;
  std::vector<Tensor> folded = evaluate_constants(graph_, options, left_out);
  for (ValueId v = 0; v < folded.size(); ++v)
    if (folded[v] && !constants_[v]) constants_[v] = std::move(folded[v]);
}

void KnownValues::find_matrices() {
  for (const auto& node : graph_.nodes()) {
    if (node->op == nullptr || node->outputs.size() != 1 || node->inputs.size() != 1 || node->inputs[0] == kNoValue) continue;
    const Tensor& source = constants_[node->inputs[0]];
    if (!source || source.type() != DataType::kFloat || source.sizes().size() != 2) continue;
    if (info(node->outputs[0]).type != DataType::kFloat) continue;  // a cast changes the elements
    const Definition& definition = define(*node);
    if (!definition.has_denotation()) continue;
    const Output& output = definition.outputs()[0];
    if (output.element->kind != ElementNode::Kind::kRead || output.element->zero_outside || output.position.size() != 2)
      continue;
    const auto read = planning::read_strides(*output.element, output.position, info(node->outputs[0]).sizes, source.sizes());
    if (read) matrices_[node->outputs[0]] = {source, read->constant, read->coefficient(0), read->coefficient(1)};
  }
}

const Tensor& KnownValues::constant(ValueId value) const {
  const auto found = matrices_.find(value);
  if (constants_[value] || found == matrices_.end()) return constants_[value];
  const ConstantMatrix& m = found->second;
  const Sizes sizes = info(value).sizes;
  if (m.column_stride == 1 && (sizes[0] == 1 || m.row_stride == sizes[1]))
    return constants_[value] = part_of(m.in, m.offset, DataType::kFloat, sizes);
  const float* const from = m.in.data<float>().data() + m.offset;
  Tensor made(DataType::kFloat, sizes);
  float* to = made.mutable_data<float>().data();
  for (std::int64_t r = 0; r < made.sizes()[0]; ++r)
    for (std::int64_t c = 0; c < made.sizes()[1]; ++c) *to++ = from[r * m.row_stride + c * m.column_stride];
  return constants_[value] = std::move(made);
}

KnownValues::ConstantMatrix KnownValues::constant_matrix(ValueId value) const {
  const auto found = matrices_.find(value);
  if (found != matrices_.end()) return found->second;
  return {constants_[value], 0, constants_[value].sizes()[1], 1};
}

}  // namespace rewright::cpu
