#include "plans/pipelines/stages.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/pipelines/pipeline_step.h"
#include "plans/pipelines/schedule_timing.h"
#include "plans/plan.h"

namespace rewright::plans {

namespace {

double cost_of_arithmetic(const Operator& op, const Attributes& attributes, OperandTypes types, double) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return traits.free ? 0 : traits.operations / 1e9;
}

ValueId add_to(Graph& graph, const char* name, std::vector<ValueId> inputs,
               std::initializer_list<std::pair<const char*, AttributeValue>> given = {}) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  for (const auto& [field, value] : given) attributes.at(op.field(field).value()) = value;
  return graph.add_node(op, attributes, std::move(inputs)).at(0);
}

constexpr int kBatch = 12, kWidth = 8;

// A step of training by hand: products of a square weight each, gradients of sums of squares, and new weights.
struct Layers {
  Graph graph;
  std::vector<ValueId> data;
  std::vector<std::pair<std::size_t, ValueId>> replaced;

  explicit Layers(int count) {
    const TensorType matrix{DataType::kFloat, {kWidth, kWidth}};
    ValueId x = graph.add_input("x", {DataType::kFloat, {kBatch, kWidth}});
    data = {x};
    std::vector<ValueId> weights, before;
    for (int n = 0; n < count; ++n) weights.push_back(graph.add_input("w" + std::to_string(n), matrix));
    for (const ValueId w : weights) before.push_back(x), x = add_to(graph, "MatMul", {x, w});
    const ValueId loss = add_to(graph, "ReduceSum", {add_to(graph, "Mul", {x, x})}, {{"axes", Indices{0, 1}}});
    graph.add_output("loss", loss);
    std::vector<ValueId> updated(weights.size());
    ValueId gradient = add_to(graph, "Add", {x, x});
    for (int n = count; n-- > 0;) {
      const auto at = static_cast<std::size_t>(n);
      const ValueId transposed = add_to(graph, "Transpose", {before[at]}, {{"perm", Indices{1, 0}}});
      updated[at] = add_to(graph, "Sub", {weights[at], add_to(graph, "MatMul", {transposed, gradient})});
      if (n > 0)
        gradient = add_to(graph, "MatMul", {gradient, add_to(graph, "Transpose", {weights[at]}, {{"perm", Indices{1, 0}}})});
    }
    for (int n = 0; n < count; ++n) {
      replaced.emplace_back(graph.outputs().size(), weights[static_cast<std::size_t>(n)]);
      graph.add_output("new w" + std::to_string(n), updated[static_cast<std::size_t>(n)]);
    }
    graph.tidy();
  }
};

struct CutLayers {
  Layers layers;
  std::int64_t micro_batches;
  Plan plan;
  GroupGraph group;
  MicroBatchRoles roles;
  Anchors anchors;

  CutLayers(int count, std::int64_t m) : layers(count), micro_batches(m) {
    ChoiceFinder choices(m, cost_of_arithmetic);
    choices.keep_only([m](const NodeChoice& c) { return why_not_alike(c, m).empty(); });
    PartitionOptions options;
    options.processes = m, options.replaced = layers.replaced;
    const Partition partition = cut_into_micro_batches(layers.graph, layers.data, m, choices);
    plan = make_plan(layers.graph, partition, options);
    plan.purpose = "training", plan.loss = "none", plan.update = "none";
    group = group_graph(layers.graph, partition, options, 0);
    roles = roles_of(group, true);
    anchors = anchors_of(group, roles);
  }

  Plan with(const std::string& name, std::size_t processes, const std::vector<std::size_t>& first) const {
    Plan result = plan;
    result.strategy = "pipeline:" + name;
    result.pipeline = std::make_shared<const Pipeline>(
        with_stages(named_schedule(name, {processes, static_cast<std::size_t>(micro_batches)}), group, roles, anchors, first));
    return result;
  }
  PlanCheck check(const Plan& of) const { return check_plan(of, layers.graph, layers.replaced); }
};

std::vector<std::size_t> even_stages(std::size_t places, std::size_t stages) {
  std::vector<std::size_t> first;
  for (std::size_t s = 0; s < stages; ++s) first.push_back(s * places / stages);
  return first;
}

}  // namespace

TEST_CASE("micro-batches add up their gradients, and stages send activations and gradients", "[pipelines]") {
  const CutLayers cut(4, 3);
  CHECK(cut.roles.barrier.empty());
  REQUIRE(cut.anchors.places == 6);  // four products, a square and its sum
  int sums = 0;
  for (const auto& [n, exchange] : cut.group.exchanges) sums += exchange.exchange == Exchange::kAllReduce;
  REQUIRE(sums == 5);  // gradients and the loss
  const Plan plan = cut.with("1f1b", 4, {0, 1, 2, 3});
  int forward = 0, backward = 0;
  for (const StageSend& s : plan.pipeline->sends) {
    forward += s.time == SendTime::kForward, backward += s.time == SendTime::kBackward;
    REQUIRE((s.time == SendTime::kForward ? s.to == s.from + 1 : s.from == s.to + 1));
  }
  REQUIRE((forward == 3 && backward == 3));
  const PlanCheck check = cut.check(plan);
  INFO(check.reason);
  REQUIRE(check.proved);
}

TEST_CASE("pipelines of all synchronous schedules are proved, of asynchronous ones not", "[pipelines]") {
  const CutLayers cut(6, 4);
  for (const std::string& name : schedule_names()) {
    const std::size_t stages = named_schedule(name, {2, 4}).stages;
    const Plan plan = cut.with(name, 2, even_stages(cut.anchors.places, stages));
    const PlanCheck check = cut.check(plan);
    INFO(name << ": " << check.reason);
    const bool is_asynchronous = name.starts_with("pipedream");
    REQUIRE(check.proved == !is_asynchronous);
    if (is_asynchronous) REQUIRE(check.reason.find("asynchronous") != std::string::npos);
    // The file says the same.
    const Plan again = read_plan(write_plan(plan, cut.layers.graph, cut.layers.replaced), "a file");
    REQUIRE(again.all_processes() == 2);
    REQUIRE(cut.check(again).proved == check.proved);
  }
}

TEST_CASE("pipelines that were changed are not proved", "[pipelines]") {
  const CutLayers cut(5, 4);
  const Plan plan = cut.with("1f1b", 2, even_stages(cut.anchors.places, 2));
  REQUIRE(cut.check(plan).proved);
  std::mt19937 random(5);
  const auto changed = [&](const auto& change) {
    Plan wrong = plan;
    auto pipeline = std::make_shared<Pipeline>(*plan.pipeline);
    change(*pipeline, wrong);
    wrong.pipeline = pipeline;
    const PlanCheck check = cut.check(wrong);
    REQUIRE_FALSE(check.proved);
    REQUIRE(check.reason.find('\n') == std::string::npos);
    return check.reason;
  };
  REQUIRE(changed([](Pipeline& p, Plan&) { p.sends.pop_back(); }).find("nothing sends") != std::string::npos);
  REQUIRE(changed([](Pipeline& p, Plan&) {
            p.sends.push_back({0, 1, 0, SendTime::kAfter});
          }).find("nothing needs") != std::string::npos);
  REQUIRE(changed([](Pipeline& p, Plan&) { p.schedule.processes[1].pop_back(); }).find("enter no update") != std::string::npos);
  REQUIRE(changed([](Pipeline& p, Plan&) { p.nodes[0] = 7; }).find("is in stage 7") != std::string::npos);
  REQUIRE(changed([](Pipeline&, Plan& w) { w.exchanges.pop_back(); }).find("the plan has no") != std::string::npos);
  REQUIRE(changed([](Pipeline& p, Plan&) {
            p.schedule = named_schedule("1f1b", {2, 2});
          }).find("micro-batches") != std::string::npos);
  // A node in another stage: something is sent that was not, or too late.
  for (int n = 0; n < 20; ++n)
    changed([&](Pipeline& p, Plan&) {
      std::size_t at = random() % p.nodes.size();
      while (cut.group.graph.nodes()[at]->inputs.empty()) at = random() % p.nodes.size();
      p.nodes[at] = 1 - p.nodes[at];
    });
}

TEST_CASE("a batch normalization needs all micro-batches at once", "[pipelines]") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {kBatch, kWidth}});
  const ValueId sum = add_to(graph, "ReduceSum", {x}, {{"axes", Indices{0}}, {"keepdims", true}});
  graph.add_output("y", add_to(graph, "Sub", {x, sum}));
  ChoiceFinder choices(3, cost_of_arithmetic);
  choices.keep_only([](const NodeChoice& c) { return why_not_alike(c, 3).empty(); });
  PartitionOptions options;
  options.processes = 3;
  const Partition partition = cut_into_micro_batches(graph, {x}, 3, choices);
  const MicroBatchRoles roles = roles_of(group_graph(graph, partition, options, 0), false);
  REQUIRE(roles.barrier.find("ReduceSum") != std::string::npos);
  REQUIRE_THROWS_WITH(cut_into_micro_batches(graph, {x}, 5, choices), "12 samples are no 5 equal micro-batches");
}

TEST_CASE("stages are divided so that the longest is shortest, as by trying all", "[pipelines]") {
  std::mt19937 random(1);
  for (int n = 0; n < 40; ++n) {
    StageCosts costs;
    const std::size_t places = 3 + random() % 7, stages = 1 + random() % 3;
    for (std::size_t k = 0; k < places; ++k) {
      costs.seconds.push_back(1 + random() % 9), costs.crossing.push_back(random() % 5);
      costs.given_bytes.push_back(random() % 4), costs.activation_bytes.push_back(random() % 3);
    }
    costs.seconds_per_byte = 1;
    costs.held.assign(stages, 2), costs.memory.assign(stages, 4 + random() % 40);
    const auto longest = [&](const std::vector<std::size_t>& first) {
      double most = 0;
      for (std::size_t s = 0; s < stages; ++s) {
        const std::size_t end = s + 1 < stages ? first[s + 1] : places;
        double seconds = 0, bytes = 0;
        for (std::size_t k = first[s]; k < end; ++k)
          seconds += costs.seconds[k], bytes += costs.given_bytes[k] + 2 * costs.activation_bytes[k];
        if (bytes > costs.memory[s]) return std::numeric_limits<double>::infinity();
        most = std::max(most, seconds);
        if (s > 0) most = std::max(most, costs.crossing[first[s]]);
      }
      return most;
    };
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> first(stages, 0);
    const auto each = [&](const auto& self, std::size_t s) -> void {
      if (s == stages) {
        best = std::min(best, longest(first));
        return;
      }
      for (first[s] = first[s - 1] + 1; first[s] < places; ++first[s]) self(self, s + 1);
    };
    each(each, 1);
    const auto found = divide_into_stages(costs, stages, 0);
    REQUIRE(found.empty() == (best == std::numeric_limits<double>::infinity()));
    if (!found.empty()) REQUIRE(longest(found) == best);
    const auto slack = divide_into_stages(costs, stages, 0.5);
    if (!found.empty()) REQUIRE(longest(slack) <= best * 1.5);
  }
}

TEST_CASE("a simulated pipeline takes what its schedule says where links take no time", "[pipelines]") {
  MachineDescription description;
  description.devices = description.per_node = 4;
  description.rates = DeviceRates{1e9, 1e18, 0};
  description.node = NetworkDescription{1e-15, 1e18};
  const Machine machine(description);
  const CutLayers cut(8, 6);
  double most_bytes = 0;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "chimera", "zb-v"}) {
    const std::size_t stages = named_schedule(name, {4, 6}).stages;
    const Plan plan = cut.with(name, 4, even_stages(cut.anchors.places, stages));
    ScheduleTimes times;
    for (const StageWork& w : stage_work(machine, *plan.pipeline, cut.group, cut.roles, cost_of_arithmetic))
      times.stages.push_back({w.forward, w.backward, w.weights, w.after});
    const ScheduleTiming expected = time_schedule(repeated(plan.pipeline->schedule, 3), times);
    Simulation simulation(machine);
    const PipelineTimes found = simulate_pipeline(simulation, *plan.pipeline, cut.group, cut.roles, cost_of_arithmetic);
    INFO(name << " " << found.seconds << " " << expected.seconds);
    REQUIRE(std::abs(found.seconds - expected.seconds) <= 1e-6 * expected.seconds);
    REQUIRE(found.bubble >= 0);
    // Six micro-batches' activations in GPipe, four at most in 1F1B.
    const auto peaks = simulation.peak_bytes();
    if (name == std::string("gpipe")) most_bytes = peaks[0];
    if (name == std::string("1f1b")) REQUIRE(peaks[0] < most_bytes);
  }
}

}  // namespace rewright::plans
