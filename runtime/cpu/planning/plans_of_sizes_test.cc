// Plans for several sets of sizes share what is known about their nodes: each is the plan that is made from nothing.
#include <map>
#include <set>

#include "graph/open_graph.h"
#include "runtime/cpu/planning/open_nodes.h"
#include "runtime/cpu/planning/passes.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/cpu/testing/open_networks.h"
#include "runtime/cpu/testing/plan_text.h"
#include "runtime/planning/graph_facts.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::RandomGraph;
using rewright::testing::require_same_bits;

namespace {

OpenGraph opened(const Graph& graph) {
  Graph less = with_constants_handed_on(with_whole_operators(graph));
  less.drop_unused_values();
  const std::vector<bool> nodes = planning::planned_nodes(less);
  return OpenGraph(std::move(less), nodes);
}

Graph any_network(RandomGraph& g) { return g.pick(0, 3) == 0 ? network_of_shuffles(g) : random_network(g); }

void share_nothing(PlanOptions& options) {
  options.constants = std::make_shared<PreparedConstants>(1);
  options.recognitions = std::make_shared<Recognitions>();
}

}  // namespace

TEST_CASE("plans for random sizes are those made from nothing") {
  int compared = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph g(1000 + seed);
    const Graph graph = any_network(g);
    const OpenGraph open = opened(graph);
    PlanOptions options;
    options.isa = detected_isa();
    options.threads = 1 + static_cast<int>(seed % 2);
    options.open_sizes = true;
    share_nothing(options);
    for (int call = 0; call < 14; ++call) {
      const std::vector<Tensor> inputs = inputs_of(graph, g, {0, 1, 1, 2, 3, 4, 5, 8, 13, 21, 22, 40});
      std::optional<Graph> sized;
      try {
        sized = open.with_sizes(bind_sizes(graph, inputs));
      } catch (const Error&) {  // an image is smaller than a window
        continue;
      }
      options.open_values = &open.open_values(*sized);
      options.open_graph = &open.graph_of(*sized);
      PlanOptions from_nothing = options;
      share_nothing(from_nothing);
      from_nothing.open_graph = nullptr;
      INFO("seed " << seed << ", call " << call << "\n" << to_string(*sized));
      Plan kept = make_plan(*sized, options), anew = make_plan(*sized, from_nothing);
      REQUIRE(testing::to_string(kept) == testing::to_string(anew));
      require_same_bits(PlanRunner(std::move(kept)).run(inputs), PlanRunner(std::move(anew)).run(inputs));
      ++compared;
    }
  }
  CHECK(compared > 500);
}

namespace {

// The texts of plans for these sizes of N, which share what they know, are those of plans from nothing. Returns how many
// expressions each of them composed.
std::vector<std::size_t> composed_for(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  const OpenGraph open = opened(graph);
  PlanOptions options;
  options.isa = detected_isa();
  options.open_sizes = true;
  share_nothing(options);
  std::vector<std::size_t> result;
  for (const std::int64_t n : sizes) {
    const Graph sized = open.with_sizes(
        [n](const Atom& atom) { return atom.kind == Atom::Kind::kSymbol ? std::optional<Index>(n) : std::nullopt; });
    options.open_values = &open.open_values(sized);
    options.open_graph = &open.graph_of(sized);
    PlanOptions from_nothing = options;
    share_nothing(from_nothing);
    from_nothing.open_graph = nullptr;
    const std::size_t before = options.recognitions->expressions.finds();
    const std::string kept = testing::to_string(make_plan(sized, options));
    result.push_back(options.recognitions->expressions.finds() - before);
    INFO("size " << n);
    CHECK(kept == testing::to_string(make_plan(sized, from_nothing)));
  }
  return result;
}

}  // namespace

TEST_CASE("expressions that no open size is a part of are composed once") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(8)}});
  const ValueId c = graph.add_constant(Tensor::from_reals(DataType::kFloat, {8}, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  const ValueId y = testing::node(graph, "Mul", {testing::node(graph, "Tanh", {x})[0], c})[0];
  graph.add_output("y", testing::node(graph, "Add", {testing::node(graph, "Exp", {y})[0], y})[0]);
  const std::vector<std::size_t> composed = composed_for(graph, {5, 7, 50, 2});
  CHECK(composed[0] > 0);
  for (std::size_t later = 1; later < composed.size(); ++later) CHECK(composed[later] == 0);
}

TEST_CASE("constants that were made for some sizes are none of other plans") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2), Index::symbol("N")}});
  std::vector<ValueId> inputs{x};
  for (const double number : {1.0, 2.0, 4.0})
    inputs.push_back(graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, std::vector<double>{number})));
  graph.add_output("y", testing::node(graph, "Mean", inputs)[0]);
  composed_for(graph, {5, 50, 5, 7});
}

TEST_CASE("nodes that are free of open sizes have the same elements for any, and others are made where sizes count") {
  std::set<std::string> free, bound;  // operators
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph g(1000 + seed);
    const OpenGraph open = opened(any_network(g));
    const std::int64_t primes[] = {29, 31, 37, 23, 19};
    std::map<std::string, Index> sizes;  // different ones
    const Graph sized = open.with_sizes([&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
      return sizes.emplace(atom.name, primes[sizes.size()]).first->second;
    });
    const Graph& graph = open.graph_of(sized);
    const OpenNodes nodes(&graph, sized);
    for (const auto& node : sized.nodes()) {
      const std::shared_ptr<const Node>* const before = nodes.of(*node);
      REQUIRE(before != nullptr);
      if (!is_free_of_sizes(graph, **before)) {
        bound.insert(node->op->name());
        continue;
      }
      free.insert(node->op->name());
      INFO("seed " << seed << ", " << node->op->name() << "\n" << to_string(sized));
      CHECK(is_same_element(planning::define(sized, *node).outputs()[0], planning::define(graph, **before).outputs()[0]));
    }
  }
  for (const char* const name : {"Add", "Mul", "Relu", "Transpose", "Where"}) CHECK(free.contains(name));
  for (const char* const name : {"MatMul", "Softmax", "Conv"}) CHECK(!free.contains(name));
  CHECK(free.contains("Reshape"));
  CHECK(bound.contains("Conv"));
}

TEST_CASE("nodes of which a pass has made others are none of the open graph") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(4)}});
  graph.add_output("y", testing::node(graph, "Relu", {testing::node(graph, "Tanh", {x})[0]})[0]);
  const OpenGraph open(graph);
  const Graph sized = open.with_sizes([](const Atom&) { return std::optional<Index>(7); });
  const OpenNodes nodes(&open.graph_of(sized), sized);
  CHECK(nodes.of(*sized.nodes()[0]) != nullptr);
  CHECK(nodes.is_open(x, 0));
  CHECK(!nodes.is_open(x, 1));
  Node other = *sized.nodes()[1];
  other.inputs = {x};
  CHECK(nodes.of(other) == nullptr);
  Graph renumbered;
  const ValueId first = renumbered.add_input("other", {DataType::kFloat, {Index(7), Index(4)}});
  renumbered.add_output("y", testing::node(renumbered, "Relu", {testing::node(renumbered, "Tanh", {first})[0]})[0]);
  CHECK(OpenNodes(&open.graph_of(sized), renumbered).of(*renumbered.nodes()[0]) == nullptr);
}
