#include "plans/cuts/cut.h"

#include <algorithm>

#include "base/error.h"
#include "operators/specification.h"
#include "rules/io.h"
#include "verifier/verify.h"

namespace rewright::plans {

namespace {

std::string to_string(const Share& s) {
  switch (s.kind) {
    case Share::Kind::kWhole:
      return "whole";
    case Share::Kind::kFirst:
      return "added once";
    case Share::Kind::kPartial: {
      const char* names[] = {"partial sums", "partial products", "partial maxima", "partial minima"};
      return names[static_cast<int>(s.reduction)];
    }
    case Share::Kind::kCut:
      break;
  }
  std::string text = "axis " + std::to_string(s.axis);
  if (!(s.unit == Index(1))) text += " by " + s.unit.to_string();
  if (!(s.before == Index(0) && s.rows_after() == Index(0)))
    text += " and a halo of " + s.before.to_string() + " + " + s.rows_after().to_string();
  return text;
}

// Windows and blocks of rows are of known sizes, and so is what attributes say of sizes.
bool needs_given_sizes(const Attributes& attributes, const Cut& cut) {
  for (const auto* shares : {&cut.operands, &cut.outputs})
    for (const Share& s : *shares)
      if (s.kind == Share::Kind::kCut && !(s.unit == Index(1) && s.before == Index(0) && s.rows_after() == Index(0)))
        return true;
  return std::any_of(attributes.begin(), attributes.end(), [](const AttributeValue& value) {
    const auto* list = std::get_if<Indices>(&value);
    return list && std::any_of(list->begin(), list->end(), [](const Index& i) { return !(i == Index(0)) && !(i == Index(1)); });
  });
}

}  // namespace

Index Share::rows_after() const {
  const auto known = after.constant();
  return known && *known < 0 ? Index(0) : after;
}

std::string to_string(const Cut& cut) {
  std::string text;
  for (const Share& s : cut.operands) text += (text.empty() ? "" : ", ") + to_string(s);
  text += " => ";
  for (std::size_t o = 0; o < cut.outputs.size(); ++o) text += (o > 0 ? ", " : "") + to_string(cut.outputs[o]);
  return text;
}

void set_entry(Attributes& attributes, const AttributeEntry& place, const Index& value) {
  if (place.entry)
    std::get<Indices>(attributes.at(place.field)).at(*place.entry) = value;
  else
    attributes.at(place.field) = value;
}

AttributeValue with_numbers(AttributeValue value, const std::function<Index(const Index&)>& of) {
  if (auto* index = std::get_if<Index>(&value)) *index = of(*index);
  if (auto* list = std::get_if<Indices>(&value))
    for (Index& index : *list) index = of(index);
  return value;
}

Attributes part_attributes(const Attributes& attributes, const Cut& cut, const Index& units, bool is_first, bool is_last) {
  Attributes result = attributes;
  if (const Atom* size = cut.units.as_atom(); size && size->kind == Atom::Kind::kSymbol)
    for (AttributeValue& value : result)
      value = with_numbers(std::move(value), [&](const Index& index) {
        return substitute(index, [&](const Atom& a) -> std::optional<Index> {
          return a.kind == Atom::Kind::kSymbol && a.name == size->name ? std::optional(units) : std::nullopt;
        });
      });
  for (const AttributeChange& c : cut.changes) {
    if (c.kind == AttributeChange::Kind::kFrontPad && is_first) continue;
    if (c.kind == AttributeChange::Kind::kBackPad && is_last) continue;
    set_entry(result, c.place, c.kind == AttributeChange::Kind::kScaled ? c.multiplier * units : Index(0));
  }
  return result;
}

std::vector<std::optional<TensorType>> part_types(OperandTypes types, const Cut& cut, const Index& units, bool is_first,
                                                  bool is_last) {
  std::vector<std::optional<TensorType>> result(types.begin(), types.end());
  for (std::size_t k = 0; k < result.size(); ++k) {
    const Share& s = cut.operands[k];
    if (!result[k] || s.kind != Share::Kind::kCut) continue;
    // Rows that no whole unit has belong to the last part.
    const Index rest = result[k]->shape[s.axis] - s.unit * cut.units;
    Index rows = s.unit * units;
    if (!is_first) rows += s.before;
    rows += is_last ? rest : s.rows_after();
    result[k]->shape[s.axis] = rows;
  }
  return result;
}

std::string node_key(const Operator& op, const Attributes& attributes, OperandTypes types) {
  std::string key(op.name());
  for (const AttributeValue& value : attributes) key += " " + to_string(value) + " " + std::to_string(hash(value));
  for (const auto& type : types) key += type ? " " + to_string(*type) : " -";
  return key;
}

CutProof prove(const std::vector<Rule>& rules, const proof::Engine& engine) {
  for (const Rule& rule : rules) {
    proof::VerifyOptions options;
    options.instances = 0;
    options.suggest_conditions = false;
    options.limits.positions_are_inside = true;
    options.solver.engine = engine;
    const proof::Verdict verdict = proof::verify(rule, options);
    if (verdict.outcome != proof::Outcome::kProved) return {false, rule.name + ": " + verdict.explanation};
    // The rule says what its parts have to be: a proof for fewer sizes is none for the parts of a plan.
    if (!verdict.conditions.empty()) return {false, rule.name + ": it holds only where " + verdict.conditions.front()};
  }
  return {!rules.empty(), rules.empty() ? "there is nothing to prove" : ""};
}

namespace {

bool is_rule(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut) try {
  return !cut_rules(operators::specified(op), attributes, types, cut).empty();
} catch (const Error& e) {
  if (e.code() != ErrorCode::kUnsupported && e.code() != ErrorCode::kBadInput) throw;
  return false;
}

}  // namespace

const CutProof& CutFinder::kept(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) text += to_algebra(rule);
  const auto known = proofs_.find(text);
  return known != proofs_.end() ? known->second : proofs_.emplace(std::move(text), prove(rules, engine_)).first->second;
}

CutProof CutFinder::proof(const Operator& executed, const Attributes& attributes, OperandTypes types, const Cut& cut) try {
  const Operator& op = operators::specified(executed);
  if (!needs_given_sizes(attributes, cut))
    if (const CutProof& general = kept(cut_rules(op, attributes, types, cut, SizesInRule::kAny)); general.proved)
      return general;
  return kept(cut_rules(op, attributes, types, cut));
} catch (const Error& e) {
  if (e.code() != ErrorCode::kUnsupported && e.code() != ErrorCode::kBadInput) throw;
  return {false, e.what()};
}

const std::vector<Cut>& CutFinder::find(const Operator& op, const Attributes& attributes, OperandTypes types) {
  std::string key = node_key(op, attributes, types);
  if (const auto known = found_.find(key); known != found_.end()) return known->second;
  std::vector<Cut> result;
  for (Cut& cut : proposed_cuts(operators::specified(op), attributes, types))
    if (proves_ ? proof(op, attributes, types, cut).proved : is_rule(op, attributes, types, cut))
      result.push_back(std::move(cut));
  return found_.emplace(std::move(key), std::move(result)).first->second;
}

}  // namespace rewright::plans
