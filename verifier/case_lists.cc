// The lists of a case: their lengths follow from the definitions; their elements are enumerated where definitions need them.
#include <algorithm>

#include "base/error.h"
#include "verifier/cases.h"

namespace rewright::proof {

namespace {

constexpr std::size_t kMaximumLength = 5;  // of a list whose length no shape determines

}  // namespace

bool CaseEnumerator::resolve(const State& state) {
  std::vector<TensorType> types;
  const auto bindings = bind(state, types);
  if (!bindings) return true;
  const Pattern& source = rule_.source;
  std::string unknown;
  const std::function<void(const Expression&)> collect = [&](const Expression& e) {
    if (unknown.empty() && e.kind == Expression::Kind::kVariable && variables_.count(e.name) &&
        variables_.at(e.name) == Sort::kList && !state.values.count(e.name))
      unknown = e.name;
    for (const Expression& a : e.arguments) collect(a);
  };
  std::size_t known = 0;  // number of nodes before the first with an unknown list
  for (; known < source.nodes.size(); ++known) {
    for (const Expression& e : source.nodes[known].attributes) collect(e);
    if (!unknown.empty()) break;
  }
  // An impossible case stays impossible.
  SideConditions conditions;
  DefinedSide defined;
  try {
    defined = define_side(rule_, source, types, *bindings, false, conditions, known);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kBadInput || !conditions.reachable) return true;
    const std::size_t refused = conditions.attributes.size();
    SideConditions before;
    const DefinedSide operands = define_side(rule_, source, types, *bindings, false, before, refused);
    std::size_t rank = 0;
    for (const PatternValue& v : source.nodes[refused].inputs)
      if (v.kind != PatternValue::Kind::kAbsent) rank = std::max(rank, type_of(operands, v).rank());
    return enumerate_known(state, source.nodes[refused], rank, e.what());
  }
  if (!conditions.reachable) return true;
  if (unknown.empty()) return settle(state);
  for (const std::size_t length : lengths(unknown, source.nodes[known], defined, *bindings)) {
    State branch = state;
    branch.values[unknown] = symbols(unknown, length);
    if (!resolve(branch)) return false;
  }
  return true;
}

namespace {

// Does a definition accept the attributes for some lengths of the unknown lists? Normalization fills in most of them. Otherwise
// variables may have any length, and values computed from unknown lists may be anything.
bool takes(const PatternNode& node, const Inputs& in, const Attributes& attributes, const std::vector<std::size_t>& unknown) {
  const Expression* open = unknown.empty() ? nullptr : &node.attributes[unknown[0]];
  try {
    const Attributes normalized = node.op->normalized(attributes, in);
    open = nullptr;
    for (const std::size_t f : unknown)
      if (normalized[f] == attributes[f]) open = &node.attributes[f];
    node.op->define(normalized, in);
    return true;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) return true;
  }
  if (!open) return false;
  if (open->kind != Expression::Kind::kVariable) return true;
  Attributes tried = attributes;
  std::vector<std::size_t> others;
  for (const std::size_t f : unknown)
    if (!(node.attributes[f] == *open)) others.push_back(f);
  for (std::size_t length = 0; length <= kMaximumLength; ++length) {
    for (const std::size_t f : unknown)
      if (node.attributes[f] == *open) tried[f] = CaseEnumerator::symbols(open->name, length);
    if (takes(node, in, tried, others)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::size_t> CaseEnumerator::lengths(const std::string& list, const PatternNode& node, const DefinedSide& before,
                                                 const Bindings& bindings) {
  std::vector<std::optional<TensorType>> operands;
  for (const PatternValue& v : node.inputs)
    operands.push_back(v.kind == PatternValue::Kind::kAbsent ? std::nullopt : std::optional(type_of(before, v)));
  const Inputs in = Inputs::of(std::span<const std::optional<TensorType>>(operands)).types_only();
  Attributes attributes;
  std::vector<std::size_t> unknown;
  for (std::size_t f = 0; f < node.attributes.size(); ++f) {
    const auto value = bindings.try_evaluate(node.attributes[f]);
    attributes.push_back(value ? *value : node.op->fields()[f].default_value);
    if (!value && !(node.attributes[f] == Expression::variable(list))) unknown.push_back(f);
  }
  std::vector<std::size_t> accepted;
  for (std::size_t length = 0; length <= kMaximumLength; ++length) {
    for (std::size_t f = 0; f < node.attributes.size(); ++f)
      if (node.attributes[f] == Expression::variable(list)) attributes[f] = symbols(list, length);
    if (takes(node, in, attributes, unknown)) accepted.push_back(length);
  }
  return accepted;
}

// A definition needs the value of an axis, so all axes are tried; for a list of axes, every list without repetitions.
bool CaseEnumerator::enumerate_known(const State& state, const PatternNode& node, std::size_t rank,
                                     const std::string& message) {
  const auto asked_for = [&](const Index& index) {
    return !index.is_constant() && message.find("the size " + index.to_string() + " is not known") != std::string::npos;
  };
  // Values determined by the rule's conditions need not be tried.
  std::vector<TensorType> types;
  if (const auto bindings = bind(state, types)) {
    Guards conditions;
    if (!gather(*bindings, conditions, true)) return true;
    for (const Guard& g : conditions) {
      const auto variable = g.kind == Guard::Kind::kZero ? isolated(g.value) : std::nullopt;
      if (!variable || !asked_for(*variable)) continue;
      State branch = state;
      substitute_solved(branch, *variable, solved_for(g.value, *variable));
      return resolve(branch);
    }
  }
  const auto try_all = [&](const Index& variable) {
    const auto with = [&](const Index& number) {
      State branch = state;
      substitute_solved(branch, variable, number);
      return branch;
    };
    for (std::size_t number = 0; number <= rank; ++number)
      if (!resolve(with(number))) return false;
    // All other values must be refused, or they would be further cases.
    for (const Index& beyond : {Index(rank + 1), Index(rank + 2), Index(1000)}) {
      std::size_t reached = 0;
      const std::function<bool(const SymbolicCase&)> count = [&](const SymbolicCase&) {
        ++reached;
        return false;
      };
      const auto* visit = visit_;
      visit_ = &count;
      resolve(with(beyond));
      visit_ = visit;
      if (reached > 0) throw Error(ErrorCode::kUnsupported, variable.to_string() + " must be known, and may be any number");
    }
    return true;
  };
  for (const auto& [name, value] : state.values) {
    if (shape_lists_.count(name)) {
      for (const Index& size : std::get<Indices>(value))
        if (asked_for(size) && size.as_atom()) return try_all(size);
      continue;
    }
    if (const auto* index = std::get_if<Index>(&value); index && index->as_atom() && asked_for(*index)) return try_all(*index);
    const auto* list = std::get_if<Indices>(&value);
    if (!list || std::none_of(list->begin(), list->end(), asked_for)) continue;
    // Enumerates one element after the other. Where axes are added, the definition refuses values that are not axes of the
    // result.
    const Index element = *std::find_if(list->begin(), list->end(), asked_for);
    for (std::size_t axis = 0; axis < rank + list->size(); ++axis) {
      if (std::find(list->begin(), list->end(), Index(axis)) != list->end()) continue;
      State branch = state;
      substitute_solved(branch, element, axis);
      if (!resolve(branch)) return false;
    }
    return true;
  }
  throw Error(ErrorCode::kUnsupported, node.op->name() + ": " + message);
}

}  // namespace rewright::proof
