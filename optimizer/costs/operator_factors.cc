#include "optimizer/costs/operator_factors.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "optimizer/devices/profile_neighbours.h"

namespace rewright::optimizer {

namespace {

// The text that operator_signature() gives, of a profile's signature: no constness, and no contents of constants.
std::string without_constants(const std::string& signature) {
  static constexpr std::string_view kConstant = "constant ";
  std::string result;
  for (std::size_t at = 0; at < signature.size();) {
    if (signature.compare(at, kConstant.size(), kConstant) == 0 && at > 0 && signature[at - 1] == ' ') {
      at += kConstant.size();
    } else if (signature[at] == '#') {
      at = std::min(signature.find(' ', at), signature.size());
    } else {
      result += signature[at++];
    }
  }
  return result;
}

}  // namespace

OperatorFactors::OperatorFactors(const DeviceProfile& profile) {
  const Roofline& rates = profile.roofline;
  for (const ProfiledOperator& op : profile.operators) {
    if (!op.seconds || !(*op.seconds > 0) || op.size == OperatorSize{}) continue;
    const double least =
        rates.call_seconds + std::max(op.size.operations / rates.operations_per_second, op.size.bytes / rates.bytes_per_second);
    const double miss = std::log(*op.seconds / least);
    if (!(least > 0) || !std::isfinite(miss)) continue;
    const bool has_constants = op.signature.find(" constant ") != std::string::npos;
    by_name_[operators_of(op.signature)].push_back({attributes_of(op.signature), has_constants, op.size, miss});
    by_text_[has_constants ? 1 : 0].emplace(without_constants(op.signature), miss);
  }
}

std::optional<double> OperatorFactors::factor(const OperatorSignature& signature, std::optional<bool> constants) const {
  const auto known = by_name_.find(operators_of(signature.text));
  if (known == by_name_.end()) return std::nullopt;
  const std::size_t wanted = constants.value_or(false) ? 1 : 0;
  for (const std::size_t has_constants : {wanted, 1 - wanted}) {
    const auto same = by_text_[has_constants].find(signature.text);
    if (same != by_text_[has_constants].end()) return std::exp(same->second);
  }
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
