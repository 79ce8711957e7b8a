// Equations that the enumeration found: between a graph and the cheapest one that computes the same. They are many, so each is
// kept as the applications that it consists of, and written out when it is looked at.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/expressions.h"

namespace rewright::generator {

// An output of an application to the cheapest graphs of classes, or (then `form` is kNoForm) the cheapest graph of a class.
struct Graphlet {
  static constexpr FormId kNoForm = ~FormId{0};
  FormId form = kNoForm;
  std::uint32_t output = 0;
  std::array<ClassId, 3> operands{kNoClass, kNoClass, kNoClass};  // the class, if there is no form
  friend bool operator==(const Graphlet&, const Graphlet&) = default;
};

struct Candidate {
  std::uint64_t order = 0;  // in which graphs were enumerated
  std::uint64_t hash = 0;   // canonical_hash() of the equation
  Graphlet left;
  std::array<Graphlet, 2> right;
  std::uint32_t outputs = 1;                                             // 2: the first two outputs of `left`
  std::uint8_t larger = 0, operators = 0, constants = 0, variables = 0;  // operators: of the larger side, and of both
};

// Not tidied.
Equation equation_of(const Candidate& candidate, const Enumeration& enumeration);
// Fills in what follows from the equation. False if both sides are the same.
bool describe(Candidate& candidate, const Enumeration& enumeration);
// Smaller and more general equations come first.
bool comes_before(const Candidate& a, const Candidate& b);

std::size_t constant_count(const Equation& equation);

}  // namespace rewright::generator
