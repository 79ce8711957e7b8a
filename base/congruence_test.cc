// Classes and tables of nodes, compared with the definitions of equality and congruence on random terms.
#include "base/congruence.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "base/hash_mix.h"

using rewright::Classes;
using rewright::NodeTable;

namespace {

// Applications of one function: result = f(first, second).
struct Term {
  std::array<std::uint32_t, 2> operands;
  std::uint32_t result;
};

// The congruence closure by its definition: the least labels, found by passes over all pairs until nothing changes.
std::vector<std::uint32_t> closure(std::vector<std::uint32_t> labels, const std::vector<Term>& terms) {
  const auto label = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t& l : labels)
      if (l == from) l = to;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Term& a : terms)
      for (const Term& b : terms) {
        if (labels[a.operands[0]] != labels[b.operands[0]] || labels[a.operands[1]] != labels[b.operands[1]]) continue;
        const auto [low, high] = std::minmax(labels[a.result], labels[b.result]);
        if (low == high) continue;
        label(std::uint32_t{high}, std::uint32_t{low});
        changed = true;
      }
  }
  return labels;
}

void close(Classes& classes, std::vector<Term>& terms) {
  NodeTable table;
  table.rehash([&] {
    bool merged = false;
    for (std::uint32_t n = 0; n < terms.size(); ++n) {
      for (std::uint32_t& operand : terms[n].operands) operand = classes.find(operand);
      const std::uint64_t hash = rewright::hash_mix(terms[n].operands[0], terms[n].operands[1]) % 4;  // with collisions
      const auto same = table.find(hash, [&](std::uint32_t other) { return terms[other].operands == terms[n].operands; });
      if (same)
        merged = classes.merge(terms[*same].result, terms[n].result) || merged;
      else
        table.insert(hash, n);
    }
    return merged;
  });
}

}  // namespace

TEST_CASE("classes closed under congruence are those of the definition, each named by its least member") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t count = 2 + random() % 20;
    Classes classes;
    std::vector<std::uint32_t> labels;
    for (std::uint32_t n = 0; n < count; ++n) labels.push_back(classes.add());
    CHECK(classes.size() == count);
    std::vector<Term> terms(random() % 25);
    for (Term& t : terms)
      t = {{static_cast<std::uint32_t>(random() % count), static_cast<std::uint32_t>(random() % count)},
           static_cast<std::uint32_t>(random() % count)};
    for (std::uint32_t merges = random() % 5; merges > 0; --merges) {
      const std::uint32_t a = random() % count, b = random() % count;
      const std::uint32_t low = std::min(labels[a], labels[b]), high = std::max(labels[a], labels[b]);
      const auto names = classes.merge(a, b);
      REQUIRE(names.has_value() == (low != high));
      if (names) CHECK(*names == std::pair(low, high));
      for (std::uint32_t& l : labels)
        if (l == high) l = low;
    }
    const std::vector<std::uint32_t> expected = closure(labels, terms);
    close(classes, terms);
    for (std::uint32_t n = 0; n < count; ++n) CHECK(classes.find(n) == expected[n]);
  }
}

TEST_CASE("a class is named as asked") {
  Classes classes;
  const std::uint32_t a = classes.add(), b = classes.add();
  classes.merge_into(b, a);
  CHECK(classes.find(a) == b);
  CHECK(classes.find(b) == b);
  CHECK_FALSE(classes.merge(a, b));
}

TEST_CASE("tables forget what is erased, and nothing else of the same hash") {
  NodeTable table;
  for (const std::uint32_t n : {0u, 1u, 2u}) table.insert(7, n);
  const auto is = [](std::uint32_t n) { return [n](std::uint32_t other) { return other == n; }; };
  table.erase(7, 1);
  table.erase(7, 5);
  CHECK(table.size() == 2);
  CHECK(table.find(7, is(0)) == 0u);
  CHECK_FALSE(table.find(7, is(1)));
  CHECK(table.find(7, is(2)) == 2u);
  CHECK_FALSE(table.find(8, is(2)));
}
