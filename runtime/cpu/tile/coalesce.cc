#include <functional>

#include "runtime/cpu/tile/block.h"

namespace rewright::cpu {

namespace {

void for_each_affine(BoxProgram& box, const std::function<void(Affine&)>& visit) {
  visit(box.output);
  for (Block& block : box.blocks)
    for (Instruction& i : block.instructions)
      if (i.has_address()) visit(i.affine);
}

// Merges `outer` and `inner` if every address steps through them as through one variable. Variables of extent 1 stay, at no
// cost.
bool merge(BoxProgram& box, int outer, int inner) {
  const std::int64_t extent = box.extents[inner];
  bool possible = true;
  for_each_affine(box, [&](Affine& a) { possible = possible && a.coefficient(outer) == a.coefficient(inner) * extent; });
  if (!possible) return false;
  box.extents[inner] *= box.extents[outer];
  box.extents[outer] = 1;
  for_each_affine(box, [&](Affine& a) {
    if (static_cast<std::size_t>(outer) < a.coefficients.size()) a.coefficients[outer] = 0;
  });
  return true;
}

void merge_all(BoxProgram& box, const std::vector<int>& variables) {
  int inner = -1;
  for (std::size_t n = variables.size(); n-- > 0;) {
    const int v = variables[n];
    if (box.extents[v] == 1) continue;
    if (inner < 0 || !merge(box, v, inner)) inner = v;
  }
}

}  // namespace

void coalesce(BoxProgram& box, int kept) {
  for_each_affine(box, [&](Affine& a) {
    a.coefficients.resize(box.extents.size());
    for (std::size_t v = 0; v < box.extents.size(); ++v)
      if (box.extents[v] == 1) a.coefficients[v] = 0;
  });
  std::vector<int> axes;
  for (std::size_t v = static_cast<std::size_t>(kept); v < box.output_rank; ++v) axes.push_back(static_cast<int>(v));
  merge_all(box, axes);
  for (const Block& block : box.blocks) merge_all(box, block.variables);
}

}  // namespace rewright::cpu
