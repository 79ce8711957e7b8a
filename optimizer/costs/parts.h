// Shared by the parts of the cost model: only optimizer/costs/*.cc include it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/costs/cost_model.h"

namespace rewright::optimizer {

// Times of all signatures with one text.
struct CostModel::Time {
  bool asked = false;              // the database and the device were asked
  bool failed = false;             // the device could not execute it
  std::optional<double> measured;  // seconds
};

// A sample at known sizes.
struct CostModel::Timed {
  std::string text;  // under which its time is kept
  std::shared_ptr<Time> time;
  std::function<Graph()> sample;     // to be timed
  OperatorSize size;                 // the same for all samples of one text
  double operations = 0, bytes = 0;  // of this one
  double weights = 0;                // bytes of operands that are constant
  double share = 1;                  // of the sizes, in all of them
};

struct CostModel::Signature {
  OperatorTraits traits;  // amounts are means over the sizes, and what is said of it holds for all of them
  bool opaque = false;
  std::vector<Timed> at;  // the sizes of the options, in their order; empty where it is opaque
};

// For a fused operator with another varying operand, which must still be read, while its own input and output are not.
inline constexpr double kFusedShare = 0.5;

// Smaller pointwise operators are as fast one by one, since their cost is the calls.
inline constexpr double kGroupedBytes = 1 << 16;

template <class Visit>
void CostModel::visit(const MatchedGraph& matched, const Visit& visit) {
  const Graph& graph = *matched.graph;
  std::vector<Counted> counted(graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    bool all_constant = !node.outputs.empty();
    for (const ValueId id : node.outputs)
      if (id != kNoValue && !matched.constant[id]) all_constant = false;
    if (all_constant) continue;
    Signature& signature = *signatures_[signature_of(matched, graph.nodes()[n])];
    bool fused = false, reads_more = false;
    if (signature.traits.pointwise) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || !signature.traits.aligned[i] || matched.constant[id]) continue;
        const std::int32_t producer = matched.producers[id];
        const bool joins = !fused && producer >= 0 && counted[static_cast<std::size_t>(producer)].in_contraction &&
                           matched.users(id).size() == 1 && !matched.is_output[id];
        if (joins)
          fused = true;
        else
          reads_more = true;
      }
    }
    counted[n].signature = &signature;
    counted[n].share = !fused ? 1.0 : reads_more ? kFusedShare : 0.0;
    counted[n].in_contraction = fused || signature.traits.contraction;
    const bool moves = strided_reads_ != StridedReads::kNone && signature.traits.moves;
    counted[n].may_group = !fused && signature.traits.pointwise && !signature.traits.free && !moves && !signature.opaque &&
                           node.outputs.size() == 1 && signature.traits.bytes >= kGroupedBytes;
  }
  for (std::size_t n = graph.nodes().size(); n > 0; --n) {
    Counted& last = counted[n - 1];
    if (!last.signature || last.grouped) continue;
    const OperatorTraits& traits = last.signature->traits;
    if (strided_reads_ != StridedReads::kNone && !last.signature->opaque && (traits.free || traits.moves)) {
      last.passed = passes(matched, *graph.nodes()[n - 1], counted);
      if (last.passed) last.share = 0;
    }
    if (last.may_group) {
      const std::vector<std::uint32_t> members = group_of(matched, static_cast<std::uint32_t>(n - 1), counted);
      // Activations are often written as several operators (x * sigmoid(x), the parts of a Gelu), for which backends have one
      // kernel: connected pointwise operators are timed together if one of them applies a function. Chains of sums and products
      // are not: each waits for memory, and searches create too many of them to time each.
      const bool activation = std::any_of(members.begin(), members.end(),
                                          [&](std::uint32_t member) { return counted[member].signature->traits.applies; });
      if (members.size() > 1) {
        if (Signature* group = activation ? group_signature(matched, members) : nullptr) {
          visit(*group, 1.0, std::span<const std::uint32_t>(members));
          continue;
        }
        for (const std::uint32_t member : members) counted[member].grouped = counted[member].may_group = false;
      }
    }
    const auto position = static_cast<std::uint32_t>(n - 1);
    visit(*last.signature, last.share, std::span(&position, 1));
  }
}

}  // namespace rewright::optimizer
