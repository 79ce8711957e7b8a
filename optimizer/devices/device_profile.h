// Device profiles: measurements of a device, so that graphs can be optimized for it on another machine.
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

// Throws Error(kBadInput) for a file that is not a profile, has another version, or contains impossible values; it is refused
// as a whole.
DeviceProfile read_profile(const std::filesystem::path& file);
DeviceProfile parse_profile(std::string_view bytes, const std::string& name);  // `name`: of the file, for messages
std::string write_profile(const DeviceProfile& profile, ProfileFormat format);

// Merges profiles of one device. For operators measured more than once, and for the device's rates, the fastest measurement
// counts, since other work only makes a machine slower. Throws Error(kBadInput) if the devices differ.
DeviceProfile merge_profiles(std::span<const DeviceProfile> profiles);

// Predicts times of unmeasured operators from measured ones of the same type. The factors by which these exceed the roofline
// are averaged, with weights that fall with the distance in operations, bytes and elements on a logarithmic scale. If
// neighbours disagree (a device changes its algorithm between them), only the nearest counts.
class ProfileModel {
 public:
  explicit ProfileModel(DeviceProfile profile);
  const DeviceProfile& profile() const { return profile_; }

  // Seconds; nullopt for operators that the device could not execute. Measured operators have their measured times.
  std::optional<double> seconds(const std::string& signature, const OperatorSize& size) const;

  // The accuracy of predicting each measured operator from the others: factors of at least 1 between prediction and
  // measurement.
  struct Accuracy {
    std::size_t operators = 0;    // those with others to predict from
    double median = 1, high = 1;  // the factors that half, and nine tenths, do not exceed
  };
  Accuracy accuracy() const;

 private:
  struct Point {
    std::string attributes, form;
    OperatorSize size;
    double miss = 0;  // logarithm of measured time over roofline
    std::size_t number = 0;
  };
  double roofline(const OperatorSize& size) const;
  Point point(const std::string& signature, const OperatorSize& size) const;
  // The logarithm of the factor on the roofline; `without`: a point to leave out.
  std::optional<double> miss(const std::string& signature, const OperatorSize& size, std::optional<std::size_t> without) const;

  DeviceProfile profile_;
  std::unordered_map<std::string, std::size_t> by_signature_;
  std::unordered_map<std::string, std::vector<Point>> by_operator_;
  double usual_miss_ = 0;
};

// A device with a profile's operator times. It cannot time whole graphs; they are executed on `here`, or not at all if that is
// null (Error(kMissing)). `name` is the user's name for it.
std::unique_ptr<Device> make_profile_device(DeviceProfile profile, std::string name, std::unique_ptr<Device> here);

}  // namespace rewright::optimizer
