// Convolutions by oneDNN, whole or in parts that threads compute side by side.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/kernels/convolution/convolution_parts.h"
#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/epilogue.h"

namespace rewright::cpu {

struct ConvolutionShape {
  Sizes x, w, y;
  dnnl::memory::dims strides, dilations, pads_begin, pads_end;
  std::int64_t group = 1;
  bool transposed = false;

  // The weights as oneDNN sees them: [group,] outputs, inputs, window.
  dnnl::memory::desc weights() const;
  std::size_t output_axis() const { return transposed ? 1 : 0; }
  // As kernels of our own see it: over two axes, or over one, as images of one row.
  std::optional<ImageShape> image() const;
  // For a transposed convolution without groups, no size of which is 0.
  std::optional<ImageShape> transposed_image() const;
};

// Nothing if types or attributes are not served.
std::optional<ConvolutionShape> read_convolution(const Planner& planner, const Node& node, bool transposed);

struct ConvolutionPrimitive {
  std::function<dnnl::primitive()> create;  // generates its code, which takes longer than to describe it
  dnnl::memory::desc source, weights, result, scratchpad;
  std::string name;        // the library's
  bool reference = false;  // oneDNN has plain loops for this only
  bool slow = false;       // these, or products of rearranged copies of the image
  bool bare = false;       // adds no bias and does nothing that follows: a second primitive has to
};

// With a bias if `bias` says so, and with what follows (null: nothing). Tensors that are added lie as the result does. Throws
// dnnl::error where the library has none.
ConvolutionPrimitive describe_convolution(const ConvolutionShape& shape, const dnnl::memory::desc& source,
                                          const dnnl::memory::desc& weights, bool bias, const dnnl::memory::desc& result,
                                          const Epilogue* epilogue);

// Executes what was described, and what a bare primitive leaves to be done. The bias and the additions are among the arguments
// or owned, as one primitive would have them.
std::unique_ptr<Kernel> library_kernel(const ConvolutionPrimitive& described, const ConvolutionShape& shape,
                                       const Epilogue& epilogue, std::vector<DnnlKernel::Argument> arguments,
                                       std::vector<DnnlKernel::Owned> owned);

constexpr std::int64_t kFewChannels = 8;  // of a network's input: oneDNN has convolutions for them

// Layouts of input and result, the most wanted first; the first for which oneDNN has more than plain loops. Channels last
// measures best with both AVX2 and AVX-512, and one layout everywhere saves changes between layouts.
ConvolutionPrimitive choose_convolution(const ConvolutionShape& shape, bool bias, const Epilogue* epilogue, Isa isa);

// A convolution with constant weights, cut into convolutions of rows.
class ConvolutionCut {
 public:
  // Nothing if the library would be slower at it. `whole` is the convolution as it would be computed by one thread.
  static std::optional<ConvolutionCut> make(const ConvolutionShape& shape, const Epilogue& epilogue, const PlanOptions& options,
                                            const ConvolutionPrimitive& whole, Layout x_layout, Layout y_layout, bool bias);

  bool empty() const { return parts_.empty(); }  // it is of no use
  const dnnl::memory::desc& weights() const { return primitives_[0].weights; }
  // The arguments and what is owned as for the whole.
  std::unique_ptr<Kernel> kernel(int threads, const std::vector<DnnlKernel::Argument>& arguments,
                                 const std::vector<DnnlKernel::Owned>& owned, RowLoops::Unary function) const;

 private:
  ConvolutionCut(const ConvolutionShape& shape, const Epilogue& epilogue, Layout x_layout, Layout y_layout, bool bias);
  void divide(std::int64_t count, std::int64_t images);
  bool describe_parts(const ConvolutionPrimitive& whole);
  bool is_of_pixels() const;
  std::int64_t pieces_in_cache(std::int64_t rows, std::size_t weight_bytes) const;
  std::int64_t useful_pieces(const PlanOptions& options, std::int64_t rows, std::size_t weight_bytes) const;

  ConvolutionShape shape_;
  Epilogue epilogue_;
  Layout x_layout_, y_layout_;
  bool bias_, pixels_ = false;  // pixels one by one
  std::vector<RowPart> parts_;
  std::vector<ConvolutionShape> shapes_;
  std::vector<ConvolutionPrimitive> primitives_;
  std::int64_t x_row_ = 0, x_rows_ = 0, y_row_ = 0, y_rows_ = 0;  // floats of a row of pixels, rows of an image
};

}  // namespace rewright::cpu
