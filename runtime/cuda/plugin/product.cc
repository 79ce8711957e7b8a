#include "runtime/cuda/plugin/product.h"

#include <limits>
#include <sstream>
#include <vector>

#include "runtime/cuda/plugin/check.h"
#include "runtime/cuda/plugin/device.h"

namespace rewright::cuda {

namespace {

constexpr int kProposals = 12;
constexpr int kRuns = 5;

cudaDataType_t data_type(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return CUDA_R_16F;
    case DataType::kBfloat16:
      return CUDA_R_16BF;
    case DataType::kDouble:
      return CUDA_R_64F;
    case DataType::kFloat8e4m3fn:
      return CUDA_R_8F_E4M3;
    case DataType::kFloat8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

std::size_t extent(std::int64_t rows, std::int64_t stride, std::int64_t batches, std::int64_t batch, DataType type) {
  return static_cast<std::size_t>(rows * stride + (batches - 1) * batch) * byte_size(type);
}

class Product final : public Operation {
 public:
  Product(Device& device, const ProductShape& shape, Precision precision)
      : device_(device), shape_(shape), descriptors_(shape, precision) {}

  // False if the algorithm does not fit this product on this device.
  bool take(const std::string& choice) {
    const auto algorithm = algorithm_of(choice);
    if (!algorithm || algorithm->workspaceSize > kWorkspaceLimit) return false;
    chosen_ = *algorithm;
    cublasLtMatmulHeuristicResult_t checked{};
    const bool good = cublasLtMatmulAlgoCheck(device_.blas(), descriptors_.product, descriptors_.b, descriptors_.a,
                                              descriptors_.y, descriptors_.y, &chosen_.algo, &checked) == CUBLAS_STATUS_SUCCESS;
    if (good) chosen_.workspaceSize = checked.workspaceSize;
    return good && checked.workspaceSize <= kWorkspaceLimit;
  }

  // False if cuBLASLt has no algorithm.
  bool choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "a preference");
    const std::size_t limit = kWorkspaceLimit;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof(limit));
    if (shape_.bias) set_bias(reinterpret_cast<const std::byte*>(std::uintptr_t{256}));  // the alignment matters
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(kProposals);
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(device_.blas(), descriptors_.product, descriptors_.b, descriptors_.a, descriptors_.y,
                                       descriptors_.y, preference, kProposals, proposals.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) return false;
    const ProductShape& p = shape_;
    Scratch a(device_, extent(p.a_transposed ? p.k : p.m, p.a_stride, p.batch, p.a_batch, p.type));
    Scratch b(device_, extent(p.b_transposed ? p.n : p.k, p.b_stride, p.batch, p.b_batch, p.type));
    Scratch y(device_, extent(p.m, p.y_stride, p.batch, p.y_batch, p.type));
    Scratch bias(device_, p.bias ? static_cast<std::size_t>(p.n) * byte_size(p.type) : 0);
    Scratch workspace(device_, kWorkspaceLimit);
    const std::byte* const inputs[] = {a.data(), b.data(), bias.data()};
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < count; ++i) {
      if (proposals[i].state != CUBLAS_STATUS_SUCCESS) continue;
      const double seconds = device_.time([&] { return multiply(inputs, y.data(), workspace.data(), proposals[i]); }, kRuns);
      if (seconds >= best) continue;
      best = seconds;
      chosen_ = proposals[i];
    }
    return best < std::numeric_limits<double>::infinity();
  }

  std::string choice() const override { return to_text(chosen_); }
  std::size_t workspace_bytes() const override { return chosen_.workspaceSize; }
  void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) override {
    if (!multiply(inputs, output, workspace, chosen_))
      throw Error(ErrorCode::kUnsupported, "cuBLASLt does not start a product");
  }

 private:
  void set_bias(const std::byte* bias) {
    cublasLtMatmulDescSetAttribute(descriptors_.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
  }
  bool multiply(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace,
                const cublasLtMatmulHeuristicResult_t& algorithm) {
    if (shape_.bias) set_bias(inputs[2]);
    const bool in_double = shape_.type == DataType::kDouble;
    const double wide[] = {shape_.alpha, 0};
    const float narrow[] = {static_cast<float>(shape_.alpha), 0};
    const void* alpha = in_double ? static_cast<const void*>(&wide[0]) : &narrow[0];
    const void* beta = in_double ? static_cast<const void*>(&wide[1]) : &narrow[1];
    return cublasLtMatmul(device_.blas(), descriptors_.product, alpha, inputs[1], descriptors_.b, inputs[0], descriptors_.a,
                          beta, output, descriptors_.y, output, descriptors_.y, &algorithm.algo, workspace,
                          algorithm.workspaceSize, device_.stream()) == CUBLAS_STATUS_SUCCESS;
  }

  Device& device_;
  ProductShape shape_;
  ProductDescriptors descriptors_;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

cublasLtMatrixLayout_t layout(DataType type, std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batches,
                              std::int64_t batch) {
  cublasLtMatrixLayout_t result = nullptr;
  check(cublasLtMatrixLayoutCreate(&result, data_type(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), stride),
        "a matrix");
  const auto count = static_cast<std::int32_t>(batches);
  check(cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)), "a matrix");
  check(cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch, sizeof(batch)),
        "a matrix");
  return result;
}

std::uint32_t epilogue_of(const ProductShape& p) {
  switch (p.activation) {
    case Activation::kNone:
      return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::kRelu:
      return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGelu:
      return p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      throw Error(ErrorCode::kUnsupported, "cuBLASLt has no such epilogue");
  }
}

}  // namespace

std::string to_text(const cublasLtMatmulHeuristicResult_t& algorithm) {
  std::string text = std::to_string(algorithm.workspaceSize);
  for (const std::uint64_t word : algorithm.algo.data) text += " " + std::to_string(word);
  return text;
}

std::optional<cublasLtMatmulHeuristicResult_t> algorithm_of(const std::string& text) {
  std::istringstream in(text);
  cublasLtMatmulHeuristicResult_t result{};
  in >> result.workspaceSize;
  for (auto& word : result.algo.data) in >> word;
  return in ? std::optional(result) : std::nullopt;
}

ProductDescriptors::ProductDescriptors(const ProductShape& p, Precision precision) {
  const bool in_double = p.type == DataType::kDouble;
  const cublasComputeType_t compute = in_double ? CUBLAS_COMPUTE_64F
                                      : p.type == DataType::kFloat && precision == Precision::kTf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(&product, compute, in_double ? CUDA_R_64F : CUDA_R_32F), "a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)), "a product");
  };
  const auto transposed = [](bool yes) { return static_cast<std::int32_t>(yes ? CUBLAS_OP_T : CUBLAS_OP_N); };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(p.b_transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(p.a_transposed));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
  const auto factor = [&](DataType type) { return type == DataType::kUndefined ? p.type : type; };
  b = layout(factor(p.b_type), p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.b_stride, p.batch, p.b_batch);
  a = layout(factor(p.a_type), p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.a_stride, p.batch, p.a_batch);
  y = layout(p.type, p.n, p.m, p.y_stride, p.batch, p.y_batch);
}

ProductDescriptors::~ProductDescriptors() {
  for (cublasLtMatrixLayout_t l : {a, b, y})
    if (l != nullptr) cublasLtMatrixLayoutDestroy(l);
  if (product != nullptr) cublasLtMatmulDescDestroy(product);
}

std::unique_ptr<Operation> make_product(Device& device, const ProductShape& shape, Precision precision,
                                        const std::string& choice) {
  auto product = std::make_unique<Product>(device, shape, precision);
  if (!(choice.empty() ? product->choose() : product->take(choice))) return nullptr;
  return product;
}

}  // namespace rewright::cuda
