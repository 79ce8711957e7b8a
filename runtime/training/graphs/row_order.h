// Rows of products in an order that is cut by samples.
#pragma once

#include "graph/graph.h"

namespace rewright::training {

// A product of all steps of a sequence at once, as recurrent networks have it for their inputs, takes rows of [length,
// samples]. A part of the samples is then no range of rows. Here its rows become those of [samples, length]: by transposing
// what is joined to rows and what the rows are split to. Samples are the axis of the size that the first axes of the graph's
// inputs have, where the first axis that is joined has another size. All elements stay the same.
void put_samples_outermost(Graph& graph);

}  // namespace rewright::training
