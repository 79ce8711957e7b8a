#include "generator/enumeration/enumeration.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/process_memory.h"
#include "generator/enumeration/last_level.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

// Enumerates every graph explicitly. Terms are numbered; a graph is a set of terms that contains the operands of each.
class BruteForce {
 public:
  BruteForce(Forms& forms, std::size_t operators) : forms_(forms), operators_(operators) {
    for (const Leaf& leaf : forms.configuration().leaves) {
      types_.push_back(forms.intern(leaf.type));
      variables_.push_back(!leaf.constant());
    }
    leaves_ = types_.size();
    extend({});
  }
  std::size_t graphs() const { return graphs_.size(); }

 private:
  using Graph = std::vector<std::size_t>;
  void extend(const Graph& graph) {
    if (graph.size() == operators_) return;
    std::vector<std::size_t> values;
    for (std::size_t l = 0; l < leaves_; ++l) values.push_back(l);
    values.insert(values.end(), graph.begin(), graph.end());
    for (std::uint32_t c = 0; c < forms_.configuration().choices.size(); ++c) {
      const Choice& choice = forms_.configuration().choices[c];
      for (const std::size_t a : values) {
        if (choice.arity == 1) try_application(graph, c, {a});
        if (choice.arity == 2)
          for (const std::size_t b : values)
            if (!choice.op->commutative() || a <= b) try_application(graph, c, {a, b});
      }
    }
  }
  void try_application(const Graph& graph, std::uint32_t choice, const std::vector<std::size_t>& operands) {
    std::vector<TypeId> types;
    bool variable = false;
    for (const std::size_t o : operands) types.push_back(types_[o]), variable |= variables_[o];
    if (!variable) return;
    for (const FormId f : forms_.find(choice, types)) {
      const auto [at, fresh] = terms_.try_emplace({f, operands}, types_.size());
      if (fresh) types_.push_back(forms_.form(f).outputs[0]), variables_.push_back(true);
      Graph next = graph;
      if (std::find(next.begin(), next.end(), at->second) != next.end()) continue;
      next.insert(std::lower_bound(next.begin(), next.end(), at->second), at->second);
      if (graphs_.insert(next).second) extend(next);
    }
  }

  Forms& forms_;
  std::size_t operators_, leaves_ = 0;
  std::vector<TypeId> types_;
  std::vector<bool> variables_;
  std::map<std::pair<FormId, std::vector<std::size_t>>, std::size_t> terms_;
  std::set<Graph> graphs_;
};

struct Run {
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  Collection collection;
  Run(const std::string& operators, EnumerationOptions options, const CollectOptions& collect_options = {})
      : configuration(configure(operators)), forms(configuration), enumeration(forms, std::move(options)) {
    enumeration.run();
    collection = collect(enumeration, collect_options);
  }
  double count(Counters::Name name) { return collection.counters[name]; }
};

void check_same(Run& one, Run& two) {
  CHECK(one.collection.counters.values == two.collection.counters.values);
  REQUIRE(one.collection.candidates.size() == two.collection.candidates.size());
  for (std::size_t i = 0; i < one.collection.candidates.size(); ++i) {
    const Candidate &a = one.collection.candidates[i], &b = two.collection.candidates[i];
    CHECK(std::tuple(a.order, a.hash, a.outputs, a.larger, a.operators) ==
          std::tuple(b.order, b.hash, b.outputs, b.larger, b.operators));
    CHECK(std::tuple(a.left, a.right) == std::tuple(b.left, b.right));
  }
}

}  // namespace

TEST_CASE("the number of graphs is that of an enumeration one by one", "[enumeration][long]") {
  for (const auto& [operators, count] : std::vector<std::pair<std::string, std::size_t>>{{"Add,Relu", 1},
                                                                                         {"Add,Relu", 2},
                                                                                         {"Add,Relu", 3},
                                                                                         {"Sigmoid,Max", 3},
                                                                                         {"MatMul,Relu", 2},
                                                                                         {"Max,Min", 3},
                                                                                         {"Sigmoid,Relu", 4},
                                                                                         {"Add", 4},
                                                                                         {"MatMul", 4},
                                                                                         {"Max,Relu", 4}}) {
    INFO(operators << " " << count);
    Run run(operators, {.operators = count});
    CHECK(run.count(Counters::kGraphs) == static_cast<double>(BruteForce(run.forms, count).graphs()));
  }
}

TEST_CASE("equal graphs are one class", "[enumeration]") {
  Run run("Relu,Sigmoid", {.operators = 4});
  // Chains over one variable in which no relu follows a relu: 2 of one operator, 3 of two, 5 of three.
  std::size_t of_first[4] = {0, 0, 0, 0};
  for (const Class& c : run.enumeration.classes())
    if (c.support == 1) ++of_first[c.operators];
  CHECK(of_first[1] == 2);
  CHECK(of_first[2] == 3);
  CHECK(of_first[3] == 5);
}

TEST_CASE("an operand that stands in both operands counts once", "[enumeration]") {
  Run run("Sigmoid,Mul", {.operators = 3});
  bool found = false;  // s(x) * s(x)
  for (const Member& m : run.enumeration.members()) {
    const Form& form = run.forms.form(m.form);
    if (form.operands.size() == 2 && m.operands[0] == m.operands[1])
      found |= run.enumeration.classes()[m.operands[0]].operators == 1;
  }
  CHECK(found);
}

TEST_CASE("threads change nothing", "[enumeration]") {
  Run one("linear", {.operators = 2}), two("linear", {.operators = 2, .threads = 3});
  check_same(one, two);
}

TEST_CASE("records on disk change nothing", "[enumeration]") {
  for (const char* operators : {"linear", "split(axis=0|1),concat(axis=0|1),Add"}) {
    INFO(operators);
    Run one(operators, {.operators = 2}), two(operators, {.operators = 2}, {.buffer = 10000});
    CHECK(one.collection.candidates.size() > 10);
    check_same(one, two);
  }
}

TEST_CASE("other seeds give the same classes", "[enumeration]") {
  Run one("linear", {.operators = 2, .key = 1}), two("linear", {.operators = 2, .key = 2});
  CHECK(one.collection.counters.values == two.collection.counters.values);
  CHECK(one.collection.candidates.size() == two.collection.candidates.size());
}

TEST_CASE("memory that will not suffice is said before a level is enumerated", "[enumeration]") {
  try {
    Run run("transformer", {.operators = 4, .memory = resident_bytes() + (std::size_t{40} << 20)});
    FAIL("it sufficed");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
    CHECK_THAT(e.what(), Catch::Contains("graphs of 3 operators take by estimate"));
  }
}

TEST_CASE("memory that does not suffice is said", "[enumeration]") {
  try {
    Run run("taso", {.operators = 2, .memory = 100000});
    FAIL("it sufficed");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
    CHECK_THAT(e.what(), Catch::Contains("--memory"));
  }
}
