// The kernels of the CPU runtime, in the order in which they are tried. To add one: write its file, and declare and list its
// function here.
#include "runtime/cpu/planning/kernels.h"

#include <cstddef>
#include <unordered_map>

#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

using PlanNode = std::unique_ptr<NodePlan>(Planner& planner, const Node& node);
using PlanExpression = bool(Planner& planner, const Expression& expression);

PlanNode plan_affine_grid;             // affine_grid.cc
PlanNode plan_arg_extremum;            // arg_extremum.cc
PlanNode plan_concatenation;           // concatenation.cc
PlanNode plan_narrow_concatenation;    // narrow_concatenation.cc
PlanNode plan_gather;                  // gather.cc
PlanNode plan_maximum_with_positions;  // maximum_positions.cc
PlanNode plan_one_hot;                 // one_hot.cc
PlanNode plan_pool;                    // pooling.cc
PlanNode plan_norm_pool;
PlanNode plan_global_average;
PlanNode plan_batch_statistics;      // rows/batch_statistics.cc
PlanNode plan_grid_sample;           // grid_sample.cc
PlanNode plan_random_bits;           // random_bits.cc
PlanNode plan_resize;                // resize.cc
PlanNode plan_rotation;              // rotation.cc
PlanNode plan_scatter;               // scatter.cc
PlanNode plan_top_k;                 // top_k.cc
PlanNode plan_tree_scores;           // trees/tree_scores.cc
PlanNode plan_convolution;           // convolution/convolution.cc
PlanNode plan_deformed_convolution;  // convolution/deformed_convolution.cc
PlanNode plan_placed_columns;        // convolution/placed_columns.cc
PlanNode plan_weight_gradient;       // convolution/weight_gradient.cc
PlanNode plan_product;               // product/products.cc
PlanNode plan_block_product;
PlanNode plan_integer_matrices;  // product/integer_matrices.cc
PlanNode plan_cached_attention;  // product/cached_attention.cc
PlanNode plan_expert_mixture;    // product/expert_mixture.cc
PlanNode plan_bfloat16_product;  // product/bfloat16_product.cc
bool reads_bfloat16(const Graph& graph, const Node& node, Isa isa);
PlanNode plan_quantized_convolution;  // quantized/quantized.cc
PlanNode plan_quantized_product;
PlanNode plan_integer_product;  // quantized/integer_product.cc
PlanNode plan_dequantized_convolution;
PlanNode plan_dequantized_product;
PlanNode plan_quantized_pool;        // quantized/quantized_pool.cc
PlanNode plan_row_function;          // rows/row_functions.cc
PlanExpression plan_byte_table;      // quantized/byte_table.cc
PlanExpression plan_distances;       // distances.cc
PlanExpression plan_moved_axes;      // moved_axes.cc
PlanExpression plan_prefix;          // prefix.cc
PlanExpression plan_quantized_rows;  // quantized/quantized_rows.cc
PlanExpression plan_real_classes;    // real_classes.cc
PlanExpression plan_scaled;          // scaled.cc
PlanExpression plan_generated;       // generated.cc

namespace {

constexpr NodeKernel kNodeKernels[] = {
    {"AffineGrid", plan_affine_grid},
    {"ArgMax", plan_arg_extremum},
    {"ArgMin", plan_arg_extremum},
    {"AveragePool", plan_quantized_pool},
    {"AveragePool", plan_pool},
    {"Concat", plan_concatenation},
    {"Concat", plan_narrow_concatenation},
    {"Conv", plan_dequantized_convolution},
    {"Conv", plan_convolution},
    {"ConvInteger", plan_quantized_convolution},
    {"ConvTranspose", plan_placed_columns},
    {"ConvTranspose", plan_convolution},
    {"ConvWeightGradient", plan_weight_gradient},
    {"GatherND", plan_gather},
    {"Gemm", plan_dequantized_product},
    {"Gemm", plan_bfloat16_product, reads_bfloat16},
    {"Gemm", plan_product},
    {"Gemm", plan_integer_matrices},
    {"GlobalAveragePool", plan_quantized_pool},
    {"GlobalAveragePool", plan_global_average},
    {"LpPool", plan_norm_pool},
    {"MatMul", plan_dequantized_product},
    {"MatMul", plan_bfloat16_product, reads_bfloat16},
    {"MatMul", plan_product},
    {"MatMul", plan_integer_matrices},
    {"MatMulInteger", plan_quantized_product},
    {"MatMulInteger", plan_integer_product},
    {"MaxPool", plan_maximum_with_positions},
    {"MaxPool", plan_quantized_pool},
    {"MaxPool", plan_pool},
    {"OneHot", plan_one_hot},
    {"QLinearConv", plan_quantized_convolution},
    {"QLinearMatMul", plan_quantized_product},
    {"QLinearMatMul", plan_integer_product},
    {"RandomBits", plan_random_bits},
    {"Resize", plan_resize},
    {"ScatterElements", plan_scatter},
    {"ScatterND", plan_scatter},
    {"TopK", plan_top_k},
    {"TreeScores", plan_tree_scores},
    {BlockProduct::kName, plan_block_product},
    {CachedAttention::kName, plan_cached_attention},
    {ExpertMixture::kName, plan_expert_mixture},
    {BatchStatistics::kName, plan_batch_statistics},
    {DeformedConvolution::kName, plan_deformed_convolution},
    {GridSampling::kName, plan_grid_sample},
    {Rotation::kName, plan_rotation},
};

constexpr ReductionKernel kReductionKernels[] = {plan_row_function};

constexpr ExpressionKernel kExpressionKernels[] = {plan_byte_table,     plan_distances,    plan_moved_axes, plan_prefix,
                                                   plan_quantized_rows, plan_real_classes, plan_scaled,     plan_generated};

}  // namespace

std::span<const NodeKernel> node_kernels() { return kNodeKernels; }

std::span<const ReductionKernel> reduction_kernels() { return kReductionKernels; }

std::span<const ExpressionKernel> expression_kernels() { return kExpressionKernels; }

std::span<const NodeKernel> node_kernels(std::string_view op) {
  static const std::unordered_map<std::string_view, std::span<const NodeKernel>> by_operator = [] {  // plans ask often
    std::unordered_map<std::string_view, std::span<const NodeKernel>> found;
    for (const NodeKernel& kernel : kNodeKernels) {  // those of an operator stand side by side
      std::span<const NodeKernel>& all = found[kernel.op];
      all = {all.empty() ? &kernel : all.data(), all.size() + 1};
    }
    return found;
  }();
  const auto found = by_operator.find(op);
  return found == by_operator.end() ? std::span<const NodeKernel>() : found->second;
}

}  // namespace rewright::cpu
