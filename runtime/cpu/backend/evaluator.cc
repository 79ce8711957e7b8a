#include "runtime/cpu/backend/evaluator.h"

#include <algorithm>
#include <vector>

#include "optimizer/costs/cost_model.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"

namespace rewright::cpu {

namespace {

// Operations that the interpreter executes in a fraction of a second.
constexpr double kInterpretedOperations = 4e6;

struct ConstantWork {
  bool moves = true;      // it only moves elements
  double operations = 0;  // of all nodes; each written element counts as one
};

ConstantWork work_of(const Graph& graph) {
  ConstantWork work;
  for (const auto& node : graph.nodes()) {
    const OperatorTraits traits = operator_traits(*node->op, node->attributes, graph.operand_types(*node));
    work.moves = work.moves && (traits.moves || traits.free);
    work.operations += traits.operations + traits.output_elements;
  }
  return work;
}

class CpuEvaluator final : public Evaluator {
 public:
  CpuEvaluator(int threads, Checkpoint checkpoint) {
    options_.threads = threads;
    options_.checkpoint = std::move(checkpoint);
  }

  std::vector<Tensor> evaluate(const Graph& graph, bool in_double) override {
    if (!options_.checkpoint) return evaluate_unbounded(graph, in_double);
    const EndableRun endable(options_.checkpoint);
    return evaluate_unbounded(graph, in_double);
  }

 private:
  std::vector<Tensor> evaluate_unbounded(const Graph& graph, bool in_double) {
    SessionOptions options = options_;
    options.precision_double = in_double;
    if (in_double) return prepare_session(cpu_backend(), graph, options)->run({});
    const ConstantWork work = work_of(graph);
    if (work.moves) return prepare_session(cpu_backend(), graph, options)->run({});
    return work.operations <= kInterpretedOperations ? interpret(graph, {}) : one_by_one(graph);
  }

  // Evaluates each node separately, in double, and rounds its results.
  std::vector<Tensor> one_by_one(const Graph& graph) {
    SessionOptions options = options_;
    options.precision_double = true;
    std::vector<std::size_t> last_use(graph.value_count(), 0);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n)
      for (const ValueId id : graph.nodes()[n]->inputs)
        if (id != kNoValue) last_use[id] = n;
    for (const GraphOutput& output : graph.outputs()) last_use[output.value] = graph.nodes().size();
    std::vector<Tensor> known(graph.value_count());
    const auto tensor = [&](ValueId id) { return graph.is_constant(id) ? graph.value(id).constant : known[id]; };
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      if (options_.checkpoint) options_.checkpoint();
      const Node& node = *graph.nodes()[n];
      Graph alone;
      std::vector<ValueId> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? id : alone.add_constant(tensor(id)));
      const std::vector<ValueId> results = alone.add_node(*node.op, node.attributes, std::move(inputs));
      std::vector<ValueId> named;
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o] == kNoValue) continue;
        named.push_back(node.outputs[o]);
        alone.add_output("v" + std::to_string(o), results.at(o));
      }
      std::vector<Tensor> tensors = prepare_session(cpu_backend(), alone, options)->run({});
      for (std::size_t o = 0; o < named.size(); ++o)
        if (last_use[named[o]] > n) known[named[o]] = std::move(tensors.at(o));
      for (const ValueId id : node.inputs)
        if (id != kNoValue && last_use[id] == n) known[id] = {};
    }
    std::vector<Tensor> results;
    for (const GraphOutput& output : graph.outputs()) results.push_back(tensor(output.value));
    return results;
  }

  SessionOptions options_;
};

}  // namespace

std::unique_ptr<Evaluator> make_cpu_evaluator(int threads, Checkpoint checkpoint) {
  return std::make_unique<CpuEvaluator>(threads, std::move(checkpoint));
}

}  // namespace rewright::cpu
