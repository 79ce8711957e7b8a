// The interface through which planning uses kernels, which are in a higher layer. Everything declared here is defined in
// runtime/cpu/kernels; planning itself names no kernel.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/base/layout.h"
#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/node_plan.h"
#include "runtime/session.h"

namespace rewright::cpu {

// A kernel for nodes of one operator.
struct NodeKernel {
  std::string_view op;  // the operator's name
  // Returns null if the kernel does not compute this node because of its types, sizes or attributes.
  std::unique_ptr<NodePlan> (*plan)(Planner& planner, const Node& node);
  // Does the kernel want the node's first operand as bfloat16, even if the graph is otherwise computed in float? Null: no.
  bool (*reads_bfloat16)(const Graph& graph, const Node& node, Isa isa) = nullptr;
};

// A kernel for nodes with reductions of any operator, which it recognizes by their denotations. Only nodes whose operator has
// no NodeKernel are offered.
using ReductionKernel = std::unique_ptr<NodePlan> (*)(Planner& planner, const Node& node);

// An element expression that a group computes: `element` at `position`, over `operands` (kNoValue: absent).
struct Expression {
  const Element& element;
  const Indices& position;
  ValueId result;
  const std::vector<ValueId>& operands;
  std::uint64_t name = 0;  // of all that the element depends on; 0: none
};
// Do kernels for expressions read and compute this type? Not floats of 8 bits and less, or integers of less.
inline bool computable_by_expressions(DataType type) { return packed_bits(type) >= (is_real(type) ? 16 : 8); }
// A kernel for expressions: adds the steps that compute one, or returns false and adds none.
using ExpressionKernel = bool (*)(Planner& planner, const Expression& expression);

// The lists in kernels/kernels.cc. The first kernel that accepts a node or expression computes it.
std::span<const NodeKernel> node_kernels();
std::span<const NodeKernel> node_kernels(std::string_view op);  // those for the operator of this name
std::span<const ReductionKernel> reduction_kernels();
std::span<const ExpressionKernel> expression_kernels();

inline bool has_node_kernels(std::string_view op) { return !node_kernels(op).empty(); }

// Converts a tensor's layout: floats, 32-bit integers, or elements of one byte.
std::unique_ptr<Kernel> make_layout_change(DataType type, const Sizes& sizes, Layout from, Layout to, Isa isa);

// Executes a node with the interpreter. `inputs`: the types of present operands.
std::unique_ptr<Kernel> make_interpreted(std::shared_ptr<const Node> node, std::vector<TensorType> inputs);

}  // namespace rewright::cpu
