// Operators that are graphs of others, and that one kernel computes as a whole. A session puts a node of its own in the place
// of the graph that such an operator stands for, before any sizes are known: there is less to plan for each set of sizes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace rewright::cpu {

// y = a w + bias, w[k, n] = (q[n, k] - zero[n, k / block]) * scale[n, k / block], for constant q of few bits in the bytes of
// MatMulNBits. Inputs: a, q, bias, scales, zeros (integers of `bits` bits; absent: half of their range).
struct BlockProduct {
  static constexpr std::string_view kName = "product with weights in blocks";
  static constexpr InputCount kInputs{4, 5};
  Index columns, depth, block, bits, accuracy;  // accuracy: as accuracy_level; 0: that of floats
  template <class V>
  void fields(V&& v) {
    v("columns", columns), v("depth", depth), v("block", block), v("bits", bits), v("accuracy", accuracy);
  }
  Definition define(const Inputs& in) const;
};

// GroupQueryAttention with its rotation and its cache. Inputs: q, k, v (both absent: q has all three), the past keys and
// values, the last position of each sequence; cosines, sines and positions of the rotation (absent: none, and the past's); a
// further score of each head, its sink; scales of the heads' norms, of queries and of keys.
// Outputs: the result, and the present keys and values.
struct CachedAttention {
  static constexpr std::string_view kName = "attention with a cache";
  static constexpr InputCount kInputs{6, 12};
  static constexpr std::size_t kSinks = 9, kQueryNorm = 10, kKeyNorm = 11;
  static constexpr std::int64_t kFewQueries = 16;  // that share keys: then one plan serves all lengths of the cache
  Index heads, shared, total;                      // of queries, and of keys and values; the length of the longest sequence
  Index window = -1;                               // how many positions a query reads; -1: all
  Real scale, softcap, epsilon;                    // epsilon: of the norms
  bool causal = true, interleaved = false, smooth = false;  // smooth: sinks are 0
  bool evicts = false;                                      // a cache of a window (operators/contrib/grouped_attention.cc)
  template <class V>
  void fields(V&& v) {
    v("heads", heads), v("shared", shared), v("total", total), v("window", window), v("scale", scale);
    v("softcap", softcap), v("epsilon", epsilon), v("causal", causal), v("interleaved", interleaved), v("smooth", smooth);
    v("evicts", evicts);
  }
  Definition define(const Inputs& in) const;
};

// MoE and QMoE with two layers of constant weights (operators/contrib/experts.cc). Inputs: x, scores; weights and biases of
// both layers; of weights with few bits also scales and zero points of both layers; shares of all experts (absent: the
// softmax).
struct ExpertMixture {
  static constexpr std::string_view kName = "mixture of experts";
  static constexpr InputCount kInputs{4, 11};
  enum Input : std::size_t { kX, kScores, kWeights, kBiases = 4, kScales = 6, kZeros = 8, kShares = 10 };
  Index chosen;                                         // experts in a row
  Index inner;                                          // hidden values
  bool normalized = false;                              // do the chosen experts' shares add up to 1?
  std::string activation;                               // as activation_type
  Index fusion = 0;                                     // as swiglu_fusion
  Real alpha = 1, beta = 0, limit = 0;                  // of swiglu; limit 0: none
  Index bits1 = 0, bits2 = 0, block = 0, accuracy = 0;  // bits 0: weights are floats. block 0: whole rows
  template <class V>
  void fields(V&& v) {
    v("chosen", chosen), v("inner", inner), v("normalized", normalized), v("activation", activation), v("fusion", fusion);
    v("alpha", alpha), v("beta", beta), v("limit", limit), v("bits1", bits1), v("bits2", bits2), v("block", block);
    v("accuracy", accuracy);
  }
  Definition define(const Inputs& in) const;
};

// RotaryEmbedding of x [batch, heads, length, size] or, with the number of heads, [batch, length, heads * size]. Inputs: x,
// tables of cosines and sines [rows, half], and the rows by batch and place (one number: that of the first place; absent: the
// tables are [batch, length, half]).
struct Rotation {
  static constexpr std::string_view kName = "rotated heads";
  static constexpr InputCount kInputs{3, 4};
  Index heads = 0;
  bool interleaved = false;
  template <class V>
  void fields(V&& v) {
    v("heads", heads), v("interleaved", interleaved);
  }
  Definition define(const Inputs& in) const;
};

// GridSample with its attributes. Inputs: the images, the grid.
struct GridSampling {
  static constexpr std::string_view kName = "samples at a grid";
  static constexpr InputCount kInputs{2, 2};
  std::string mode = "linear", padding = "zeros";
  bool aligned = false;
  template <class V>
  void fields(V&& v) {
    v("mode", mode), v("padding", padding), v("aligned", aligned);
  }
  Definition define(const Inputs& in) const;
};

// DeformConv over two axes with its attributes. Inputs: x, the weight, offsets, bias, mask.
struct DeformedConvolution {
  static constexpr std::string_view kName = "convolution at offsets";
  static constexpr InputCount kInputs{3, 5};
  Indices strides, dilations, pads;  // pads: at the begins
  Index groups = 1, offset_groups = 1;
  template <class V>
  void fields(V&& v) {
    v("strides", strides), v("dilations", dilations), v("pads", pads), v("groups", groups);
    v("offset_groups", offset_groups);
  }
  Definition define(const Inputs& in) const;
};

// BatchNormalization in training. Inputs: x, scale, shift, running mean and variance. Outputs: the result, and both updated.
struct BatchStatistics {
  static constexpr std::string_view kName = "normalization by the batch";
  static constexpr InputCount kInputs{5, 5};
  Real epsilon, momentum;
  template <class V>
  void fields(V&& v) {
    v("epsilon", epsilon), v("momentum", momentum);
  }
  Definition define(const Inputs& in) const;
};

// The graph with such nodes where they compute the same: for calls of these operators whose graphs no rewrite has changed, and
// for products with what DequantizeLinear makes of constants in blocks.
Graph with_whole_operators(const Graph& graph);

// Is at least one of these inputs empty, and each such one a past of no positions that only attention with a cache reads? No
// other node depends on such a size.
bool only_caches_are_empty(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace rewright::cpu
