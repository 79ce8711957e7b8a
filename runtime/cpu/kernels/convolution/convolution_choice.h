// Which kernel computes a convolution.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

enum class ConvolutionMethod { kLibrary, kDirect, kGrouped, kWinograd2, kWinograd4, kFourier };

// The fastest by an estimate: the multiplications at the rate that the kernels reach, and what transforms add, Winograd's and
// Fourier's: they themselves, and larger weights that come from beyond the second-level cache. The estimate depends on nothing
// but its arguments, and so do the results' roundings. Without `transforms` it is none of these.
ConvolutionMethod fastest_convolution(const PictureShape& shape, Isa isa, bool transforms = true);

// The size of tiles for Fourier's method, by the same estimate; 0 if it cannot be used, or its weights would take too much
// memory.
std::int64_t fourier_size(const PictureShape& shape, Isa isa);

// Those that the same estimate does not find at least twice as long as the fastest, the library's always among them.
std::vector<ConvolutionMethod> close_convolutions(const PictureShape& shape, Isa isa, bool transforms = true);

// For the cost database.
std::string_view name(ConvolutionMethod method);
std::string problem_name(const PictureShape& shape, bool addend, bool function);

// Seconds of a graph of one convolution, and of what a kernel does with its result, by each of the methods: the least of
// several runs in turn, so that each finds in the caches what another has left there. A change of the picture's layout counts
// where that has few channels: such a picture is a network's input, which the library reads as it comes.
std::vector<double> time_convolutions(const Graph& graph, std::span<const ConvolutionMethod> methods, bool few_channels,
                                      PlanOptions options);

// Is a 1x1 convolution so short that it is better one step with the convolution by channels before it? Longer ones are faster
// in the library's kernels.
bool pays_to_join(const PictureShape& pointwise);

// Are the weights so many and the pixels so few that threads had better share the weights than the pixels, which the library's
// kernels cannot?
bool pays_to_share_weights(const PictureShape& shape, int threads);

// Is a transposed convolution faster as products with what overlaps added up (make_transposed_convolution) than in the
// library's kernels, whose vectors hold outputs only? By the same kind of estimate. `slow`: the library has slow ones only, or
// none. False where the products of a row would take too much memory.
bool pays_as_product(const PictureShape& shape, Isa isa, bool slow);

}  // namespace rewright::cpu
