// Products of matrices of integers, beside the interpreter.
#include <string>

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

struct IntegerMatrixBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  DataType type = DataType::kInt64;
  void pick_type() {
    constexpr DataType kTypes[] = {DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64};
    type = kTypes[pick(0, 3)];
  }
  // Elements whose sums of products wrap.
  ValueId operand(const Sizes& sizes) {
    const bool is_unsigned = type == DataType::kUint32 || type == DataType::kUint64;
    const double most = byte_size(type) == 4 ? 2e9 : 4e18, least = is_unsigned ? 0 : -most;
    if (pick(0, 4) == 0) return graph.add_constant(rewright::testing::random_tensor(random, type, sizes, least, most));
    return input(type, sizes, least, most);
  }
  // Small ones, the sizes of vectors and panels and some more.
  std::int64_t size() { return pick(0, 2) == 0 ? pick(1, 70) : pick(1, 20); }
};

}  // namespace

TEST_CASE("products of integers of any size, with leading axes that broadcast") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    IntegerMatrixBuilder b(seed);
    b.pick_type();
    const std::int64_t rows = b.pick(0, 3) == 0    ? 1
                              : b.pick(0, 20) == 0 ? b.pick(190, 210)
                                                   : b.size(),
                       columns = b.size(),
                       depth = b.pick(0, 9) == 0    ? b.pick(250, 600)
                               : b.pick(0, 30) == 0 ? 0
                                                    : b.size();
    Sizes left, right;
    for (std::int64_t axis = b.pick(0, 2); axis > 0; --axis) {
      const std::int64_t size = b.pick(1, 3);
      left.push_back(b.pick(0, 2) == 0 ? 1 : size);
      right.push_back(b.pick(0, 2) == 0 ? 1 : size);
    }
    if (b.pick(0, 2) == 0) right.clear();
    if (rows > 1 || b.pick(0, 1) == 0)
      left.push_back(rows);
    else
      left.clear();
    left.push_back(depth);
    right.push_back(depth);
    if (columns > 1 || b.pick(0, 1) == 0)
      right.push_back(columns);
    else
      right = {depth};
    const ValueId x = b.operand(left);
    ValueId y = node(b.graph, "MatMul", {x, b.operand(right)})[0];
    if (b.pick(0, 3) == 0) y = node(b.graph, "Add", {y, y})[0];
    b.check(y, 0);
  }
}

TEST_CASE("Gemm of integers") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    IntegerMatrixBuilder b(seed);
    b.pick_type();
    const std::int64_t rows = b.size(), columns = b.size(), depth = b.size();
    const bool trans_a = b.pick(0, 1) == 1, trans_b = b.pick(0, 1) == 1;
    std::vector<ValueId> operands;
    operands.push_back(b.operand(trans_a ? Sizes{depth, rows} : Sizes{rows, depth}));
    operands.push_back(b.operand(trans_b ? Sizes{columns, depth} : Sizes{depth, columns}));
    if (b.pick(0, 2) != 0) {
      Sizes added;
      if (b.pick(0, 2) != 0) added.push_back(b.pick(0, 2) == 0 ? 1 : columns);
      if (!added.empty() && b.pick(0, 2) != 0) added.insert(added.begin(), b.pick(0, 2) == 0 ? 1 : rows);
      operands.push_back(b.operand(added));
    }
    const auto factor = [&] { return Real(b.pick(0, 1) == 0 ? 1.0 : static_cast<double>(b.pick(-3, 3))); };
    const Real alpha = factor(), beta = factor();
    b.check(node(b.graph, "Gemm", operands, {{"transA", trans_a}, {"transB", trans_b}, {"alpha", alpha}, {"beta", beta}})[0],
            0);
  }
}

TEST_CASE("contractions of integers are products of matrices") {
  for (const DataType type : {DataType::kInt32, DataType::kInt64}) {
    IntegerMatrixBuilder b(1);
    b.type = type;
    const std::int64_t size = 30;
    const std::vector<ValueId> operands = {b.input(type, {size, size}, -1e9, 1e9), b.input(type, {size, size}, -1e9, 1e9),
                                           b.input(type, {size, size}, -1e9, 1e9)};
    b.check(node(b.graph, "Einsum", operands, {{"equation", std::string("ij,jk,kl->li")}})[0], 0);
    double operations = 0;
    SessionOptions options;
    options.profile = true;
    const auto session = rewright::testing::cpu_backend().prepare(b.graph, options);
    session->run(b.inputs);
    for (const StepProfile& step : session->profile()) operations += step.flops;
    CHECK(operations < 5.0 * size * size * size);
  }
}
