// The contents of a rule file of TASO, read and checked operator by operator.
//
// The numbers are those of TASO's include/taso/ops.h (OpType, PMParameter, ActiMode, PaddingMode).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rewright::rules::taso {

enum class Type {
  kConv = 3,
  kMaxPool = 6,
  kAveragePool = 7,
  kRelu = 8,
  kSigmoid = 9,
  kTanh = 10,
  kConcat = 12,
  kSplit = 13,
  kReshape = 14,
  kTranspose = 15,
  kAdd = 16,
  kMultiply = 17,
  kMatMul = 18,
  kScale = 19,
  kEnlarge = 20,
  kMergeGroups = 21,
  kIdentityMatrix = 22,
  kIdentityKernel = 23,
  kOnes = 24,
  kPoolKernel = 25,
  kSubtract = 28,
  kDivide = 29,
  kMaximum = 33,
  kMinimum = 34,
  kExp = 49,
  kLog = 51,
  kSqrt = 53,
};

enum class Key {
  kOutputs = 2,
  kKernelHeight = 4,
  kKernelWidth = 5,
  kStrideHeight = 6,
  kStrideWidth = 7,
  kPadding = 8,
  kActivation = 9,
  kRank = 10,
  kAxis = 11,
  kPermutation = 12,
  kMergeCount = 14,
};

constexpr std::int32_t kSamePadding = 0, kValidPadding = 1;
constexpr std::int32_t kNoActivation = 0, kSigmoidActivation = 1, kReluActivation = 2, kTanhActivation = 3;

// A tensor: an output of an operator of the same side, or an input of the rule, whose number is negative.
struct Reference {
  std::int32_t op = 0, output = 0;
  bool is_input() const { return op < 0; }
};

struct Operation {
  Type type;
  std::string name;  // TASO's, for messages
  std::vector<Reference> inputs;
  std::map<std::int32_t, std::int32_t> parameters;
  std::size_t outputs = 1;

  bool has(Key key) const { return parameters.count(static_cast<std::int32_t>(key)) > 0; }
  // Throws Error(kBadInput) if the parameter is missing or not from `low` to `high`.
  std::int32_t get(Key key, std::int32_t low, std::int32_t high) const;
  std::int32_t get(Key key, std::int32_t low, std::int32_t high, std::int32_t otherwise) const;
};

using Side = std::vector<Operation>;

struct RuleText {
  Side source, target;
  std::vector<std::pair<Reference, Reference>> outputs;  // of the source, and what replaces it
  std::string error;                                     // if not empty, the rule cannot be expressed, and this is why
};

// Throws Error(kBadInput) for bytes that are no such file.
std::vector<RuleText> read(std::string_view bytes, const std::string& file);

}  // namespace rewright::rules::taso
