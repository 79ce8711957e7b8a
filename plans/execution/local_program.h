// A plan as the program of one process: graphs of the process's own parts, and the exchanges between them.
//
// Nodes become nodes of the process's part of the work (part_attributes of the cut that is proved), and their operands the
// parts that it has; a part of what it holds anyway is a slice. All nodes of one level (plans/groups/execution_order.h) are one
// piece, so that a piece is as large as can be. Each exchange can begin when its value is computed, in the midst of a
// piece, and must be done when the first node that reads its result is computed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "distribution/tensor_exchange.h"
#include "graph/graph.h"
#include "plans/execution/plan_processes.h"
#include "plans/plan.h"

namespace rewright::plans {

// Tensors that the process has between pieces and exchanges are numbered.
struct LocalValue {
  std::string name;
  DataType type = DataType::kUndefined;
  Sizes sizes;      // of this process's tensor
  Tensor constant;  // not empty: known from the start
};

struct LocalPiece {
  Graph graph;
  std::vector<std::size_t> inputs, outputs;  // numbers of values, in the order of the graph's
};

struct LocalExchange {
  Exchange exchange = Exchange::kNone;  // none: each process takes a part of what it has
  PlanLevel level = PlanLevel::kWithin;
  std::size_t from = 0, to = 0;  // numbers of values
  Sizes whole;                   // sizes of the whole tensor
  TensorParts before, after;
  std::optional<Reduction> reduction;  // of partial values
  distribution::PairLimits pairs = {};
};

// An input or output of the graph, and the part of it that each process holds: of that of its group, if there are groups.
struct LocalPort {
  std::size_t value = 0;
  std::string name;
  DataType type = DataType::kUndefined;
  std::optional<Division> between;  // the groups
  Division within;                  // a group
  const Sizes& whole() const { return between ? between->whole : within.whole; }
};
// This process's part of the whole tensor.
Tensor own_part(const Tensor& whole, const LocalPort& port, const PlanProcesses& processes);
// This process's part of a tensor that the first process has; others may pass an empty one.
Tensor scatter(const Tensor& whole, const LocalPort& port, PlanProcesses& processes);
// The whole tensor, from everybody's parts: in all processes, or in the first one and empty in the others.
Tensor gather(const Tensor& mine, const LocalPort& port, PlanProcesses& processes);
Tensor gather_in_first(const Tensor& mine, const LocalPort& port, PlanProcesses& processes);

struct LocalProgram {
  std::size_t groups = 1;
  std::vector<LocalValue> values;
  std::vector<LocalPiece> pieces;        // in order
  std::vector<LocalExchange> exchanges;  // in order, which is the same in all processes
  std::vector<LocalPort> inputs;         // in the order of the graph's
  std::vector<LocalPort> outputs;
};

// The program of process `rank` of a plan that is proved. Throws Error(kBadInput) for a plan of another graph, and
// Error(kUnsupported) with the node's place where it cannot be computed in parts: opaque nodes, and random ones, of which each
// process would have its own results.
LocalProgram local_program(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                           std::size_t rank);

// Runs the program's pieces one after another, with `compute` for each of them: for tests and to see what a plan does. What
// executes plans is runtime/planned/.
std::vector<Tensor> run_in_order(const LocalProgram& program, PlanProcesses& processes, std::vector<Tensor> inputs,
                                 const std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor>)>& compute);
// This process's tensor behind the exchange. Memory for it and for messages is the pool's, if there is one.
Tensor exchanged(const LocalExchange& exchange, const Tensor& mine, PlanProcesses& processes, TensorPool* pool = nullptr);

}  // namespace rewright::plans
