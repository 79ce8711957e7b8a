#include "generator/enumeration/field.h"

#include <catch2/catch.hpp>
#include <random>

using namespace rewright;
using namespace rewright::generator;

namespace {

struct Numbers {
  std::mt19937_64 random{5};
  std::uint64_t operator()() { return random() % kFieldPrime; }
};

std::uint64_t apply(const LawfulField& field, const Function& f, std::uint64_t x) { return field.apply(f, &x); }

}  // namespace

TEST_CASE("functions of one argument respect the laws that are stated with them", "[field]") {
  Numbers number;
  for (std::uint64_t key = 1; key <= 3; ++key) {
    const LawfulField field(key);
    for (const Function* f : all_functions()) {
      if (f->arity != 1 || !f->real || f->result != Scalar::kReal) continue;
      INFO(f->name);
      if (f->zero_at_zero) CHECK(apply(field, *f, 0) == 0);
      for (int n = 0; n < 40; ++n) {
        const std::uint64_t x = number(), y = apply(field, *f, x), other = apply(field, *f, LawfulField::negate(x));
        CHECK(y < kFieldPrime);
        CHECK(apply(field, *f, x) == y);
        if (f->idempotent) CHECK(apply(field, *f, y) == y);
        if (f->symmetry == Symmetry::kEven) CHECK(other == y);
        if (f->symmetry == Symmetry::kOdd) CHECK(other == LawfulField::negate(y));
        if (f->symmetry == Symmetry::kComplement) CHECK(field.add(other, y) == 1);
        if (f->symmetry == Symmetry::kNone) CHECK(other != y);
      }
    }
  }
}

TEST_CASE("the order is total, and turned round by the sign", "[field]") {
  Numbers number;
  const LawfulField field(9);
  int positive = 0;
  for (int n = 0; n < 400; ++n) {
    const std::uint64_t x = number(), y = number(), z = number();
    positive += field.before(0, x);
    CHECK(field.before(x, y) != field.before(y, x));
    CHECK(!field.before(x, x));
    if (field.before(x, y) && field.before(y, z)) CHECK(field.before(x, z));
    CHECK(field.before(x, y) == field.before(LawfulField::negate(y), LawfulField::negate(x)));
    const auto relu = [&](std::uint64_t a) { return field.maximum(a, 0); };
    CHECK(field.add(relu(x), LawfulField::negate(relu(LawfulField::negate(x)))) == x);
    CHECK(apply(field, functions::abs, x) == field.maximum(x, LawfulField::negate(x)));
    CHECK(field.maximum(x, LawfulField::kLowest) == x);
    CHECK(field.minimum(x, LawfulField::kHighest) == x);
  }
  CHECK(positive > 150);
  CHECK(positive < 250);
}
