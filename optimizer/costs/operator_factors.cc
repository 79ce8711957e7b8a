#include "optimizer/costs/operator_factors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizer/devices/profile_neighbours.h"

namespace rewright::optimizer {

OperatorFactors::OperatorFactors(const DeviceProfile& profile) {
  const Roofline& rates = profile.roofline;
  for (const ProfiledOperator& op : profile.operators) {
    if (!op.seconds || !(*op.seconds > 0) || op.size == OperatorSize{}) continue;
    const double least =
        rates.call_seconds + std::max(op.size.operations / rates.operations_per_second, op.size.bytes / rates.bytes_per_second);
    const double miss = std::log(*op.seconds / least);
    if (!(least > 0) || !std::isfinite(miss)) continue;
    by_name_[operators_of(op.signature)].push_back(
        {attributes_of(op.signature), op.signature.find(" constant ") != std::string::npos, op.size, miss});
  }
}

std::optional<double> OperatorFactors::factor(const OperatorSignature& signature, std::optional<bool> constants) const {
  const auto known = by_name_.find(operators_of(signature.text));
  if (known == by_name_.end()) return std::nullopt;
  const auto is_wanted = [&](const Measured& m) { return !constants || m.has_constants == *constants; };
  const bool any = std::none_of(known->second.begin(), known->second.end(), is_wanted);
  const std::string attributes = attributes_of(signature.text);
  std::vector<ProfileNeighbour> near;
  for (std::size_t n = 0; n < known->second.size(); ++n) {
    const Measured& m = known->second[n];
    if (any || is_wanted(m))
      near.push_back({distance(signature.size, m.size) + (m.attributes != attributes ? kOtherAttributes : 0), m.miss, n});
  }
  return std::exp(miss_among(std::move(near)));
}

std::optional<double> OperatorFactors::least_factor(const OperatorSignature& signature) const {
  const auto known = by_name_.find(operators_of(signature.text));
  if (known == by_name_.end()) return std::nullopt;
  const auto least = std::min_element(known->second.begin(), known->second.end(),
                                      [](const Measured& a, const Measured& b) { return a.miss < b.miss; });
  return std::exp(least->miss);
}

}  // namespace rewright::optimizer
