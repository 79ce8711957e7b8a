// After its first run, a session allocates only its outputs, and large ones in memory that it had before; plans are small.
// Libraries' own allocations are excluded: allocations are counted by calling module.
#include <dlfcn.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/cpu/testing/graphs.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int> allocations = 0;
std::atomic<std::size_t> largest = 0;  // bytes

const void* module_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (counting.load(std::memory_order_relaxed) && module_of(caller) == module_of(reinterpret_cast<const void*>(&allocate))) {
    ++allocations;
    for (std::size_t before = largest; before < bytes && !largest.compare_exchange_weak(before, bytes);) {
    }
  }
  void* memory = alignment > 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                               : std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 0, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 0, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, 0, __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;

TEST_CASE("nothing is allocated while a session runs again") {
  std::mt19937 random(1);
  Graph graph;
  const auto constant = [&](Sizes sizes) {
    return graph.add_constant(random_tensor(random, DataType::kFloat, sizes, -0.4, 0.4));
  };
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(1), Index(16), Index(28), Index(28)}});
  const auto convolve = [&](ValueId v, std::int64_t outputs, std::int64_t size, std::int64_t group) {
    const std::int64_t channels = graph.value(v).type.shape[1].value(), pad = size / 2;
    return node(graph, "Conv", {v, constant({outputs, channels / group, size, size}), constant({outputs})},
                {{"strides", Indices{1, 1}},
                 {"dilations", Indices{1, 1}},
                 {"pads_begin", Indices{pad, pad}},
                 {"pads_end", Indices{pad, pad}},
                 {"group", Index(group)}})[0];
  };
  ValueId y = node(graph, "Relu", {convolve(x, 32, 3, 1)})[0];
  y = node(graph, "Sigmoid", {convolve(y, 32, 3, 32)})[0];
  y = node(graph, "Add", {y, convolve(y, 32, 1, 1)})[0];
  y = node(graph, "Flatten", {node(graph, "GlobalAveragePool", {y})[0]})[0];
  y = node(graph, "MatMul", {y, constant({32, 64})})[0];
  y = node(graph, "Softmax", {node(graph, "Tanh", {y})[0]})[0];
  graph.add_output("y", y);
  const std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, {1, 16, 28, 28})};
  const auto session = cpu_backend().prepare(graph, {});
  session->run(inputs);
  counting = true;
  const std::vector<Tensor> outputs = session->run(inputs);
  counting = false;
  // The list, and for the output its sizes and owner.
  CHECK(allocations <= 6);
  CHECK(outputs.size() == 1);
}

// Larger than what malloc ever keeps: without a pool these are new pages in each run.
TEST_CASE("a large output is in the pages of one that nobody has any more") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(1), Index(16 << 20)}});
  graph.add_output("y", node(graph, "Relu", {x})[0]);
  const std::vector<Tensor> inputs{Tensor(DataType::kFloat, {1, 16 << 20})};
  const auto session = cpu_backend().prepare(graph, {.threads = 1});
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  session->run(inputs);
  const long before = faults();
  for (int run = 0; run < 3; ++run) session->run(inputs);
  CHECK(faults() - before < 16);
}

TEST_CASE("a plan keeps nothing for each element of a long row") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(1 << 22)}});
  graph.add_output("y", node(graph, "Pad", {x},
                             {{"pads_begin", Indices{1}}, {"pads_end", Indices{1}}, {"mode", std::string("reflect")}})[0]);
  largest = 0;
  counting = true;
  const auto plan = make_plan(graph, PlanOptions());
  counting = false;
  CHECK(largest < std::size_t{1} << 20);
}
