#include "graph/open_graph.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operators/testing.h"

namespace rewright::graph {
namespace {

using testing::attributes;

// A network of vectors and matrices whose sizes are a, b, 4 and what follows from them.
Graph random_network(std::mt19937& random) {
  const Index a = Index::symbol("a"), b = Index::symbol("b");
  Graph graph;
  std::vector<ValueId> values{graph.add_input("x", testing::reals({a, 4})), graph.add_input("y", testing::reals({b, 4})),
                              graph.add_input("z", testing::reals({a, b}))};
  const auto add = [&](const char* op, std::vector<ValueId> inputs, const testing::Named& named = {}) {
    const Operator& known = registry().get(op);
    return graph.add_node(known, attributes(known, named), std::move(inputs)).at(0);
  };
  for (int nodes = 0; nodes < 12; ++nodes) {
    const ValueId u = values[random() % values.size()], v = values[random() % values.size()];
    try {
      switch (random() % 6) {
        case 0:
          values.push_back(add("Add", {u, v}));
          break;
        case 1:
          values.push_back(add("MatMul", {u, v}));
          break;
        case 2:
          values.push_back(add("Transpose", {u}, {{"perm", Indices{1, 0}}}));
          break;
        case 3:
          values.push_back(add("Reshape", {u}, {{"shape", Indices{1, product(graph.value(u).type.shape)}}}));
          break;
        case 4:
          values.push_back(add("Concat", {u, v}, {{"axis", Index(0)}}));
          break;
        default:
          values.push_back(add("Relu", {u}));
      }
    } catch (const Error&) {  // these two do not fit
    }
  }
  for (std::size_t n = 3; n < values.size(); ++n) graph.add_output("o" + std::to_string(n), values[n]);
  return graph;
}

// The graph with its sizes, or why there is none.
template <class WithSizes>
std::string sized(const WithSizes& with_sizes) {
  try {
    const Graph graph = with_sizes();
    std::string text = to_string(graph);
    for (ValueId id = 0; id < graph.value_count(); ++id) text += to_string(graph.value(id).type);
    for (const GraphOutput& output : graph.outputs()) text += to_string(output.type);
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("unused nodes are left out, and what they require is not") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const Graph graph = random_network(random);
    std::vector<bool> used(graph.nodes().size());
    for (std::size_t n = 0; n < used.size(); ++n) used[n] = random() % 2 == 0;
    const OpenGraph open(graph, used), whole(graph);
    for (int round = 0; round < 6; ++round) {
      const std::int64_t a = random() % 6, b = random() % 2 == 0 ? a : static_cast<std::int64_t>(random() % 6);
      const Substitution sizes = [&](const Atom& atom) { return std::optional<Index>(atom.name == "a" ? a : b); };
      INFO("seed " << seed << ", a = " << a << ", b = " << b << "\n" << to_string(graph));
      std::string expected;
      try {
        const Graph known = whole.with_sizes(sizes), part = open.with_sizes(sizes);
        const bool all = part.nodes().size() == known.nodes().size();  // sizes that the graph has assumed away
        std::size_t next = 0;
        std::map<ValueId, ValueId> numbers{{kNoValue, kNoValue}};  // of the part's values, by those of the whole graph
        const auto check_value = [&](ValueId left, ValueId right) {
          CHECK(numbers.emplace(left, right).first->second == right);
          if (left != kNoValue) CHECK(part.value(right).type == known.value(left).type);
        };
        for (std::size_t n = 0; n < used.size(); ++n) {
          if (!all && !used[n]) continue;
          REQUIRE(next < part.nodes().size());
          const Node &left = *known.nodes()[n], &right = *part.nodes()[next++];
          CHECK((left.op == right.op && left.attributes == right.attributes));
          REQUIRE((left.inputs.size() == right.inputs.size() && left.outputs.size() == right.outputs.size()));
          for (std::size_t i = 0; i < left.inputs.size(); ++i) check_value(left.inputs[i], right.inputs[i]);
          for (std::size_t o = 0; o < left.outputs.size(); ++o) check_value(left.outputs[o], right.outputs[o]);
        }
        CHECK(next == part.nodes().size());
        for (std::size_t i = 0; i < known.inputs().size(); ++i) check_value(known.inputs()[i], part.inputs()[i]);
        for (std::size_t o = 0; o < known.outputs().size(); ++o) check_value(known.outputs()[o].value, part.outputs()[o].value);
        std::set<ValueId> different;
        for (const auto& [left, right] : numbers) different.insert(right);
        CHECK(different.size() == numbers.size());
        if (!all) CHECK(part.value_count() == numbers.size() - 1);
        const std::vector<bool>& are_open = open.open_values(part);
        REQUIRE(are_open.size() == part.value_count());
        for (const auto& [left, right] : numbers)
          if (left != kNoValue) CHECK(are_open[right] == whole.open_values(known)[left]);
        for (const GraphOutput& output : part.outputs()) CHECK(part.value(output.value).type == output.type);
      } catch (const Error& error) {
        expected = error.what();
      }
      CHECK(sized([&] { return open.with_sizes(sizes); }).starts_with(expected));
    }
  }
}

TEST_CASE("graphs for sizes stay as they are while others are made, and nodes that are gone are written again") {
  Graph given;
  const auto add = [&](const char* op, std::vector<ValueId> inputs, const testing::Named& named = {}) {
    const Operator& known = registry().get(op);
    return given.add_node(known, attributes(known, named), std::move(inputs)).at(0);
  };
  const Index a = Index::symbol("a"), b = Index::symbol("b");
  const ValueId x = given.add_input("x", testing::reals({a, 4})), y = given.add_input("y", testing::reals({b, 4}));
  const ValueId both = add("Concat", {x, y}, {{"axis", Index(0)}});
  given.add_output("o", add("Relu", {add("Reshape", {both}, {{"shape", Indices{1, 4 * (a + b)}}})}));
  const OpenGraph open(given);
  std::mt19937 random(1);
  std::vector<std::pair<Graph, std::string>> kept;
  std::set<const Node*> made;
  int again = 0;
  for (int call = 0; call < 200; ++call) {
    const std::map<std::string, std::int64_t> numbers{{"a", 1 + random() % 50}, {"b", 1 + random() % 50}};
    const Substitution sizes = [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
      return numbers.at(atom.name);
    };
    const std::string expected = sized([&] { return with_sizes(given, sizes); });
    kept.emplace_back(open.with_sizes(sizes), expected);
    const Node* const reshape = kept.back().first.nodes()[1].get();
    again += made.insert(reshape).second ? 0 : 1;
    for (const auto& made_before : kept) REQUIRE(sized([&] { return made_before.first; }) == made_before.second);
    if (random() % 2 == 0) kept.clear();
  }
  CHECK(again > 10);
}

TEST_CASE("a prepared graph is given sizes as any other") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Graph graph = random_network(random);
    const OpenGraph open(graph);
    for (int round = 0; round < 6; ++round) {
      const std::int64_t a = random() % 6, b = random() % 2 == 0 ? a : static_cast<std::int64_t>(random() % 6);
      const Substitution sizes = [&](const Atom& atom) -> std::optional<Index> {
        if (atom.name == "a") return Index(a);
        return atom.name == "b" && seed % 5 != 0 ? std::optional<Index>(b) : std::nullopt;  // some stay open
      };
      INFO("seed " << seed << ", a = " << a << ", b = " << b << "\n" << to_string(graph));
      CHECK(sized([&] { return open.with_sizes(sizes); }) == sized([&] { return with_sizes(graph, sizes); }));
    }
  }
}

}  // namespace rewright::graph
