#include "runtime/cpu/planning/recognitions.h"

#include <optional>
#include <variant>

#include "base/hash_mix.h"

namespace rewright::cpu {

namespace {

std::uint64_t kind_of(const Index& size) { return size == Index(0) ? 0 : size == Index(1) ? 1 : 2; }

// Hashes of attributes, where lists that are the sizes of the node's result (a Reshape's shape) count by their kinds, and by
// how they compare with those of its first operand.
class AttributeNames {
 public:
  AttributeNames(const Graph& graph, const Node& node) {
    const auto shape_of = [&](const std::vector<ValueId>& values) -> const Indices* {
      return values.empty() || values[0] == kNoValue ? nullptr : &graph.value(values[0]).type.shape;
    };
    result_ = shape_of(node.outputs), operand_ = shape_of(node.inputs);
  }
  // Is the attribute such a list?
  bool counts_by_kinds(const AttributeValue& attribute) const {
    const Indices* const list = std::get_if<Indices>(&attribute);
    return list != nullptr && !list->empty() && result_ != nullptr && *list == *result_ && all_constant(*list);
  }
  std::uint64_t of(const AttributeValue& attribute) const {
    if (!counts_by_kinds(attribute)) return hash(attribute);
    const Indices& list = std::get<Indices>(attribute);
    std::uint64_t name = list.size();
    for (std::size_t a = 0; a < list.size(); ++a) {
      const std::optional<std::int64_t> from =
          operand_ != nullptr && a < operand_->size() ? (*operand_)[a].constant() : std::nullopt;
      const std::int64_t size = list[a].value();
      name = hash_mix(hash_mix(name, kind_of(list[a])), !from ? 0 : size < *from ? 1 : size == *from ? 2 : 3);
    }
    return name;
  }

 private:
  const Indices *result_ = nullptr, *operand_ = nullptr;
};

// A hash of all attributes. Sets `is_exact` to false if a list among them counts by kinds.
std::uint64_t attributes_name(const Graph& graph, const Node& node, bool& is_exact) {
  const AttributeNames names(graph, node);
  std::uint64_t name = node.attributes.size();
  for (const AttributeValue& attribute : node.attributes) {
    is_exact = is_exact && !names.counts_by_kinds(attribute);
    name = hash_mix(name, names.of(attribute));
  }
  return name;
}

// A hash of the attributes that have open sizes in `open`, the node without numbers for sizes.
std::uint64_t open_attributes_name(const Graph& graph, const Node& node, const Node& open) {
  const auto is_open = [](const AttributeValue& attribute) {
    const auto* const list = std::get_if<Indices>(&attribute);
    const auto* const index = std::get_if<Index>(&attribute);
    return (list != nullptr && !all_constant(*list)) || (index != nullptr && !index->is_constant());
  };
  const AttributeNames names(graph, node);
  std::uint64_t name = node.attributes.size();
  for (std::size_t a = 0; a < node.attributes.size(); ++a)
    if (is_open(open.attributes[a])) name = hash_mix(hash_mix(name, a), names.of(node.attributes[a]));
  return name;
}

// A hash of all of operands that traits depend on: of sizes only whether they are 0, 1 or more.
std::uint64_t kinds_of_operands(const Graph& graph, const Node& node) {
  std::uint64_t name = node.inputs.size();
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) {
      name = hash_mix(name, 0);
      continue;
    }
    const TensorType& type = graph.value(input).type;
    name = hash_mix(hash_mix(name, 1 + static_cast<std::uint64_t>(type.type)), type.shape.size());
    for (const Index& size : type.shape) name = hash_mix(name, kind_of(size));
  }
  return name;
}

// A hash of all that traits depend on.
std::uint64_t traits_name(std::uint64_t operation, std::uint64_t kinds) {
  return hash_mix(hash_mix(hash_text("traits"), operation), kinds);
}

}  // namespace

std::uint64_t operation_name(const Node& node) { return hash_mix(hash_text(node.op->name()), hash(node.attributes)); }

NodeFacts::Known* NodeFacts::known(const std::shared_ptr<const Node>& node) {
  constexpr std::size_t kFewPlaces = 512;  // that are near, as long as they suffice
  if (places_.empty()) places_.resize(kFewPlaces);
  const auto place_of = [&](const std::shared_ptr<const Node>& n) -> Known* {  // the node's, or one that is free; null: none
    const std::uint64_t first = hash_mix(0, reinterpret_cast<std::uintptr_t>(n.get()));
    Known* free = nullptr;
    for (std::size_t tried = 0; tried < kTries; ++tried) {
      Known& place = places_[(first + tried) % places_.size()];
      if (place.node == n) return &place;
      if (free == nullptr && place.node.use_count() < 2) free = &place;
      if (!place.node) break;
    }
    return free;
  };
  Known* place = place_of(node);
  while (place == nullptr && places_.size() < kPlaces) {
    std::vector<Known> before(2 * places_.size());
    before.swap(places_);
    for (Known& known : before)
      if (known.node.use_count() > 1)
        if (Known* const moved = place_of(known.node)) *moved = std::move(known);
    place = place_of(node);
  }
  if (place != nullptr && place->node != node) *place = {node, operation_name(*node), 0, std::nullopt, std::nullopt};
  return place;
}

std::uint64_t NodeFacts::operation(const std::shared_ptr<const Node>& node) {
  const std::lock_guard lock(mutex_);
  const Known* const found = known(node);
  return found != nullptr ? found->operation : operation_name(*node);
}

std::optional<planning::Traits> NodeFacts::traits(const std::shared_ptr<const Node>& node, std::uint64_t kinds) {
  const std::lock_guard lock(mutex_);
  const Known* const found = known(node);
  return found != nullptr && found->kinds == kinds ? found->traits : std::nullopt;
}

void NodeFacts::keep(const std::shared_ptr<const Node>& node, std::uint64_t kinds, const planning::Traits& traits) {
  const std::lock_guard lock(mutex_);
  if (Known* const found = known(node)) found->kinds = kinds, found->traits = traits;
}

bool NodeFacts::is_free(const std::shared_ptr<const Node>& node, const std::function<bool()>& find) {
  {
    const std::lock_guard lock(mutex_);
    if (const Known* const found = known(node); found != nullptr && found->free) return *found->free;
  }
  const bool free = find();
  const std::lock_guard lock(mutex_);
  if (Known* const found = known(node)) found->free = free;
  return free;
}

std::uint64_t operands_name(const Graph& graph, const Node& node, std::uint64_t operation) {
  std::uint64_t name = operation;
  for (const ValueId input : node.inputs) {
    name = hash_mix(name, input == kNoValue ? 0 : 1 + static_cast<std::uint64_t>(graph.value(input).type.type));
    if (input == kNoValue) continue;
    const Indices& shape = graph.value(input).type.shape;
    name = hash_mix(name, shape.size());
    for (const Index& size : shape) name = hash_mix(name, size.hash());
  }
  return name;
}

planning::Traits recalled_traits(Recognitions& recognitions, const Graph& graph, const std::shared_ptr<const Node>& node,
                                 const std::function<planning::Traits()>& find, const std::shared_ptr<const Node>* open) {
  const std::uint64_t kinds = kinds_of_operands(graph, *node);
  const bool is_made = open != nullptr && *open != node;  // for these sizes
  const std::shared_ptr<const Node>& kept = is_made ? *open : node;
  const std::uint64_t sizes = is_made ? hash_mix(kinds, open_attributes_name(graph, *node, **open)) : kinds;
  if (const auto known = recognitions.nodes.traits(kept, sizes)) return *known;
  bool is_exact = true;
  const std::uint64_t by_kinds = attributes_name(graph, *node, is_exact);
  const auto exact = [&] {
    const auto traits = recognitions.functions.recall(traits_name(operation_name(*node), kinds), find);
    if (is_exact) recognitions.nodes.keep(kept, sizes, traits);
    return traits;
  };
  if (is_exact) return exact();
  // Nodes that only move elements do so whatever the sizes of the result; for others these may count.
  std::optional<planning::Traits> found;
  const std::uint64_t operation = hash_mix(hash_text(node->op->name()), by_kinds);
  const std::uint64_t name = hash_mix(hash_text("moves"), traits_name(operation, kinds));
  const auto moves = recognitions.functions.recall(name, [&]() -> std::optional<planning::Traits> {
    found = exact();
    return found->moved >= 0 ? found : std::nullopt;
  });
  if (moves && is_made) recognitions.nodes.keep(kept, sizes, *moves);
  return moves ? *moves : found ? *found : exact();
}

}  // namespace rewright::cpu
