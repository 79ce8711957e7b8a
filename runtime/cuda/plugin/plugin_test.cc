// The plug-in's parts that need no GPU: NVRTC compiles generated kernels, libraries accept our descriptors, failures name the
// missing part.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>

#include "operators/operator.h"
#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/plugin/check.h"
#include "runtime/cuda/plugin/compile.h"
#include "runtime/cuda/plugin/device.h"
#include "runtime/cuda/plugin/graph_operation.h"
#include "runtime/cuda/plugin/product.h"
#include "runtime/cuda/source/generated_kernel.h"
#include "runtime/testing.h"

namespace rewright::cuda {
namespace {

using testing::indices;

ValueId node(Graph& graph, std::string_view name, std::vector<ValueId> operands,
             std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
  return testing::node(graph, name, std::move(operands), std::move(attributes))[0];
}

// All sorts of kernels: vectors, guards, conversions, reductions by threads, warps and blocks.
Graph many_kernels(DataType type) {
  Graph graph;
  const ValueId x = graph.add_input("x", {type, indices({8, 64, 96})}), y = graph.add_input("y", {type, indices({96})});
  const ValueId i = graph.add_input("i", {DataType::kInt64, indices({5})});
  const auto output = [&](ValueId v) { graph.add_output("y" + std::to_string(graph.outputs().size()), v); };
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "Softplus", "Sqrt", "Log", "Floor", "Sign", "Round"})
    output(node(graph, op, {x}));
  output(node(graph, "Add", {x, y}));
  output(node(graph, "Softmax", {x}, {{"axis", Index(2)}}));
  output(node(graph, "Softmax", {x}, {{"axis", Index(1)}}));
  output(node(graph, "LayerNormalization", {x, y, y}));
  output(node(graph, "ReduceMax", {x}, {{"axes", indices({0, 1, 2})}}));
  output(node(graph, "ReduceSum", {x}, {{"axes", indices({0})}}));
  output(node(graph, "Gather", {x, i}, {{"axis", Index(1)}}));
  output(node(graph, "Concat", {x, x}, {{"axis", Index(1)}}));
  output(node(graph, "Pad", {x}, {{"pads_begin", indices({0, 0, 1})}, {"pads_end", indices({0, 0, 3})}}));
  for (const DataType to : {DataType::kHalf, DataType::kBfloat16, DataType::kInt8, DataType::kUint64, DataType::kBool})
    if (to != type) output(node(graph, "Cast", {x}, {{"to", to}}));
  return graph;
}

}  // namespace

TEST_CASE("NVRTC compiles generated kernels for every architecture") {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    const Plan plan = make_plan(many_kernels(type));
    for (const bool in_double : {false, true}) {
      std::vector<const GeneratedKernel*> kernels;
      for (const GeneratedKernel& k : plan.kernels)
        if (k.in_double == in_double) kernels.push_back(&k);
      if (kernels.empty()) continue;
      const std::string source = kernel_file(kernels);
      for (const int architecture : {80, 90, 100}) {
        if (type != DataType::kFloat && architecture != 90) continue;
        const std::string binary = compile_for(source, architecture);
        REQUIRE(binary.substr(1, 3) == "ELF");
        for (const GeneratedKernel* k : kernels) CHECK(binary.find(k->name) != std::string::npos);
      }
    }
  }
  CHECK_THROWS_AS(compile_for("nonsense", 90), Error);
}

TEST_CASE("NVRTC compiles conversions of float8, the device's own where it has them") {
  Graph graph;
  for (const DataType type : {DataType::kFloat8e4m3fn, DataType::kFloat8e4m3fnuz, DataType::kFloat8e5m2,
                              DataType::kFloat8e5m2fnuz, DataType::kFloat4e2m1, DataType::kFloat8e8m0}) {
    const ValueId x = graph.add_input(std::string(name(type)), {type, indices({64})});
    const ValueId y =
        node(graph, "Mul",
             {node(graph, "Cast", {x}, {{"to", DataType::kHalf}}), node(graph, "Cast", {x}, {{"to", DataType::kHalf}})});
    graph.add_output("y" + std::to_string(graph.outputs().size()), node(graph, "Cast", {y}, {{"to", type}}));
  }
  const Plan plan = make_plan(graph);
  std::vector<const GeneratedKernel*> kernels;
  for (const GeneratedKernel& k : plan.kernels) kernels.push_back(&k);
  REQUIRE(kernels.size() >= 6);
  for (const int architecture : {80, 90, 100}) CHECK(compile_for(kernel_file(kernels), architecture).substr(1, 3) == "ELF");
}

TEST_CASE("cuBLASLt takes the descriptors of products of float8") {
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16})
    for (const DataType b_type : {DataType::kFloat8e4m3fn, DataType::kFloat8e5m2}) {
      ProductShape p;
      p.type = type, p.a_type = DataType::kFloat8e4m3fn, p.b_type = b_type;
      p.m = 16, p.n = 32, p.k = 64, p.b_transposed = true;
      p.a_stride = p.b_stride = 64, p.y_stride = 32;
      const ProductDescriptors d(p, Precision::kFloat);
      const auto element = [](cublasLtMatrixLayout_t layout) {
        std::uint32_t value = 0;
        std::size_t bytes = 0;
        REQUIRE(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &value, sizeof(value), &bytes) ==
                CUBLAS_STATUS_SUCCESS);
        return value;
      };
      CHECK(element(d.a) == CUDA_R_8F_E4M3);
      CHECK(element(d.b) == (b_type == DataType::kFloat8e4m3fn ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2));
      CHECK(element(d.y) != CUDA_R_8F_E4M3);
    }
}

TEST_CASE("cuBLASLt takes the descriptors of products") {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16})
    for (const bool transposed : {false, true}) {
      ProductShape p;
      p.type = type;
      p.m = 5, p.n = 7, p.k = 3, p.batch = 2;
      p.a_transposed = p.b_transposed = transposed;
      p.a_stride = transposed ? 5 : 3, p.b_stride = transposed ? 3 : 7, p.y_stride = 7;
      p.a_batch = 15, p.y_batch = 35;
      p.bias = transposed;
      p.activation = transposed ? Activation::kGelu : Activation::kNone;
      const ProductDescriptors d(p, Precision::kTf32);
      std::uint32_t epilogue = 0;
      std::size_t bytes = 0;
      REQUIRE(cublasLtMatmulDescGetAttribute(d.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue), &bytes) ==
              CUBLAS_STATUS_SUCCESS);
      CHECK(epilogue == (transposed ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
      std::uint64_t rows = 0;
      std::size_t written = 0;
      REQUIRE(cublasLtMatrixLayoutGetAttribute(d.y, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof(rows), &written) ==
              CUBLAS_STATUS_SUCCESS);
      CHECK(rows == 7);
    }
}

TEST_CASE("TF32 is asked for where it is allowed, and nowhere else") {
  ProductShape p;
  p.m = p.n = p.k = p.a_stride = p.b_stride = p.y_stride = 4;
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kDouble})
    for (const Precision precision : {Precision::kFloat, Precision::kTf32}) {
      p.type = type;
      const ProductDescriptors d(p, precision);
      std::int32_t compute = 0;
      std::size_t bytes = 0;
      REQUIRE(cublasLtMatmulDescGetAttribute(d.product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof(compute), &bytes) ==
              CUBLAS_STATUS_SUCCESS);
      CHECK((compute == CUBLAS_COMPUTE_32F_FAST_TF32) == (type == DataType::kFloat && precision == Precision::kTf32));
    }
  p.type = DataType::kFloat;
  p.activation = Activation::kSilu;
  CHECK_THROWS_AS(ProductDescriptors(p, Precision::kFloat), Error);
}

TEST_CASE("an algorithm of cuBLASLt as text and back") {
  cublasLtMatmulHeuristicResult_t algorithm{};
  algorithm.workspaceSize = 12345;
  for (std::size_t i = 0; i < std::size(algorithm.algo.data); ++i) algorithm.algo.data[i] = ~std::uint64_t{0} / (i + 1);
  const auto back = algorithm_of(to_text(algorithm));
  REQUIRE(back);
  CHECK(back->workspaceSize == algorithm.workspaceSize);
  CHECK(std::equal(std::begin(algorithm.algo.data), std::end(algorithm.algo.data), std::begin(back->algo.data)));
  for (const char* text : {"", "12", "12 x", "what was never there"}) CHECK_FALSE(algorithm_of(text));
}

TEST_CASE("cuDNN takes the operations of convolutions") {
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16})
    for (const std::size_t rank : {1, 2, 3})
      for (int epilogue = 0; epilogue < 64; ++epilogue) {
        const auto list = [&](std::int64_t v) { return std::vector<std::int64_t>(rank, v); };
        ConvolutionShape c;
        c.type = type;
        c.x = {2, 8}, c.w = {16, 4}, c.y = {2, 16};
        for (std::size_t a = 0; a < rank; ++a) c.x.push_back(9), c.w.push_back(3), c.y.push_back(5);
        c.strides = list(2), c.dilations = list(1), c.pads_begin = list(1), c.pads_end = list(1);
        c.groups = 2;
        c.bias = epilogue & 1, c.residual = epilogue & 2;
        static constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu, Activation::kClip,
                                                      Activation::kGelu, Activation::kSilu, Activation::kSigmoid};
        c.channels_last = epilogue & 4;
        c.activation = kActivations[static_cast<std::size_t>(epilogue >> 3) % std::size(kActivations)];
        c.high = 6;
        const OperationGraph graph = operation_graph(c);
        CHECK(graph.operations().size() == 1u + c.bias + c.residual + (c.activation != Activation::kNone));
        CHECK(graph.inputs().size() == 2u + c.bias + c.residual);
        CHECK(graph.inputs()[0].bytes == 16 * (rank == 1 ? 9 : rank == 2 ? 81 : 729) * byte_size(type));
        // x's strides: 8 channels, 9 points along each axis; one axis gets another of size 1 before it.
        std::int64_t strides[5] = {}, count = 0;
        REQUIRE(cudnnBackendGetAttribute(graph.parts()[0].get(), CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 5, &count,
                                         strides) == CUDNN_STATUS_SUCCESS);
        const std::int64_t points = rank == 1 ? 9 : rank == 2 ? 81 : 729;
        REQUIRE(count == (rank == 3 ? 5 : 4));
        CHECK(strides[0] == 8 * points);
        CHECK(strides[1] == (c.channels_last ? 1 : points));
        CHECK(strides[count - 1] == (c.channels_last ? 8 : 1));
      }
  ConvolutionShape wrong;
  wrong.x = {1, 1, 4, 4}, wrong.w = {1, 1, 3, 3}, wrong.y = {1, 1, 4, 4};
  wrong.strides = wrong.dilations = {1, 1}, wrong.pads_begin = wrong.pads_end = {0, 0};
  CHECK_THROWS_AS(operation_graph(wrong), Error);
}

TEST_CASE("cuDNN takes the gradients of convolutions") {
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble})
    for (const ConvolutionPass pass : {ConvolutionPass::kBackwardData, ConvolutionPass::kBackwardFilter})
      for (const std::size_t rank : {1, 2, 3})
        for (const bool last : {false, true}) {
          const auto list = [&](std::int64_t v) { return std::vector<std::int64_t>(rank, v); };
          ConvolutionShape c;
          c.type = type, c.pass = pass, c.channels_last = last;
          c.x = {2, 8}, c.w = {16, 4}, c.y = {2, 16};
          for (std::size_t a = 0; a < rank; ++a) c.x.push_back(9), c.w.push_back(3), c.y.push_back(5);
          c.strides = list(2), c.dilations = list(1), c.pads_begin = list(1), c.pads_end = list(1);
          c.groups = 2;
          const OperationGraph graph = operation_graph(c);
          CHECK(graph.operations().size() == 1);
          const auto bytes = [&](const std::vector<std::int64_t>& sizes) {
            std::size_t count = byte_size(type);
            for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
            return count;
          };
          const bool of_data = pass == ConvolutionPass::kBackwardData;
          REQUIRE(graph.inputs().size() == 2);
          CHECK(graph.inputs()[0].bytes == bytes(of_data ? c.y : c.x));
          CHECK(graph.inputs()[1].bytes == bytes(of_data ? c.w : c.y));
          CHECK(graph.output().bytes == bytes(of_data ? c.x : c.w));
          c.bias = true;
          CHECK_THROWS_AS(operation_graph(c), Error);
        }
}

TEST_CASE("cuDNN takes the operations of attention") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16})
    for (const bool masked : {false, true})
      for (const bool causal : {false, true})
        for (const double scale : {1.0, 0.125}) {
          AttentionShape a;
          a.type = type;
          a.batch = 2, a.heads = 3, a.queries = a.keys = 16, a.depth = 64, a.width = 32;
          // Heads are adjacent in rows, as after projections; keys are transposed.
          a.q = {16 * 3 * 64, 64, 3 * 64, 1}, a.k = {16 * 3 * 64, 64, 1, 3 * 64}, a.v = {16 * 3 * 32, 32, 3 * 32, 1};
          a.y = a.v;
          a.scale = scale;
          a.causal = causal;
          if (masked) a.mask = {2, 1, 1, 16}, a.mask_type = DataType::kFloat;
          const OperationGraph graph = operation_graph(a);
          CHECK(graph.operations().size() == 7u + (scale != 1) + masked + 4 * causal);
          CHECK(graph.inputs().size() == 3u + masked);
          CHECK(graph.numbers().size() == 0u + (scale != 1) + causal);
          CHECK(graph.inputs()[1].bytes == std::size_t{2} * 16 * 3 * 64 * 2);
          CHECK(graph.output().bytes == std::size_t{2} * 16 * 3 * 32 * 2);
          if (masked) CHECK(graph.inputs()[3].bytes == std::size_t{2} * 16 * 4);
        }
  AttentionShape wrong;
  wrong.depth = 64;
  wrong.q = wrong.k = wrong.v = wrong.y = {64, 64, 64};  // an axis is missing
  CHECK_THROWS_AS(operation_graph(wrong), Error);
}

TEST_CASE("cuDNN takes the operations of pooling and of normalizations") {
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
    for (const PoolingShape::Mode mode :
         {PoolingShape::Mode::kMaximum, PoolingShape::Mode::kMean, PoolingShape::Mode::kMeanInside})
      for (const bool last : {false, true})
        for (const std::size_t rank : {2, 3}) {
          const auto list = [&](std::int64_t v) { return std::vector<std::int64_t>(rank, v); };
          PoolingShape p;
          p.type = type, p.mode = mode, p.channels_last = last;
          p.x = {2, 8}, p.y = {2, 8};
          for (std::size_t a = 0; a < rank; ++a) p.x.push_back(9), p.y.push_back(5);
          p.kernel = list(3), p.strides = list(2), p.pads_begin = p.pads_end = list(1);
          const OperationGraph graph = operation_graph(p);
          CHECK(graph.operations().size() == 1);
          CHECK(graph.inputs().size() == 1);
        }
    for (const bool centered : {false, true}) {
      const OperationGraph graph = operation_graph(NormalizationShape{type, 12, 64, centered, 1e-5});
      CHECK(graph.operations().size() == 1);
      CHECK(graph.inputs().size() == 2u + centered);
      CHECK(graph.numbers().size() == 1);
    }
  }
}

TEST_CASE("without a GPU it is said what is missing") {
  int count = -1;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return;
  try {
    const Device device(0);
    FAIL("there is no GPU");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
    const std::string text = e.what();
    CHECK((text.find("driver") != std::string::npos || text.find("GPU") != std::string::npos));
  }
}

TEST_CASE("failures of libraries are errors") {
  CHECK_NOTHROW(check(cudaSuccess, "x"));
  CHECK_THROWS_AS(check(cudaErrorMemoryAllocation, "x"), Error);
  CHECK_THROWS_AS(check(CUBLAS_STATUS_NOT_INITIALIZED, "x"), Error);
  // If a library does not support a request, another kernel is used. A failure of the machine ends the work.
  const auto code = [](auto status) {
    try {
      check(status, "x");
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kUsage;
  };
  CHECK(code(cudaErrorMemoryAllocation) == ErrorCode::kMissing);
  CHECK(code(cudaErrorDevicesUnavailable) == ErrorCode::kMissing);
  CHECK(code(static_cast<cudaError_t>(35)) == ErrorCode::kMissing);  // the driver is missing
  CHECK(code(static_cast<cublasStatus_t>(1)) == ErrorCode::kMissing);
  CHECK(code(static_cast<cudnnStatus_t>(1001)) == ErrorCode::kMissing);
  CHECK(code(CUDNN_STATUS_NOT_SUPPORTED) == ErrorCode::kUnsupported);
  CHECK(code(CUDNN_STATUS_BAD_PARAM) == ErrorCode::kUnsupported);
  CHECK(code(CUDNN_STATUS_EXECUTION_FAILED) == ErrorCode::kMissing);
}

}  // namespace rewright::cuda
