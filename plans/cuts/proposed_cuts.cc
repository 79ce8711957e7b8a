#include <algorithm>
#include <map>

#include "base/error.h"
#include "plans/cuts/cut.h"
#include "plans/cuts/positions.h"
#include "verifier/guard.h"

namespace rewright::plans {

namespace {

constexpr std::size_t kMostVariants = 8;  // of one division of the work
constexpr std::size_t kMostSummed = 4;    // operands of an operator that is looked at for linearity

// All numbers in the attributes.
std::vector<std::pair<AttributeEntry, Index>> entries_of(const Attributes& attributes) {
  std::vector<std::pair<AttributeEntry, Index>> result;
  for (std::size_t f = 0; f < attributes.size(); ++f) {
    if (const auto* index = std::get_if<Index>(&attributes[f])) result.push_back({{f, std::nullopt}, *index});
    if (const auto* list = std::get_if<Indices>(&attributes[f]))
      for (std::size_t k = 0; k < list->size(); ++k) result.push_back({{f, k}, (*list)[k]});
  }
  return result;
}

Attributes with_entry(Attributes attributes, const AttributeEntry& place, const Index& value) {
  set_entry(attributes, place, value);
  return attributes;
}

class Proposals {
 public:
  Proposals(const Operator& op, const Attributes& attributes, OperandTypes types)
      : op_(op), attributes_(attributes), types_(types), definition_(op.define(attributes, Inputs::of(types))) {
    for (const Output& output : definition_.outputs()) reads_.push_back(reads_of(output));
  }

  std::vector<Cut> run() {
    if (!definition_.has_denotation()) return {};
    const Output& first = definition_.outputs()[0];
    for (std::size_t axis = 0; axis < first.position.size(); ++axis) {
      const Variable variable{first.position[axis], first.type.shape[axis], nullptr};
      if (variable.size.constant() == 1 || !first.position[axis].as_atom()) continue;
      for (const Index& unit : candidate_units(reads_[0], variable)) {
        const Index units = floor_div(variable.size, unit);
        if (!(units * unit == variable.size) || units.constant() == 1) continue;
        auto shares = shares_of(first, reads_[0], variable, unit, types_);
        if (!shares) continue;
        Cut cut{units, std::move(*shares), {{Share::Kind::kCut, axis, unit}}, {}};
        if (complete(cut)) add_variants(cut);
      }
    }
    if (definition_.outputs().size() == 1)
      for (const Variable& variable : divisible_reductions(first)) {
        const auto range = variable.size.constant();
        if (range && *range <= 1) continue;
        auto shares = shares_of(first, reads_[0], variable, 1, types_);
        if (!shares || std::none_of(shares->begin(), shares->end(), is_cut)) continue;
        Share partial{Share::Kind::kPartial};
        partial.reduction = variable.reduction->reduction;
        add_variants({variable.size, std::move(*shares), {partial}, {}});
      }
    add_sums();
    return std::move(cuts_);
  }

 private:
  static bool is_cut(const Share& s) { return s.kind == Share::Kind::kCut; }

  // Partial sums of operands in which the result is linear together: all of them, or one of them where the others are added
  // once.
  void add_sums() {
    if (definition_.outputs().size() != 1 || types_.size() > kMostSummed) return;
    const Output& output = definition_.outputs()[0];
    if (output.type.type != DataType::kFloat && output.type.type != DataType::kDouble) return;
    for (std::size_t set = 1; set < std::size_t{1} << types_.size(); ++set) {
      const auto is_in = [&](std::size_t k) { return (set >> k & 1) > 0; };
      std::vector<std::size_t> members;
      bool all_alike = true;
      for (std::size_t k = 0; k < types_.size(); ++k)
        if (is_in(k)) members.push_back(k), all_alike = all_alike && types_[k] && types_[k]->type == output.type.type;
      if (!all_alike || !is_linear(output.element, is_in)) continue;
      Cut cut{1, std::vector<Share>(types_.size()), {{Share::Kind::kPartial}}, {}};
      for (const std::size_t k : members) cut.operands[k].kind = Share::Kind::kPartial;
      cuts_.push_back(cut);
      for (const std::size_t k : members) {
        if (members.size() == 1) break;
        Cut once = cut;
        for (const std::size_t other : members)
          if (other != k) once.operands[other].kind = Share::Kind::kFirst;
        cuts_.push_back(std::move(once));
      }
    }
  }

  // The shares of the other outputs: along an axis for which the operands are shared alike.
  bool complete(Cut& cut) {
    for (std::size_t o = 1; o < definition_.outputs().size(); ++o) {
      const Output& output = definition_.outputs()[o];
      std::optional<Share> found;
      for (std::size_t axis = 0; axis < output.position.size() && !found; ++axis) {
        if (!output.position[axis].as_atom()) continue;
        const Index unit = floor_div(output.type.shape[axis], cut.units);
        if (!(unit * cut.units == output.type.shape[axis])) continue;
        const Variable variable{output.position[axis], output.type.shape[axis], nullptr};
        const auto shares = shares_of(output, reads_[o], variable, unit, types_);
        if (!shares || !agree(*shares, cut.operands, reads_[o])) continue;
        found = Share{Share::Kind::kCut, axis, unit};
      }
      if (!found) return false;
      cut.outputs.push_back(*found);
    }
    return true;
  }

  static bool agree(const std::vector<Share>& shares, std::vector<Share>& operands, const std::vector<Read>& reads) {
    for (const Read& read : reads) {
      const Share& s = shares[read.operand];
      Share& known = operands[read.operand];
      if (known.kind == Share::Kind::kWhole && s.kind == Share::Kind::kCut) known = s;
      if (!(s.kind == known.kind && s.axis == known.axis && s.unit == known.unit)) return false;
    }
    return true;
  }

  // Pads of windows, read off what another pad would change: positions, or only the number of results.
  std::vector<AttributeChange> pads(const Cut& cut) const {
    std::vector<AttributeChange> result;
    if (!cut.has_windows() || cut.outputs[0].kind != Share::Kind::kCut) return result;
    const std::size_t axis = cut.outputs[0].axis;
    for (const auto& [place, value] : entries_of(attributes_)) {
      const auto pad = value.constant();
      if (!pad || *pad <= 0) continue;
      for (std::size_t k = 0; k < cut.operands.size(); ++k) {
        if (!is_cut(cut.operands[k]) || !cut.operands[k].unit.is_constant()) continue;
        try {
          const Definition other = op_.define(with_entry(attributes_, place, value + cut.operands[k].unit), Inputs::of(types_));
          const Output &was = definition_.outputs()[0], &is = other.outputs()[0];
          if (!(is.type.shape[axis] == was.type.shape[axis] + 1)) continue;
          const auto before = reads_of(was), after = reads_of(is);
          if (before.size() != after.size()) continue;
          const auto shift = shift_of(before, after, was, is, k, cut.operands[k].axis);
          if (!shift) continue;
          if (*shift == 0) result.push_back({AttributeChange::Kind::kBackPad, place});
          if (*shift < 0) result.push_back({AttributeChange::Kind::kFrontPad, place});
          break;
        } catch (const Error&) {
          continue;  // not a pad: the operator refuses
        }
      }
    }
    return result;
  }

  // How far the first read of the operand has moved along the axis; nothing if not by a number.
  static std::optional<std::int64_t> shift_of(const std::vector<Read>& before, const std::vector<Read>& after,
                                              const Output& was, const Output& is, std::size_t operand, std::size_t axis) {
    for (std::size_t n = 0; n < before.size(); ++n) {
      if (before[n].operand != operand || before[n].variables.size() != after[n].variables.size()) continue;
      proof::Replacements names;
      for (std::size_t v = 0; v < before[n].variables.size(); ++v)
        names.emplace_back(after[n].variables[v].name, before[n].variables[v].name);
      for (std::size_t a = 0; a < was.position.size(); ++a) names.emplace_back(is.position[a], was.position[a]);
      return (proof::replaced(after[n].position[axis], names) - before[n].position[axis]).constant();
    }
    return std::nullopt;
  }

  // Attributes that say sizes: of each that equals the rows of an operand, of an output or the units it is tried whether the
  // part needs its own. The operator's own typing sorts most of them out.
  void add_variants(Cut cut) {
    cut.changes = pads(cut);
    std::vector<AttributeChange> sizes;
    for (const auto& [place, value] : entries_of(attributes_)) {
      if (!value.is_constant()) continue;  // said by the size's own name
      std::vector<Index> multipliers{1};
      for (const auto* shares : {&cut.outputs, &cut.operands})
        for (const Share& s : *shares)
          if (s.kind == Share::Kind::kCut && std::find(multipliers.begin(), multipliers.end(), s.unit) == multipliers.end())
            multipliers.push_back(s.unit);
      for (const Index& m : multipliers)
        if (value == m * cut.units) {
          sizes.push_back({AttributeChange::Kind::kScaled, place, m});
          break;
        }
    }
    std::size_t added = 0;
    const std::size_t subsets = std::size_t{1} << std::min<std::size_t>(sizes.size(), 4);
    for (std::size_t subset = 0; subset < subsets && added < kMostVariants; ++subset) {
      Cut variant = cut;
      for (std::size_t n = 0; n < sizes.size(); ++n)
        if (subset >> n & 1) variant.changes.push_back(sizes[n]);
      // One unit shows what a symbol leaves open: that a shape has too many elements. (A halo may be more than one unit.)
      if (!is_well_typed(variant, Index::symbol("A")) || (!cut.has_windows() && !is_well_typed(variant, 1))) continue;
      cuts_.push_back(std::move(variant)), ++added;
    }
  }

  // Whether a part of so many units has the outputs that the cut says.
  bool is_well_typed(const Cut& cut, const Index& units) const {
    try {
      const auto types = part_types(types_, cut, units, true, false);
      const Inputs inputs = Inputs::of(std::span<const std::optional<TensorType>>(types)).types_only();
      const Attributes attributes = op_.normalized(part_attributes(attributes_, cut, units, true, false), inputs);
      const Definition part = op_.define(attributes, inputs);
      if (part.outputs().size() != definition_.outputs().size()) return false;
      for (std::size_t o = 0; o < cut.outputs.size(); ++o) {
        Indices expected = definition_.outputs()[o].type.shape;
        if (cut.outputs[o].kind == Share::Kind::kCut) expected[cut.outputs[o].axis] = cut.outputs[o].unit * units;
        const Indices& shape = part.outputs()[o].type.shape;
        if (shape.size() != expected.size()) return false;
        for (std::size_t a = 0; a < shape.size(); ++a)
          if (const auto difference = (shape[a] - expected[a]).constant(); difference && *difference != 0) return false;
      }
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const Operator& op_;
  const Attributes& attributes_;
  OperandTypes types_;
  Definition definition_;
  std::vector<std::vector<Read>> reads_;  // of each output
  std::vector<Cut> cuts_;
};

}  // namespace

bool Cut::divides() const {
  const auto is_cut = [](const Share& s) { return s.kind == Share::Kind::kCut; };
  return std::any_of(operands.begin(), operands.end(), is_cut) || std::any_of(outputs.begin(), outputs.end(), is_cut);
}

bool Cut::has_windows() const {
  return std::any_of(operands.begin(), operands.end(), [](const Share& s) {
    return s.kind == Share::Kind::kCut && !(s.before == Index(0) && s.rows_after() == Index(0));
  });
}

std::vector<Cut> proposed_cuts(const Operator& op, const Attributes& attributes, OperandTypes types) {
  if (op.random()) return {};
  return Proposals(op, attributes, types).run();
}

}  // namespace rewright::plans
