// Heads, scaled scores with masks, and rotary embeddings, shared by the attention operators.
#pragma once

#include <optional>
#include <string>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

// [batch, length, heads * size] as [batch, heads, length, size], and back.
ValueId to_heads(ContribNode& n, ValueId v, std::int64_t heads);
ValueId from_heads(ContribNode& n, ValueId v);

// The attribute `scale`, or 1 / sqrt(size) where it is absent or 0.
double attention_scale(const OnnxAttributes& source, const Index& head_size);

// The smallest finite number of the type: what a score becomes at a position that is not attended to.
double lowest_score(DataType type);

// softmax(scores) v. `bias` is added to the scores (kNoGradient: nothing); where `is_seen` (bool, kNoGradient: everywhere) is
// false a score is the smallest number. All are broadcast to [..., queries, keys].
struct Attended {
  ValueId q = kNoGradient, k = kNoGradient, v = kNoGradient;  // [..., queries, size], [..., keys, size], [..., keys, size of v]
  double scale = 1, softcap = 0;                              // softcap * tanh(score / softcap), unless it is 0
  ValueId bias = kNoGradient, is_seen = kNoGradient;
  ValueId sink = kNoGradient;  // one more score for each row, whose value counts nothing; [..., queries, 1] after broadcasting
};
ValueId attended(ContribNode& n, const Attended& a);

// Rotary position embeddings (Su et al., arXiv:2104.09864) of x [batch, heads, length, size] at `positions` [batch or 1,
// length], with the tables of cosines and sines [positions, half of the rotated size]. Further elements stay as they are.
ValueId rotated(ContribNode& n, ValueId x, ValueId positions, ValueId cosines, ValueId sines, bool is_interleaved);
// Likewise, with the tables' rows at the positions, [batch or 1, length, half of the rotated size].
ValueId rotated_by(ContribNode& n, ValueId x, ValueId cosines, ValueId sines, bool is_interleaved);

}  // namespace rewright::operators
