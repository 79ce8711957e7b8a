// The prime field of fingerprints, with functions and an order that respect the laws stated with them.
#pragma once

#include "operators/readings/number_system.h"

namespace rewright::generator {

// FieldArithmetic with these changes:
//   - Each residue but 0 has a sign, given by the key; -x has the opposite one. The order puts negative residues before 0 and
//     positive ones after it, and x before y if and only if -y before -x: maximum and minimum are dual, relu(x) - relu(-x) = x.
//   - Symmetric functions hash whichever of x and -x is positive; abs is that one.
//   - An idempotent function has fixed points, one residue in four, given by the key. Its value is the first fixed point in a
//     chain of hashes that starts at x.
struct LawfulField : FieldArithmetic {
  explicit LawfulField(std::uint64_t k) : FieldArithmetic{k} {}

  bool positive(Value a) const {
    const Value other = negate(a);
    return a < other ? (mix(key ^ 0x516e, a) & 1) != 0 : (mix(key ^ 0x516e, other) & 1) == 0;
  }
  bool before(Value a, Value b) const {
    if (a == b) return false;
    if (!finite(a, b)) return FieldArithmetic::before(a, b);
    const std::uint64_t x = rank(a), y = rank(b);
    return x != y ? x < y : a < b;
  }
  Value maximum(Value a, Value b) const { return before(a, b) ? b : a; }
  Value minimum(Value a, Value b) const { return before(a, b) ? a : b; }

  Value apply(const Function& f, const Value* x) const {
    if (f.arity != 1 || x[0] >= kFieldPrime) return FieldArithmetic::apply(f, x);
    if (x[0] == 0 && f.zero_at_zero) return 0;
    if (x[0] == 0 && f.exponential) return 1;
    if (f.symmetry == Symmetry::kNone) return image(f, x[0]);
    const bool up = x[0] == 0 || positive(x[0]);
    const Value size = up ? x[0] : negate(x[0]);
    if (f.symmetry == Symmetry::kEven) return f.idempotent && f.homogeneous ? size : image(f, size);
    if (f.symmetry == Symmetry::kOdd) return x[0] == 0 ? 0 : up ? image(f, size) : negate(image(f, size));
    if (x[0] == 0) return inverse(2);
    return up ? image(f, size) : add(1, negate(image(f, size)));
  }
  bool test(const Function& f, const Value* x) const {
    if (&f == &functions::less) return before(x[0], x[1]);
    if (&f == &functions::less_equal) return !before(x[1], x[0]);
    return FieldArithmetic::test(f, x);
  }

 private:
  static constexpr std::uint64_t kMiddle = std::uint64_t{1} << 63;

  std::uint64_t rank(Value a) const {
    if (a == 0) return kMiddle;
    return positive(a) ? kMiddle + (mix(key ^ 0x0d0d, a) >> 1) : kMiddle - (mix(key ^ 0x0d0d, negate(a)) >> 1);
  }
  // For a symmetric function x is positive, and so must the fixed point be.
  Value image(const Function& f, Value x) const {
    const std::uint64_t name = mix(key, hash_text(f.name));
    if (!f.idempotent) return mix(name, x) % kFieldPrime;
    while ((mix(name ^ 0xf1ed, x) & 3) != 0 || (f.symmetry != Symmetry::kNone && !positive(x))) x = mix(name, x) % kFieldPrime;
    return x;
  }
};

}  // namespace rewright::generator
