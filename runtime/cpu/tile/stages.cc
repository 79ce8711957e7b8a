#include "runtime/cpu/tile/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/cuts.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

// Expressions with their variables renamed in the order in which they are bound, so that equal ones compare equal.
class NormalForms {
 public:
  // `position`: the atoms of the axes. Null for an expression that is too large to be compared.
  Element of(const Element& e, const Indices& position) {
    names_.clear();
    left_ = kMostNodes;
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = position[a].as_atom()) names_[atom->id] = variable(axes_, a);
    return renamed(e, 0);
  }

 private:
  static constexpr int kMostNodes = 400;

  static const Index& variable(Indices& known, std::size_t number) {
    while (known.size() <= number) known.push_back(Index::fresh("v"));
    return known[number];
  }

  Element renamed(const Element& e, std::size_t depth) {
    if (--left_ < 0) return nullptr;
    ElementNode node = *e;
    std::size_t inner = depth;
    if (e->kind == Kind::kReduce) {
      const Atom* const atom = e->index.as_atom();
      if (atom == nullptr) return nullptr;
      names_[atom->id] = variable(bound_, depth);
      node.index = variable(bound_, depth);
      ++inner;
    }
    const auto rename = [&](Index& index) {
      index = substitute(index, [&](const Atom& atom) -> std::optional<Index> {
        const auto found = names_.find(atom.id);
        if (atom.kind != Atom::Kind::kBound || found == names_.end()) return std::nullopt;
        return found->second;
      });
    };
    for (Index& index : node.position) rename(index);
    if (e->kind == Kind::kFromIndex) rename(node.index);
    if (e->kind == Kind::kReduce) rename(node.bound);
    for (Condition& c : node.conditions) {
      rename(c.left);
      rename(c.right);
    }
    for (Element& argument : node.arguments) {
      argument = renamed(argument, inner);
      if (argument == nullptr) return nullptr;
    }
    return std::make_shared<const ElementNode>(std::move(node));
  }

  Indices axes_, bound_;
  std::map<std::uint64_t, Index> names_;
  int left_ = 0;
};

class Extraction {
 public:
  // `shares`: are there several outputs?
  Extraction(std::vector<TileOperand>& operands, bool shares)
      : operands_(operands), given_(static_cast<int>(operands.size())), shares_(shares) {}

  struct Stage {
    Element element;
    Indices position;
    TileOperand output;
    std::set<std::size_t> axes;  // that it depends on
    Element normal;              // null: not compared
  };
  std::vector<Stage> stages;
  bool shared = false;  // does an output use a stage of another one?

  // The expression of an output with reductions extracted, innermost first, and then what is computed from them alone.
  Element take(const Element& e, const Indices& position, const Sizes& sizes) {
    position_ = position;
    sizes_ = sizes;
    axis_of_.clear();
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = position[a].as_atom()) axis_of_[atom->id] = a;
    taken_.clear();
    hoisted_.clear();
    before_ = stages.size();
    return hoist(take_reductions(e));
  }

 private:
  static constexpr std::int64_t kWorthRepeats = 8;
  // Work other than statistics is worth a stage from so many operations and so many elements on.
  static constexpr int kWorthWork = 12, kMostWork = 1000;
  static constexpr std::int64_t kWorthElements = 2048;

  template <class F>
  static Element with_arguments(const Element& e, F change) {
    ElementNode node = *e;
    bool changed = false;
    for (Element& a : node.arguments) {
      Element other = change(a);
      changed = changed || other != a;
      a = std::move(other);
    }
    return changed ? std::make_shared<const ElementNode>(std::move(node)) : e;
  }

  Element take_reductions(const Element& e) {
    if (const auto found = taken_.find(e); found != taken_.end()) return found->second;
    Element result = with_arguments(e, [&](const Element& a) { return take_reductions(a); });
    if (e->kind == Kind::kReduce) result = take_out(result, 2);
    taken_[e] = result;
    return result;
  }

  Element hoist(const Element& e) {
    if (const auto found = hoisted_.find(e); found != hoisted_.end()) return found->second;
    Element result = e;
    const Contents& contents = contents_of(e);
    const bool follows = e->scalar == Scalar::kReal && contents.stages && contents.expensive;
    const bool is_work = e->scalar != Scalar::kBoolean && contents.reads && contents.work >= kWorthWork;
    if (follows || (is_work && element_count(sizes_) >= kWorthElements)) result = take_out(e, kWorthRepeats);
    // An element that a guard protects stays behind it.
    if (result == e && e->kind != Kind::kChoose && e->kind != Kind::kReduce)
      result = with_hoisted_positions(with_arguments(e, [&](const Element& a) { return hoist(a); }));
    hoisted_[e] = result;
    return result;
  }

  // Positions that are looked up, as those of a grid's samples are, which all channels share.
  Element with_hoisted_positions(const Element& e) {
    if (e->kind != Kind::kRead) return e;
    std::vector<Element> known;
    bool changes = false;
    for_each_looked_up(*e, [&](const Element& looked_up) {
      known.push_back(looked_up);
      changes = changes || hoist(looked_up) != looked_up;
    });
    kept_.insert(kept_.end(), known.begin(), known.end());
    if (!changes) return e;
    ElementNode node = *e;
    for (Index& index : node.position)
      index = substitute(index, [&](const Atom& atom) -> std::optional<Index> {
        if (atom.kind != Atom::Kind::kLoad) return std::nullopt;
        return Index::load(hoist(atom.element));
      });
    return std::make_shared<const ElementNode>(std::move(node));
  }
  template <class F>
  static void for_each_looked_up(const ElementNode& e, F f) {
    for (const Index& index : e.position)
      for_each_atom(index, [&](const Atom& atom) {
        if (atom.kind == Atom::Kind::kLoad) f(atom.element);
      });
  }

  struct Contents {
    bool stages = false;     // does it read some?
    bool expensive = false;  // does it take longer to compute than to read?
    bool reads = false;      // does it depend on an operand?
    int work = 0;            // operations of an element, by their time
  };
  const Contents& contents_of(const Element& e) {
    constexpr int kSlow = 4, kLookUp = 12;
    const auto [entry, is_new] = contents_.try_emplace(e);
    if (!is_new) return entry->second;
    const bool slow = e->kind == Kind::kDivide || e->kind == Kind::kApply;
    Contents result{e->kind == Kind::kRead && e->operand >= given_, slow || e->kind == Kind::kSelect, e->kind == Kind::kRead,
                    slow                                                ? kSlow
                    : e->arguments.empty() || e->kind == Kind::kConvert ? 0
                                                                        : 1};
    const auto add = [&](const Element& a) {
      const Contents& inner = contents_of(a);
      result.stages = result.stages || inner.stages;
      result.expensive = result.expensive || inner.expensive;
      result.reads = result.reads || inner.reads;
      result.work = std::min(kMostWork, result.work + inner.work);
    };
    for (const Element& a : e->arguments) add(a);
    if (e->kind == Kind::kRead)
      for_each_looked_up(*e, [&](const Element& looked_up) {
        result.work += kLookUp;
        add(looked_up);
      });
    return contents_[e] = result;
  }

  // The expression as a stage's result, if at least so many elements share each of that; else as it is.
  Element take_out(const Element& e, std::int64_t least_repeats) {
    std::set<std::size_t> axes;
    for (const std::uint64_t id : free_.of(*e)) {
      const auto axis = axis_of_.find(id);
      if (axis == axis_of_.end()) return e;  // depends on an enclosing reduction
      axes.insert(axis->second);
    }
    kept_.push_back(e);
    Element normal = shares_ ? normal_forms_.of(e, position_) : nullptr;
    if (const int found = find(normal, axes); found >= 0) {
      shared = shared || static_cast<std::size_t>(found) < before_;
      return read(found);
    }
    std::int64_t repeats = 1;
    for (std::size_t a = 0; a < sizes_.size(); ++a)
      if (!axes.contains(a)) repeats *= sizes_[a];
    if (repeats < least_repeats) return e;
    // The result keeps the axes, with size 1 where it does not depend on them.
    Stage stage{e, position_, {}, axes, std::move(normal)};
    for (std::size_t a = 0; a < sizes_.size(); ++a) stage.output.sizes.push_back(axes.contains(a) ? sizes_[a] : 1);
    const bool in_double =
        std::any_of(operands_.begin(), operands_.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
    stage.output.type = e->scalar == Scalar::kReal ? (in_double ? DataType::kDouble : DataType::kFloat) : DataType::kInt64;
    operands_.push_back(stage.output);
    stages.push_back(std::move(stage));
    return read(static_cast<int>(stages.size()) - 1);
  }

  // The stage that computes the same; -1: none.
  int find(const Element& normal, const std::set<std::size_t>& axes) const {
    for (std::size_t s = 0; s < stages.size() && normal != nullptr; ++s) {
      const Stage& stage = stages[s];
      if (stage.normal == nullptr || stage.axes != axes || compare(stage.normal, normal) != 0) continue;
      if (std::all_of(axes.begin(), axes.end(), [&](std::size_t a) { return stage.output.sizes[a] == sizes_[a]; }))
        return static_cast<int>(s);
    }
    return -1;
  }

  Element read(int number) const {
    const Stage& stage = stages[static_cast<std::size_t>(number)];
    const Operand operand(given_ + number, {stage.output.type, to_indices(stage.output.sizes)});
    Indices at;
    for (std::size_t a = 0; a < stage.output.sizes.size(); ++a) at.push_back(stage.axes.contains(a) ? position_[a] : Index(0));
    return operand(at);
  }

  std::vector<TileOperand>& operands_;
  int given_;
  bool shares_;
  std::size_t before_ = 0;  // stages of earlier outputs
  Indices position_;
  Sizes sizes_;
  std::map<std::uint64_t, std::size_t> axis_of_;
  FreeVariables free_;
  NormalForms normal_forms_;
  std::vector<Element> kept_;  // whose free variables are known by address
  std::map<Element, Element> taken_, hoisted_;
  std::map<Element, Contents> contents_;
};

std::size_t bytes_of(const TileOperand& o) {
  return (static_cast<std::size_t>(element_count(o.sizes)) * byte_size(o.type) + 63) / 64 * 64;
}

// Axes along which all elements of the output are the same, if copies of them are long enough to be made as runs of memory.
std::vector<bool> repeated_axes(const Element& element, const Indices& position, const TileOperand& output) {
  constexpr std::size_t kShortRun = 16;  // bytes
  std::vector<bool> repeated(position.size(), false);
  if (!output.layout.plain() || element_count(output.sizes) == 0) return repeated;
  FreeVariables free;
  const auto& variables = free.of(*element);
  std::size_t run = byte_size(output.type);
  std::int64_t different = 1;
  for (std::size_t a = position.size(); a-- > 0;) {
    const Atom* const atom = position[a].as_atom();
    run *= static_cast<std::size_t>(output.sizes[a]);
    repeated[a] = atom != nullptr && !variables.contains(atom->id) && output.sizes[a] > 1 && run >= kShortRun;
    if (!repeated[a]) different *= output.sizes[a];
  }
  if (different == 1) repeated.assign(position.size(), false);  // one number everywhere
  return repeated;
}

// Does the read go through an operand of the output's type in its order? Then where it begins, in elements.
std::optional<std::int64_t> begins_in_order(const Element& element, const Indices& position, const TileOperand& output,
                                            const std::vector<TileOperand>& operands) {
  if (element->kind != Kind::kRead || element->zero_outside) return std::nullopt;
  const TileOperand& from = operands[static_cast<std::size_t>(element->operand)];
  if (from.type != output.type || !from.layout.plain()) return std::nullopt;
  const auto strides = planning::read_strides(*element, position, output.sizes, from.sizes);
  if (!strides) return std::nullopt;
  std::int64_t step = 1;
  for (std::size_t a = position.size(); a-- > 0; step *= output.sizes[a])
    if (output.sizes[a] != 1 && strides->coefficient(a) != step) return std::nullopt;
  return strides->constant;
}

// `scratch`: grows by what the output needs.
std::optional<StagedProgram::Last> compile_last(const StagedOutput& given, const std::vector<TileOperand>& operands,
                                                const TileOptions& options, std::size_t& scratch) {
  StagedProgram::Last last;
  TileOperand output = given.output;
  const std::vector<bool> repeated = repeated_axes(given.element, given.position, output);
  if (std::find(repeated.begin(), repeated.end(), true) != repeated.end()) {
    last.replication.emplace(output.sizes, repeated, byte_size(output.type));
    for (std::size_t a = 0; a < repeated.size(); ++a)
      if (repeated[a]) output.sizes[a] = 1;
    if (const auto start = begins_in_order(given.element, given.position, output, operands)) {
      last.operand = static_cast<std::size_t>(given.element->operand);
      last.offset = static_cast<std::size_t>(*start) * byte_size(output.type);
      return last;
    }
    last.offset = scratch;
    scratch += bytes_of(output);
  }
  last.program = compile_tiles(given.element, given.position, output, operands, options);
  if (!last.program) return std::nullopt;
  return last;
}

}  // namespace

void StagedProgram::run(std::span<const std::byte* const> operands, std::span<std::byte* const> outputs, std::byte* scratch,
                        const Workers& workers) const {
  static thread_local std::vector<const std::byte*> with_stages;
  const std::byte* const* all = operands.data();
  if (!stages_.empty()) {
    with_stages.assign(operands.begin(), operands.end());
    for (const Stage& stage : stages_) {
      stage.program->run(with_stages.data(), scratch + stage.offset, workers);
      with_stages.push_back(scratch + stage.offset);
    }
    all = with_stages.data();
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const Last& last = outputs_[o];
    if (last.program) last.program->run(all, last.replication ? scratch + last.offset : outputs[o], workers);
    if (last.replication)
      last.replication->run(last.program ? scratch + last.offset : all[last.operand] + last.offset, outputs[o], workers);
  }
}

std::optional<StagedProgram> compile_stages(std::span<const StagedOutput> outputs, std::vector<TileOperand> operands,
                                            const TileOptions& options) {
  const std::size_t given = operands.size();
  const std::vector<TileOperand> given_operands = operands;
  Extraction extraction(operands, outputs.size() > 1);
  std::vector<StagedOutput> lasts;
  for (const StagedOutput& o : outputs) {
    // Before stages are extracted: statistics of groups of channels depend on the group alone.
    const auto [element, position, sizes] = with_split_axes({o.element, o.position, o.output.sizes}, o.output, given_operands);
    lasts.push_back({extraction.take(element, position, sizes), position, {o.output.type, sizes, o.output.layout}});
  }
  if (outputs.size() > 1 && !extraction.shared) return std::nullopt;
  std::vector<StagedProgram::Stage> stages;
  std::size_t bytes = 0, known = given;
  for (const Extraction::Stage& stage : extraction.stages) {
    const std::vector<TileOperand> so_far(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(known++));
    auto program = compile_tiles(stage.element, stage.position, stage.output, so_far, options);
    if (!program) return std::nullopt;
    stages.push_back({std::move(program), bytes});
    bytes += bytes_of(stage.output);
  }
  std::vector<StagedProgram::Last> compiled;
  for (const StagedOutput& last : lasts) {
    auto output = compile_last(last, operands, options, bytes);
    if (!output) return std::nullopt;
    compiled.push_back(std::move(*output));
  }
  return StagedProgram(std::move(stages), std::move(compiled), bytes);
}

}  // namespace rewright::cpu
