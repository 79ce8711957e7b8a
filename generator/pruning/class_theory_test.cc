#include "generator/pruning/class_theory.h"

#include <catch2/catch.hpp>

#include "generator/pruning/selection.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

struct Collected {
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  Collection collection;
  Collected(const std::string& operators, std::size_t count)
      : configuration(configure(operators)), forms(configuration), enumeration(forms, {.operators = count}) {
    enumeration.run();
    collection = collect(enumeration, {});
  }
};

// Equations kept by one enumeration.
std::vector<Equation> kept(const std::string& operators, std::size_t count) {
  const Configuration configuration = configure(operators);
  Forms forms(configuration);
  Enumeration enumeration(forms, {.operators = count});
  enumeration.run();
  return select(enumeration, {}).kept;
}

}  // namespace

TEST_CASE("without equations nothing follows; with those that are kept, nearly all, and no less than in e-graphs",
          "[class_theory]") {
  for (const char* operators : {"matmul,concat(axis=1),split(axis=1)", "Relu,Neg,concat(axis=0)"}) {
    INFO(operators);
    Collected found(operators, 4);
    const std::uint64_t keys[] = {sound_key(11), sound_key(12)};
    ClassTheory classes(found.enumeration, keys);
    Theory theory(found.forms);
    const auto last_level = [](const Candidate& c) { return c.larger >= 4; };
    std::size_t looked_at = 0, derived = 0, by_graphs = 0;
    for (const Candidate& c : found.collection.candidates) CHECK(!classes.derives(c, {}, found.forms));
    std::vector<std::uint32_t> numbers;
    for (const Equation& q : kept(operators, 4)) {
      numbers.push_back(classes.add(q));
      theory.add(q);
    }
    for (std::size_t n = 0; n < found.collection.candidates.size(); n += 17) {
      const Candidate& c = found.collection.candidates[n];
      if (!last_level(c)) {
        CHECK(!classes.derives(c, {}, found.forms));  // never decided here
        continue;
      }
      const Equation q = equation_of(c, found.enumeration).tidied();
      INFO(to_string(q, found.configuration));
      ++looked_at;
      const bool follows = classes.derives(c, {}, found.forms);
      derived += follows;
      by_graphs += theory.derives(q, {.rounds = 2, .nodes = 150});
    }
    CHECK(derived > looked_at * 9 / 10);
    CHECK(derived >= by_graphs);
    CHECK(looked_at > 20);
    for (const std::uint32_t number : numbers) classes.set_active(number, false);
    for (const Candidate& c : found.collection.candidates) CHECK(!classes.derives(c, {}, found.forms));
  }
}

TEST_CASE("what does not hold does not follow", "[class_theory]") {
  Collected found("Add,Mul", 3);
  const std::uint64_t keys[] = {sound_key(11)};
  ClassTheory classes(found.enumeration, keys);
  for (const Equation& q : kept("Add,Mul", 3)) classes.add(q);
  std::size_t compared = 0;
  const std::vector<Candidate>& all = found.collection.candidates;
  for (std::size_t n = 0; n + 1 < all.size() && compared < 300; ++n) {
    Candidate wrong = all[n];  // the left side of one, the right side of the next
    wrong.right = all[n + 1].right;
    const Equation q = equation_of(wrong, found.enumeration).tidied();
    if (wrong.outputs != 1 || all[n + 1].outputs != 1 || holds(q, found.forms, sound_key(5))) continue;
    INFO(to_string(q, found.configuration));
    CHECK(!classes.derives(wrong, {}, found.forms));
    CHECK(!classes.derives(q, {}, found.forms));
    ++compared;
  }
  CHECK(compared > 50);
}
