#include "runtime/cpu/planning/matching.h"

#include <cmath>

#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

bool at_result_position(const ElementNode& read, const Indices& position, const Sizes& sizes) {
  if (read.position.size() != position.size()) return false;
  for (std::size_t a = 0; a < position.size(); ++a)
    if (!(read.position[a] == position[a]) && !(sizes[a] == 1 && read.position[a] == Index(0))) return false;
  return true;
}

std::optional<ChannelAffine> match_channel_affine(const KnownValues& known, const Chain& chain, std::size_t axis) {
  const std::uint64_t channel_atom = chain.position[axis].as_atom() ? chain.position[axis].as_atom()->id : 0;
  bool fits = true;
  std::vector<TileOperand> operands;
  std::vector<const std::byte*> data;
  for (std::size_t k = 1; k < chain.operands.size(); ++k) {
    const Tensor& t = known.constant(chain.operands[k]);
    if (!t || !is_real(t.type())) return std::nullopt;
    operands.push_back({t.type(), t.sizes(), kPlain});
    data.push_back(t.bytes().data());
  }
  const Sizes sizes = known.info(chain.result).sizes;
  const std::int64_t channels = sizes[axis];
  const Index c = Index::fresh("c");
  // f(y) by channel, for a number y.
  const auto evaluate = [&](double y) {
    const Element e = rewrite(
        chain.element,
        [&](const ElementNode& read) -> Element {
          if (read.operand == 0) {
            fits = fits && at_result_position(read, chain.position, sizes);
            return real(y);
          }
          Indices position = read.position;
          for (Index& i : position) {
            for_each_atom(i, [&](const Atom& a) { fits = fits && a.kind == Atom::Kind::kBound && a.id == channel_atom; });
            i = substitute(i, [&](const Atom&) { return std::optional<Index>(c); });
          }
          const Tensor& t = known.constant(chain.operands[static_cast<std::size_t>(read.operand)]);
          return Operand(read.operand - 1, {t.type(), to_indices(t.sizes())})(position);
        },
        {});
    std::vector<double> result(static_cast<std::size_t>(channels));
    if (!fits) return result;
    const auto program = compile_tiles(e, {c}, {DataType::kDouble, {channels}, kPlain}, operands, {Isa::kBaseline, true});
    fits = program != nullptr;
    if (fits) program->run(data.data(), reinterpret_cast<std::byte*>(result.data()), Workers(1));
    return result;
  };
  ChannelAffine affine;
  affine.shift = evaluate(0);
  if (!fits) return std::nullopt;
  affine.scale = evaluate(1);
  for (std::size_t n = 0; n < affine.scale.size(); ++n) affine.scale[n] -= affine.shift[n];
  for (const double y : {-37.5, -0.7, 2.3, 91.0}) {
    const std::vector<double> f = evaluate(y);
    for (std::size_t n = 0; n < f.size(); ++n) {
      const double expected = affine.scale[n] * y + affine.shift[n];
      const double size = std::fabs(affine.scale[n] * y) + std::fabs(affine.shift[n]);
      if (!(std::fabs(f[n] - expected) <= 1e-9 * size)) return std::nullopt;
    }
  }
  return affine;
}

std::optional<ValueId> match_addition(const KnownValues& known, const Chain& chain) {
  const ElementNode& e = *chain.element;
  if (e.kind != ElementNode::Kind::kAdd) return std::nullopt;
  const Sizes sizes = known.info(chain.result).sizes;
  for (int side = 0; side < 2; ++side) {
    const ElementNode &start = *e.arguments[side], &other = *e.arguments[1 - side];
    if (start.kind != ElementNode::Kind::kRead || other.kind != ElementNode::Kind::kRead || start.operand != 0 ||
        other.operand == 0)
      continue;
    if (!at_result_position(start, chain.position, sizes)) continue;
    const ValueId operand = chain.operands[static_cast<std::size_t>(other.operand)];
    if (known.info(operand).sizes != sizes || !at_result_position(other, chain.position, sizes)) continue;
    if (known.info(operand).type != known.info(chain.result).type) continue;
    return operand;
  }
  return std::nullopt;
}

}  // namespace rewright::cpu
