// Samples: single operators, or a few connected ones, as graphs to be timed, and the texts under which their times are stored.
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
  std::optional<Tensor> tensor;  // a constant whose elements affect the computation or its fusion
  std::int32_t member = -1;      // computed by another node of the sample
  ValueId value = kNoValue;      // in the graph that the sample is taken from
};

struct NodeOfSample {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<OperandSample> operands;
};

// A node of a graph with numbers for its symbolic sizes.
NodeOfSample node_of_sample(const MatchedGraph& graph, const Node& node, const Substitution& sizes);
// Several nodes of a graph, at ascending positions, each with one output. Constants of one element keep their values, since a
// backend's fusions may depend on them.
std::vector<NodeOfSample> nodes_of_sample(const MatchedGraph& graph, std::span<const std::uint32_t> positions,
                                          const Substitution& sizes);

std::vector<std::optional<TensorType>> types_of(const std::vector<OperandSample>& operands);

// Equal for equal samples.
std::string describe(const std::string& op, const Attributes& attributes, const std::vector<OperandSample>& operands);
std::string describe(std::span<const NodeOfSample> nodes);

// The graph's outputs are those of the last node.
Graph make_sample(std::span<const NodeOfSample> nodes);

}  // namespace rewright::optimizer
