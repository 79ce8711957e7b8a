#include "runtime/cpu/tile/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/cuts.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

class Extraction {
 public:
  Extraction(const Indices& position, const Sizes& sizes, std::vector<TileOperand>& operands)
      : position_(position), sizes_(sizes), operands_(operands) {
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = position[a].as_atom()) axis_of_[atom->id] = a;
  }

  struct Stage {
    Element element;
    Indices position;
    TileOperand output;
  };
  std::vector<Stage> stages;

  // The expression with reductions extracted, innermost first.
  Element take(const Element& e) {
    if (const auto found = done_.find(e.get()); found != done_.end()) return found->second;
    ElementNode node = *e;
    bool changed = false;
    for (Element& a : node.arguments) {
      Element taken = take(a);
      changed = changed || taken != a;
      a = std::move(taken);
    }
    Element result = changed ? std::make_shared<const ElementNode>(std::move(node)) : e;
    if (e->kind == Kind::kReduce) result = take_out(result);
    done_[e.get()] = result;
    return result;
  }

 private:
  Element take_out(const Element& e) {
    std::set<std::size_t> axes;
    for (const std::uint64_t id : free_.of(*e)) {
      const auto axis = axis_of_.find(id);
      if (axis == axis_of_.end()) return e;  // depends on an enclosing reduction
      axes.insert(axis->second);
    }
    std::int64_t repeats = 1;
    for (std::size_t a = 0; a < sizes_.size(); ++a)
      if (!axes.contains(a)) repeats *= sizes_[a];
    if (repeats <= 1) return e;
    // The result keeps the axes, with size 1 where it does not depend on them.
    Stage stage;
    Indices at;
    for (std::size_t a = 0; a < sizes_.size(); ++a) {
      const bool depends = axes.contains(a);
      stage.output.sizes.push_back(depends ? sizes_[a] : 1);
      at.push_back(depends ? position_[a] : Index(0));
    }
    stage.position = position_;
    stage.element = e;
    const bool in_double =
        std::any_of(operands_.begin(), operands_.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
    stage.output.type = e->scalar == Scalar::kReal ? (in_double ? DataType::kDouble : DataType::kFloat) : DataType::kInt64;
    const Operand read(static_cast<int>(operands_.size()), {stage.output.type, to_indices(stage.output.sizes)});
    operands_.push_back(stage.output);
    stages.push_back(std::move(stage));
    return read(at);
  }

  const Indices& position_;
  const Sizes& sizes_;
  std::vector<TileOperand>& operands_;
  std::map<std::uint64_t, std::size_t> axis_of_;
  FreeVariables free_;
  std::map<const ElementNode*, Element> done_;
};

}  // namespace

void StagedProgram::run(std::span<const std::byte* const> operands, std::byte* output, std::byte* scratch,
                        const Workers& workers) const {
  if (stages_.empty()) return last_->run(operands.data(), output, workers);
  static thread_local std::vector<const std::byte*> all;
  all.assign(operands.begin(), operands.end());
  for (const Stage& stage : stages_) {
    stage.program->run(all.data(), scratch + stage.offset, workers);
    all.push_back(scratch + stage.offset);
  }
  last_->run(all.data(), output, workers);
}

std::optional<StagedProgram> compile_stages(const Element& given, const Indices& given_position,
                                            const TileOperand& given_output, std::vector<TileOperand> operands,
                                            const TileOptions& options) {
  // Before stages are extracted: statistics of groups of channels depend on the group alone.
  const auto [element, position, sizes] = with_split_axes({given, given_position, given_output.sizes}, given_output, operands);
  TileOperand output = given_output;
  output.sizes = sizes;
  Extraction extraction(position, output.sizes, operands);
  const Element last = extraction.take(element);
  std::vector<StagedProgram::Stage> stages;
  std::size_t bytes = 0;
  std::size_t known = operands.size() - extraction.stages.size();
  for (const Extraction::Stage& stage : extraction.stages) {
    const std::vector<TileOperand> so_far(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(known++));
    auto program = compile_tiles(stage.element, stage.position, stage.output, so_far, options);
    if (!program) return std::nullopt;
    stages.push_back({std::move(program), bytes});
    bytes += (static_cast<std::size_t>(element_count(stage.output.sizes)) * byte_size(stage.output.type) + 63) / 64 * 64;
  }
  auto program = compile_tiles(last, position, output, std::move(operands), options);
  if (!program) return std::nullopt;
  return StagedProgram(std::move(stages), std::move(program), bytes);
}

}  // namespace rewright::cpu
