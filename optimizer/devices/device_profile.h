// Device profiles: what was measured of a device once, so that graphs can be optimized for it where it is not.
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "optimizer/devices/device.h"

namespace rewright::optimizer {

struct ProfiledOperator {
  std::string signature;
  std::optional<double> seconds;  // nullopt: the device cannot execute it
  OperatorSize size;
};

struct DeviceProfile {
  std::string device;  // the identity of the device that was measured
  Roofline roofline;
  std::vector<ProfiledOperator> operators;  // by signature, each once
  StridedReads strided_reads = StridedReads::kNone;
  double cache_bytes = std::numeric_limits<double>::infinity();  // see Device::cache_bytes
};

enum class ProfileFormat { kText, kBinary };  // Protobuf's

// Throws Error(kBadInput): what is no profile, is of another version, or says what cannot be is refused whole.
DeviceProfile read_profile(const std::filesystem::path& file);
DeviceProfile parse_profile(std::string_view bytes, const std::string& name);  // `name` is the file's, for messages
std::string write_profile(const DeviceProfile& profile, ProfileFormat format);

// One profile of several of the same device. Of an operator that was measured more than once the least time counts, since other
// work on a machine only makes it slower; so it does for the device's rates. Throws Error(kBadInput) if the devices differ.
DeviceProfile merge_profiles(std::span<const DeviceProfile> profiles);

// Predicts times of operators that were not measured from those of the same operator that were: how far the nearest of them,
// by operations, bytes and elements on a logarithmic scale, miss the roofline, averaged with weights that fall with the
// distance. Where neighbours disagree (a device changes its algorithm between them), the nearest alone counts.
class ProfileModel {
 public:
  explicit ProfileModel(DeviceProfile profile);
  const DeviceProfile& profile() const { return profile_; }

  // Seconds; nullopt for what the device could not execute. What was measured is given as it was measured.
  std::optional<double> seconds(const std::string& signature, const OperatorSize& size) const;

  // How well this predicts: each measured operator from the others. Factors by which predictions miss, at least 1.
  struct Accuracy {
    std::size_t operators = 0;    // that have others to be predicted from
    double median = 1, high = 1;  // half and nine tenths of them miss by no more
  };
  Accuracy accuracy() const;

 private:
  struct Point {
    std::string attributes, form;
    OperatorSize size;
    double miss = 0;  // logarithm of measured over roofline
    std::size_t number = 0;
  };
  double roofline(const OperatorSize& size) const;
  Point point(const std::string& signature, const OperatorSize& size) const;
  // Logarithm of what the roofline is to be multiplied by; `without`: a point that is left out.
  std::optional<double> miss(const std::string& signature, const OperatorSize& size, std::optional<std::size_t> without) const;

  DeviceProfile profile_;
  std::unordered_map<std::string, std::size_t> by_signature_;
  std::unordered_map<std::string, std::vector<Point>> by_operator_;
  double usual_miss_ = 0;
};

// A device whose operators take as long as a profile says. It cannot time whole graphs; they are executed on `here`, which
// may be null: then they are not executed at all (Error(kMissing)). `name` is what the user called it.
std::unique_ptr<Device> make_profile_device(DeviceProfile profile, std::string name, std::unique_ptr<Device> here);

}  // namespace rewright::optimizer
