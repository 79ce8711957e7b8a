// For tests: the operators without a gradient, by the reason. Names are those of the registry and of ONNX.
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
      {"rounds to steps: where there is a slope it is 0 (a straight-through estimator is no gradient, and ONNX has no operator "
       "that says one: train first, then quantize)",
       "QuantizeLinear MatMulInteger ConvInteger QLinearMatMul QLinearConv"},
      {"is constant between the splits of its tests: where there is a slope it is 0", "TreeScores"},
      {"is random", "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike StochasticRound"},
      {"passes sequences and optionals; an element of a sequence that is put together in sight becomes that element at import. "
       "Otherwise use tensors: `Split`, `Concat` and `Gather` do the same along an axis",
       "ConcatFromSequence Optional OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
       "SequenceMap SplitToSequence"},
      {"is a step of training itself", "Adagrad Adam Momentum"},
  };
  return kReasons;
}

// All of them, by name.
inline std::map<std::string, std::string> operators_without_gradient() {
  std::map<std::string, std::string> result;
  for (const auto& [reason, names] : reasons_without_gradient()) {
    std::istringstream text(names);
    for (std::string name; text >> name;) result.emplace(name, reason);
  }
  return result;
}

}  // namespace rewright::testing
