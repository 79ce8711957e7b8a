// Equations found by the enumeration: between a graph and the cheapest graph that computes the same. There are many, so each is
// stored as the applications it consists of, and expanded only when it is examined.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/expressions.h"

namespace rewright::generator {

// One side of a candidate: an output of an application to the cheapest graphs of classes, or (`form` is kNoForm) the cheapest
// graph of one class.
struct Graphlet {
  static constexpr FormId kNoForm = ~FormId{0};
  FormId form = kNoForm;
  std::uint32_t output = 0;
  std::array<ClassId, 3> operands{kNoClass, kNoClass, kNoClass};  // without a form, the first is the class
  friend bool operator==(const Graphlet&, const Graphlet&) = default;
};

struct Candidate {
  std::uint64_t order = 0;  // position of the graph in the enumeration
  std::uint64_t hash = 0;   // canonical_hash() of the equation
  Graphlet left;
  std::array<Graphlet, 2> right;
  std::uint32_t outputs = 1;                                             // 2: the first two outputs of `left`
  std::uint8_t larger = 0, operators = 0, constants = 0, variables = 0;  // operators: of the larger side; of both sides
};

// The candidate as an equation; not Equation::tidied().
Equation equation_of(const Candidate& candidate, const Enumeration& enumeration);
// Sets the fields that follow from the equation. False if both sides are equal.
bool describe(Candidate& candidate, const Enumeration& enumeration);
// The order of examination: smaller, then more general equations first.
bool comes_before(const Candidate& a, const Candidate& b);

std::size_t constant_count(const Equation& equation);

}  // namespace rewright::generator
