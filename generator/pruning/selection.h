// Equations worth keeping of those that were found: without those that follow from others.
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

// Steps that leave equations out; each can be switched off.
struct SelectionOptions {
  bool renamings = true;  // the same up to names of variables and order of commutative operands
  bool instances = true;  // a sub-graph or constant on both sides that any tensor could stand for: the general equation counts
  bool derivable = true;  // follows from smaller ones that are kept
  // One rule for each operator that is zero everywhere, instead of one for each of its operands.
  bool zeros = true;
  bool numeric = true;  // with what is equal in real numbers, where the field does not know it
  DerivationLimits limits{};
  ClassDerivationLimits class_limits{};
  std::function<void(double fraction, std::size_t kept)> progress{};
};

struct Selection {
  std::vector<Equation> kept;
  std::size_t candidates = 0;
  std::map<std::string, std::size_t> pruned;  // by reason: coincidence, renaming, instance, derivable, zero
};

// All processes call it and get the same. Goes on where the journal stands; ends early when that was stopped.
Selection select(const Enumeration& enumeration, const Collection& collection, const SelectionOptions& options,
                 Workers& workers, Journal& journal);
// Of an enumeration that was run, in one process, with nothing kept on disk.
Selection select(Enumeration& enumeration, const SelectionOptions& options = {});

}  // namespace rewright::generator
