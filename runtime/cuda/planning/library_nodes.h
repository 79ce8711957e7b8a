// Nodes that libraries compute, with the following nodes that their epilogues absorb.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/cuda/driver/activation.h"
#include "runtime/cuda/planning/graph_facts.h"
#include "runtime/cuda/planning/plan.h"

namespace rewright::cuda {

struct LibraryNode {
  LibraryShape shape;
  std::vector<ValueId> inputs;  // in the order of the shape's inputs
  std::vector<LibraryStep::Start> starts;

  // Absorbs a chain after the node: a bias, the addition of another tensor, or an activation. False if the library has no such
  // epilogue.
  bool absorb(const GraphFacts& facts, const Chain& chain);
  // The epilogue as an expression over the result without it (operand 0) and the inputs from the third on; null if there is
  // none.
  Element epilogue(const GraphFacts& facts, const ValueInfo& result, const Indices& position) const;
  LibraryShape without_epilogue() const;

 private:
  FoundActivation activation() const;
  bool absorb_activation(const Element& element);
};

// Products and convolutions, whose kernels absorb what follows them.
bool is_multiplied_by_library(std::string_view operator_name);

// nullopt if no library computes the node with its types and attributes.
std::optional<LibraryNode> library_node(const GraphFacts& facts, const Node& node);

}  // namespace rewright::cuda
