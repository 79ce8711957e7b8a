#include "equivalence/checker/rewriting.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/hash_mix.h"
#include "expressions/exact_number.h"
#include "operators/readings/interpreter.h"
#include "rules/bindings.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

using proof::Refusal, proof::require;

namespace {

constexpr std::size_t kMostTerms = 100000;

// The attributes with which an operator without inputs, such as Eye, creates a constant.
Attributes creation_of(const Operator& op, const Tensor& tensor) {
  require(op.max_inputs() == 0 && !op.random(), "a rule is applied to another operator");
  Attributes attributes = op.defaults();
  for (AttributeValue& attribute : attributes) {
    if (std::holds_alternative<Index>(attribute) && !tensor.sizes().empty()) attribute = Index(tensor.sizes()[0]);
    if (std::holds_alternative<Indices>(attribute)) attribute = to_indices(tensor.sizes());
    if (std::holds_alternative<DataType>(attribute)) attribute = tensor.type();
  }
  const Definition definition = op.define(attributes, Inputs::of(std::span<const TensorType>()).types_only());
  const TensorType& type = definition.outputs().at(0).type;
  require(
      type.type == tensor.type() && type.shape == to_indices(tensor.sizes()) && interpret(op, attributes, {}).at(0) == tensor,
      "a constant is not what a rule's operator creates");
  return attributes;
}

// The attributes of a Fill that has the elements of a constant, all of which are equal.
Attributes fill_of(const Operator& fill, const Tensor& tensor) {
  const std::size_t size = byte_size(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  require(size > 0 && bytes.size() >= size && fits_real(tensor) &&
              std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin()),
          "a constant is not one number");
  Attributes attributes = fill.defaults();
  attributes.at(fill.field("value").value()) = Real(tensor.reals().at(0));
  attributes.at(fill.field("type").value()) = tensor.type();
  attributes.at(fill.field("shape").value()) = to_indices(tensor.sizes());
  return attributes;
}

}  // namespace

TermTable::TermTable(const Graph& graph) {
  of_graph_.assign(graph.value_count(), kAbsent);
  value_terms_.assign(graph.value_count(), kAbsent);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (!graph.is_input(id) && !graph.is_constant(id)) continue;
    Term term;
    const Tensor& constant = graph.value(id).constant;
    of_graph_[id] = add_value(graph.value(id).type, constant ? range_of(constant) : range_of(graph.value(id).type.type));
    term.outputs = {of_graph_[id]};
    term.constant = graph.value(id).constant;
    value_terms_[id] = static_cast<std::uint32_t>(terms_.size());
    terms_.push_back(std::move(term));
  }
  first_node_ = static_cast<std::uint32_t>(terms_.size());
  for (const auto& node : graph.nodes()) {
    std::vector<std::uint32_t> inputs;
    for (const ValueId id : node->inputs) inputs.push_back(id == kNoValue ? kAbsent : of_graph_[id]);
    const Definition definition = node->op->define(node->attributes, Inputs::of(graph.operand_types(*node)));
    const std::uint32_t term = add_node(*node->op, node->attributes, std::move(inputs), definition);
    for (std::size_t o = 0; o < node->outputs.size(); ++o)
      if (node->outputs[o] != kNoValue) of_graph_[node->outputs[o]] = terms_[term].outputs[o];
  }
  a_ = of_graph_.at(graph.outputs()[0].value), b_ = of_graph_.at(graph.outputs()[1].value);
  close();
}

std::uint32_t TermTable::add_value(TensorType type, const Range& range) {
  types_.push_back(std::move(type));
  ranges_.push_back(range);
  return classes_.add();
}

std::uint32_t TermTable::add_node(const Operator& op, Attributes attributes, std::vector<std::uint32_t> inputs,
                                  const Definition& definition) {
  // Rules are about all integers, and hold for those of types where none wraps around.
  std::vector<Range> operands;
  for (const std::uint32_t id : inputs) operands.push_back(id == kAbsent ? range_of(DataType::kUndefined) : ranges_[id]);
  const OutputRanges outputs = output_ranges(definition, operands);
  require(!outputs.may_wrap, "an integer may wrap around");
  Term term;
  term.op = &op;
  term.attributes = std::move(attributes);
  while (!inputs.empty() && inputs.back() == kAbsent) inputs.pop_back();
  term.inputs = std::move(inputs);
  for (std::size_t o = 0; o < definition.outputs().size(); ++o)
    term.outputs.push_back(add_value(definition.outputs()[o].type, outputs.ranges[o]));
  require(terms_.size() < kMostTerms, "there are too many terms");
  terms_.push_back(std::move(term));
  return static_cast<std::uint32_t>(terms_.size() - 1);
}

void TermTable::unite(std::uint32_t a, std::uint32_t b) {
  require(types_[a] == types_[b], "equal values have different types");
  classes_.merge(a, b);
}

// Congruence: equal operators of equal operands have equal results.
void TermTable::close() {
  NodeTable table;
  table.rehash([&] {
    bool changed = false;
    for (std::uint32_t t = 0; t < terms_.size(); ++t) {
      const Term& term = terms_[t];
      if (!term.op || term.op->random()) continue;
      const auto operands = [&](const Term& of) {
        std::vector<std::uint32_t> ids;
        for (const std::uint32_t id : of.inputs) ids.push_back(id == kAbsent ? id : classes_.find(id));
        if (of.op->commutative() && ids.size() >= 2 && ids[1] < ids[0]) std::swap(ids[0], ids[1]);
        return ids;
      };
      const std::vector<std::uint32_t> ids = operands(term);
      std::uint64_t key = hash_mix(reinterpret_cast<std::uintptr_t>(term.op), hash(term.attributes));
      for (const std::uint32_t id : ids) key = hash_mix(key, id);
      const auto known = table.find(key, [&](std::uint32_t other) {
        return terms_[other].op == term.op && terms_[other].attributes == term.attributes && operands(terms_[other]) == ids;
      });
      if (!known) {
        table.insert(key, t);
        continue;
      }
      const Term& other = terms_[*known];
      for (std::size_t o = 0; o < std::min(term.outputs.size(), other.outputs.size()); ++o)
        if (!same(term.outputs[o], other.outputs[o]) && types_[term.outputs[o]] == types_[other.outputs[o]])
          changed = classes_.merge(term.outputs[o], other.outputs[o]).has_value() || changed;
    }
    return changed;
  });
}

std::uint32_t TermTable::output_of(std::uint32_t term, std::uint32_t output) const {
  require(term < terms_.size(), "there is no such term");
  require(output < terms_[term].outputs.size(), "a term has no such output");
  return terms_[term].outputs[output];
}

// A term's operand against the source: binds an input, or compares.
void TermTable::match_operand(std::uint32_t value, const PatternValue& wanted, const Application& application,
                              std::vector<std::uint32_t>& bound) const {
  if (wanted.kind == PatternValue::Kind::kAbsent) {
    require(value == kAbsent, "an operand is there that the rule does not have");
    return;
  }
  require(value != kAbsent, "an operand is absent");
  if (wanted.kind == PatternValue::Kind::kInput) {
    if (bound[wanted.number] == kAbsent) bound[wanted.number] = value;
    require(same(bound[wanted.number], value), "a variable of a rule stands for two values");
    return;
  }
  require(same(output_of(application.where.at(wanted.number), wanted.output), value), "an operand is not what the rule says");
}

TermTable::Matched TermTable::match_source(const Rule& rule, const Application& application) const {
  const Pattern& source = rule.source;
  require(application.where.size() == source.nodes.size(), "an application names too few terms");
  Matched matched{std::vector<std::uint32_t>(rule.inputs.size(), kAbsent), {}};
  for (std::size_t p = 0; p < source.nodes.size(); ++p) {
    const PatternNode& pattern = source.nodes[p];
    require(application.where[p] < terms_.size(), "there is no such term");
    const Term& term = terms_[application.where[p]];
    if (!term.op) {
      require(static_cast<bool>(term.constant), "a rule is applied to another operator");
      matched.attributes.push_back(pattern.op->is_fill() ? fill_of(*pattern.op, term.constant)
                                                         : creation_of(*pattern.op, term.constant));
      continue;
    }
    require(term.op == pattern.op && term.inputs.size() == pattern.inputs.size(), "a rule is applied to another operator");
    matched.attributes.push_back(term.attributes);
    const bool swapped = p < 64 && ((application.swapped >> p) & 1);
    require(!swapped || (pattern.op->commutative() && term.inputs.size() >= 2), "operands that do not commute are exchanged");
    for (std::size_t i = 0; i < pattern.inputs.size(); ++i)
      match_operand(term.inputs[swapped && i < 2 ? 1 - i : i], pattern.inputs[i], application, matched.inputs);
  }
  return matched;
}

Bindings TermTable::bind(const Rule& rule, const Matched& matched) const {
  Bindings bindings(rule);
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    require(matched.inputs[i] != kAbsent, "an input of a rule is not bound");
    const TensorType& type = types_[matched.inputs[i]];
    // Proofs are about tensors with elements, and of the ranks that the proof says.
    require(std::none_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.constant() == 0; }),
            "a rule is applied to an empty tensor");
    require(rule.proof.ranks == 0 || !rule.inputs[i].shape.open || type.rank() <= rule.proof.ranks,
            "a rule is applied to more axes than it is proved for");
    require(bindings.bind_input(i, type), "a rule's input has another type");
  }
  for (std::size_t p = 0; p < rule.source.nodes.size(); ++p)
    for (std::size_t f = 0; f < rule.source.nodes[p].attributes.size(); ++f)
      require(bindings.bind_attribute(rule.source.nodes[p].attributes[f], matched.attributes[p].at(f)),
              "an attribute is not what the rule says");
  require(bindings.complete(), "a condition of a rule does not hold");
  return bindings;
}

void TermTable::apply(const Rule& rule, const Application& application) {
  const Matched matched = match_source(rule, application);
  const Bindings bindings = bind(rule, matched);
  std::vector<std::uint32_t> made;
  const auto value_of = [&](const PatternValue& value) {
    if (value.kind == PatternValue::Kind::kAbsent) return kAbsent;
    return value.kind == PatternValue::Kind::kInput ? matched.inputs[value.number]
                                                    : output_of(made[value.number], value.output);
  };
  for (const PatternNode& node : rule.target.nodes) {
    std::vector<std::uint32_t> inputs;
    std::vector<std::optional<TensorType>> types;
    for (const PatternValue& value : node.inputs) {
      inputs.push_back(value_of(value));
      types.push_back(inputs.back() == kAbsent ? std::nullopt : std::optional(types_[inputs.back()]));
    }
    Attributes written;
    for (const Expression& expression : node.attributes) written.push_back(bindings.evaluate(expression));
    const Inputs in = Inputs::of(types);
    written = node.op->normalized(std::move(written), in);
    const Definition definition = node.op->define(written, in);
    made.push_back(add_node(*node.op, std::move(written), std::move(inputs), definition));
  }
  for (std::size_t k = 0; k < rule.source.outputs.size(); ++k) {
    const PatternValue& from = rule.source.outputs[k];
    const std::uint32_t left = from.kind == PatternValue::Kind::kInput ? matched.inputs[from.number]
                                                                       : output_of(application.where[from.number], from.output);
    unite(left, value_of(rule.target.outputs[k]));
  }
  close();
}

bool TermTable::outputs_are_equal() const { return same(a_, b_); }

}  // namespace rewright::equivalence
