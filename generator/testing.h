// For tests: a configuration with its forms, and the equations over them.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "generator/pruning/recall.h"
#include "generator/pruning/selection.h"
#include "rules/io.h"

namespace rewright::generator::testing {

// Larger than any derivation of these tests needs.
inline constexpr DerivationLimits kGenerous{.rounds = 4, .nodes = 1500};

struct Found {
  Configuration configuration;
  Forms forms;
  explicit Found(const std::string& operators) : configuration(configure(operators)), forms(configuration) {}

  Equation equation(const std::string& text) {
    const auto found = equation_of(parse_algebra("rule r: \"\" " + text, "test").at(0), forms);
    REQUIRE(found);
    return found->tidied();
  }
  // The equations kept for graphs of at most this many operators.
  std::vector<Equation> kept(std::size_t operators, const SelectionOptions& options) {
    Enumeration enumeration(forms, {.operators = operators});
    enumeration.run();
    return select(enumeration, options).kept;
  }
};

}  // namespace rewright::generator::testing
