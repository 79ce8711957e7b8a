#include "runtime/planning/strided_read.h"

namespace rewright::planning {

std::optional<Affine> read_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                   const Sizes& operand_sizes) {
  Variables variables;
  for (std::size_t a = 0; a < position.size(); ++a) {
    const Atom* atom = position[a].as_atom();
    if (atom == nullptr) return std::nullopt;
    variables.add(atom->id, {0, sizes[a]});
  }
  Affine address;
  address.coefficients.resize(position.size());
  std::int64_t stride = 1;
  for (std::size_t a = read.position.size(); a-- > 0;) {
    const auto p = variables.affine(read.position[a]);
    if (!p || variables.lowest(*p) < 0 || variables.highest(*p) >= operand_sizes[a]) return std::nullopt;
    address.add(*p, stride);
    stride *= operand_sizes[a];
  }
  return address;
}

}  // namespace rewright::planning
