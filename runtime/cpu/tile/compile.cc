// From element expressions to tile programs.
#include <algorithm>
#include <set>

#include "runtime/cpu/tile/box_compiler.h"
#include "runtime/cpu/tile/cuts.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kMaxBoxes = 48;

// Do registers hold elements as a tensor of this type does?
bool is_held(DataType type, bool in_double) {
  return type == (in_double ? DataType::kDouble : DataType::kFloat) || type == DataType::kInt64;
}

bool wants_double(const TileOperand& output, const std::vector<TileOperand>& operands) {
  if (output.type == DataType::kDouble) return true;
  return std::any_of(operands.begin(), operands.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
}

// Would rows along the last axis be short, although those along the one before it are long, and do several reads begin anew in
// each of them? Reads that are the same in all rows stay in registers.
bool has_short_rows(const BoxProgram& box) {
  constexpr std::int64_t kShort = 8, kLong = 12;
  std::vector<std::size_t> axes;
  for (std::size_t v = 0; v < box.output_rank; ++v)
    if (box.extents[v] > 1) axes.push_back(v);
  if (axes.size() < 2 || box.extents[axes.back()] >= kShort) return false;
  const std::size_t inner = axes.back(), outer = axes[axes.size() - 2];
  if (box.extents[outer] < kLong) return false;
  const auto begins_anew = [&](const Instruction& i) {
    if (!i.has_address() || i.kind == Instruction::Kind::kIndices) return false;
    if (i.affine.coefficient(outer) == i.affine.coefficient(inner) * box.extents[inner]) return false;
    return std::any_of(axes.begin(), axes.end() - 1, [&](std::size_t v) { return i.affine.coefficient(v) != 0; });
  };
  const std::vector<Instruction>& all = box.blocks[0].instructions;
  return std::count_if(all.begin(), all.end(), begins_anew) >= 2;
}

// Is it an element of an operand in its type, at a position that is read from another one?
bool moves_by_table(const Element& e, const TileOperand& output, const std::vector<TileOperand>& operands) {
  if (e->kind != ElementNode::Kind::kRead || operands[static_cast<std::size_t>(e->operand)].type != output.type) return false;
  bool found = false;
  for (const Index& index : e->position)
    for_each_atom(index, [&](const Atom& atom) {
      found = found || atom.kind == Atom::Kind::kLoad || atom.kind == Atom::Kind::kPosition;
    });
  return found;
}

// May the output be computed in bands of its first axes? They must be outermost in memory, and not have been split.
bool fits_bands(const TileOperand& given, const TileOperand& output, const std::vector<TileOperand>& operands, int axes) {
  const auto count = static_cast<std::size_t>(axes);
  if (!output.layout.plain() || element_count(output.sizes) == 0 || given.sizes.size() < count) return false;
  if (std::any_of(operands.begin(), operands.end(), [](const TileOperand& o) { return o.layout.blocked(); })) return false;
  return std::equal(output.sizes.begin(), output.sizes.begin() + axes, given.sizes.begin());
}

// Are the last two axes with several elements behind the bands' axes? Rows may run along either of them.
bool rows_within(const Sizes& sizes, int band_axes) {
  if (band_axes == 0) return true;
  std::int64_t several = 0;
  for (std::size_t a = static_cast<std::size_t>(band_axes); a < sizes.size(); ++a) several += sizes[a] > 1;
  return several >= 2;
}

}  // namespace

std::unique_ptr<TileProgram> compile_tiles(const Element& given, const Indices& given_position, const TileOperand& given_output,
                                           std::vector<TileOperand> operands, const TileOptions& options) {
  try {
    const Computed computed = with_split_axes({given, given_position, given_output.sizes}, given_output, operands);
    const Element& element = computed.element;
    const Indices& position = computed.position;
    TileOperand output = given_output;
    output.sizes = computed.sizes;
    const Variables variables = computed.variables();
    const bool in_double = options.precision_double || wants_double(output, operands);
    if (options.in_order && !(output.layout.plain() && is_held(output.type, in_double))) return nullptr;
    if (options.band_axes > 0 && !fits_bands(given_output, output, operands, options.band_axes)) return nullptr;
    std::vector<BoxProgram> boxes;
    if (element_count(output.sizes) > 0) {
      std::vector<Variables> pending{variables};
      while (!pending.empty()) {
        Variables box = std::move(pending.back());
        pending.pop_back();
        std::set<const ElementNode*> seen;
        const bool may_cut = !options.in_order && pending.size() + boxes.size() < kMaxBoxes;
        const auto cut = may_cut ? find_cut(element, box, position.size(), operands, options.band_axes == 0) : std::nullopt;
        if (cut) {
          const Range range = box.range(cut->axis);
          Variables other = box;
          box.set_range(cut->axis, {range.low, cut->at});
          other.set_range(cut->axis, {cut->at, range.high});
          pending.push_back(std::move(other));
          pending.push_back(std::move(box));
          continue;
        }
        const auto compile = [&](bool exchanged) {
          BoxProgram program = BoxCompiler(output, operands, in_double, box, position.size(), exchanged,
                                           moves_by_table(element, output, operands))
                                   .compile(element);
          coalesce(program, options.band_axes);
          return program;
        };
        const bool may_exchange = !options.in_order && output.layout.plain() && rows_within(output.sizes, options.band_axes);
        using enum TileLoops::Rows;
        if (may_exchange && options.loops.rows == kBefore) {
          boxes.push_back(compile(true));
          continue;
        }
        boxes.push_back(compile(false));
        if (may_exchange && options.loops.rows == kEstimated && has_short_rows(boxes.back())) boxes.back() = compile(true);
      }
    }
    std::vector<DataType> types;
    for (const TileOperand& o : operands) types.push_back(o.type);
    return make_executor(std::move(boxes), output, std::move(types), options, in_double);
  } catch (const NotCompilable&) {
    return nullptr;
  }
}

std::vector<double> sample_function(const Element& element, int operand, std::span<const double> points) {
  const Index i = Index::fresh("i");
  const Operand argument(0, {DataType::kDouble, {Index(points.size())}});
  const Element of_samples =
      rewrite(element, [&](const ElementNode& read) { return read.operand == operand ? argument({i}) : Element(); }, {});
  const TileOperand samples{DataType::kDouble, {static_cast<std::int64_t>(points.size())}, kPlain};
  const auto program = compile_tiles(of_samples, {i}, samples, {samples}, {Isa::kBaseline, true});
  std::vector<double> values(program ? points.size() : 0);
  if (!program) return values;
  const std::byte* in = reinterpret_cast<const std::byte*>(points.data());
  program->run(&in, reinterpret_cast<std::byte*>(values.data()), Workers(1));
  return values;
}

}  // namespace rewright::cpu
