// GatherND of long rows, each copied as a whole. Computed by elements, in the order of the following operators (such as
// transpositions and sums over rows), it would read memory at strides.
#include <cstring>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kLeastBytes = 64;  // of a row
constexpr double kBytesPerNanosecond = 5;

struct Shape {
  std::int64_t batches = 1, rows = 1;        // rows of each batch
  std::vector<std::int64_t> sizes, strides;  // of the indexed axes; strides in rows
  std::int64_t batch_rows = 1;               // of the source
  std::size_t row_bytes = 0;
};

class GatherKernel final : public Kernel {
 public:
  GatherKernel(Shape shape, DataType indices) : shape_(std::move(shape)), indices_(indices) {}

  void run(const Call& call) const override {
    if (indices_ == DataType::kInt64)
      copy(call, reinterpret_cast<const std::int64_t*>(call.inputs[1]));
    else
      copy(call, reinterpret_cast<const std::int32_t*>(call.inputs[1]));
  }

 private:
  template <class I>
  void copy(const Call& call, const I* indices) const {
    const std::int64_t count = shape_.batches * shape_.rows, depth = std::ssize(shape_.sizes);
    const double nanoseconds = static_cast<double>(count) * static_cast<double>(shape_.row_bytes) / kBytesPerNanosecond;
    call.workers.for_each(count, nanoseconds, [&](std::int64_t row, int) {
      std::int64_t from = row / shape_.rows * shape_.batch_rows;
      for (std::int64_t d = 0; d < depth; ++d) {
        const auto a = static_cast<std::size_t>(d);
        from += checked_index(indices[row * depth + d], shape_.sizes[a]) * shape_.strides[a];
      }
      std::memcpy(call.outputs[0] + static_cast<std::size_t>(row) * shape_.row_bytes,
                  call.inputs[0] + static_cast<std::size_t>(from) * shape_.row_bytes, shape_.row_bytes);
    });
  }

  Shape shape_;
  DataType indices_;
};

class GatherPlan final : public NodePlan {
 public:
  GatherPlan(const Node& node, Shape shape) : node_(node), shape_(std::move(shape)) {}

  bool only_moves() const override { return true; }

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs = planner.plain_inputs(node_);
    const DataType indices = planner.info(node_.inputs[1]).type;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<GatherKernel>(std::move(shape_), indices), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  Shape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_gather(Planner& planner, const Node& node) {
  const ValueInfo &x = planner.info(node.inputs[0]), &indices = planner.info(node.inputs[1]);
  const bool positions = indices.type == DataType::kInt64 || indices.type == DataType::kInt32;
  if (!positions || element_count(x.sizes) == 0 || element_count(indices.sizes) == 0) return nullptr;
  const auto batches = static_cast<std::size_t>(AttributeReader(node).number("batch_dims"));
  const std::size_t last = batches + static_cast<std::size_t>(indices.sizes.back());
  Shape shape;
  std::int64_t row = 1;
  for (std::size_t a = last; a < x.sizes.size(); ++a) row *= x.sizes[a];
  shape.row_bytes = static_cast<std::size_t>(row) * byte_size(x.type);
  if (shape.row_bytes < kLeastBytes) return nullptr;
  for (std::size_t a = 0; a < batches; ++a) shape.batches *= x.sizes[a];
  for (std::size_t a = batches; a + 1 < indices.sizes.size(); ++a) shape.rows *= indices.sizes[a];
  shape.sizes.assign(x.sizes.begin() + static_cast<std::ptrdiff_t>(batches),
                     x.sizes.begin() + static_cast<std::ptrdiff_t>(last));
  shape.strides.resize(shape.sizes.size());
  for (std::size_t a = shape.sizes.size(); a-- > 0;) {
    shape.strides[a] = shape.batch_rows;
    shape.batch_rows *= shape.sizes[a];
  }
  return std::make_unique<GatherPlan>(node, std::move(shape));
}

}  // namespace rewright::cpu
