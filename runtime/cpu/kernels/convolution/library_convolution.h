// oneDNN's convolutions, whole or in parts that threads compute concurrently.
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

  // The weights in oneDNN's form: [group,] outputs, inputs, window.
  dnnl::memory::desc weights() const;
  std::size_t output_axis() const { return transposed ? 1 : 0; }
  // The form for our own kernels: over two axes; over one as images of one row; over three if windows are planes or columns,
  // with planes as images or as rows.
  std::optional<ImageShape> image() const;
  // Over three axes; otherwise nullopt.
  std::optional<VolumeShape> volume() const;
  // For a transposed convolution without groups and without empty tensors.
  std::optional<ImageShape> transposed_image() const;
};

// nullopt if types or attributes are not supported.
std::optional<ConvolutionShape> read_convolution(const Planner& planner, const Node& node, bool transposed);

struct ConvolutionPrimitive {
  std::function<dnnl::primitive()> create;  // generates its code, which takes longer than describing it
  dnnl::memory::desc source, weights, result, scratchpad;
  std::string name;        // the library's name for it
  bool reference = false;  // oneDNN only has plain loops
  bool slow = false;       // plain loops, or products of rearranged copies of the image
  bool bare = false;       // without bias and post-operations: a second primitive is needed
};

// With `bias`, has a bias; with `epilogue` (null: none), post-operations. Added tensors have the result's layout. Throws
// dnnl::error if the library has no kernel.
ConvolutionPrimitive describe_convolution(const ConvolutionShape& shape, const dnnl::memory::desc& source,
                                          const dnnl::memory::desc& weights, bool bias, const dnnl::memory::desc& result,
                                          const Epilogue* epilogue);

// Executes the described primitive, and what a bare one leaves out. Bias and addends are passed as for a complete primitive.
std::unique_ptr<Kernel> library_kernel(const ConvolutionPrimitive& described, const ConvolutionShape& shape,
                                       const Epilogue& epilogue, std::vector<DnnlKernel::Argument> arguments,
                                       std::vector<DnnlKernel::Owned> owned);

constexpr std::int64_t kFewChannels = 8;  // of a network's input; oneDNN has special convolutions for them

// Layouts of input and result in order of preference; chooses the first with a kernel that is not plain loops. Channels last is
// fastest in measurements with AVX2 and AVX-512, and one layout everywhere saves conversions.
ConvolutionPrimitive choose_convolution(const ConvolutionShape& shape, bool bias, const Epilogue* epilogue, Isa isa);

// A convolution with constant weights, divided by rows.
class ConvolutionCut {
 public:
  // nullopt if the library would be slower. `whole`: the convolution for one thread.
  static std::optional<ConvolutionCut> make(const ConvolutionShape& shape, const Epilogue& epilogue, const PlanOptions& options,
                                            const ConvolutionPrimitive& whole, Layout x_layout, Layout y_layout, bool bias);

  bool empty() const { return parts_.empty(); }  // true: dividing does not help
  const dnnl::memory::desc& weights() const { return primitives_[0].weights; }
  // Arguments and owned data as for the whole.
  std::unique_ptr<Kernel> kernel(int threads, const std::vector<DnnlKernel::Argument>& arguments,
                                 const std::vector<DnnlKernel::Owned>& owned, ResultFunction function) const;

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
  bool bias_, pixels_ = false;  // pixels_: divided by pixels
  std::vector<RowPart> parts_;
  std::vector<ConvolutionShape> shapes_;
  std::vector<ConvolutionPrimitive> primitives_;
  std::int64_t x_row_ = 0, x_rows_ = 0, y_row_ = 0, y_rows_ = 0;  // floats of a pixel row, and rows of an image
};

}  // namespace rewright::cpu
