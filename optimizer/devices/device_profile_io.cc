// Profiles in Protobuf.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>

#include "graph/file.h"
#include "optimizer/devices/device_profile.h"
#include "optimizer/devices/device_profile.pb.h"
#include "rules/message.h"

namespace rewright::optimizer {

namespace {

constexpr std::size_t kMaximumBytes = std::size_t{256} << 20;
constexpr Format kFormat{"a device profile", 1};

}  // namespace

DeviceProfile parse_profile(std::string_view bytes, const std::string& name) {
  if (bytes.size() > kMaximumBytes) throw Error(ErrorCode::kBadInput, "the file is too large", name);
  proto::DeviceProfile p;
  (is_binary(bytes) ? parse_binary : parse_text)(bytes, name, kFormat, p);
  const auto bad = [&](const std::string& what) { return Error(ErrorCode::kBadInput, what, name); };
  if (p.device().empty()) throw bad("it does not say which device it is of");
  const auto number = [&](double value, bool positive, const std::string& what) {
    if (!std::isfinite(value) || value < 0 || (positive && value == 0)) throw bad(what + " cannot be " + std::to_string(value));
    return value;
  };
  DeviceProfile profile;
  profile.device = p.device();
  profile.roofline = {number(p.operations_per_second(), true, "operations_per_second"),
                      number(p.bytes_per_second(), true, "bytes_per_second"), number(p.call_seconds(), false, "call_seconds")};
  for (const proto::ProfiledOperator& o : p.operators()) {
    if (o.signature().empty()) throw bad("an operator has no signature");
    ProfiledOperator op{o.signature(), std::nullopt, {}};
    if (o.has_seconds()) op.seconds = number(o.seconds(), false, "the time of an operator");
    op.size = {number(o.operations(), false, "operations"), number(o.bytes(), false, "bytes"),
               number(o.elements(), false, "elements")};
    profile.operators.push_back(std::move(op));
  }
  if (!proto::StridedReads_IsValid(p.strided_reads()))
    throw bad("strided_reads cannot be " + std::to_string(p.strided_reads()));
  profile.strided_reads = static_cast<StridedReads>(p.strided_reads());
  if (p.has_cache_bytes()) profile.cache_bytes = number(p.cache_bytes(), false, "cache_bytes");
  std::sort(profile.operators.begin(), profile.operators.end(),
            [](const ProfiledOperator& a, const ProfiledOperator& b) { return a.signature < b.signature; });
  const auto twice = std::adjacent_find(profile.operators.begin(), profile.operators.end(),
                                        [](const auto& a, const auto& b) { return a.signature == b.signature; });
  if (twice != profile.operators.end()) throw bad("it has an operator twice: " + twice->signature.substr(0, 200));
  return profile;
}

DeviceProfile read_profile(const std::filesystem::path& file) {
  const FileBytes bytes = map_file(file);
  return parse_profile(bytes.text(), file.string());
}

std::string write_profile(const DeviceProfile& profile, ProfileFormat format) {
  proto::DeviceProfile p;
  p.set_version(kFormat.version);
  p.set_device(profile.device);
  p.set_operations_per_second(profile.roofline.operations_per_second);
  p.set_bytes_per_second(profile.roofline.bytes_per_second);
  p.set_call_seconds(profile.roofline.call_seconds);
  p.set_strided_reads(static_cast<proto::StridedReads>(profile.strided_reads));
  if (std::isfinite(profile.cache_bytes)) p.set_cache_bytes(profile.cache_bytes);
  for (const ProfiledOperator& op : profile.operators) {
    proto::ProfiledOperator* o = p.add_operators();
    o->set_signature(op.signature);
    if (op.seconds) o->set_seconds(*op.seconds);
    o->set_operations(op.size.operations);
    o->set_bytes(op.size.bytes);
    o->set_elements(op.size.elements);
  }
  std::string result;
  if (format == ProfileFormat::kText) {
    google::protobuf::TextFormat::PrintToString(p, &result);
    return result;
  }
  {
    google::protobuf::io::StringOutputStream stream(&result);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    p.SerializeToCodedStream(&coded);
  }
  return result;
}

}  // namespace rewright::optimizer
