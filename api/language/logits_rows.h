// The logits of one place of each sequence, without computing those of all others.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::api {

// A model with one more input, the last: int64[batch, 1, 1], the place in each sequence whose logits are wanted. Its output
// `logits` [batch, length, vocabulary] becomes [batch, 1, vocabulary]. The other places are dropped before the products with
// weights and the functions of elements that the logits end with, which is most of the memory of a long prompt and some of the
// time: each place's logits depend on that place alone there. Throws Error(kBadInput) if there is no such output of rank 3.
Graph with_selected_logits(Graph graph, const std::string& logits);

}  // namespace rewright::api
