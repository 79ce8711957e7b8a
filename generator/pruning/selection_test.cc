#include "generator/pruning/selection.h"

#include <catch2/catch.hpp>

#include "generator/pruning/recall.h"
#include "generator/testing.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::generator;
using rewright::generator::testing::kGenerous;

namespace {

struct Selected {
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  Selection selection;
  Selected(const std::string& operators, std::size_t count, const SelectionOptions& options = {})
      : configuration(configure(operators)), forms(configuration), enumeration(forms, {.operators = count}) {
    enumeration.run();
    selection = select(enumeration, options);
  }
};

Theory theory_of(Selected& found) {
  Theory theory(found.forms);
  for (const Equation& q : found.selection.kept) theory.add(q);
  return theory;
}

}  // namespace

TEST_CASE("a ring's laws are found", "[selection]") {
  Selected found("Add,Mul", 3);
  const Theory theory = theory_of(found);
  for (const char* law : {"(x + y) + z => x + (y + z)", "(x * y) * z => x * (y * z)", "x * y + x * z => x * (y + z)"}) {
    const auto rule = parse_algebra(std::string("rule r: \"\" x[M, K], y[M, K], z[M, K] ") + law, "r");
    const auto equation = equation_of(rule[0], found.forms);
    REQUIRE(equation);
    INFO(law);
    CHECK(holds(*equation, found.forms, 3));
    CHECK(theory.derives(*equation, kGenerous));
  }
  const auto wrong = parse_algebra("rule r: \"\" x[M, K], y[M, K], z[M, K] x * (y + z) => x * y + z", "r");
  const auto equation = equation_of(wrong[0], found.forms);
  REQUIRE(equation);
  CHECK(!holds(*equation, found.forms, 3));
  CHECK(!theory.derives(*equation, kGenerous));
}

TEST_CASE("what is kept holds, and derives what was left out", "[selection]") {
  for (const char* operators : {"Add,Mul", "Max,Min", "MatMul,Add,Transpose(perm=[1,0])", "concat,Relu,Add"}) {
    INFO(operators);
    Selected kept(operators, 2), all(operators, 2, {.renamings = false, .instances = false, .derivable = false});
    CHECK(kept.selection.kept.size() < all.selection.kept.size());
    for (const Equation& q : kept.selection.kept) CHECK(holds(q, kept.forms, 99));
    const Theory theory = theory_of(kept);
    for (const Equation& q : all.selection.kept) {
      INFO(to_string(q, all.configuration));
      CHECK(theory.derives(q, kGenerous));
    }
  }
}

TEST_CASE("what follows by the classes of the lower levels is derived without them", "[selection][long]") {
  for (const auto& [operators, step] : {std::pair<const char*, std::size_t>("MatMul,Transpose(perm=[1,0])", 40),
                                        std::pair<const char*, std::size_t>("Relu,Neg,concat(axis=0)", 10),
                                        std::pair<const char*, std::size_t>("matmul,concat(axis=1),split(axis=1)", 100),
                                        std::pair<const char*, std::size_t>("Max,Min", 5)}) {
    INFO(operators);
    Selected kept(operators, 4), all(operators, 4, {.instances = false, .derivable = false, .numeric = false});
    const Theory theory = theory_of(kept);
    CHECK(kept.selection.kept.size() * 5 < all.selection.kept.size());
    for (std::size_t n = 0; n < all.selection.kept.size(); n += step) {
      INFO(to_string(all.selection.kept[n], all.configuration));
      CHECK(theory.derives(all.selection.kept[n], {.rounds = 6, .nodes = 3000}));
    }
  }
}

TEST_CASE("a canonical hash sees neither names nor sides nor the order of commutative operands", "[selection]") {
  Selected found("Add,Mul", 1);
  const auto hash = [&](const std::string& law, const std::string& inputs = "x[M, K], y[M, K], z[M, K] ") {
    const auto rule = parse_algebra("rule r: \"\" " + inputs + law, "r");
    return canonical_hash(equation_of(rule[0], found.forms)->tidied(), found.forms);
  };
  const std::uint64_t law = hash("x * y + x * z => x * (y + z)");
  CHECK(hash("y * x + x * z => (z + y) * x") == law);
  CHECK(hash("z * (x + y) => z * y + z * x") == law);
  CHECK(hash("x * y + x * z => y * (x + z)") != law);
  CHECK(hash("x * y + x * y => x * (y + y)", "x[M, K], y[M, K] ") != law);
}

TEST_CASE("fusion of products of one matrix is found with its split", "[selection]") {
  Selected found("matmul,concat(axis=1),split(axis=1)", 3);
  const bool joint = std::any_of(found.selection.kept.begin(), found.selection.kept.end(),
                                 [](const Equation& q) { return q.left.size() == 2; });
  CHECK(joint);
}
