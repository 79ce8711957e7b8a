// Selects the equations worth keeping: those that do not follow from others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/expressions.h"
#include "generator/enumeration/journal.h"
#include "generator/enumeration/last_level.h"
#include "generator/enumeration/workers.h"
#include "generator/pruning/class_theory.h"
#include "generator/pruning/derivation.h"

namespace rewright::generator {

// The pruning steps. Each can be switched off.
struct SelectionOptions {
  bool renamings = true;  // drop equations equal up to names of variables and order of commutative operands
  bool instances = true;  // generalize: replace a common sub-graph or constant of both sides by a variable
  bool derivable = true;  // drop what follows from kept, smaller equations
  // Keep one rule for each operator that is zero everywhere, instead of one for each of its operands.
  bool zeros = true;
  bool numeric = true;                        // add equations that hold for real numbers but not in the field
  const Enumeration* numeric_from = nullptr;  // between the values of this one, if it is given
  DerivationLimits limits{};
  ClassDerivationLimits class_limits{};
  std::function<void(double fraction, std::size_t kept)> progress{};
};

struct Selection {
  std::vector<Equation> kept;
  std::size_t candidates = 0;
  std::map<std::string, std::size_t> pruned;  // by reason: coincidence, renaming, instance, derivable, zero
};

// All processes call it and get the same result. Resumes from the journal; ends early when that was stopped.
Selection select(const Enumeration& enumeration, const Collection& collection, const SelectionOptions& options,
                 Workers& workers, Journal& journal);
// For an enumeration that was run; in one process, without a journal on disk.
Selection select(Enumeration& enumeration, const SelectionOptions& options = {});

}  // namespace rewright::generator
