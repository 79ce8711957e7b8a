// oneDNN's convolutions, divided into parts.
#include <algorithm>

#include "runtime/cpu/kernels/combined.h"
#include "runtime/cpu/kernels/convolution/library_convolution.h"

namespace rewright::cpu {

using dnnl::memory;

namespace {

constexpr std::size_t kNearWeights = 512 << 10;  // fits into the second-level cache
constexpr double kWeightBytes = 27;              // per nanosecond, from the third-level cache
constexpr double kFewPixels = 56;                // in a piece
constexpr double kUneven = 1.05;
constexpr double kCalls = 3;  // pieces with the overhead of one of the library's calls

}  // namespace

ConvolutionCut::ConvolutionCut(const ConvolutionShape& shape, const Epilogue& epilogue, Layout x_layout, Layout y_layout,
                               bool bias)
    : shape_(shape), epilogue_(epilogue), x_layout_(x_layout), y_layout_(y_layout), bias_(bias) {}

std::optional<ConvolutionCut> ConvolutionCut::make(const ConvolutionShape& shape, const Epilogue& epilogue,
                                                   const PlanOptions& options, const ConvolutionPrimitive& whole,
                                                   Layout x_layout, Layout y_layout, bool bias) {
  const ConvolutionCut none(shape, epilogue, x_layout, y_layout, bias);
  if ((options.threads <= 1 && !whole.bare) || !y_layout.channels_last() || x_layout.blocked()) return none;
  ConvolutionCut cut = none;
  // Divides by pixels if rows would leave a thread much less to do.
  const std::int64_t rows = shape.x[0] * shape.y[2], threads = options.threads;
  cut.pixels_ =
      !x_layout.plain() && cut.is_of_pixels() && (rows + threads - 1) / threads * threads > kUneven * static_cast<double>(rows);
  const auto inner = [](const Sizes& sizes) { return element_count(std::span(sizes).subspan(3)); };
  cut.x_row_ = inner(shape.x) * shape.x[1];
  cut.y_row_ = inner(shape.y) * shape.y[1];
  cut.x_rows_ = shape.x[2];
  cut.y_rows_ = shape.y[2];
  std::int64_t images = shape.x[0];
  if (cut.pixels_) {
    cut.x_rows_ = cut.y_rows_ = element_count(shape.x) / shape.x[1];
    cut.x_row_ = shape.x[1];
    cut.y_row_ = shape.y[1];
    images = 1;
  }
  const std::int64_t all = images * cut.y_rows_;
  std::int64_t count = options.threads > 1 ? cut.useful_pieces(options, all, whole.weights.get_size()) : 1;
  if (whole.bare && options.threads <= 1) count = cut.pieces_in_cache(all, whole.weights.get_size());
  if (count < 2) return none;
  // The library may have no common packing of the weights for parts of several sizes.
  std::int64_t equal = count;
  while (equal > 1 && (all % equal != 0 || equal % threads != 0)) --equal;
  for (const std::int64_t number : {count, equal}) {
    if (number < 2) break;
    cut.divide(number, images);
    if (cut.shapes_.size() < 2) return none;
    if (!cut.describe_parts(whole)) continue;
    const auto by_another = [&](const ConvolutionPrimitive& part) { return part.name != whole.name; };
    if (options.threads <= 1 && std::any_of(cut.primitives_.begin(), cut.primitives_.end(), by_another)) return none;
    return cut;
  }
  if (shape.transposed) return none;
  return std::nullopt;
}

void ConvolutionCut::divide(std::int64_t count, std::int64_t images) {
  const RowWindow window{x_rows_, y_rows_, shape_.w[2], shape_.strides[0], shape_.dilations[0] + 1, shape_.pads_begin[0]};
  parts_ = (shape_.transposed ? cut_transposed_rows : cut_rows)(images, window, count, x_layout_.plain());
  shapes_.clear();
  for (const RowPart& part : parts_) {
    ConvolutionShape own = shape_;
    own.x[0] = own.y[0] = part.images;
    if (pixels_) {
      std::fill(own.x.begin() + 2, own.x.end(), 1);
      std::fill(own.y.begin() + 2, own.y.end(), 1);
      own.x.back() = own.y.back() = part.rows;
    } else {
      own.x[2] = part.rows;
      own.y[2] = part.out_rows;
      own.pads_begin[0] = part.pad_begin;
      own.pads_end[0] = part.pad_end;
    }
    shapes_.push_back(std::move(own));
  }
}

// The packing of the weights depends on the number of pixels, but one packing has to serve all parts: the whole's, or one that
// a part prefers. False if none does with kernels as good as the whole's.
bool ConvolutionCut::describe_parts(const ConvolutionPrimitive& whole) {
  const memory::desc any_weights(shape_.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
  // nullopt if the library has no kernel.
  const auto part = [&](const ConvolutionShape& own, const memory::desc& weights) -> std::optional<ConvolutionPrimitive> {
    try {
      return describe_convolution(own, dnnl_desc(own.x, x_layout_), weights, bias_, dnnl_desc(own.y, y_layout_), &epilogue_);
    } catch (const dnnl::error&) {
      return std::nullopt;
    }
  };
  const auto serves = [&](const memory::desc& weights) {
    primitives_.clear();
    for (const ConvolutionShape& own : shapes_) {
      std::optional<ConvolutionPrimitive> described = part(own, weights);
      if (!described || (described->slow && !whole.slow)) return false;
      primitives_.push_back(std::move(*described));
    }
    return true;
  };
  if (serves(whole.weights)) return true;
  std::vector<memory::desc> refused{whole.weights};
  for (const ConvolutionShape& own : shapes_) {
    const std::optional<ConvolutionPrimitive> described = part(own, any_weights);
    if (!described) return false;
    if (std::find(refused.begin(), refused.end(), described->weights) != refused.end()) continue;
    if (serves(described->weights)) return true;
    refused.push_back(described->weights);
  }
  return false;
}

std::unique_ptr<Kernel> ConvolutionCut::kernel(int threads, const std::vector<DnnlKernel::Argument>& arguments,
                                               const std::vector<DnnlKernel::Owned>& owned, ResultFunction function) const {
  const bool plain = x_layout_.plain();
  std::vector<PiecesKernel::Piece> pieces;
  for (std::size_t n = 0; n < parts_.size(); ++n) {
    const RowPart& part = parts_[n];
    const ConvolutionPrimitive& primitive = primitives_[n];
    PiecesKernel::Piece piece;
    piece.inputs.resize(arguments.size() - 1);
    piece.inputs[0] = (part.image * x_rows_ + (plain ? 0 : part.first)) * x_row_;
    piece.output = (part.image * y_rows_ + part.out_first) * y_row_;
    piece.elements = element_count(shapes_[n].y);
    if (plain) piece.rows = {part.first, part.rows, x_row_ / shape_.x[1]};
    std::vector<DnnlKernel::Argument> own = arguments;
    for (DnnlKernel::Argument& a : own) {
      a.desc = a.dnnl_number == DNNL_ARG_SRC ? primitive.source : primitive.result;
      if (a.input > 0) piece.inputs[static_cast<std::size_t>(a.input)] = piece.output;  // the addend
    }
    piece.kernel = library_kernel(primitive, shapes_[n], epilogue_, std::move(own), owned);
    pieces.push_back(std::move(piece));
  }
  return std::make_unique<PiecesKernel>(std::move(pieces), threads, function, plain ? shape_.x[1] : 0, x_rows_);
}

bool ConvolutionCut::is_of_pixels() const {
  const auto all = [](const auto& list, std::int64_t value) {
    return std::all_of(list.begin(), list.end(), [&](std::int64_t v) { return v == value; });
  };
  return !shape_.transposed && all(std::span(shape_.w).subspan(2), 1) && all(shape_.strides, 1) && all(shape_.pads_begin, 0) &&
         all(shape_.pads_end, 0);
}

// A second primitive finds the result in the second-level cache, if pieces are small enough. They begin at rows of the image,
// since others have other kernels.
std::int64_t ConvolutionCut::pieces_in_cache(std::int64_t rows, std::size_t weight_bytes) const {
  constexpr std::int64_t kNearResult = 256 << 10;  // bytes
  if (weight_bytes > kNearWeights / 2) return 1;
  const std::int64_t least = element_count(shape_.y) * static_cast<std::int64_t>(sizeof(float)) / kNearResult;
  for (std::int64_t pieces = std::max<std::int64_t>(least, 2); pieces <= 2 * least; ++pieces)
    if (rows % pieces == 0 && rows / pieces % shape_.strides[0] == 0 && y_rows_ % (rows / pieces) == 0) return pieces;
  return 1;
}

// Each piece costs the library's calls, and reads all weights again. If these come from a far cache, or serve few pixels, or
// there is little work, one piece for each thread is enough.
std::int64_t ConvolutionCut::useful_pieces(const PlanOptions& options, std::int64_t rows, std::size_t weight_bytes) const {
  double window = static_cast<double>(element_count(shape_.w) / shape_.w[0]);  // terms of a result
  if (shape_.transposed)
    window = static_cast<double>(element_count(shape_.w)) /
             static_cast<double>(shape_.w[1] * shape_.group * element_count(shape_.strides));
  const double results = static_cast<double>(element_count(shape_.y)), pixels = results / static_cast<double>(shape_.y[1]);
  const double nanoseconds = results * window / (window < 64 ? 20 : 100);
  const double afar = weight_bytes < kNearWeights ? 0 : 2 * static_cast<double>(weight_bytes) / kWeightBytes;
  // Transposed convolutions of fewer pixels have no kernel that shares the weights.
  if (shape_.transposed && afar > nanoseconds) return 1;
  const double each = std::max({kCalls * options.piece_nanoseconds, afar, nanoseconds * kFewPixels / pixels});
  const std::int64_t least = piece_count(options.threads, nanoseconds, rows, options.piece_nanoseconds);
  return std::max(piece_count(options.threads, nanoseconds, rows, each), std::min<std::int64_t>(options.threads, least));
}

}  // namespace rewright::cpu
