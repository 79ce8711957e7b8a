#include "optimizer/devices/device_profile.h"

#include <catch2/catch.hpp>
#include <random>

#include "optimizer/costs/cost_model.h"
#include "optimizer/optimize.h"
#include "optimizer/profiling/measure_profile.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

DeviceProfile random_profile(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto number = [&] {
    return std::ldexp(1 + static_cast<double>(random() % 4096) / 4097, static_cast<int>(random() % 60) - 40);
  };
  DeviceProfile profile{"device " + std::to_string(seed % 3) + " \"\\\n\xc3\xa9",
                        {number(), number(), number()},
                        {},
                        static_cast<StridedReads>(seed % 3)};
  if (seed % 2 == 1) profile.cache_bytes = number();
  for (std::uint64_t i = 0; i < random() % 20; ++i) {
    std::string signature = "Op" + std::to_string(i) + "(";
    for (std::uint64_t k = 0; k < random() % 9; ++k) signature += static_cast<char>(random());
    profile.operators.push_back(
        {signature, random() % 5 == 0 ? std::nullopt : std::optional(number()), {number(), number(), number()}});
  }
  std::sort(profile.operators.begin(), profile.operators.end(),
            [](const auto& a, const auto& b) { return a.signature < b.signature; });
  return profile;
}

bool equal(const DeviceProfile& a, const DeviceProfile& b) {
  return write_profile(a, ProfileFormat::kBinary) == write_profile(b, ProfileFormat::kBinary);
}

std::string refusal(const std::string& bytes) {
  try {
    parse_profile(bytes, "f.profile");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(error.where().starts_with("f.profile"));
    return error.text();
  }
  return "accepted";
}

const std::string kHead = "version: 1 device: \"d\" operations_per_second: 1e12 bytes_per_second: 1e11 call_seconds: 1e-6 ";

}  // namespace

TEST_CASE("a profile is read as it was written, in both forms") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const DeviceProfile profile = random_profile(seed);
    for (const ProfileFormat format : {ProfileFormat::kText, ProfileFormat::kBinary}) {
      const DeviceProfile read = parse_profile(write_profile(profile, format), "p");
      CHECK(equal(read, profile));
      CHECK(read.device == profile.device);
      CHECK(read.strided_reads == profile.strided_reads);
      CHECK(read.cache_bytes == profile.cache_bytes);
      CHECK(read.roofline.call_seconds == profile.roofline.call_seconds);
      REQUIRE(read.operators.size() == profile.operators.size());
      for (std::size_t i = 0; i < read.operators.size(); ++i) {
        CHECK(read.operators[i].signature == profile.operators[i].signature);
        CHECK(read.operators[i].seconds == profile.operators[i].seconds);
        CHECK(read.operators[i].size == profile.operators[i].size);
      }
    }
  }
}

TEST_CASE("what is no profile, or says what cannot be, is refused") {
  CHECK(refusal(kHead) == "accepted");
  CHECK_THAT(refusal(""), Catch::Contains("version 0"));
  CHECK_THAT(refusal("rule r: x Relu(x) => x"), Catch::Contains("not a device profile"));
  CHECK_THAT(refusal(std::string("\0\1\2", 3)), Catch::Contains("not a device profile"));
  CHECK_THAT(refusal("version: 2 device: \"d\""), Catch::Contains("version 2"));
  CHECK_THAT(refusal("version: 1 operations_per_second: 1 bytes_per_second: 1"), Catch::Contains("which device"));
  CHECK_THAT(refusal("version: 1 device: \"d\" bytes_per_second: 1"), Catch::Contains("operations_per_second cannot be 0"));
  CHECK_THAT(refusal("version: 1 device: \"d\" operations_per_second: nan bytes_per_second: 1"), Catch::Contains("cannot be"));
  CHECK_THAT(refusal("version: 1 device: \"d\" operations_per_second: 1 bytes_per_second: -1"), Catch::Contains("cannot be"));
  CHECK_THAT(refusal(std::string(write_profile(parse_profile(kHead, "p"), ProfileFormat::kBinary)) + "\x38\x07"),
             Catch::Contains("strided_reads cannot be 7"));
  CHECK_THAT(refusal(kHead + "cache_bytes: -1"), Catch::Contains("cache_bytes cannot be -1"));
  CHECK_THAT(refusal(kHead + "operators { seconds: 1 }"), Catch::Contains("no signature"));
  CHECK_THAT(refusal(kHead + "operators { signature: \"a\" seconds: -1 }"), Catch::Contains("cannot be -1"));
  CHECK_THAT(refusal(kHead + "operators { signature: \"a\" bytes: inf }"), Catch::Contains("bytes cannot be inf"));
  CHECK_THAT(refusal(kHead + "operators { signature: \"a\" } operators { signature: \"a\" }"), Catch::Contains("twice"));
  CHECK_THROWS_WITH(read_profile("/no/such.profile"), Catch::Contains("/no/such.profile"));
  // A truncated binary profile is refused, or has fewer operators.
  const DeviceProfile profile = random_profile(6);  // the last bytes belong to an operator
  const std::string bytes = write_profile(profile, ProfileFormat::kBinary);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::string cut = bytes.substr(0, n);
    if (refusal(cut) == "accepted") CHECK(parse_profile(cut, "p").operators.size() < profile.operators.size());
  }
  // A changed profile is refused or read; nothing else happens.
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = round % 2 == 0 ? bytes : write_profile(profile, ProfileFormat::kText);
    changed[random() % changed.size()] = static_cast<char>(random());
    refusal(changed);
  }
}

TEST_CASE("profiles of one device are united, in any order") {
  DeviceProfile a = random_profile(0), b = random_profile(3), c = random_profile(6);
  for (std::size_t i = 0; i < 5; ++i)
    b.operators.push_back({"Same" + std::to_string(i), 1e-3 * static_cast<double>(i + 1), {1, 1, 1}});
  c.operators.push_back({"Same2", 5e-4, {}});
  c.operators.push_back({"Same3", std::nullopt, {}});
  const std::vector<DeviceProfile> forth{a, b, c}, back{c, b, a};
  const DeviceProfile merged = merge_profiles(forth);
  CHECK(equal(merged, merge_profiles(back)));
  const std::vector<DeviceProfile> again{merged, b};
  CHECK(equal(merged, merge_profiles(again)));
  const ProfileModel model(merged);
  CHECK(model.seconds("Same2", {}) == 5e-4);
  CHECK(model.seconds("Same3", {}) == 4e-3);
  CHECK(merged.roofline.bytes_per_second >= b.roofline.bytes_per_second);
  CHECK(merged.cache_bytes == b.cache_bytes);  // profiles without it are ignored
  CHECK(parse_profile(write_profile(merged, ProfileFormat::kText), "p").operators.size() == merged.operators.size());
  const std::vector<DeviceProfile> others{a, random_profile(1)};
  CHECK_THROWS_WITH(merge_profiles(others), Catch::Contains("different devices"));
  DeviceProfile strided = a;
  strided.strided_reads = StridedReads::kWindows;
  const std::vector<DeviceProfile> disagreeing{a, strided};
  CHECK_THROWS_WITH(merge_profiles(disagreeing), Catch::Contains("strided reads"));
}

TEST_CASE("times between measured sizes are interpolated where they lie on a smooth curve") {
  DeviceProfile profile{"d", {1e12, 1e11, 1e-6}, {}};
  const auto signature = [](int n) { return "Op(1;) float[" + std::to_string(n) + "]"; };
  const auto size = [](int n) { return OperatorSize{1e6 * n, 1e5 * n, 1e4 * n}; };
  const auto roofline = [&](int n) { return 1e-6 + std::max(1e6 * n / 1e12, 1e5 * n / 1e11); };
  const auto truth = [&](int n) { return roofline(n) * (2 + 0.5 * std::log2(n)); };
  for (int n = 1; n <= 1024; n *= 4) profile.operators.push_back({signature(n), truth(n), size(n)});
  {
    const ProfileModel model(profile);
    CHECK(model.seconds(signature(16), size(16)) == truth(16));
    for (int n = 2; n <= 512; n *= 4) CHECK(*model.seconds(signature(n), size(n)) == Approx(truth(n)).epsilon(0.2));
    CHECK(model.accuracy().operators == 6);
    CHECK(model.accuracy().median < 1.3);
    // Unknown operators exceed the roofline as much as others do.
    CHECK(*model.seconds("Other()", size(8)) > 2 * roofline(8));
  }
  // The device changes between 16 and 64: on each side the measurement of that side counts.
  profile.operators.clear();
  for (int n = 1; n <= 1024; n *= 4) profile.operators.push_back({signature(n), roofline(n) * (n <= 16 ? 1 : 20), size(n)});
  const ProfileModel step(profile);
  CHECK(*step.seconds(signature(20), size(20)) == Approx(roofline(20)));
  CHECK(*step.seconds(signature(60), size(60)) == Approx(20 * roofline(60)));
  // Operators that could not be executed are known.
  profile.operators.push_back({"Bad()", std::nullopt, {}});
  CHECK(ProfileModel(profile).seconds("Bad()", {}) == std::nullopt);
}

TEST_CASE("a device is measured once, and its profile says the same without it") {
  CostDatabase database("");
  testing::RooflineDevice device;
  const Graph graph = testing::adapters(3, 32, 4);
  const DeviceProfile profile = measure_profile(device, database, {&graph, 1}, false, {});
  CHECK(profile.device == "roofline");
  CHECK(profile.operators.size() > 300);
  CHECK(device.timed == profile.operators.size());
  const DeviceProfile again = measure_profile(device, database, {&graph, 1}, true, {});
  CHECK(device.timed == profile.operators.size());  // the database had all
  CHECK(equal(profile, again));
  CHECK(ProfileModel(profile).accuracy().median < 1.5);

  const auto optimized = [&](Device& on, CostDatabase* costs) {
    OptimizeOptions options;
    options.time_graphs = false;
    return optimize(graph, testing::rules(), on, *make_reference_evaluator(), costs, options);
  };
  const OptimizeResult there = optimized(device, nullptr);
  const auto elsewhere = make_profile_device(profile, "profile:d", std::make_unique<testing::RooflineDevice>());
  CostDatabase empty("");
  const OptimizeResult result = optimized(*elsewhere, &empty);
  CHECK(result.graph.hash() == there.graph.hash());
  CHECK(result.report.device == "profile:d");
  CHECK(result.report.check.ok);
  CHECK(result.report.check.runs == 1);
  CHECK(result.report.outcome == "chosen by predicted cost");
  CHECK(empty.all(profile.device).empty());  // predictions are not stored

  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(measure_profile(device, empty, {}, false, {{}, stop.get_token()}), Error);
}

TEST_CASE("two devices, two graphs") {
  // A product of a narrow and a wide weight: merged, it is one product with more operations.
  Graph graph;
  const ValueId x = graph.add_input("x", floats({64, 256}));
  const ValueId a = graph.add_constant(weights({256, 4})), b = graph.add_constant(weights({4, 256}, 2));
  graph.add_output("y", add(graph, "MatMul", {add(graph, "MatMul", {x, a})[0], b})[0]);
  const auto nodes_on = [&](const Roofline& rates) {
    const auto device = make_profile_device({"d", rates, {}}, "profile:d", std::make_unique<testing::RooflineDevice>());
    const OptimizeResult result = optimize(graph, testing::rules(), *device, *make_reference_evaluator(), nullptr, {});
    CHECK(result.report.check.ok);
    return result.report.nodes_after;
  };
  CHECK(nodes_on({1e13, 1e12, 1e-5}) == 1);  // calls dominate
  CHECK(nodes_on({1e10, 1e12, 1e-9}) == 2);  // operations dominate
}

}  // namespace rewright::optimizer
