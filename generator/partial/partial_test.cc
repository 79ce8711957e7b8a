#include "generator/partial/partial.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <set>

#include "generator/enumeration/fold.h"
#include "generator/pruning/provenance.h"
#include "generator/run/generator.h"
#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"
#include "verifier/verify.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

std::optional<Rule> prove_for_test(const Rule& rule) {
  proof::VerifyOptions options;
  options.instances = 0;
  options.suggest_conditions = false;
  proof::Verdict verdict = proof::verify(rule, options);
  return verdict.outcome == proof::Outcome::kProved ? std::optional(std::move(verdict.rule)) : std::nullopt;
}

std::vector<Rule> found_with(const std::string& operators, std::size_t most = 3) {
  GenerateOptions options;
  options.operators = operators;
  options.max_operators = most;
  options.threads = 2;
  options.prove = prove_for_test;
  return generate(options).rules;
}

// An enumeration of a small configuration, and its rules.
struct Found {
  explicit Found(const std::string& operators)
      : configuration(configure(operators)), forms(configuration), enumeration(forms, {.operators = 4, .threads = 2}) {
    enumeration.run();
    equivalences = partial_equivalences(enumeration);
  }
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  std::vector<PartialEquivalence> equivalences;
};

bool repairs_somewhere(const std::vector<Rule>& rules, const std::string& description) {
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return rule.description.find(description) != std::string::npos && rule.description.ends_with("where that is wrong anew");
  });
}

const std::string kConvolutions = "corrections,conv2d(kernel=3,bias=true,outputs=own),";

}  // namespace

TEST_CASE("partial equivalences of each kind come out corrected and proved", "[partial]") {
  const struct {
    std::string operators, description;
    bool corrected;
  } kinds[] = {
      {kConvolutions + "fold(from=2,to=0),fold(from=0,to=2)", "by Fold 2 into 0", true},  // the halves of an image as a batch
      {kConvolutions + "fold(from=2,to=0),fold(from=0,to=2)", "by Fold 0 into 2", true},  // a batch as one image
      {"corrections,conv2d(kernel=3,padding=same|valid,bias=true,outputs=own),border", "valid bias, Border 1", true},
      {"corrections,conv2d(kernel=3,stride=2,bias=true,outputs=own),fold(from=2,to=0),fold(from=0,to=2)", "stride 2", true},
      {"corrections,conv2d(kernel=3,dilation=1|2,bias=true,outputs=own),fold(from=2x3,to=0,part=inner),"
       "fold(from=0,to=2x3,place=inner)",
       "dilation 2 bias by Fold 2x3 into 0", false},  // a dilated convolution as a dense one
      {"corrections,AveragePool(kernel=[3,3],pads_begin=[1,1],pads_end=[1,1],count_include_pad=true),"
       "fold(from=3,to=0),fold(from=0,to=3)",
       "by Fold 3 into 0", true},
      // a batch as groups, with each kernel twice
      {kConvolutions + "fold(from=0,to=1),fold(from=1,to=0),weights(at_most=1,each=1,operators=repeat)", "by Fold 0 into 1",
       false},
      // a stride as channels of an image and of a kernel, which may need zeros first
      {"corrections,conv2d(kernel=4,stride=2,padding=2,bias=true,outputs=own),"
       "conv2d(kernel=2,padding=1,bias=true,outputs=own,variables=false),fold(from=2x3,to=1,part=inner),"
       "weights(at_most=1,each=1,operators=fold(from=2x3,to=1,part=inner))",
       "stride 2 2 bias by Fold 2x3 into 1", false},
      {"corrections,conv2d(kernel=3,stride=2,bias=true,outputs=own),"
       "conv2d(kernel=2,padding=before,bias=true,outputs=own,variables=false),fold(from=2x3,to=1,part=inner),"
       "weights(at_most=2,each=1,operators=fold(from=2x3,to=1,part=inner)|border(side=begin))",
       "Border 1 begin", false},
      {"corrections,transposed2d(kernel=4,stride=2,padding=1,bias=true),transposed2d(kernel=2,bias=true,variables=false),"
       "fold(from=1,to=2x3,place=inner),border(width=-1),"
       "weights(at_most=1,each=1,operators=fold(from=2x3,to=1,part=inner)|repeat(times=4))",
       "Fold 1 into 2x3 interleaved, Border -1", false},
      {"partial-groups", "by Diagonal 0 along 1 in G blocks", false},  // groups in pairs, with zeros between them
  };
  constexpr std::size_t kEvery = testing::kSanitized ? 4 : 1;
  for (std::size_t k = 0; k < std::size(kinds); k += kEvery) {
    const auto& kind = kinds[k];
    INFO(kind.operators);
    const std::vector<Rule> rules = found_with(kind.operators);
    CHECK(repairs_somewhere(rules, kind.description) == kind.corrected);
    CHECK(std::any_of(rules.begin(), rules.end(),
                      [&](const Rule& r) { return r.description.find(kind.description) != std::string::npos; }));
    for (const Rule& rule : rules) {
      INFO(to_algebra(rule));
      CHECK(test_rule(rule, 40, 7).outcome == TestOutcome::kAgreed);
    }
  }
}

TEST_CASE("corrections that are a row short are refused", "[partial]") {
  const Found found(kConvolutions + "fold(from=2,to=0),fold(from=0,to=2)");
  REQUIRE(found.equivalences.size() == 2);
  std::size_t mutants = 0;
  for (const PartialEquivalence& sound : found.equivalences) {
    PartialStatements statements(found.enumeration, sound);
    REQUIRE(statements.find_repairs());
    const auto rule = statements.rule(statements.as_found());
    REQUIRE(rule);
    // Each cut a row further on, or before: some cell that is wrong becomes smaller, or one that is right takes its place.
    for (std::size_t axis = 0; axis < sound.regions.cuts.size(); ++axis)
      for (std::size_t c = 1; c + 1 < sound.regions.cuts[axis].size(); ++c)
        for (const int step : {-1, 1}) {
          PartialEquivalence moved = sound;
          moved.regions.cuts[axis][c].offset += step;
          const PartialStatements mutant(found.enumeration, moved);
          const auto wrong = mutant.rule(mutant.as_found(), statements.repairs());
          if (!wrong) continue;  // ill-typed
          INFO(to_algebra(*wrong));
          const bool refuted = test_rule(*wrong, 60, 3).outcome == TestOutcome::kRefuted;
          if (!refuted) continue;  // more than needed is made anew
          ++mutants;
          CHECK(!prove_for_test(*wrong));
        }
    // Each change of the source's attributes left out.
    for (const auto& [box, repair] : statements.repairs())
      for (std::size_t k = 0; k < repair.changes.size(); ++k) {
        Repairs less = statements.repairs();
        less[box].changes.erase(less[box].changes.begin() + static_cast<std::ptrdiff_t>(k));
        const auto wrong = statements.rule(statements.as_found(), less);
        if (!wrong) continue;
        INFO(to_algebra(*wrong));
        ++mutants;
        CHECK(!prove_for_test(*wrong));
      }
    // The right cells alone: the target as it is.
    const auto uncorrected = statements.rule(statements.as_found(), {});
    REQUIRE(uncorrected);
    ++mutants;
    CHECK(!prove_for_test(*uncorrected));
  }
  CHECK(mutants >= 8);
}

TEST_CASE("where values agree is stated as a function of the sizes", "[partial]") {
  const Configuration configuration = configure("corrections,conv2d(kernel=3,outputs=own),border");
  Forms forms(configuration);
  const Index h = Index::symbol("H"), w = Index::symbol("W");
  const KnownType& type = forms.type(forms.intern({DataType::kFloat, {h * 2, w}}));
  const std::vector<Residue> source(type.elements, 1);
  const auto target = [&](const std::function<bool(std::int64_t row, std::int64_t rows, std::int64_t column)>& wrong) {
    std::vector<Residue> result = source;
    for (std::size_t a = 0; a < type.assigned.size(); ++a) {
      const std::vector<std::int64_t> sizes = values(type.assigned[a].shape);
      for (std::int64_t r = 0; r < sizes[0]; ++r)
        for (std::int64_t c = 0; c < sizes[1]; ++c)
          if (wrong(r, sizes[0], c)) result[type.offsets[a] + static_cast<std::size_t>(r * sizes[1] + c)] = 2;
    }
    return result;
  };
  const auto seam = regions(type, source, target([](auto r, auto rows, auto) { return r == rows / 2 - 1 || r == rows / 2; }));
  REQUIRE(seam);
  CHECK(seam->cuts[0] == std::vector<Cut>{{0, 0}, {1, -1}, {1, 1}, {2, 0}});
  CHECK(seam->cuts[1] == std::vector<Cut>{{0, 0}, {2, 0}});
  CHECK(seam->wrong == std::vector<bool>{false, true, false});
  CHECK(place(seam->cuts[0][1], h * 2) == h - 1);
  const auto corner = regions(type, source, target([](auto r, auto rows, auto c) { return r >= rows - 2 && c < 1; }));
  REQUIRE(corner);
  CHECK(corner->cuts[0] == std::vector<Cut>{{0, 0}, {2, -2}, {2, 0}});
  CHECK(corner->wrong == std::vector<bool>{false, false, true, false});
  CHECK(regions(type, source, source)->everywhere());
  CHECK(!regions(type, source, target([](auto r, auto rows, auto) { return r > rows / 3; })));       // too few agree
  CHECK(!regions(type, source, target([](auto r, auto, auto c) { return (r * r + c) % 5 == 0; })));  // no cells
}

TEST_CASE("folds come back by their inverses", "[partial]") {
  const Index n = Index::symbol("N"), h = Index::symbol("H");
  CHECK(half_of(n * 2) == n);
  CHECK(half_of(n * 4 + h * 2 - 6) == n * 2 + h - 3);
  CHECK(!half_of(n));
  CHECK(!half_of(n * 2 + 1));
  // One of the values that two folds of an image compute is the image.
  const Configuration configuration = configure(
      "corrections,fold(from=2x3,to=0,part=inner),fold(from=0,to=2x3,place=inner),fold(from=2,to=0),fold(from=0,to=2)");
  Forms forms(configuration);
  Enumeration enumeration(forms, {.operators = 3});
  enumeration.run();
  std::size_t back = 0;
  for (const Member& m : enumeration.members()) back += enumeration.classes()[m.result].best == ~std::uint32_t{0};
  CHECK(back == 3);  // both ways for the halves, one way for four parts of a batch that only has halves
}

TEST_CASE("the corrections that people wrote follow from those that were found", "[partial]") {
  const auto read = [](const char* file) { return read_rules(std::filesystem::path(file)); };
  const std::vector<Rule> wanted = read("rules/optional/spatial.rules");
  std::vector<Rule> given = read("rules/optional/slices.rules");
  constexpr int kInstances = 6;
  for (const Standing& s : standings(wanted, given, kInstances)) CHECK(s.kind == Standing::Kind::kNot);
  for (Rule& rule : read("rules/optional/found_partial.rules")) given.push_back(std::move(rule));
  for (const Standing& s : standings(wanted, given, kInstances)) CHECK(s.kind == Standing::Kind::kFollows);
}

TEST_CASE("the shipped corrections are those that the generator finds", "[partial][long]") {
  for (const std::string set : {"partial", "partial-channels", "partial-transposed", "partial-borders"}) {
    const std::string file = "rules/optional/found_" + (set == "partial" ? set : set.substr(8)) + ".rules";
    std::vector<Rule> found = found_with(set, set == "partial-borders" ? 5 : 3);
    const std::vector<Rule> written = read_rules(std::filesystem::path(file));
    REQUIRE(found.size() == written.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].name = written[i].name;  // the number, after the set's name
      CHECK(to_algebra(found[i]) == to_algebra(written[i]));
    }
  }
}

TEST_CASE("shipped partial equivalences are among those that were found, but for conditions", "[partial]") {
  std::set<std::string> found;
  const auto add = [&](Rule rule) {
    rule.name = "rule";
    found.insert(to_algebra(rule));
  };
  for (const Rule& rule : read_rules(std::filesystem::path("rules/optional/found_partial.rules"))) add(rule);
  for (const Rule& rule : found_with("partial-groups")) add(rule);
  for (Rule& rule : read_rules(std::filesystem::path("rules/database/partial.rules"))) {
    INFO(rule.name);
    rule.name = "rule";
    rule.conditions.clear();
    CHECK(found.count(to_algebra(rule)) == 1);
  }
}

TEST_CASE("groups become variables only where there can be several", "[partial]") {
  // The channels of a kernel that is folded with its image are those of one group.
  std::size_t seen = 0;
  for (const Rule& rule : read_rules(std::filesystem::path("rules/optional/found_channels.rules"))) {
    if (rule.description.find("into 1 alternating") == std::string::npos) continue;
    ++seen;
    CHECK(to_algebra(rule).find("group=group") == std::string::npos);
  }
  REQUIRE(seen > 0);
}

TEST_CASE("what is on a diagonal, and what is repeated, is where the product with an identity puts it", "[partial]") {
  const Configuration configuration = configure("partial-groups,weights(at_most=1,each=1,operators=repeat(axis=1,times=3))");
  Forms forms(configuration);
  const auto leaf = std::find_if(configuration.leaves.begin(), configuration.leaves.end(),
                                 [](const Leaf& l) { return l.name.starts_with("k33"); });
  REQUIRE(leaf != configuration.leaves.end());
  const TypeId type = forms.intern(leaf->type);
  const std::vector<Residue> elements = forms.random_elements(type, 0, 3);
  std::size_t seen = 0;
  for (std::uint32_t c = 0; c < configuration.choices.size(); ++c) {
    const bool diagonal = configuration.choices[c].name.starts_with("Diagonal");
    if (!diagonal && !configuration.choices[c].name.starts_with("Repeat")) continue;
    for (const FormId id : forms.find(c, {&type, 1})) {
      const Form& form = forms.form(id);
      Forms::Scratch scratch;
      std::vector<Residue> result(form.results);
      const Residue* const operands[] = {elements.data()};
      REQUIRE(forms.evaluate(form, operands, 3, scratch, result.data()));
      const KnownType &in = forms.type(type), &out = forms.type(form.outputs[0]);
      for (std::size_t a = 0; a < in.assigned.size(); ++a) {
        const std::vector<std::int64_t> from = values(in.assigned[a].shape), to = values(out.assigned[a].shape);
        REQUIRE(to == std::vector<std::int64_t>{from[0], from[1] * (diagonal ? 2 : 3), from[2], from[3]});
        const std::int64_t groups = configuration.symbols.back().sizes[a], half = from[0] / (2 * groups),
                           rest = from[2] * from[3];
        for (std::int64_t k = 0; k < to[0]; ++k)
          for (std::int64_t d = 0; d < to[1]; ++d)
            for (std::int64_t r = 0; r < rest; ++r) {
              const bool kept = !diagonal || k / half % 2 == d / from[1];
              const auto source = static_cast<std::size_t>((k * from[1] + d % from[1]) * rest + r);
              const auto target = static_cast<std::size_t>((k * to[1] + d) * rest + r);
              CHECK(result[out.offsets[a] + target] == (kept ? elements[in.offsets[a] + source] : 0));
            }
      }
      ++seen;
    }
  }
  CHECK(seen == 2);
}
