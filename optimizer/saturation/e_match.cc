#include "optimizer/saturation/e_match.h"

#include <algorithm>

#include "base/hash_mix.h"
#include "optimizer/matching/rule_binding.h"

namespace rewright::optimizer {

namespace {

constexpr ENodeId kUnplaced = ~ENodeId{0};

}  // namespace

// The matching program of a rule's source.
struct EMatcher::Program {
  enum class Kind {
    kAbsent,  // input i of node p is absent
    kBind,    // ... is the rule's input `number`
    kRepeat,  // ... is equal to the rule's input `number`, which is known
    kDown,    // ... is computed by node `number`, which is to be matched
    kMade,    // ... is computed by node `number`, which is matched
    kUp,      // node p is to be matched among the users of its input i, which is bound
    kAny,     // node p may be anywhere
  };
  struct Step {
    Kind kind;
    std::uint32_t p = 0, i = 0, number = 0, output = 0;
  };
  std::vector<Step> steps;

  explicit Program(const Rule& rule) {
    std::vector<bool> placed(rule.source.nodes.size()), bound(rule.inputs.size());
    std::vector<std::uint32_t> open;
    const auto work = [&] {
      while (!open.empty()) {
        const std::uint32_t p = open.back();
        open.pop_back();
        const std::vector<PatternValue>& inputs = rule.source.nodes[p].inputs;
        std::vector<std::uint32_t> below;
        for (std::uint32_t i = 0; i < inputs.size(); ++i) {
          const PatternValue& value = inputs[i];
          Step step{Kind::kAbsent, p, i, value.number, value.output};
          if (value.kind == PatternValue::Kind::kInput) {
            step.kind = bound[value.number] ? Kind::kRepeat : Kind::kBind;
            bound[value.number] = true;
          } else if (value.kind == PatternValue::Kind::kNode) {
            step.kind = placed[value.number] ? Kind::kMade : Kind::kDown;
            if (!placed[value.number]) below.push_back(value.number);
            placed[value.number] = true;
          }
          steps.push_back(step);
        }
        open.insert(open.end(), below.rbegin(), below.rend());
      }
    };
    const std::uint32_t root = rule.source.outputs.at(0).number;
    placed[root] = true;
    open.push_back(root);
    for (;;) {
      work();
      std::optional<Step> next;
      for (std::uint32_t p = 0; p < placed.size() && !(next && next->kind == Kind::kUp); ++p) {
        if (placed[p]) continue;
        if (!next) next = Step{Kind::kAny, p, 0, 0, 0};
        const std::vector<PatternValue>& inputs = rule.source.nodes[p].inputs;
        for (std::uint32_t i = 0; i < inputs.size(); ++i) {
          const bool is_known = (inputs[i].kind == PatternValue::Kind::kInput && bound[inputs[i].number]) ||
                                (inputs[i].kind == PatternValue::Kind::kNode && placed[inputs[i].number]);
          if (!is_known) continue;
          next = Step{Kind::kUp, p, i, 0, 0};
          break;
        }
      }
      if (!next) break;
      placed[next->p] = true;
      steps.push_back(*next);
      open.push_back(next->p);
    }
  }
};

// The values of a rule's variables, and their consequences for the target.
struct EMatcher::Binding {
  std::vector<std::uint32_t> attributes;          // of each node of the target
  std::vector<std::vector<std::uint32_t>> types;  // of its outputs
  std::vector<std::uint32_t> outputs;             // types of the target's outputs
};

// One matching attempt.
struct EMatcher::Laying {
  const Rule& rule;
  const Program& program;
  EMatch match;
  const std::function<bool(const EMatch&)>& visit;
  bool ended = false;
};

EMatcher::EMatcher(EGraph& graph, const RuleIndex& rules) : graph_(graph), rules_(rules), programs_(rules.rules().size()) {}
EMatcher::~EMatcher() = default;

std::size_t EMatcher::KeyHash::operator()(const std::vector<std::uint32_t>& key) const {
  std::uint64_t h = key.size();
  for (const std::uint32_t number : key) h = hash_mix(h, number);
  return h;
}

const EMatcher::Program& EMatcher::program(std::uint32_t rule) {
  if (!programs_[rule]) programs_[rule] = std::make_unique<Program>(rules_.rules()[rule]);
  return *programs_[rule];
}

ClassId EMatcher::slot(const EMatch& match, std::uint32_t p, std::uint32_t i) const {
  const std::uint32_t from = ((match.swapped >> p) & 1) && i < 2 ? 1 - i : i;
  return graph_.inputs(match.where[p])[from];
}

bool EMatcher::plausible(const PatternNode& pattern, ENodeId id) const {
  const ENode& node = graph_.node(id);
  if (node.op != pattern.op || node.outputs != pattern.outputs || node.inputs < pattern.inputs.size()) return false;
  const std::span<const ClassId> inputs = graph_.inputs(id);
  for (std::size_t i = pattern.inputs.size(); i < inputs.size(); ++i)
    if (inputs[i] != kNoClass) return false;
  for (const ClassId output : graph_.outputs(id))
    if (output != kNoClass && is_empty(graph_.type_of(graph_.type(output)))) return false;
  return true;
}

const Attributes* EMatcher::creation(const PatternNode& pattern, ENodeId leaf) {
  const ValueId value = graph_.node(leaf).leaf;
  return graph_.graph().is_constant(value) ? creations_.attributes(*pattern.op, graph_.graph().value(value).constant) : nullptr;
}

void EMatcher::place(Laying& laying, std::uint32_t p, ENodeId id, std::size_t next) {
  const PatternNode& pattern = laying.rule.source.nodes[p];
  std::vector<ENodeId>& where = laying.match.where;
  if (!graph_.node(id).live || std::find(where.begin(), where.end(), id) != where.end()) return;
  if (graph_.node(id).leaf != kNoValue) {
    if (!creation(pattern, id)) return;
    where[p] = id;
    run(laying, next);
    where[p] = kUnplaced;
    return;
  }
  if (!plausible(pattern, id)) return;
  where[p] = id;
  run(laying, next);
  if (pattern.op->commutative() && pattern.inputs.size() >= 2 && !laying.ended) {
    const std::span<const ClassId> inputs = graph_.inputs(id);
    if (!graph_.equal(inputs[0], inputs[1])) {
      laying.match.swapped |= std::uint64_t{1} << p;
      run(laying, next);
      laying.match.swapped &= ~(std::uint64_t{1} << p);
    }
  }
  where[p] = kUnplaced;
}

void EMatcher::run(Laying& laying, std::size_t number) {
  using Kind = Program::Kind;
  if (laying.ended) return;
  EMatch& match = laying.match;
  if (number == laying.program.steps.size()) {
    bool all_constant = true;  // a rewrite among constants gains nothing
    for (const PatternValue& output : laying.rule.source.outputs) {
      const ENodeId id = match.where[output.number];
      if (graph_.node(id).leaf != kNoValue) continue;
      const ClassId value = graph_.outputs(id)[output.output];
      if (value != kNoClass && !graph_.constant(value)) all_constant = false;
    }
    if (all_constant) return;
    const std::optional<std::uint32_t> binding = bind(match);
    if (!binding) return;
    match.binding = *binding;
    laying.ended = !laying.visit(match);
    return;
  }
  const Program::Step& step = laying.program.steps[number];
  const auto known_value = [&](const PatternValue& value) {
    return value.kind == PatternValue::Kind::kInput ? match.inputs[value.number]
                                                    : graph_.outputs(match.where[value.number])[value.output];
  };
  switch (step.kind) {
    case Kind::kAbsent:
      if (slot(match, step.p, step.i) == kNoClass) run(laying, number + 1);
      return;
    case Kind::kBind: {
      const ClassId value = slot(match, step.p, step.i);
      if (value == kNoClass || !graph_.known(graph_.type(value))) return;
      if (laying.rule.inputs[step.number].constant && !graph_.constant(value)) return;
      match.inputs[step.number] = value;
      run(laying, number + 1);
      match.inputs[step.number] = kNoClass;
      return;
    }
    case Kind::kRepeat:
      if (graph_.equal(match.inputs[step.number], slot(match, step.p, step.i))) run(laying, number + 1);
      return;
    case Kind::kMade: {
      const ENodeId maker = match.where[step.number];
      if (step.output < graph_.node(maker).outputs &&
          graph_.equal(graph_.outputs(maker)[step.output], slot(match, step.p, step.i)))
        run(laying, number + 1);
      return;
    }
    case Kind::kDown: {
      const ClassId value = slot(match, step.p, step.i);
      if (value == kNoClass) return;
      const ClassId wanted = graph_.find(value);
      for (const ENodeId maker : graph_.makers(wanted))
        if (step.output < graph_.node(maker).outputs && graph_.equal(graph_.outputs(maker)[step.output], wanted))
          place(laying, step.number, maker, number + 1);
      return;
    }
    case Kind::kUp: {
      const ClassId value = known_value(laying.rule.source.nodes[step.p].inputs[step.i]);
      if (value == kNoClass) return;
      for (const ENodeId user : graph_.users(graph_.find(value))) place(laying, step.p, user, number + 1);
      return;
    }
    case Kind::kAny:
      for (const ENodeId id : graph_.with_operator(laying.rule.source.nodes[step.p].op)) place(laying, step.p, id, number + 1);
      return;
  }
}

void EMatcher::find(std::uint32_t rule, ENodeId root, const std::function<bool(const EMatch&)>& visit) {
  const Rule& wanted = rules_.rules()[rule];
  Laying laying{wanted, program(rule), {}, visit};
  laying.match.rule = rule;
  laying.match.where.assign(wanted.source.nodes.size(), kUnplaced);
  laying.match.inputs.assign(wanted.inputs.size(), kNoClass);
  place(laying, wanted.source.outputs.at(0).number, root, 0);
}

std::optional<EMatch> EMatcher::find_at(std::uint32_t rule, std::span<const ENodeId> where, std::uint64_t swapped) {
  const Rule& wanted = rules_.rules()[rule];
  if (where.size() != wanted.source.nodes.size()) return std::nullopt;
  EMatch match{rule, {where.begin(), where.end()}, swapped, std::vector<ClassId>(wanted.inputs.size(), kNoClass), 0};
  for (std::uint32_t p = 0; p < where.size(); ++p) {
    if (where[p] >= graph_.node_count()) return std::nullopt;
    const PatternNode& pattern = wanted.source.nodes[p];
    const bool exchanged = (swapped >> p) & 1;
    if (exchanged && (!pattern.op->commutative() || pattern.inputs.size() < 2)) return std::nullopt;
    if (graph_.node(where[p]).leaf != kNoValue) {
      if (!creation(pattern, where[p])) return std::nullopt;
    } else if (!plausible(pattern, where[p])) {
      return std::nullopt;
    }
  }
  // In program order, so that inputs are bound to the same values as in find().
  for (const Program::Step& step : program(rule).steps) {
    if (step.kind == Program::Kind::kUp || step.kind == Program::Kind::kAny) continue;
    const ClassId value = slot(match, step.p, step.i);
    if ((value == kNoClass) != (step.kind == Program::Kind::kAbsent)) return std::nullopt;
    if (step.kind == Program::Kind::kBind) {
      if (!graph_.known(graph_.type(value))) return std::nullopt;
      match.inputs[step.number] = value;
    } else if (step.kind == Program::Kind::kDown || step.kind == Program::Kind::kMade) {
      const std::span<const ClassId> made = graph_.outputs(where[step.number]);
      if (step.output >= made.size() || !graph_.equal(made[step.output], value)) return std::nullopt;
    } else if (step.kind == Program::Kind::kRepeat && !graph_.equal(match.inputs[step.number], value)) {
      return std::nullopt;
    }
  }
  const std::optional<std::uint32_t> binding = bind(match);
  if (!binding) return std::nullopt;
  match.binding = *binding;
  return match;
}

void EMatcher::for_each_equality(const EMatch& match, const std::function<void(ClassId, ClassId)>& visit) const {
  const Rule& rule = rules_.rules()[match.rule];
  for (std::uint32_t p = 0; p < match.where.size(); ++p) {
    for (std::uint32_t i = 0; i < rule.source.nodes[p].inputs.size(); ++i) {
      const PatternValue& wanted = rule.source.nodes[p].inputs[i];
      if (wanted.kind == PatternValue::Kind::kInput)
        visit(match.inputs[wanted.number], slot(match, p, i));
      else if (wanted.kind == PatternValue::Kind::kNode)
        visit(graph_.outputs(match.where[wanted.number])[wanted.output], slot(match, p, i));
    }
  }
}

std::optional<std::uint32_t> EMatcher::bind(const EMatch& match) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const Rule& rule = rules_.rules()[match.rule];
  std::vector<std::uint32_t> key{match.rule};
  for (const ClassId input : match.inputs) {
    if (input == kNoClass) return std::nullopt;
    key.push_back(graph_.type(input));
  }
  for (std::size_t p = 0; p < match.where.size(); ++p) {
    const ENode& node = graph_.node(match.where[p]);
    key.push_back(node.leaf == kNoValue ? node.attributes : graph_.intern(*creation(rule.source.nodes[p], match.where[p])));
  }
  const auto [entry, added] = binding_numbers_.try_emplace(key, kNone);
  if (!added) return entry->second == kNone ? std::nullopt : std::optional(entry->second);

  std::vector<const TensorType*> inputs;
  std::vector<const Attributes*> attributes;
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < match.inputs.size(); ++i) types.push_back(graph_.type_of(key[1 + i]));
  for (const TensorType& type : types) inputs.push_back(&type);
  for (std::size_t p = 0; p < match.where.size(); ++p) attributes.push_back(&graph_.attributes(key[1 + types.size() + p]));
  const std::shared_ptr<const Bindings> bindings = bind_rule(rule, inputs, attributes);
  if (!bindings) return std::nullopt;

  auto binding = std::make_unique<Binding>();
  const auto type_of = [&](const PatternValue& value) {
    return value.kind == PatternValue::Kind::kAbsent  ? kNone
           : value.kind == PatternValue::Kind::kInput ? graph_.type(match.inputs[value.number])
                                                      : binding->types[value.number].at(value.output);
  };
  for (const PatternNode& pattern : rule.target.nodes) {
    std::vector<std::uint32_t> input_types;
    for (const PatternValue& input : pattern.inputs) input_types.push_back(type_of(input));
    while (!input_types.empty() && input_types.back() == kNone) input_types.pop_back();
    const EGraph::Typing* typing = nullptr;
    try {
      Attributes values;
      for (const Expression& expression : pattern.attributes) values.push_back(bindings->evaluate(expression));
      typing = graph_.typing(*pattern.op, graph_.intern(std::move(values)), input_types);
    } catch (const Error&) {
      return std::nullopt;
    }
    if (!typing || typing->outputs.size() < pattern.outputs || pattern.op->random()) return std::nullopt;
    binding->attributes.push_back(typing->attributes);
    binding->types.push_back(typing->outputs);
  }
  for (const PatternValue& output : rule.target.outputs) binding->outputs.push_back(type_of(output));
  bindings_.push_back(std::move(binding));
  return entry->second = static_cast<std::uint32_t>(bindings_.size() - 1);
}

bool EMatcher::types_agree(const EMatch& match) const {
  const Rule& rule = rules_.rules()[match.rule];
  const Binding& binding = *bindings_[match.binding];
  for (std::size_t i = 0; i < rule.source.outputs.size(); ++i) {
    const PatternValue& output = rule.source.outputs[i];
    if (graph_.node(match.where[output.number]).leaf != kNoValue) return false;
    const ClassId from = graph_.outputs(match.where[output.number])[output.output];
    if (from != kNoClass && graph_.type(from) != binding.outputs[i]) return false;
  }
  return true;
}

std::vector<ClassId> EMatcher::target_inputs(const EMatch& match, std::span<const ENodeId> made, std::uint32_t p) const {
  std::vector<ClassId> inputs;
  for (const PatternValue& value : rules_.rules()[match.rule].target.nodes[p].inputs)
    inputs.push_back(value.kind == PatternValue::Kind::kAbsent  ? kNoClass
                     : value.kind == PatternValue::Kind::kInput ? match.inputs[value.number]
                                                                : graph_.outputs(made[value.number])[value.output]);
  while (!inputs.empty() && inputs.back() == kNoClass) inputs.pop_back();
  return inputs;
}

std::optional<std::uint64_t> EMatcher::skeleton(const EMatch& match) {
  if (!types_agree(match)) return std::nullopt;
  const Rule& rule = rules_.rules()[match.rule];
  const Binding& binding = *bindings_[match.binding];
  const std::size_t count = rule.target.nodes.size();
  std::vector<std::optional<ENodeId>> known(count);
  std::vector<bool> constant(count);
  std::vector<std::uint64_t> hashes(count);
  const auto value_of = [&](const PatternValue& value) -> std::optional<ClassId> {
    if (value.kind == PatternValue::Kind::kAbsent) return kNoClass;
    if (value.kind == PatternValue::Kind::kInput) return match.inputs[value.number];
    if (!known[value.number]) return std::nullopt;
    return graph_.outputs(*known[value.number])[value.output];
  };
  // Constants count by type alone, except integers, which may affect the computation.
  const auto hash_of = [&](const PatternValue& value) -> std::uint64_t {
    const std::optional<ClassId> there = value_of(value);
    if (there && *there == kNoClass) return 1;
    const std::uint32_t type = there ? graph_.type(*there) : binding.types[value.number][value.output];
    const bool is_constant = there ? graph_.constant(*there) : constant[value.number];
    if (is_constant && is_real(graph_.type_of(type).type)) return hash_mix(2, type);
    return there ? hash_mix(3, graph_.find(*there)) : hash_mix(hashes[value.number], value.output);
  };
  for (std::uint32_t p = 0; p < count; ++p) {
    const PatternNode& pattern = rule.target.nodes[p];
    std::vector<std::uint64_t> inputs;
    std::vector<ClassId> classes;
    constant[p] = !rules_.options().for_training;
    for (const PatternValue& input : pattern.inputs) {
      inputs.push_back(hash_of(input));
      const std::optional<ClassId> there = value_of(input);
      if (there) classes.push_back(*there);
      constant[p] =
          constant[p] && (there ? *there == kNoClass || graph_.constant(*there) : static_cast<bool>(constant[input.number]));
    }
    if (classes.size() == pattern.inputs.size()) known[p] = graph_.known(*pattern.op, binding.attributes[p], classes);
    if (pattern.op->commutative() && inputs.size() >= 2 && inputs[1] < inputs[0]) std::swap(inputs[0], inputs[1]);
    std::uint64_t h = hash_mix(reinterpret_cast<std::uintptr_t>(pattern.op), binding.attributes[p]);
    for (const std::uint64_t input : inputs) h = hash_mix(h, input);
    hashes[p] = h;
  }
  bool nothing_new = true;
  std::uint64_t h = 0;
  for (std::size_t i = 0; i < rule.source.outputs.size(); ++i) {
    const PatternValue &from = rule.source.outputs[i], &to = rule.target.outputs[i];
    const ClassId source = graph_.outputs(match.where[from.number])[from.output];
    if (source == kNoClass || to.kind == PatternValue::Kind::kAbsent) continue;
    const std::optional<ClassId> there = value_of(to);
    nothing_new = nothing_new && there && graph_.equal(source, *there);
    h = hash_mix(hash_mix(h, graph_.find(source)),
                 to.kind == PatternValue::Kind::kNode ? hash_mix(hashes[to.number], to.output) : hash_of(to));
  }
  if (nothing_new) return std::nullopt;
  return h;
}

std::optional<EMatcher::Made> EMatcher::apply(const EMatch& match, std::uint32_t application) {
  if (!types_agree(match)) return std::nullopt;
  const Rule& rule = rules_.rules()[match.rule];
  Made made;
  for (std::uint32_t p = 0; p < rule.target.nodes.size(); ++p) {
    const std::vector<ClassId> inputs = target_inputs(match, made.nodes, p);
    const std::size_t before = graph_.node_count();
    const std::optional<ENodeId> node = graph_.add(*rule.target.nodes[p].op, bindings_[match.binding]->attributes[p], inputs);
    if (!node) return std::nullopt;
    if (*node < before && graph_.exchanged(*node, inputs)) made.exchanged |= std::uint64_t{1} << p;
    made.nodes.push_back(*node);
  }
  for (std::uint32_t i = 0; i < rule.source.outputs.size(); ++i) {
    const PatternValue &from = rule.source.outputs[i], &to = rule.target.outputs[i];
    const ClassId source = graph_.outputs(match.where[from.number])[from.output];
    const ClassId target = to.kind == PatternValue::Kind::kAbsent  ? kNoClass
                           : to.kind == PatternValue::Kind::kInput ? match.inputs[to.number]
                                                                   : graph_.outputs(made.nodes[to.number])[to.output];
    if (source != kNoClass && target != kNoClass) graph_.merge(source, target, {application, 0, 0, i, false});
  }
  return made;
}

}  // namespace rewright::optimizer
