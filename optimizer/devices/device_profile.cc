#include "optimizer/devices/device_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "optimizer/devices/profile_neighbours.h"

namespace rewright::optimizer {

namespace {

constexpr std::size_t kNeighbours = 4;
// If the factors of neighbours differ by more than this, they are not on one smooth curve.
constexpr double kSmooth = 3;
constexpr double kOtherForm = 4;  // the distance between operators with other ranks, types or constness of operands
constexpr double kLeastSeconds = 1e-9;

// A signature without numbers.
std::string form_of(const std::string& signature) {
  std::string form;
  for (const char c : signature)
    if (c < '0' || c > '9') form += c;
  return form;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

std::string operators_of(const std::string& signature) {
  std::string names;
  for (std::size_t begin = 0; begin < signature.size();) {
    const std::size_t end = std::min(signature.find(" | ", begin), signature.size());
    names += (names.empty() ? "" : "|") + signature.substr(begin, std::min(signature.find('(', begin), end) - begin);
    begin = end == signature.size() ? end : end + 3;
  }
  return names;
}

std::string attributes_of(const std::string& signature) {
  const std::size_t begin = std::min(signature.find('('), signature.size());
  return signature.substr(begin, std::min(signature.find(')', begin), signature.size()) - begin);
}

double distance(const OperatorSize& a, const OperatorSize& b) {
  const auto apart = [](double x, double y) { return std::abs(std::log2((1 + x) / (1 + y))); };
  return apart(a.operations, b.operations) + apart(a.bytes, b.bytes) + apart(a.elements, b.elements);
}

double miss_among(std::vector<ProfileNeighbour> near) {
  const std::size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(),
                    [](const ProfileNeighbour& a, const ProfileNeighbour& b) {
                      return std::pair(a.distance, a.number) < std::pair(b.distance, b.number);
                    });
  near.resize(count);
  const auto [least, most] = std::minmax_element(
      near.begin(), near.end(), [](const ProfileNeighbour& a, const ProfileNeighbour& b) { return a.miss < b.miss; });
  if (near[0].distance == 0 || most->miss - least->miss > std::log(kSmooth)) return near[0].miss;
  double sum = 0, weights = 0;
  for (const ProfileNeighbour& other : near) {
    const double weight = 1 / (other.distance * other.distance);
    sum += weight * other.miss;
    weights += weight;
  }
  return sum / weights;
}

DeviceProfile merge_profiles(std::span<const DeviceProfile> profiles) {
  if (profiles.empty()) throw Error(ErrorCode::kUsage, "there is no profile to unite");
  DeviceProfile result = profiles[0];
  for (const DeviceProfile& other : profiles.subspan(1)) {
    if (other.device != result.device)
      throw Error(ErrorCode::kBadInput,
                  "the profiles are of different devices: \"" + result.device + "\" and \"" + other.device + "\"");
    if (other.strided_reads != result.strided_reads)
      throw Error(ErrorCode::kBadInput, "the profiles of \"" + result.device + "\" disagree about strided reads");
    result.cache_bytes = std::min(result.cache_bytes, other.cache_bytes);  // infinity: not given
    Roofline& rates = result.roofline;
    rates.operations_per_second = std::max(rates.operations_per_second, other.roofline.operations_per_second);
    rates.bytes_per_second = std::max(rates.bytes_per_second, other.roofline.bytes_per_second);
    rates.call_seconds = std::min(rates.call_seconds, other.roofline.call_seconds);
    result.operators.insert(result.operators.end(), other.operators.begin(), other.operators.end());
  }
  // For equal signatures, the least time counts; it can be executed if it was executed once; sizes are known if one has them.
  const auto key = [](const ProfiledOperator& op) {
    return std::tuple(std::string_view(op.signature), op.seconds.value_or(std::numeric_limits<double>::infinity()),
                      -op.size.bytes);
  };
  std::sort(result.operators.begin(), result.operators.end(),
            [&](const ProfiledOperator& a, const ProfiledOperator& b) { return key(a) < key(b); });
  std::vector<ProfiledOperator> kept;
  for (ProfiledOperator& op : result.operators) {
    if (kept.empty() || kept.back().signature != op.signature)
      kept.push_back(std::move(op));
    else if (kept.back().size == OperatorSize{})
      kept.back().size = op.size;
  }
  result.operators = std::move(kept);
  return result;
}

ProfileModel::ProfileModel(DeviceProfile profile) : profile_(std::move(profile)) {
  std::vector<double> misses;
  for (std::size_t i = 0; i < profile_.operators.size(); ++i) {
    const ProfiledOperator& op = profile_.operators[i];
    by_signature_.emplace(op.signature, i);
    if (!op.seconds || op.size == OperatorSize{}) continue;
    Point measured = point(op.signature, op.size);
    measured.miss = std::log(std::max(*op.seconds, kLeastSeconds) / roofline(op.size));
    measured.number = i;
    misses.push_back(measured.miss);
    by_operator_[operators_of(op.signature)].push_back(std::move(measured));
  }
  usual_miss_ = quantile(misses, 0.5);
}

double ProfileModel::roofline(const OperatorSize& size) const {
  const Roofline& rates = profile_.roofline;
  return std::max(kLeastSeconds, rates.call_seconds + std::max(size.operations / rates.operations_per_second,
                                                               size.bytes / rates.bytes_per_second));
}

ProfileModel::Point ProfileModel::point(const std::string& signature, const OperatorSize& size) const {
  return {attributes_of(signature), form_of(signature), size, 0, 0};
}

std::optional<double> ProfileModel::miss(const std::string& signature, const OperatorSize& size,
                                         std::optional<std::size_t> without) const {
  const auto known = by_operator_.find(operators_of(signature));
  if (known == by_operator_.end()) return std::nullopt;
  const Point wanted = point(signature, size);
  std::vector<ProfileNeighbour> near;
  for (const Point& other : known->second) {
    if (without == other.number) continue;
    double apart = distance(wanted.size, other.size);
    if (other.attributes != wanted.attributes) apart += kOtherAttributes;
    if (other.form != wanted.form) apart += kOtherForm;
    near.push_back({apart, other.miss, other.number});
  }
  return near.empty() ? std::nullopt : std::optional(miss_among(std::move(near)));
}

std::optional<double> ProfileModel::seconds(const std::string& signature, const OperatorSize& size) const {
  if (const auto known = by_signature_.find(signature); known != by_signature_.end())
    return profile_.operators[known->second].seconds;
  return roofline(size) * std::exp(miss(signature, size, std::nullopt).value_or(usual_miss_));
}

ProfileModel::Accuracy ProfileModel::accuracy() const {
  std::vector<double> factors;
  for (const auto& [names, points] : by_operator_) {
    for (const Point& one : points) {
      const std::optional<double> predicted = miss(profile_.operators[one.number].signature, one.size, one.number);
      if (predicted) factors.push_back(std::exp(std::abs(*predicted - one.miss)));
    }
  }
  if (factors.empty()) return {};
  return {factors.size(), quantile(factors, 0.5), quantile(factors, 0.9)};
}

namespace {

class ProfileDevice final : public Device {
 public:
  ProfileDevice(DeviceProfile profile, std::string name, std::unique_ptr<Device> here)
      : model_(std::move(profile)), name_(std::move(name)), here_(std::move(here)) {}

  std::string name() const override { return name_; }
  std::string identity() const override { return model_.profile().device; }
  bool measures() const override { return false; }
  Roofline roofline() const override { return model_.profile().roofline; }
  StridedReads strided_reads() const override { return model_.profile().strided_reads; }
  double cache_bytes() const override { return model_.profile().cache_bytes; }
  bool supports(const Graph& graph, const Node& node) const override { return here_ && here_->supports(graph, node); }

  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) seconds.push_back(model_.seconds(sample.signature, sample.size));
    return seconds;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph>, const TimingOptions&) override {
    throw Error(ErrorCode::kMissing, "a profile cannot time whole graphs", name_);
  }

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    if (!here_) throw Error(ErrorCode::kMissing, "there is only a profile of the device", name_);
    return here_->run(graph, inputs);
  }

  void end_at(std::chrono::steady_clock::time_point time) override {
    if (here_) here_->end_at(time);
  }

  CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double seconds) override {
    return here_ ? here_->run_checked(graph, inputs, seconds) : Device::run_checked(graph, inputs, seconds);
  }

 private:
  ProfileModel model_;
  std::string name_;
  std::unique_ptr<Device> here_;
};

}  // namespace

std::unique_ptr<Device> make_profile_device(DeviceProfile profile, std::string name, std::unique_ptr<Device> here) {
  return std::make_unique<ProfileDevice>(std::move(profile), std::move(name), std::move(here));
}

}  // namespace rewright::optimizer
