// Positions of an image's pixels after an affine map, for GridSample.
#include "operators/definitions/affine_grid.h"

#include "operators/definitions/families.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

Element real_of(const Index& index) { return convert(from_index(index), Scalar::kReal); }

}  // namespace

Element affine_grid_position(bool align_corners, const Index& i, const Index& n) {
  if (!align_corners) return real_of(2 * i + 1) / real_of(n) - real(1);
  return choose({equal(n, 1)}, real(1), real_of(2 * i) / real_of(n - 1) - real(1));
}

namespace {

// y[n, (d,) h, w, k] = theta[n, k] * (x, y, (z,) 1), where x, y and z are the positions of column w, row h and depth d between
// -1 and 1. https://onnx.ai/onnx/operators/onnx__AffineGrid.html, where an axis of one element with align_corners divides by 0:
// its position is 1 here as in ONNX Runtime.
struct AffineGrid {
  static constexpr std::string_view kName = "AffineGrid";
  Indices size;  // of the image: batch, channels, and two or three more
  bool align_corners = false;

  template <class V>
  void fields(V&& v) {
    v("size", size), v("align_corners", align_corners);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& theta = in[0];
    const std::size_t rank = size.size() - 2;
    d.require(size.size() == 4 || size.size() == 5,
              [&] { return "size has " + std::to_string(size.size()) + " entries, 4 or 5 are needed"; });
    d.require_rank(theta, 3, "theta");
    const Indices wanted{size[0], static_cast<std::int64_t>(rank), static_cast<std::int64_t>(rank) + 1};
    for (std::size_t a = 0; a < wanted.size(); ++a)
      d.require(equal(theta.shape()[a], wanted[a]), [&, a] {
        return "theta has " + theta.shape()[a].to_string() + " entries along axis " + std::to_string(a) + ", " +
               wanted[a].to_string() + " are needed";
      });
    Indices shape{size[0]};
    shape.insert(shape.end(), size.begin() + 2, size.end());
    for (const Index& n : shape)
      d.require(less_equal(0, n), [&] { return "size " + to_string(size) + " has a negative entry"; });
    shape.emplace_back(static_cast<std::int64_t>(rank));
    d.output(theta.type(), shape, [=, *this](const Indices& i) {
      const auto entry = [&](std::size_t k) { return theta({i[0], i[rank + 1], static_cast<std::int64_t>(k)}); };
      Element sum = entry(rank);
      for (std::size_t k = 0; k < rank; ++k)  // x is along the last axis
        sum = entry(k) * affine_grid_position(align_corners, i[rank - k], size[size.size() - 1 - k]) + sum;
      return sum;
    });
    return d;
  }

  // The result is linear in theta: the gradient is a product with the grid that the identity gives.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const DataType type = b.type_of(call.inputs[0]).type;
    const auto rank = static_cast<std::int64_t>(size.size()) - 2;
    std::vector<double> identity(static_cast<std::size_t>(rank * (rank + 1)), 0);
    for (std::int64_t k = 0; k < rank; ++k) identity[static_cast<std::size_t>(k * (rank + 2))] = 1;
    Indices one = size, points{size[0], 1, rank};
    one[0] = 1;
    for (std::size_t a = 2; a < size.size(); ++a) points[1] = points[1] * size[a];
    const ValueId theta = b.constant(Tensor::from_reals(type, {1, rank, rank + 1}, identity));
    const ValueId grid = b.add(kName, {theta}, {{"size", one}, {"align_corners", align_corners}});
    const ValueId above = b.reshaped(call.output_gradients[0], points);
    const ValueId linear = b.add("MatMul", {b.transposed(above, {0, 2, 1}), b.reshaped(grid, {1, points[1], rank})});
    const ValueId shift = b.reshaped(b.summed(above, {1}), {size[0], rank, 1});
    return {b.add("Concat", {linear, shift}, {{"axis", Index(2)}})};
  }

  static void onnx(OnnxMapping& m) {
    m.since = 20;
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      const auto size = source.contents(source.input(1));
      if (!size) {
        reason = "the size of the grid is not known";
        return std::nullopt;
      }
      AffineGrid op;
      op.size = *size;
      op.align_corners = source.integer("align_corners", 0) != 0;
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const AffineGrid op = from_attributes<AffineGrid>(attributes);
      if (sink.opset() < 20) return false;
      sink.node("AffineGrid", {{"align_corners", Index(op.align_corners)}}, {inputs[0], sink.index_tensor(op.size)}, outputs);
      return true;
    };
  }
};

}  // namespace

void register_affine_grid(Registry& r) { r.add<AffineGrid>(); }

}  // namespace rewright::operators
