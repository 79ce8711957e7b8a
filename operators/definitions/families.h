// The families of operators, one file each; registry.cc calls them all.
#pragma once

#include "operators/operator.h"

namespace rewright::operators {

void register_arithmetic(Registry& r);    // arithmetic.cc: Add Sub Mul Div Pow Neg Min Max, Where, comparisons
void register_activation(Registry& r);    // activation.cc: Relu LeakyRelu PRelu Clip Sigmoid Gelu ..., Exp Log Sqrt Erf Abs
void register_convolution(Registry& r);   // convolution.cc: Conv ConvTranspose ConvWeightGradient
void register_product(Registry& r);       // product.cc: MatMul Gemm
void register_quantization(Registry& r);  // quantization.cc: QuantizeLinear DequantizeLinear DynamicQuantizeLinear
void register_quantized_product(Registry& r);  // quantized_product.cc: MatMulInteger QLinearMatMul ConvInteger QLinearConv
void register_normalization(Registry& r);      // normalization.cc: BatchNormalization LayerNormalization InstanceNormalization
void register_softmax(Registry& r);            // softmax.cc: Softmax LogSoftmax
void register_pooling(Registry& r);            // pooling.cc: MaxPool AveragePool GlobalAveragePool GlobalMaxPool
void register_reduction(Registry& r);          // reduction.cc: ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd
void register_layout(Registry& r);       // layout.cc: Transpose Reshape Flatten Squeeze Unsqueeze Expand Identity Dropout Cast
void register_blocks(Registry& r);       // blocks.cc: DepthToSpace SpaceToDepth
void register_assembly(Registry& r);     // assembly.cc: Concat Split Pad Tile
void register_slice(Registry& r);        // slice.cc: Slice
void register_random_bits(Registry& r);  // random_bits.cc: RandomBits
void register_indexing(Registry& r);     // indexing.cc: Gather GatherElements GatherND OneHot
void register_scatter(Registry& r);      // scatter.cc: ScatterElements ScatterND TopK
void register_generation(Registry& r);   // generation.cc: Constant Fill Eye EyeLike DiracKernel ConstantOfShape Range Trilu
void register_shape(Registry& r);        // shape.cc: Shape Size
void register_resize(Registry& r);       // resize.cc: Resize

}  // namespace rewright::operators
