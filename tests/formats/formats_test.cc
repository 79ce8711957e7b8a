// Later programs read files of earlier ones, and refuse files of later ones with a clear message. version_1/ has a small file
// of every format as written by this version. schemas.txt lists the contents of the Protobuf schemas; lines are only added.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "graph/onnx/onnx.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/devices/device_profile.h"
#include "optimizer/devices/device_profile.pb.h"
#include "rules/io.h"
#include "rules/rule.pb.h"
#include "rules/taso/taso.pb.h"
#include "runtime/cpu/backend/evaluator.h"
#include "verifier/certificate.h"
#include "verifier/certificate.pb.h"
#include "verifier/checker/check.h"

namespace rewright::testing {

namespace {

const std::filesystem::path kFolder = "tests/formats";

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  REQUIRE(stream);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

std::string version_1(const std::string& name) { return bytes_of(kFolder / "version_1" / name); }

// ---- Schemas as lines: "rewright.proto.Rule.name = 1 optional string"

using Lines = std::set<std::string>;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

void list(const EnumDescriptor& type, Lines& lines) {
  for (int v = 0; v < type.value_count(); ++v)
    lines.insert(type.full_name() + "." + type.value(v)->name() + " = " + std::to_string(type.value(v)->number()));
  for (int r = 0; r < type.reserved_range_count(); ++r)
    for (int n = type.reserved_range(r)->start; n <= type.reserved_range(r)->end; ++n)
      lines.insert(type.full_name() + " reserves " + std::to_string(n));
}

void list(const Descriptor& message, Lines& lines) {
  for (int f = 0; f < message.field_count(); ++f) {
    const FieldDescriptor& field = *message.field(f);
    const std::string label = field.is_repeated()             ? "repeated "
                              : field.is_required()           ? "required "
                              : field.real_containing_oneof() ? "one of " + field.containing_oneof()->name() + " "
                              : field.has_optional_keyword()  ? "optional "
                                                              : "";
    const std::string type = field.message_type() ? field.message_type()->full_name()
                             : field.enum_type()  ? field.enum_type()->full_name()
                                                  : field.type_name();
    lines.insert(message.full_name() + "." + field.name() + " = " + std::to_string(field.number()) + " " + label + type);
  }
  for (int r = 0; r < message.reserved_range_count(); ++r)
    for (int n = message.reserved_range(r)->start; n < message.reserved_range(r)->end; ++n)
      lines.insert(message.full_name() + " reserves " + std::to_string(n));
  for (int m = 0; m < message.nested_type_count(); ++m) list(*message.nested_type(m), lines);
  for (int e = 0; e < message.enum_type_count(); ++e) list(*message.enum_type(e), lines);
}

Lines present_schemas() {
  Lines lines;
  for (const auto* file : {proto::RuleSet::descriptor()->file(), proto::DeviceProfile::descriptor()->file(),
                           certificate::Certificate::descriptor()->file(), taso::proto::RuleCollection::descriptor()->file()}) {
    for (int m = 0; m < file->message_type_count(); ++m) list(*file->message_type(m), lines);
    for (int e = 0; e < file->enum_type_count(); ++e) list(*file->enum_type(e), lines);
  }
  return lines;
}

// The incompatibilities of `now` with the committed schema. A field may be removed only if its number is reserved for ever.
std::vector<std::string> objections(const Lines& committed, const Lines& now) {
  std::vector<std::string> found;
  for (const std::string& line : committed) {
    if (now.contains(line)) continue;
    const std::size_t equals = line.find(" = ");
    const std::string type = line.substr(0, line.rfind('.', equals));
    const std::string number = line.substr(equals + 3, line.find(' ', equals + 3) - equals - 3);
    if (equals == std::string::npos || !now.contains(type + " reserves " + number))
      found.push_back("gone or changed, and its number is not reserved: " + line);
  }
  for (const std::string& line : now)
    if (!committed.contains(line)) found.push_back("new, to be added to tests/formats/schemas.txt: " + line);
  return found;
}

}  // namespace

TEST_CASE("schemas only grow") {
  Lines committed;
  std::istringstream text(bytes_of(kFolder / "schemas.txt"));
  for (std::string line; std::getline(text, line);)
    if (!line.starts_with('#') && !line.empty()) committed.insert(line);
  for (const std::string& objection : objections(committed, present_schemas())) FAIL_CHECK(objection);
}

TEST_CASE("what breaks a schema is noticed") {
  const Lines before = {"p.Rule.name = 1 string", "p.Rule.size = 2 uint32", "p.Kind.ONE = 1"};
  CHECK(objections(before, before).empty());
  CHECK(objections(before, {"p.Rule.name = 1 string", "p.Rule.size = 2 sint32", "p.Kind.ONE = 1"}).size() == 2);
  CHECK(objections(before, {"p.Rule.name = 3 string", "p.Rule.size = 2 uint32", "p.Kind.ONE = 1"}).size() == 2);
  CHECK(objections(before, {"p.Rule.name = 1 string", "p.Rule.size = 2 uint32"}).size() == 1);
  CHECK(objections({"p.Rule.name = 1 string"}, {"p.Rule reserves 1"}).size() == 1);  // only a line to be added
}

TEST_CASE("rules of version 1") {
  const std::vector<Rule> binary = read_rules(version_1("rules.pb"), "rules.pb");
  CHECK(binary == read_rules(version_1("rules.textproto"), "rules.textproto"));
  std::vector<Rule> algebra = read_rules(version_1("rules.rules"), "rules.rules");
  REQUIRE(algebra.size() == binary.size());
  for (std::size_t i = 0; i < algebra.size(); ++i) {
    CHECK(binary[i].proof.status == RuleStatus::kProved);
    CHECK(to_algebra(algebra[i]) == to_algebra(binary[i]));
  }
  CHECK(write_rules(binary, RuleFormat::kBinary) == version_1("rules.pb"));

  proto::RuleSet newer;
  REQUIRE(newer.ParseFromString(version_1("rules.pb")));
  newer.set_version(2);
  CHECK_THROWS_WITH(read_rules(newer.SerializeAsString(), "newer"),
                    Catch::Contains("newer: a file of rules of version 2 of the format, this program reads 1"));
  CHECK_THROWS_WITH(read_rules("version: 2\nrules { name: \"a\" what_is_this { x: 1 } }\n", "newer"),
                    Catch::Contains("newer: a file of rules of version 2 of the format, this program reads 1"));
  CHECK_THROWS_WITH(read_rules("version: 1\nrules { what_is_this: 1 }\n", "wrong"),
                    Catch::Contains("wrong:2: ") && Catch::Contains("what_is_this"));
}

TEST_CASE("certificates of proofs of version 1") {
  const std::string bytes = version_1("proof.certificate");
  const proof::Certificate certificate = proof::read_certificate(bytes, "proof");
  CHECK(certificate.rule.name == "relu_of_relu");
  CHECK_NOTHROW(proof::check_certificate(bytes, "proof"));  // the certificate's definitions may be outdated
  certificate::Certificate newer;
  REQUIRE(newer.ParseFromString(proof::certificate_message(certificate)));
  newer.set_version(2);
  CHECK_THROWS_WITH(proof::read_certificate(proof::certificate_file(newer.SerializeAsString()), "newer"),
                    Catch::Contains("newer: it is of version 2 of the format, this program reads 1"));
}

TEST_CASE("device profiles of version 1") {
  const DeviceProfile text = parse_profile(version_1("profile.textproto"), "profile");
  const DeviceProfile binary = parse_profile(version_1("profile.pb"), "profile");
  for (const DeviceProfile& profile : {text, binary}) {
    CHECK(profile.device == "a device");
    REQUIRE(profile.operators.size() == 2);
    CHECK(profile.operators[0].seconds == 0.5);
    CHECK(profile.operators[0].size == OperatorSize{3, 5, 7});
    CHECK_FALSE(profile.operators[1].seconds.has_value());
    CHECK(profile.strided_reads == StridedReads::kWindows);
    CHECK(profile.cache_bytes == 4096);
  }
  CHECK(write_profile(text, ProfileFormat::kBinary) == version_1("profile.pb"));
  proto::DeviceProfile newer;
  REQUIRE(newer.ParseFromString(version_1("profile.pb")));
  newer.set_version(2);
  const auto refused = Catch::Contains("newer: a device profile of version 2 of the format, this program reads 1");
  CHECK_THROWS_WITH(parse_profile(newer.SerializeAsString(), "newer"), refused);
  CHECK_THROWS_WITH(parse_profile("version: 2 colour: \"red\"", "newer"), refused);
}

TEST_CASE("certificates of optimizations of version 1") {
  const std::string text = version_1("optimization.json");
  const Certificate certificate = parse_certificate(text, "optimization");
  CHECK(to_json(certificate) == text);
  const Graph before = import_onnx_bytes(version_1("before.onnx"), "before");
  const auto evaluator = cpu::make_cpu_evaluator(1);
  const Graph after = replay(before, certificate, read_rules(version_1("rules.pb"), "rules"), *evaluator);
  CHECK(after.nodes().size() == 1);
  std::string newer = text;
  newer.replace(newer.find("rewright certificate 1"), 22, "rewright certificate 2");
  CHECK_THROWS_WITH(
      parse_certificate(newer, "newer"),
      Catch::Contains("newer: it is of format \"rewright certificate 2\", this program reads \"rewright certificate 1\""));
}

}  // namespace rewright::testing
