// Samples: single operators, or a few that hang together, as graphs of their own to be timed, and the texts under which their
// times are kept.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimizer/matching/match.h"

namespace rewright::optimizer {

// The role of an operand in a sample.
struct OperandSample {
  TensorType type;
  bool present = false, constant = false;
  std::optional<Tensor> tensor;  // of a constant whose elements decide what is computed, or how it is fused
  std::int32_t member = -1;      // made by another node of the sample
  ValueId value = kNoValue;      // in the graph that the sample is taken from
};

struct NodeOfSample {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<OperandSample> operands;
};

// A node of a graph with numbers for its symbolic sizes.
NodeOfSample node_of_sample(const MatchedGraph& graph, const Node& node, const Substitution& sizes);
// Several nodes of a graph, positions ascending, each with one output. Constants of one element are kept with their values:
// what a backend fuses may depend on them.
std::vector<NodeOfSample> nodes_of_sample(const MatchedGraph& graph, std::span<const std::uint32_t> positions,
                                          const Substitution& sizes);

std::vector<std::optional<TensorType>> types_of(const std::vector<OperandSample>& operands);

// Equal texts are equal samples.
std::string describe(const std::string& op, const Attributes& attributes, const std::vector<OperandSample>& operands);
std::string describe(std::span<const NodeOfSample> nodes);

// The outputs of the last node are the graph's.
Graph make_sample(std::span<const NodeOfSample> nodes);

}  // namespace rewright::optimizer
