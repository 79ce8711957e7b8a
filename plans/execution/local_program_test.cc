#include "plans/execution/local_program.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "distribution/testing.h"
#include "operators/testing/share.h"
#include "plans/execution/testing.h"
#include "runtime/testing.h"

namespace rewright::plans {

namespace {

using testing::node, testing::RandomGraph, testing::run_as_processes;

// The outputs of the plan, executed by the interpreter in all processes: the first process's.
std::vector<Tensor> by_processes(const Plan& plan, const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  run_as_processes(static_cast<std::size_t>(plan.all_processes()), [&](Communicator& all) {
    const LocalProgram program = local_program(plan, graph, {}, all.rank());
    PlanProcesses processes(all, program.groups);
    std::vector<Tensor> mine;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      mine.push_back(own_part(inputs[i], program.inputs[i], processes));
      if (!(scatter(all.rank() == 0 ? inputs[i] : Tensor(), program.inputs[i], processes) == mine.back()) ||
          !(gather(mine.back(), program.inputs[i], processes) == inputs[i]))
        throw Error(ErrorCode::kBadInput, "an input is not what was scattered");
      const Tensor whole = gather_in_first(mine.back(), program.inputs[i], processes);
      if (all.rank() == 0 ? !(whole == inputs[i]) : static_cast<bool>(whole))
        throw Error(ErrorCode::kBadInput, "an input is not gathered in the first process alone");
    }
    const std::vector<Tensor> outputs = run_in_order(program, processes, std::move(mine), interpret);
    if (all.rank() == 0) result = outputs;
  });
  return result;
}

// A random operator on random values that are there; `values` have four axes.
void grow(RandomGraph& g, std::vector<ValueId>& values) {
  const ValueId x = values[g.random() % values.size()];
  const auto size = [&](std::size_t axis) { return g.graph.value(x).type.shape[axis].value(); };
  const auto add = [&](std::string_view op, std::vector<ValueId> inputs,
                       std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    values.push_back(node(g.graph, op, std::move(inputs), std::move(attributes)).at(0));
  };
  const std::int64_t axis = g.pick(1, 3);
  switch (g.pick(0, 11)) {
    case 0:
      return add("Tanh", {x});
    case 1:
      return add("Add", {x, g.constant({size(1), 1, size(3)})});
    case 2:
      return add("MatMul", {x, g.constant({size(3), g.pick(4, 9)})});
    case 3:
      return add("Transpose", {x}, {{"perm", Indices{0, 1, 3, 2}}});
    case 4:
      return add("Softmax", {x}, {{"axis", Index(axis)}});
    case 5:
      return add(g.pick(0, 1) ? "ReduceSum" : "ReduceMax", {x}, {{"axes", Indices{axis}}, {"keepdims", true}});
    case 6:
      return add("Conv", {x, g.constant({g.pick(4, 7), size(1), std::min<std::int64_t>(3, size(2)), 1}), g.constant({})},
                 {{"pads_begin", Indices{1, 0}}, {"pads_end", Indices{1, 0}}});
    case 7:
      return add("Mul", {x, x});
    case 8:
      return add("Concat", {x, x}, {{"axis", Index(axis)}});
    case 9:
      return add("LayerNormalization", {x, g.constant({size(3)}), g.constant({size(3)})}, {{"axis", Index(3)}});
    case 10:
      return add("Reshape", {x}, {{"shape", Indices{size(0), size(1) * size(2), 1, size(3)}}});
    default:
      return add(
          "MaxPool", {x},
          {{"kernel", Indices{3, 3}}, {"strides", Indices{2, 1}}, {"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}});
  }
}

// A few operators behind an input of these sizes.
RandomGraph random_graph(unsigned seed, const Sizes& sizes) {
  RandomGraph g(seed);
  std::vector<ValueId> values{g.input(sizes)};
  for (int n = 0; n < 7; ++n) try {
      grow(g, values);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kBadInput) throw;  // sizes that do not fit
    }
  g.graph.add_output("y", values.back());
  g.graph.add_output("z", values[values.size() / 2]);
  g.graph.tidy();
  return g;
}

double free_of_cost(const Operator&, const Attributes&, OperandTypes, double) { return 0; }

}  // namespace

TEST_CASE("local programs: random graphs by random plans compute what one process computes") {
  std::size_t exchanges = 0;
  for (const std::int64_t processes : {2, 4}) {
    ChoiceFinder choices(processes, free_of_cost);
    for (unsigned seed = 0; seed < (testing::kSanitized ? 12u : 40u); ++seed) {
      RandomGraph g = random_graph(seed, {5, 4, 9, 6});
      const std::vector<Tensor> expected = interpret(g.graph, g.inputs);
      const Plan plan = testing::random_plan(g.random, g.graph, choices, processes);
      exchanges += plan.exchanges.size();
      INFO("seed " << seed << ", " << processes << " processes\n" << write_plan(plan, g.graph));
      testing::require_close(g.graph, by_processes(plan, g.graph, g.inputs), expected, {});
    }
  }
  CHECK(exchanges > (testing::kSanitized ? 60 : 200));
}

TEST_CASE("local programs: random plans that compute values again") {
  std::size_t again = 0;
  ChoiceFinder choices(2, free_of_cost);
  for (unsigned seed = 0; seed < (testing::kSanitized ? 8u : 30u); ++seed) {
    RandomGraph g = random_graph(seed, {5, 4, 9, 6});
    const std::vector<Recomputation> recomputed = testing::random_recomputations(g.random, g.graph, 2);
    const RecomputedGraph changed = with_recomputations(g.graph, recomputed);
    again += static_cast<std::size_t>(std::count(changed.again.begin(), changed.again.end(), true));
    Plan plan = testing::random_plan(g.random, changed.graph, choices, 2, {}, false, changed.again);
    plan.recomputed = recomputed;
    const std::string text = write_plan(plan, changed.graph);
    INFO("seed " << seed << "\n" << text);
    const Plan read = read_plan(text, "test");
    CHECK(read.recomputed == recomputed);
    CHECK(read.sequence == plan.sequence);
    CHECK(check_plan(read, changed.graph, {}).reason.empty());
    testing::require_close(g.graph, by_processes(read, changed.graph, g.inputs), interpret(g.graph, g.inputs), {});
    // Each copy is computed: no piece joins it with what it repeats.
    std::size_t computed = 0;
    for (const LocalPiece& piece : local_program(read, changed.graph, {}, 0).pieces)
      for (const auto& node : piece.graph.nodes()) computed += node->op->name() != "Slice" && node->op->name() != "Fill";
    CHECK(computed == changed.graph.nodes().size());
    if (!recomputed.empty()) CHECK_THROWS_WITH(check_plan(read, g.graph, {}), Catch::Contains("another model"));
  }
  CHECK(again > (testing::kSanitized ? 8 : 30));
}

TEST_CASE("local programs: random plans of two levels compute what one process computes") {
  std::size_t between = 0, cut_between = 0;
  const auto cuts = std::make_shared<CutFinder>();
  for (const auto& [groups, size] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {2, 3}, {3, 2}}) {
    ChoiceFinder outer(groups, free_of_cost, cuts);
    outer.keep_only([groups = groups](const NodeChoice& c) { return why_not_alike(c, groups).empty(); });
    for (unsigned seed = 0; seed < (testing::kSanitized ? 3u : 8u); ++seed) {
      RandomGraph g = random_graph(seed, {6, 4, 12, 6});
      Plan plan = testing::random_plan(g.random, g.graph, outer, groups, {}, true);
      const GroupGraph group = group_of(plan, g.graph, {}, 0);
      ChoiceFinder inner(size, free_of_cost, cuts);
      for (const auto& [n, exchange] : group.exchanges) {
        const Node& node = *group.graph.nodes()[n];
        inner.add_opaque(node.opaque_reason, choices_between(exchange, group.graph.value(node.outputs[0]).type, size, {}));
      }
      const std::vector<Recomputation> recomputed = testing::random_recomputations(g.random, group.graph, 4);
      const RecomputedGroup again = with_recomputations(group, recomputed);
      Plan within = testing::random_plan(g.random, again.group.graph, inner, size, group.replaced, false, again.again);
      within.recomputed = recomputed;
      plan.within = std::make_shared<const Plan>(std::move(within));
      between += group.exchanges.size();
      for (const auto& [n, exchange] : again.group.exchanges) cut_between += plan.within->cuts[n].has_value();
      INFO("seed " << seed << ", " << groups << " groups of " << size << "\n" << write_plan(plan, g.graph));
      const PlanCheck check = check_plan(read_plan(write_plan(plan, g.graph), "test"), g.graph, {});
      CHECK(check.reason.empty());
      testing::require_close(g.graph, by_processes(plan, g.graph, g.inputs), interpret(g.graph, g.inputs), {});
    }
  }
  CHECK(between > (testing::kSanitized ? 10 : 30));
  CHECK(cut_between > (testing::kSanitized ? 5 : 15));
}

TEST_CASE("local programs: Megatron's feed-forward layer is two pieces and one sum") {
  RandomGraph g(1);
  const ValueId x = g.input({6, 8}), first = g.constant({8, 32}), second = g.constant({32, 8});
  const ValueId h = node(g.graph, "Relu", {node(g.graph, "MatMul", {x, first}).at(0)}).at(0);
  g.graph.add_output("y", node(g.graph, "MatMul", {h, second}).at(0));
  g.graph.tidy();
  ChoiceFinder choices(2, free_of_cost);
  PartitionOptions options;
  options.processes = 2, options.latency = 1e-6, options.seconds_per_byte = 1e-9;
  options.allowed = [&](ValueId v, const Holding& held) {
    return v == x ? held.kind == Holding::Kind::kWhole : held.kind == Holding::Kind::kCut;
  };
  const Partition best = partition(g.graph, choices, options);
  REQUIRE(best.found);
  const Plan plan = make_plan(g.graph, best, options);
  const LocalProgram program = local_program(plan, g.graph, {}, 1);
  REQUIRE(program.exchanges.size() == 1);
  CHECK(program.exchanges[0].exchange == Exchange::kAllReduce);
  REQUIRE(program.pieces.size() == 1);
  CHECK(program.pieces[0].graph.nodes().size() == 3);
  testing::require_close(g.graph, by_processes(plan, g.graph, g.inputs), interpret(g.graph, g.inputs), {});
}

TEST_CASE("local programs: what several processes cannot compute is refused") {
  RandomGraph g(1);
  Value result;
  result.type = {DataType::kFloat, {6, 8}};
  Node opaque;
  opaque.inputs = {g.input({6, 8})};
  opaque.outputs = {g.graph.add_value(result)};
  opaque.opaque_reason = "its meaning is not known";
  const ValueId y = opaque.outputs[0];
  g.graph.add_raw(std::move(opaque));
  g.graph.add_output("y", y);
  ChoiceFinder choices(2, free_of_cost);
  const Plan plan = testing::random_plan(g.random, g.graph, choices, 2);
  CHECK_THROWS_WITH(local_program(plan, g.graph, {}, 0), Catch::Contains("its meaning is not known"));
  RandomGraph other(2);
  other.graph.add_output("y", node(other.graph, "Tanh", {other.input({6, 8})}).at(0));
  CHECK_THROWS_WITH(local_program(plan, other.graph, {}, 0), Catch::Contains("another model"));
}

}  // namespace rewright::plans
