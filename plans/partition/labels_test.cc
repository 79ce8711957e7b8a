#include "plans/partition/labels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

namespace rewright::plans {
namespace {

LabelProgram random_program(unsigned seed, bool has_limit) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  LabelProgram program;
  for (std::size_t v = 0; v < 6; ++v) {
    LabelProgram::Variable& variable = program.variables.emplace_back();
    for (std::size_t label = 0; label <= pick(3); ++label) {
      variable.costs.push_back(static_cast<double>(pick(100)));
      variable.bytes.push_back(static_cast<double>(pick(10)));
    }
  }
  if (has_limit) program.most_bytes = 25;
  for (std::size_t v = 0; v + 1 < program.variables.size(); ++v) {
    LabelProgram::Term term;
    const auto side = [&](std::size_t of) {
      LabelProgram::Side result{of, {}};
      for (std::size_t label = 0; label < program.variables[of].costs.size(); ++label) result.forms.push_back(pick(3));
      return result;
    };
    term.source = side(v);
    for (std::size_t reader = v + 1; reader < program.variables.size(); reader += 1 + pick(3))
      term.readers.push_back(side(reader));
    for (std::size_t from = 0; from < 3; ++from)
      for (std::size_t to = 0; to < 3; ++to) {
        if (to == 0) term.costs.emplace_back();
        // Not every form can be had; the first one always can.
        term.costs[from].push_back(to > 0 && pick(12) == 0 ? std::numeric_limits<double>::infinity()
                                                           : static_cast<double>(pick(100)));
      }
    program.terms.push_back(std::move(term));
  }
  return program;
}

double least_cost(const LabelProgram& program) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> labels(program.variables.size());
  const std::function<void(std::size_t)> from = [&](std::size_t v) {
    if (v == labels.size()) {
      least = std::min(least, cost_of(program, labels));
      return;
    }
    for (labels[v] = 0; labels[v] < program.variables[v].costs.size(); ++labels[v]) from(v + 1);
  };
  from(0);
  return least;
}

}  // namespace

TEST_CASE("labels: good ones of small programs, mostly the best") {
  int found = 0, best = 0, possible = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const LabelProgram program = random_program(seed, seed % 2 == 0);
    const double least = least_cost(program);
    const std::vector<std::size_t> labels = good_labels(program, 60);
    possible += std::isfinite(least) ? 1 : 0;
    if (labels.empty()) continue;
    ++found;
    const double cost = cost_of(program, labels);
    CHECK(std::isfinite(cost));
    best += cost <= least + 1e-6 ? 1 : 0;
    // No other label of one variable is better.
    for (std::size_t v = 0; v < labels.size(); ++v)
      for (std::size_t label = 0; label < program.variables[v].costs.size(); ++label) {
        std::vector<std::size_t> other = labels;
        other[v] = label;
        CHECK(cost_of(program, other) >= cost - 1e-6);
      }
  }
  INFO(found << " found, " << best << " best, of " << possible);
  CHECK(found <= possible);
  CHECK(10 * found >= 8 * possible);  // where memory is scarce there may be labels that are not found
  CHECK(10 * best >= 6 * found);
}

}  // namespace rewright::plans
