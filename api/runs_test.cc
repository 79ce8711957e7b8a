// Runs through the C interface and C++ over it: ended from outside, and on bound memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "graph/onnx/text.h"

// This program also contains the library's internal classes, some with the names of the public ones.
#define rewright rewright_for_programs
#include "api/rewright.h"
#undef rewright

namespace {

using namespace rewright_for_programs;
using rewright::graph::text_bytes;

// y = 2^m x, and z = -x.
Model doubling() {
  return Model::parse(text_bytes(R"(agraph (int64 m, float[N, 60] x) => (float[N, 60] y, float[N, 60] z) {
    yes = Constant <value = bool {1}> ()
    y = Loop (m, yes, x) <body = b (int64 i, bool c, float[N, 60] v) => (bool go, float[N, 60] next) {
      next = Add(v, v)
      go = Identity(c)
    }>
    z = Neg(x)
  })"));
}

constexpr std::int64_t kForever = std::int64_t{1} << 62;
constexpr std::int32_t kInt64 = 7;

std::vector<Array> inputs(std::int64_t times) {
  return {Array::of<std::int64_t>(kInt64, {}, {times}), Array::floats({40, 60}, std::vector<float>(2400, 1.5F))};
}

template <class T>
View view(std::int32_t type, std::vector<std::int64_t> sizes, std::vector<T>& elements) {
  return {type, std::move(sizes), elements.data(), elements.size() * sizeof(T)};
}

rewright_status status_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Failure& failure) {
    return failure.status();
  }
  return REWRIGHT_OK;
}

TEST_CASE("a run is ended by another thread, and the session runs again") {
  const std::string device = GENERATE("cpu", "reference");
  const Runner runner(doubling(), device);
  Ending ending;
  rewright_status status = REWRIGHT_OK;
  std::thread run([&] { status = status_of([&] { runner.run(inputs(kForever), ending); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ending.set();
  run.join();
  CHECK(status == REWRIGHT_CANCELLED);
  CHECK(status_of([&] { runner.run(inputs(1), ending); }) == REWRIGHT_CANCELLED);
  ending.set(false);
  CHECK(runner.run(inputs(2), ending).at(0).elements<float>() == std::vector<float>(2400, 6));
  CHECK(rewright_session_run_until(nullptr, ending.get(), nullptr, 0, nullptr, 0) == REWRIGHT_USAGE);
}

TEST_CASE("several sets of sizes with weights, in C++") {
  const Model model = Model::parse(text_bytes("agraph (float[batch, n] x) => (float[batch, n] y) { a = Neg(x) y = Neg(a) }"));
  const Options options{{"device", "cpu"}, {"estimate", "true"}, {"check", "0"}, {"shape", "x=1x8*2,4x16,2x64*3"}};
  const std::string report = optimize(model, options).report();
  for (const char* weight : {R"("weight":2.0)", R"("weight":1.0)", R"("weight":3.0)"})
    CHECK(report.find(weight) != std::string::npos);
  CHECK(report.find(R"("sizes":{"batch":4,"n":16})") != std::string::npos);
  CHECK(status_of([] { Options{{"shape", "x=1x8*nan"}}; }) == REWRIGHT_USAGE);
  CHECK(status_of([&] { optimize(model, Options{{"device", "cpu"}, {"shape", "x=1x8,4"}}); }) == REWRIGHT_BAD_INPUT);
}

TEST_CASE("bound memory is read and written at every run") {
  const Runner runner(doubling());
  std::vector<std::int64_t> times{1};
  std::vector<float> x(2400, 1), y(2400), other(2400);
  Binding binding(runner);
  binding.input("m", "cpu", view(kInt64, {}, times)).input("x", "cpu", view(1, {40, 60}, x));
  binding.output("y", "cpu", view(1, {40, 60}, y)).output("z", "cpu");
  for (const float element : {1.0F, 3.0F}) {
    std::fill(x.begin(), x.end(), element);
    ++times[0];
    binding.run();
    CHECK(y == std::vector<float>(2400, element * static_cast<float>(1 << times[0])));
    const View z = binding.result("z");
    REQUIRE(z.sizes == std::vector<std::int64_t>{40, 60});
    CHECK(*static_cast<const float*>(z.data) == -element);
    CHECK(binding.result("y").data == y.data());
  }
  binding.output("y", "cpu", view(1, {40, 60}, other));
  CHECK(status_of([&] { binding.result("y"); }) == REWRIGHT_USAGE);
  Ending ending;
  ending.set();
  CHECK(status_of([&] { binding.run(ending); }) == REWRIGHT_CANCELLED);
  ending.set(false);
  binding.run(ending);
  CHECK(other == y);
}

TEST_CASE("what cannot be bound is said by its name") {
  const Runner runner(doubling());
  std::vector<float> x(2400), small(60);
  Binding binding(runner);
  CHECK_THROWS_WITH(binding.input("w", "cpu", view(1, {40, 60}, x)), Catch::Contains("no input \"w\""));
  CHECK_THROWS_WITH(binding.input("x", "tpu", view(1, {40, 60}, x)), Catch::Contains("no memory of \"tpu\""));
  CHECK_THROWS_WITH(binding.input("x", "cpu", view(1, {41, 60}, x)), Catch::Contains("bytes"));
  CHECK_THROWS_WITH(binding.input("x", "cpu", {1, {std::int64_t{1} << 62, 1}, x.data(), 0}), Catch::Contains("beyond 64 bits"));
  CHECK(status_of([&] { binding.run(); }) == REWRIGHT_USAGE);
  CHECK(std::string(rewright_error_where()) == "input m");
  std::vector<std::int64_t> times{1};
  binding.input("m", "cpu", view(kInt64, {}, times)).input("x", "cpu", view(1, {40, 60}, x));
  binding.output("y", "cpu", view(1, {1, 60}, small));
  CHECK(status_of([&] { binding.run(); }) == REWRIGHT_BAD_INPUT);
  CHECK(std::string(rewright_error_where()) == "output \"y\"");
  CHECK(rewright_binding_create(nullptr, nullptr) == REWRIGHT_USAGE);
  CHECK(rewright_binding_run(nullptr, nullptr) == REWRIGHT_USAGE);
  rewright_binding_free(nullptr);
  rewright_ending_free(nullptr);
}

}  // namespace
