#include "equivalence/related_values.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "equivalence/term_writer.h"
#include "graph/sizes.h"
#include "rules/io.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kMostTermsOfValue = 2;  // tried for one value
constexpr std::size_t kMostTransposed = 5;    // axes
constexpr int kHalf = 128;                    // from integers of 8 bits to unsigned ones

bool are_shifted(const TensorType& from, const TensorType& to) {
  const auto is = [&](DataType x, DataType y) { return from.type == x && to.type == y; };
  return (is(DataType::kInt8, DataType::kUint8) || is(DataType::kUint8, DataType::kInt8)) && from.shape == to.shape;
}

int shift_to(DataType type) { return type == DataType::kUint8 ? kHalf : -kHalf; }

// Zeros behind the elements of each axis, by which one shape becomes the other: on one axis only; nullopt if shapes differ
// otherwise.
std::optional<Indices> filled_up(const TensorType& from, const TensorType& to) {
  if (from.type != to.type || from.rank() != to.rank() || !is_real(from.type)) return std::nullopt;
  Indices behind(from.rank(), 0);
  std::size_t different = 0;
  for (std::size_t k = 0; k < from.rank(); ++k) {
    const Index &before = from.shape[k], &after = to.shape[k];
    if (before == after) continue;
    if (!before.is_constant() || !after.is_constant() || after.value() < before.value() || ++different > 1) return std::nullopt;
    behind[k] = after.value() - before.value();
  }
  return different == 1 ? std::optional(std::move(behind)) : std::nullopt;
}

}  // namespace

bool only_reads(const Graph& graph, const Node& node, std::size_t input) {
  try {
    const Definition definition = node.op->define(node.attributes, Inputs::of(graph.operand_types(node)));
    const Element& element = definition.outputs().at(0).element;
    return element && element->kind == ElementNode::Kind::kRead && element->operand == static_cast<int>(input);
  } catch (const Error&) {
    return false;
  }
}

std::vector<Relation> relations_between(const TensorType& from, const TensorType& to) {
  std::vector<Relation> result;
  if (are_shifted(from, to)) result.push_back({Relation::Kind::kShifted, {}});
  if (filled_up(from, to)) result.push_back({Relation::Kind::kFilledUp, {}});
  if (from.type != to.type || from.type == DataType::kBool) return result;
  if (from.shape == to.shape && is_real(from.type)) result.push_back({Relation::Kind::kNegated, {}});
  const auto is_constant = [](const Index& size) { return size.is_constant(); };
  if (!(from.shape == to.shape) && std::all_of(to.shape.begin(), to.shape.end(), is_constant) &&
      std::all_of(from.shape.begin(), from.shape.end(), is_constant) &&
      element_count(values(from.shape)) == element_count(values(to.shape)))
    result.push_back({Relation::Kind::kReshaped, {}});
  if (from.rank() != to.rank() || from.rank() < 2 || from.rank() > kMostTransposed) return result;
  std::vector<std::size_t> perm(from.rank());
  std::iota(perm.begin(), perm.end(), 0);
  while (std::next_permutation(perm.begin(), perm.end())) {
    bool fits = true;
    for (std::size_t k = 0; k < perm.size(); ++k) fits = fits && from.shape[perm[k]] == to.shape[k];
    if (fits) result.push_back({Relation::Kind::kTransposed, perm});
  }
  return result;
}

Step related_term(const Joint& joint, ValueId a, const TensorType& type, const Relation& relation) {
  const TensorType& from = joint.graph().value(a).type;
  TermWriter term(Step::Kind::kValue, "of a value");
  const PatternValue leaf = term.leaf(a, from);
  switch (relation.kind) {
    case Relation::Kind::kFilledUp:
      return term.finish(term.node("Pad", {{"pads_end", filled_up(from, type).value()}}, {leaf}));
    case Relation::Kind::kReshaped:
      return term.finish(term.node("Reshape", {{"shape", type.shape}}, {leaf}));
    case Relation::Kind::kNegated:
      return term.finish(term.node("Neg", {}, {leaf}));
    case Relation::Kind::kShifted: {
      const PatternValue number =
          term.node("Fill", {{"value", Real(shift_to(type.type))}, {"shape", Indices{}}, {"type", DataType::kInt32}}, {});
      const PatternValue sum = term.node("Add", {}, {term.node("Cast", {{"to", DataType::kInt32}}, {leaf}), number});
      return term.finish(term.node("Cast", {{"to", type.type}}, {sum}));
    }
    case Relation::Kind::kBlocked: {
      const PatternValue whole = from == type ? leaf : term.node("Pad", {{"pads_end", filled_up(from, type).value()}}, {leaf});
      const PatternValue apart = term.node("Reshape", {{"shape", relation.apart}}, {whole});
      const PatternValue moved =
          term.node("Transpose", {{"perm", Indices(relation.perm.begin(), relation.perm.end())}}, {apart});
      return term.finish(term.node("Reshape", {{"shape", type.shape}}, {moved}));
    }
    case Relation::Kind::kTransposed:
      break;
  }
  return term.finish(term.node("Transpose", {{"perm", Indices(relation.perm.begin(), relation.perm.end())}}, {leaf}));
}

RelatedValues::RelatedValues(const Joint& joint, const SampleRuns& runs, std::function<ValueId(const Step&)> add_value)
    : joint_(joint), runs_(runs), add_value_(std::move(add_value)) {
  const Graph& graph = joint.graph();
  const auto maker = [&](ValueId id, std::string_view op) -> const Node* {
    const Node* node = joint.producer(id) < 0 ? nullptr : graph.nodes()[static_cast<std::size_t>(joint.producer(id))].get();
    return node && node->op && node->op->name() == op ? node : nullptr;
  };
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Node* last = joint.is_of_second(id) ? maker(id, "Reshape") : nullptr;
    const Node* moved = last ? maker(last->inputs[0], "Transpose") : nullptr;
    const Node* first = moved ? maker(moved->inputs[0], "Reshape") : nullptr;
    if (!first || !(graph.value(id).type.shape == graph.value(first->inputs[0]).type.shape)) continue;
    Relation block{Relation::Kind::kBlocked, {}, graph.value(first->outputs[0]).type.shape};
    for (const Index& axis : std::get<Indices>(moved->attributes[moved->op->field("perm").value()]))
      block.perm.push_back(static_cast<std::size_t>(axis.value()));
    // The inverse relation puts channels into blocks.
    Relation inverse{Relation::Kind::kBlocked, std::vector<std::size_t>(block.perm.size()), {}};
    for (std::size_t k = 0; k < block.perm.size(); ++k) {
      inverse.perm[block.perm[k]] = k;
      inverse.apart.push_back(block.apart.at(block.perm[k]));
    }
    std::vector<Relation>& known = blocks_[to_string(graph.value(id).type.shape)];
    for (Relation& way : std::array{std::move(block), std::move(inverse)}) {
      const bool is_new = std::none_of(known.begin(), known.end(), [&](const Relation& other) {
        return other.perm == way.perm && other.apart == way.apart;
      });
      if (is_new) known.push_back(std::move(way));
    }
  }
}

std::vector<Relation> RelatedValues::relations_to(const TensorType& from, const TensorType& to) const {
  std::vector<Relation> result = relations_between(from, to);
  const auto blocks = blocks_.find(to_string(to.shape));
  if (blocks != blocks_.end() && (from == to || filled_up(from, to)))
    result.insert(result.end(), blocks->second.begin(), blocks->second.end());
  return result;
}

// An equation about what is moved alone says nothing that one about its source does not say.
bool RelatedValues::only_moves(ValueId b) const {
  const std::int32_t position = joint_.producer(b);
  if (position < 0) return true;
  const Node& node = *joint_.graph().nodes()[static_cast<std::size_t>(position)];
  return !node.op || node.op->random() || (node.inputs.size() == 1 && only_reads(joint_.graph(), node, 0));
}

bool RelatedValues::agree(ValueId a, ValueId b, const Relation& relation) const {
  const Samples& samples = runs_.samples();
  switch (relation.kind) {
    case Relation::Kind::kFilledUp:
      return samples.agree_filled_up(a, b);
    case Relation::Kind::kReshaped:
      return samples.agree_reshaped(a, b);
    case Relation::Kind::kNegated:
      return samples.agree_negated(a, b);
    case Relation::Kind::kShifted:
      return samples.agree_shifted(a, b, shift_to(joint_.graph().value(b).type.type));
    case Relation::Kind::kBlocked:
      return samples.agree_moved(a, b);
    case Relation::Kind::kTransposed:
      break;
  }
  return samples.agree_transposed(a, b, relation.perm);
}

std::vector<ValueId> RelatedValues::terms_for(ValueId b) {
  if (!joint_.is_of_second(b) || !runs_.samples().has(b) || !joint_.graph().value(b).shape_known || only_moves(b)) return {};
  const TensorType type = joint_.graph().value(b).type;
  std::map<std::string, std::vector<Relation>> by_type;
  std::vector<std::pair<ValueId, Relation>> sources;
  for (ValueId a = 0; a < joint_.graph().value_count() && joint_.is_of_first(a) && sources.size() < kMostTermsOfValue; ++a) {
    const Value& value = joint_.graph().value(a);
    if (joint_.is_constant(a) || !value.shape_known || joint_.defined_by(a) != a || !runs_.samples().has(a)) continue;
    const auto [relations, is_new] = by_type.try_emplace(to_string(value.type));
    if (is_new) relations->second = relations_to(value.type, type);
    const auto found = std::find_if(relations->second.begin(), relations->second.end(),
                                    [&](const Relation& relation) { return agree(a, b, relation); });
    if (found != relations->second.end()) sources.emplace_back(a, *found);
  }
  std::vector<ValueId> found;
  for (const auto& [a, relation] : sources) {
    const Step term = related_term(joint_, a, type, relation);
    const auto [known, is_new] = terms_.try_emplace({joint_.find(a), to_algebra(*term.term)}, kNoValue);
    if (is_new) known->second = add_value_(term);
    found.push_back(known->second);
  }
  return found;
}

}  // namespace rewright::equivalence
