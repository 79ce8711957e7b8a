// Operators of a device profile that are near another one, for predictions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "optimizer/devices/device.h"

namespace rewright::optimizer {

// The operator names of a signature: "Conv", or "Sigmoid|Mul" for a group; and its attributes.
std::string operators_of(const std::string& signature);
std::string attributes_of(const std::string& signature);

// The distance in operations, bytes and elements on a logarithmic scale.
double distance(const OperatorSize& a, const OperatorSize& b);
constexpr double kOtherAttributes = 2;  // the distance between operators of equal size with other attributes (strides)

// An operator's distance, the logarithm of its factor on the roofline, and its number in the profile.
struct ProfileNeighbour {
  double distance = 0, miss = 0;
  std::size_t number = 0;
};
// The logarithm of the factor that is expected among these; at least one.
double miss_among(std::vector<ProfileNeighbour> near);

}  // namespace rewright::optimizer
