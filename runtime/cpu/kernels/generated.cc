// Element expressions by tile programs (runtime/cpu/tile): the kernel for everything without another one.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/hash_mix.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/cpu/planning/plan_together.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/stages.h"
#include "runtime/planning/in_place.h"

namespace rewright::cpu {

namespace {

using Program = std::shared_ptr<const StagedProgram>;

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(Program program) : program_(std::move(program)) {}
  void run(const Call& call) const override { program_->run(call.inputs, call.outputs, call.scratch, call.workers); }
  std::size_t scratch_bytes() const override { return program_->scratch_bytes(); }
  std::string source() const override { return kGeneratedCode; }
  std::string loops() const override { return to_string(program_->loops()); }

 private:
  Program program_;
};

TileOptions tile_options(const Planner& planner) { return {planner.options().isa, false, false, planner.options().threads}; }

// Compiles a group by the loops that were found for it, or by the estimate's. Null if it cannot be compiled, or if the estimate
// finds that its values should not be computed together.
Program compile_group(const Planner& planner, const LoopProblem& problem) {
  std::optional<StagedProgram> program;
  if (const auto chosen = chosen_loops(planner.options(), problem))
    program = compile_stages(problem.values, problem.operands, problem.options, &*chosen);
  if (!program) program = compile_stages(problem.values, problem.operands, problem.options);
  return program ? std::make_shared<const StagedProgram>(std::move(*program)) : nullptr;
}

// Compiles the expression, once for all steps with equal expressions and sizes (the layers of a network). Null if it cannot be
// compiled.
Program program_of(Planner& planner, const Expression& e, const TileOperand& out, const std::vector<TileOperand>& operands) {
  const auto compile = [&] {
    return compile_group(planner, {{{e.element, e.position, out}}, operands, tile_options(planner)});
  };
  if (e.name == 0 || planner.options().choices != nullptr) return compile();  // choices may change from plan to plan
  std::uint64_t name = hash_mix(hash_mix(hash_text("program"), e.name), static_cast<std::uint64_t>(planner.options().isa));
  const auto add = [&](const TileOperand& o) {
    name = hash_mix(hash_mix(name, static_cast<std::uint64_t>(o.type)), static_cast<std::uint64_t>(o.layout.channels));
    name = hash_mix(name, o.sizes.size());
    for (const std::int64_t size : o.sizes) name = hash_mix(name, static_cast<std::uint64_t>(size));
  };
  name = hash_mix(name, static_cast<std::uint64_t>(planner.options().threads));
  add(out);
  for (const TileOperand& operand : operands) add(operand);
  return planner.recognitions().programs.recall(name, compile);
}

bool may_change_layout(DataType type) { return type == DataType::kFloat || byte_size(type) == 1; }

bool fits_blocks(Layout layout, const Sizes& sizes) { return !layout.blocked() || sizes[1] % layout.channels == 0; }

// The preferred layout of the result: the assigned one, or that of the largest operand.
Layout wanted_layout(const Planner& planner, const Expression& e, const ValueInfo& out) {
  Layout wanted = kPlain;
  std::int64_t most = 0;
  for (const ValueId v : e.operands) {
    if (v == kNoValue || planner.info(v).sizes.size() != out.sizes.size() || planner.layouts(v).empty()) continue;
    const std::int64_t count = element_count(planner.info(v).sizes);
    if (count <= most) continue;
    most = count;
    wanted = planner.layouts(v)[0];
  }
  if (const auto assigned = planner.assigned_layout(e.result); assigned && !wanted.blocked()) wanted = *assigned;
  return fits_blocks(wanted, out.sizes) && may_change_layout(out.type) ? wanted : kPlain;
}

// Layouts of result and operands to try for compilation. kConverted: image operands are converted to the result's layout;
// kAsStored: each is read in its stored layout; kRowMajor: all are row-major, which every expression allows.
enum class Attempt { kConverted, kAsStored, kRowMajor };

std::vector<TileOperand> operand_types(const Planner& planner, const Expression& e, const ValueInfo& out, Layout wanted,
                                       Attempt attempt) {
  const auto is_alike = [&](const Sizes& sizes) {
    return sizes.size() == out.sizes.size() && std::equal(sizes.begin() + 2, sizes.end(), out.sizes.begin() + 2) &&
           fits_blocks(wanted, sizes);
  };
  std::vector<TileOperand> types;
  for (const ValueId v : e.operands) {
    if (v == kNoValue) {
      types.emplace_back();
      continue;
    }
    const ValueInfo& i = planner.info(v);
    Layout layout = kPlain;
    if (attempt != Attempt::kRowMajor && i.sizes.size() >= 2) {
      const std::vector<Layout> stored = planner.layouts(v);
      if (attempt == Attempt::kConverted && may_change_layout(i.type) && is_alike(i.sizes))
        layout = wanted;
      else if (!stored.empty() && fits_blocks(stored[0], i.sizes))
        layout = stored[0];
    }
    types.push_back({i.type, i.sizes, layout});
  }
  return types;
}

// The inputs that are read in place (Step::read_in_place).
std::vector<int> read_in_place(const Expression& e, const TileOperand& out, const std::vector<TileOperand>& types,
                               const std::vector<int>& inputs) {
  std::vector<int> result;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (types[k].type == out.type && types[k].sizes == out.sizes && types[k].layout == out.layout &&
        planning::is_read_in_place(e.element, e.position, static_cast<int>(k)))
      result.push_back(inputs[k]);
  return result;
}

// The storages of operands; none if all are absent.
std::vector<int> input_storages(Planner& planner, const std::vector<ValueId>& operands, const std::vector<TileOperand>& types) {
  std::vector<int> inputs;
  for (std::size_t k = 0; k < operands.size(); ++k)
    inputs.push_back(operands[k] == kNoValue ? -1 : planner.storage(operands[k], types[k].layout));
  // An absent operand is never read; another one replaces it.
  int any = -1;
  for (const int s : inputs) any = std::max(any, s);
  for (int& s : inputs)
    if (s < 0) s = any;
  if (any < 0) inputs.clear();
  return inputs;
}

void add_tile_step(Planner& planner, const Expression& e, Program program, const TileOperand& out,
                   const std::vector<TileOperand>& types) {
  std::vector<int> inputs = input_storages(planner, e.operands, types);
  const int target = planner.add_value(e.result, out.layout);
  std::vector<int> in_place;
  if (!planner.options().replacements.empty()) in_place = read_in_place(e, out, types, inputs);
  planner.add_step(std::make_unique<TileKernel>(std::move(program)), std::move(inputs), {target}).read_in_place =
      std::move(in_place);
}

}  // namespace

bool plan_generated(Planner& planner, const Expression& e) {
  const ValueInfo& result = planner.info(e.result);
  const Layout wanted = wanted_layout(planner, e, result);
  for (const Attempt attempt : {Attempt::kConverted, Attempt::kAsStored, Attempt::kRowMajor}) {
    if (attempt == Attempt::kConverted && wanted.plain()) continue;
    const TileOperand out{result.type, result.sizes, attempt == Attempt::kConverted ? wanted : kPlain};
    const std::vector<TileOperand> types = operand_types(planner, e, result, wanted, attempt);
    Program program = program_of(planner, e, out, types);
    if (!program) continue;
    add_tile_step(planner, e, std::move(program), out, types);
    return true;
  }
  return false;
}

bool plan_together(Planner& planner, std::span<const Expression> outputs) {
  const std::vector<ValueId>& operands = outputs[0].operands;
  std::vector<GroupValue> staged;
  for (const Expression& e : outputs) {
    const ValueInfo& result = planner.info(e.result);
    staged.push_back({e.element, e.position, {result.type, result.sizes, kPlain}});
  }
  const std::vector<TileOperand> types =
      operand_types(planner, outputs[0], planner.info(outputs[0].result), kPlain, Attempt::kRowMajor);
  Program program = compile_group(planner, {std::move(staged), types, tile_options(planner)});
  if (!program) return false;
  std::vector<int> inputs = input_storages(planner, operands, types), targets;
  for (const Expression& e : outputs) targets.push_back(planner.add_value(e.result, kPlain));
  planner.add_step(std::make_unique<TileKernel>(std::move(program)), std::move(inputs), std::move(targets));
  return true;
}

namespace {

// The expressions of a set as values of one group, and the operands of all.
struct FusedSet {
  std::vector<GroupValue> values;
  std::vector<ValueId> operands;
};

FusedSet fused_set(const Planner& planner, std::span<const Expression> expressions, const std::vector<bool>& is_result) {
  FusedSet set;
  const auto value_of = [&](ValueId v) {
    const auto found = std::find_if(expressions.begin(), expressions.end(), [&](const Expression& e) { return e.result == v; });
    return found == expressions.end() ? -1 : static_cast<int>(found - expressions.begin());
  };
  for (const Expression& e : expressions)
    for (const ValueId v : e.operands)
      if (value_of(v) < 0 && std::find(set.operands.begin(), set.operands.end(), v) == set.operands.end())
        set.operands.push_back(v);
  const auto number_of = [&](ValueId v) {
    if (const int value = value_of(v); value >= 0) return static_cast<int>(set.operands.size()) + value;
    return static_cast<int>(std::find(set.operands.begin(), set.operands.end(), v) - set.operands.begin());
  };
  for (std::size_t n = 0; n < expressions.size(); ++n) {
    const Expression& e = expressions[n];
    const ValueInfo& result = planner.info(e.result);
    const Element element = rewrite(e.element,
                                    [&](const ElementNode& read) {
                                      ElementNode renumbered = read;
                                      renumbered.operand = number_of(e.operands[static_cast<std::size_t>(read.operand)]);
                                      return std::make_shared<const ElementNode>(std::move(renumbered));
                                    },
                                    {});
    set.values.push_back({element, e.position, {result.type, result.sizes, kPlain}, is_result[n]});
  }
  return set;
}

// Tensors in bands are row-major.
bool is_stored_row_major(const Planner& planner, ValueId v) {
  const std::vector<Layout> layouts = planner.layouts(v);
  return std::find_if(layouts.begin(), layouts.end(), [](Layout l) { return l.plain(); }) != layouts.end();
}

}  // namespace

bool plan_fused(Planner& planner, std::span<const Expression> expressions, const std::vector<bool>& is_result) {
  for (const Expression& e : expressions)
    if (const auto assigned = planner.assigned_layout(e.result);
        (assigned && !assigned->plain()) || planner.is_in_slot(e.result))
      return false;
  FusedSet set = fused_set(planner, expressions, is_result);
  std::vector<TileOperand> types;
  for (const ValueId v : set.operands) {
    if (v == kNoValue || !is_stored_row_major(planner, v)) return false;
    types.push_back({planner.info(v).type, planner.info(v).sizes, kPlain});
  }
  Program program = compile_group(planner, {std::move(set.values), types, tile_options(planner)});
  if (!program) return false;
  std::vector<int> inputs = input_storages(planner, set.operands, types), targets;
  for (std::size_t n = 0; n < expressions.size(); ++n)
    if (is_result[n]) targets.push_back(planner.add_value(expressions[n].result, kPlain));
  planner.add_step(std::make_unique<TileKernel>(std::move(program)), std::move(inputs), std::move(targets));
  return true;
}

}  // namespace rewright::cpu
