#include "generator/enumeration/forms.h"

#include <algorithm>

#include "generator/enumeration/field.h"

namespace rewright::generator {

Attributes substitute(const Attributes& attributes, const Substitution& replacement) {
  Attributes result = attributes;
  for (AttributeValue& value : result) {
    if (Index* index = std::get_if<Index>(&value)) *index = substitute(*index, replacement);
    if (Indices* indices = std::get_if<Indices>(&value)) *indices = substitute(*indices, replacement);
  }
  return result;
}

std::uint64_t sound_key(std::uint64_t number) {
  for (std::uint64_t key = FieldArithmetic::mix(0x6b6579, number);; ++key) {
    const LawfulField field(key);
    int below = 0;
    for (std::uint64_t i = 0; i < 64; ++i) below += field.before(FieldArithmetic::mix(i, key) % kFieldPrime, 0);
    if (below >= 28 && below <= 36) return key;
  }
}

Forms::Forms(const Configuration& configuration) : configuration_(configuration) {}

Substitution Forms::sizes_of(std::size_t assignment) const {
  return [this, assignment](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    for (const Configuration::Symbol& s : configuration_.symbols)
      if (s.name == atom.name) return Index(s.sizes[assignment]);
    return std::nullopt;
  };
}

TypeId Forms::intern(const TensorType& type) {
  const auto [at, fresh] = type_ids_.try_emplace(to_string(type), static_cast<TypeId>(types_.size()));
  if (!fresh) return at->second;
  KnownType known{type, {}, {}, 0};
  for (std::size_t a = 0; a < configuration_.assignments(); ++a) {
    known.assigned.push_back({type.type, rewright::substitute(type.shape, sizes_of(a))});
    known.offsets.push_back(known.elements);
    known.elements += static_cast<std::size_t>(element_count(values(known.assigned.back().shape)));
  }
  types_.push_back(std::move(known));
  return at->second;
}

// Sizes count as equal only if their expressions are. Equal numbers would be a coincidence of the assigned sizes.
bool Forms::holds(const Condition& condition) const {
  if (const auto decided = condition.decided()) return *decided;
  if (condition.relation == Condition::Relation::kEqual) return false;
  for (std::size_t a = 0; a < configuration_.assignments(); ++a) {
    const Condition known{rewright::substitute(condition.left, sizes_of(a)), condition.relation,
                          rewright::substitute(condition.right, sizes_of(a))};
    if (known.decided() != true) return false;
  }
  return true;
}

Program Forms::compile(const Operator& op, const Attributes& attributes, std::span<const TypeId> operands,
                       std::vector<TypeId>& outputs, std::int64_t fewest) {
  std::vector<TensorType> types;
  for (const TypeId t : operands) types.push_back(types_[t].type);
  const Definition symbolic = op.define(attributes, Inputs::of(std::span<const TensorType>(types)).types_only());
  for (const Requirement& r : symbolic.requirements())
    if (!holds(r.condition)) throw Error(ErrorCode::kBadInput, r.message);
  ProgramBuilder builder;
  std::vector<Definition> definitions;
  for (std::size_t a = 0; a < configuration_.assignments(); ++a) {
    std::vector<TensorType> assigned;
    for (const TypeId t : operands) assigned.push_back(types_[t].assigned[a]);
    definitions.push_back(op.define(substitute(attributes, sizes_of(a)), Inputs::of(std::span<const TensorType>(assigned))));
    for (const Output& output : definitions.back().outputs())
      if (output.type.type != DataType::kFloat || element_count(values(output.type.shape)) > kMaximumElements ||
          element_count(values(output.type.shape)) < fewest)
        throw Error(ErrorCode::kUnsupported, "a result of type " + to_string(output.type));
  }
  for (std::size_t k = 0; k < symbolic.outputs().size(); ++k) {
    outputs.push_back(intern(symbolic.outputs()[k].type));
    for (std::size_t a = 0; a < configuration_.assignments(); ++a) {
      std::vector<TensorType> assigned;
      std::vector<std::size_t> offsets;
      for (const TypeId t : operands) {
        assigned.push_back(types_[t].assigned[a]);
        offsets.push_back(types_[t].offsets[a]);
      }
      builder.add(definitions[a].outputs()[k], assigned, offsets);
    }
  }
  return std::move(builder).finish();
}

std::unique_ptr<Form> Forms::make(const Choice& choice, Attributes attributes, std::span<const TypeId> operands) {
  auto form = std::make_unique<Form>();
  try {
    std::vector<TensorType> types;
    for (const TypeId t : operands) types.push_back(types_[t].type);
    for (const std::uint32_t leaf : choice.parameters) types.push_back(configuration_.leaves[leaf].type);
    form->attributes =
        choice.op->normalized(std::move(attributes), Inputs::of(std::span<const TensorType>(types)).types_only());
    form->operands.assign(operands.begin(), operands.end());
    std::vector<TypeId> all = form->operands;
    for (const std::uint32_t leaf : choice.parameters) all.push_back(intern(configuration_.leaves[leaf].type));
    if (choice.further) form->further = choice.further(types);
    // Operands of further steps may have fewer elements.
    form->program = compile(*choice.op, form->attributes, all, form->outputs, form->further.empty() ? kMinimumElements : 1);
    if (choice.activation) {
      const std::vector<TypeId> results = std::move(form->outputs);
      form->outputs.clear();
      form->activation = compile(*choice.activation, choice.activation->defaults(), results, form->outputs, kMinimumElements);
    }
    for (FurtherStep& step : form->further) {
      std::vector<TypeId> results = std::move(form->outputs);
      form->outputs.clear();
      std::vector<TensorType> between;
      form->further_offsets.emplace_back();
      for (std::size_t offset = 0; const TypeId t : results) {
        between.push_back(types_[t].type);
        form->further_offsets.back().push_back(offset);
        offset += types_[t].elements;
      }
      form->further_constants.emplace_back();
      if (step.constant) {
        const Inputs none(std::vector<Operand>{});
        step.constant_attributes = step.constant->normalized(std::move(step.constant_attributes), none);
        between.push_back(step.constant->define(step.constant_attributes, none.types_only()).outputs().at(0).type);
        results.push_back(intern(between.back()));
        form->further_constants.back() =
            leaf_elements({"", between.back(), -1, false, step.constant, step.constant_attributes}, 0, 0);
      }
      step.attributes =
          step.op->normalized(std::move(step.attributes), Inputs::of(std::span<const TensorType>(between)).types_only());
      const bool last = &step == &form->further.back();
      form->further_programs.push_back(compile(*step.op, step.attributes, results, form->outputs, last ? kMinimumElements : 1));
    }
  } catch (const Error&) {  // ill-typed, or without a meaning in the field
    return nullptr;
  }
  for (const TypeId t : form->outputs) {
    form->output_offsets.push_back(form->results);
    form->results += types_[t].elements;
  }
  for (const TypeId t : operands) form->cost += static_cast<double>(types_[t].elements);
  form->cost += static_cast<double>(form->results) + form->program.operation_count() + form->activation.operation_count();
  for (const Program& program : form->further_programs)
    form->cost += 2 * static_cast<double>(program.result_count()) + program.operation_count();
  return form;
}

const std::vector<FormId>& Forms::find(std::uint32_t choice, std::span<const TypeId> operands) {
  std::array<TypeId, 3> key{~TypeId{0}, ~TypeId{0}, ~TypeId{0}};
  std::copy(operands.begin(), operands.end(), key.begin());
  const auto [at, fresh] = known_.try_emplace({choice, key});
  if (!fresh) return at->second;
  const Choice& c = configuration_.choices[choice];
  std::vector<TensorType> types;
  for (const TypeId t : operands) types.push_back(types_[t].type);
  std::uint32_t variant = 0;
  for (Attributes& attributes : c.attributes(types)) {
    if (std::unique_ptr<Form> form = make(c, std::move(attributes), operands)) {
      form->choice = choice;
      form->variant = variant;
      at->second.push_back(static_cast<FormId>(forms_.size()));
      forms_.push_back(std::move(form));
    }
    ++variant;
  }
  return at->second;
}

bool Forms::evaluate(const Form& form, std::span<const Residue* const> operands, std::uint64_t key, Scratch& scratch,
                     Residue* results) const {
  const Choice& choice = configuration_.choices[form.choice];
  std::vector<const Residue*> all;
  if (!choice.parameters.empty()) {
    all.assign(operands.begin(), operands.end());
    for (const std::uint32_t leaf : choice.parameters) {
      const auto [at, fresh] = scratch.parameters.try_emplace({leaf, key});
      if (fresh) at->second = leaf_elements(configuration_.leaves[leaf], leaf, key);
      all.push_back(at->second.data());
    }
    operands = all;
  }
  if (!choice.activation && form.further.empty())
    return form.program.run(operands, LawfulField(key), scratch.registers, results);
  if (!form.further.empty()) {
    std::vector<Residue> from(form.program.result_count()), to;
    if (!form.program.run(operands, LawfulField(key), scratch.registers, from.data())) return false;
    for (std::size_t s = 0; s < form.further.size(); ++s) {
      std::vector<const Residue*> between;
      for (const std::size_t offset : form.further_offsets[s]) between.push_back(&from[offset]);
      if (form.further[s].constant) between.push_back(form.further_constants[s].data());
      to.resize(form.further_programs[s].result_count());
      if (!form.further_programs[s].run(between, LawfulField(key), scratch.registers, to.data())) return false;
      std::swap(from, to);
    }
    std::copy(from.begin(), from.end(), results);
    return true;
  }
  scratch.intermediate.resize(std::max(scratch.intermediate.size(), form.program.result_count()));
  if (!form.program.run(operands, LawfulField(key), scratch.registers, scratch.intermediate.data())) return false;
  const Residue* const between[] = {scratch.intermediate.data()};
  return form.activation.run(between, LawfulField(key), scratch.registers, results);
}

std::vector<Residue> Forms::random_elements(TypeId type, std::uint64_t number, std::uint64_t key) const {
  std::vector<Residue> elements(types_[type].elements);
  std::uint64_t state = FieldArithmetic::mix(FieldArithmetic::mix(key, 0x1eaf), number);
  for (Residue& e : elements) e = (state = FieldArithmetic::mix(state, 0x5eed)) % kFieldPrime;
  return elements;
}

std::vector<Residue> Forms::leaf_elements(const Leaf& leaf, std::uint64_t number, std::uint64_t key) const {
  const TypeId type = type_ids_.at(to_string(leaf.type));
  constexpr std::uint64_t kParameters = std::uint64_t{1} << 32;  // variables of equations have other numbers
  if (!leaf.constant()) return random_elements(type, leaf.parameter ? kParameters + number : number, key);
  ProgramBuilder builder;
  for (std::size_t a = 0; a < configuration_.assignments(); ++a)
    builder.add(leaf.op->define(substitute(leaf.attributes, sizes_of(a)), Inputs(std::vector<Operand>{})).outputs().at(0), {},
                {});
  const Program program = std::move(builder).finish();
  std::vector<Residue> elements(types_[type].elements), registers;
  program.run({}, LawfulField(key), registers, elements.data());
  const FieldArithmetic field{key};
  if (leaf.divisor != 1)
    for (Residue& e : elements) e = field.divide(e, field.from_integer(leaf.divisor));
  return elements;
}

}  // namespace rewright::generator
