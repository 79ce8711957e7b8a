// Each pruning step by itself: the equations it drops follow from those kept.
#include <catch2/catch.hpp>

#include <algorithm>

#include "generator/pruning/selection.h"
#include "generator/testing.h"

using namespace rewright;
using namespace rewright::generator;
using rewright::generator::testing::kGenerous;

namespace {

// A separate run. Types and choices have the same numbers in each.
struct PruningRun {
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  std::vector<Equation> kept;
  explicit PruningRun(const std::string& operators, const SelectionOptions& options = {})
      : configuration(configure(operators)), forms(configuration), enumeration(forms, {.operators = 2}) {
    enumeration.run();
    kept = select(enumeration, options).kept;
  }
};

struct Step {
  const char* name;
  SelectionOptions without;
};

const Step kSteps[] = {
    {"renamings", {.renamings = false}}, {"instances", {.instances = false}}, {"derivable", {.derivable = false}},
    {"zeros", {.zeros = false}},         {"numeric", {.numeric = false}},
};

}  // namespace

TEST_CASE("no step of the selection loses anything", "[pruning][long]") {
  for (const char* operators :
       {"Add,Mul", "Max,Min,Neg", "MatMul,Add,Transpose(perm=[1,0])", "concat,Relu,Add", "Sub,Neg,Relu"}) {
    PruningRun run(operators);
    Theory theory(run.forms);
    for (const Equation& q : run.kept) theory.add(q);
    std::size_t more = 0;
    for (const Step& step : kSteps) {
      const PruningRun other(operators, step.without);
      more += other.kept.size() > run.kept.size() ? 1 : 0;
      for (const Equation& q : other.kept) {
        INFO(operators << " without " << step.name << ": " << to_string(q, run.configuration));
        CHECK(theory.derives(q, kGenerous));
      }
    }
    INFO(operators);
    CHECK(more >= 1);  // something is pruned
  }
}

TEST_CASE("what is left out as derivable does not follow from less", "[pruning]") {
  PruningRun run("Add,Mul");
  const PruningRun other("Add,Mul", {.derivable = false});
  const std::vector<Equation>&kept = run.kept, &all = other.kept;
  REQUIRE(!kept.empty());
  for (std::size_t left_out = 0; left_out < kept.size(); ++left_out) {
    Theory theory(run.forms);
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (i != left_out) theory.add(kept[i]);
    const bool everything =
        std::all_of(all.begin(), all.end(), [&](const Equation& q) { return theory.derives(q, kGenerous); });
    INFO(to_string(kept[left_out], run.configuration));
    CHECK(!everything);
  }
}
