// Measured factors between the time of an operator on a device and its roofline, by its profile: kernels have rates of their
// own (Winograd's convolutions are faster than the roofline, transposed reads slower).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "expressions/attributes.h"
#include "operators/operator.h"
#include "optimizer/devices/device_profile.h"

namespace rewright::optimizer {

struct OperatorTraits;

// The text by which an operator's time is known in a device profile, without the constness of its operands, and its size.
struct OperatorSignature {
  std::string text;
  OperatorSize size;
};
// `traits`: its operator_traits.
OperatorSignature operator_signature(const Operator& op, const Attributes& attributes,
                                     std::span<const std::optional<TensorType>> operands, const OperatorTraits& traits);

class OperatorFactors {
 public:
  explicit OperatorFactors(const DeviceProfile& profile);

  // The factor of the operator itself, if it was measured, first with constants as wanted, then with others: operators of its
  // size may be of another shape. Else from operators of the same name at the nearest sizes, as in ProfileModel. `constants`:
  // only those of which some operands were constants, or only those of which none were, if there are any such; without it all.
  // nullopt: none was measured.
  std::optional<double> factor(const OperatorSignature& signature, std::optional<bool> constants) const;
  // The least factor of all operators of the name.
  std::optional<double> least_factor(const OperatorSignature& signature) const;

 private:
  struct Measured {
    std::string attributes;
    bool has_constants = false;
    OperatorSize size;
    double miss = 0;  // logarithm of measured time over roofline
  };
  std::unordered_map<std::string, std::vector<Measured>> by_name_;
  std::array<std::unordered_map<std::string, double>, 2> by_text_;  // without and with constants: the logarithm
};

}  // namespace rewright::optimizer
