// For tests: the operators that have no gradient, and why. Names of operators here and of ONNX's.
#pragma once

#include <map>
#include <sstream>
#include <string>

namespace rewright::testing {

inline const std::map<std::string, std::string>& reasons_without_gradient() {
  static const std::map<std::string, std::string> kReasons{
      {"results are integers, truth values or texts, or do not depend on real inputs",
       "And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterOrEqual IsInf IsNaN "
       "Less "
       "LessOrEqual Not Or Xor Shape Size OneHot Fill Eye EyeLike DiracKernel RandomBits Range RealRange Constant "
       "ConstantOfShape MelWeightMatrix BlackmanWindow HammingWindow HannWindow NonZero NonMaxSuppression ImageDecoder "
       "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer OptionalHasElement SequenceLength"},
      {"rounds to steps",
       "QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger ConvInteger QLinearMatMul QLinearConv"},
      {"is random", "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike StochasticRound"},
      {"has sizes that only elements tell", "Compress Unique"},
      {"how many elements it reads is told by elements", "RoiAlign MaxRoiPool"},
      {"needs an inverse matrix, which nothing here computes", "Det"},
      {"writes into a cache of what was computed before, for inference", "TensorScatter"},
      {"passes sequences and optionals; those that are put together in sight become their elements at import",
       "ConcatFromSequence Optional OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
       "SequenceMap SplitToSequence"},
      {"which branch is taken is only known when it is executed; a known condition leaves the branch", "If"},
      {"is a step of training itself", "Adagrad Adam Momentum"},
  };
  return kReasons;
}

// By name.
inline std::map<std::string, std::string> operators_without_gradient() {
  std::map<std::string, std::string> result;
  for (const auto& [reason, names] : reasons_without_gradient()) {
    std::istringstream text(names);
    for (std::string name; text >> name;) result.emplace(name, reason);
  }
  return result;
}

}  // namespace rewright::testing
