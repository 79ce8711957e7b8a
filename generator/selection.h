// From classes to equations worth keeping: between the cheapest graph of each class and its other members, without those that
// repeat or follow from others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "generator/derivation.h"
#include "generator/enumeration.h"
#include "generator/expressions.h"

namespace rewright::generator {

// Steps that leave equations out; each can be switched off.
struct SelectionOptions {
  bool renamings = true;  // the same up to names of variables and order of commutative operands
  bool instances = true;  // a sub-graph or constant on both sides that any tensor could stand for: the general equation counts
  bool derivable = true;  // follows from smaller ones that are kept
  // What is zero everywhere is said once for each operator, not for all that it may be applied to.
  bool zeros = true;
  DerivationLimits limits{};
  std::stop_token stop{};
  std::function<void(double fraction, std::size_t kept)> progress{};
};

struct Selection {
  std::vector<Equation> kept;
  std::size_t candidates = 0;
  std::map<std::string, std::size_t> pruned;  // by reason: coincidence, renaming, instance, derivable, zero
};

Selection select(const Enumeration& enumeration, const SelectionOptions& options);

}  // namespace rewright::generator
