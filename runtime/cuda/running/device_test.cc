// Devices that run out of memory, that are lost, or that threads share.
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/cuda/testing/tested_graph.h"

namespace rewright::cuda {

TEST_CASE("a device without enough memory is an error, and gives back what it gave", "[host]") {
  TestedGraph b(15);
  b.output(b.node("Exp", {b.convolution(b.input(DataType::kFloat, {1, 4, 20, 20}), 8, 3)}));
  const auto report = std::make_shared<HostDriverReport>();
  {
    const auto session = make_session(make_host_driver({}, report), b.graph, {}, {});
    session->run(b.inputs);
  }
  REQUIRE(report->allocated == 0);
  for (const std::size_t memory : {std::size_t{100}, std::size_t{10000}, std::size_t{30000}}) {
    try {
      make_session(make_host_driver({.memory = memory}, report), b.graph, {}, {});
      FAIL("there is too little memory");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kMissing);
    }
    CHECK(report->allocated == 0);
  }
}

TEST_CASE("a device that is lost is an error that names it, and what it held is given up", "[host]") {
  TestedGraph b(18);
  b.output(b.node("Exp", {b.convolution(b.input(DataType::kFloat, {1, 4, 6, 6}), 8, 3)}));
  const TemporaryFolder cache;
  int failed = 0;
  for (long work = 0; failed == work; ++work) {
    const auto report = std::make_shared<HostDriverReport>();
    const auto driver = make_host_driver({.lost_after = work}, report);
    try {
      const auto session = make_session(driver, b.graph, {}, {.cache = cache.path()});
      session->run(b.inputs);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kMissing);
      CHECK(std::string(e.what()) == "host: the device is lost");
      ++failed;
    }
    CHECK(report->allocated == 0);
  }
  CHECK(failed > 10);
}

// A failed kernel makes the GPU unusable for its process, so tools/gpu_check runs this in a process of its own.
TEST_CASE("a kernel that fails loses the GPU, and the process ends as always", "[.][lost]") {
  const auto driver = tested_driver();
  TestedGraph b(19);
  b.output(b.node("Exp", {b.input(DataType::kFloat, {5, 7})}));
  const auto session = make_session(driver, b.graph, {}, {});
  session->run(b.inputs);
  const auto module = driver->load(driver->compile("extern \"C\" __global__ void fails() { *(volatile int*)16 = 1; }"));
  module->start("fails", 1, 1, {});
  try {
    session->run(b.inputs);
    FAIL("the GPU works on");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
    CHECK(std::string(e.what()).find(driver->device_name()) != std::string::npos);
  }
  CHECK_THROWS_AS(make_session(driver, b.graph, {}, {}), Error);
}

TEST_CASE("a device goes on after it had too little memory") {
  const auto driver = tested_driver();
  try {
    driver->allocate(std::size_t{1} << 50);
    FAIL("no device has so much memory");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
  }
  TestedGraph b(17);
  b.output(b.node("Exp", {b.input(DataType::kFloat, {5, 7})}));
  b.require_close(make_session(driver, b.graph, {}, {})->run(b.inputs), interpret(b.graph, b.inputs), 2e-5);
}

TEST_CASE("threads share a device") {
  TestedGraph b(16);
  b.output(
      b.node("Softmax", {b.node("MatMul", {b.input(DataType::kFloat, {5, 7}), b.constant({7, 9})})}, {{"axis", Index(1)}}));
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  const auto session = make_session(tested_driver(), b.graph, {}, {});
  std::vector<std::vector<Tensor>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) result = session->run(b.inputs);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& result : results) b.require_close(result, expected, 2e-5);
}

TEST_CASE("sessions and memory are used by any thread, whatever device it was with", "[host]") {
  const auto report = std::make_shared<HostDriverReport>();
  const auto other = make_host_driver();
  {
    const std::unique_ptr<Backend> backend = make_backend(make_host_driver({.device = 1}, report), {.device = 1});
    const auto& resident = dynamic_cast<const ResidentBackend&>(*backend);
    TestedGraph b(21);
    b.output(b.node("Add", {b.input(DataType::kFloat, {5, 7}), b.constant({5, 7})}));
    const std::vector<Tensor> once = interpret(b.graph, b.inputs), twice = interpret(b.graph, once);
    const auto elsewhere = [](const std::function<void()>& work) { std::thread(work).join(); };
    std::unique_ptr<Session> session, in_place;
    DeviceTensor state;
    elsewhere([&] { state = resident.memory().allocate(DataType::kFloat, {5, 7}); });
    elsewhere([&] { session = backend->prepare(b.graph, {.profile = true}); });
    elsewhere([&] { in_place = resident.prepare_resident(b.graph, {.profile = true}, {{state}, {state}}); });
    resident.memory().copy_in(state, b.inputs[0]);
    const PlacedTensor input = state;
    const Destination output = OnDevice{1};
    std::vector<PlacedTensor> placed;
    elsewhere([&] { placed = dynamic_cast<DeviceSession&>(*session).run_placed({&input, 1}, {&output, 1}); });
    b.require_close(session->run(b.inputs), once, 2e-5);
    for (int step = 0; step < 2; ++step) elsewhere([&] { in_place->run(std::vector<Tensor>(1)); });
    CHECK(session->profile().size() == 1);
    CHECK(in_place->profile().size() == 1);
    std::vector<Tensor> found(2);
    elsewhere([&] { found[0] = resident.memory().copy_out(std::get<DeviceTensor>(placed[0])); });
    found[1] = resident.memory().copy_out(state);
    b.require_close({found[0]}, once, 2e-5);
    b.require_close({found[1]}, twice, 2e-5);
    elsewhere([&] { session.reset(), in_place.reset(), placed.clear(); });
    const auto back = other->allocate(1);  // this thread's current device is restored afterwards
    other->release(back);
  }
  CHECK(report->allocated == 0);
  CHECK(report->freed_elsewhere == 0);
  CHECK_THROWS_WITH(make_host_driver({.device = 1})->allocate(1), Catch::Contains("with device 0"));
}

}  // namespace rewright::cuda
