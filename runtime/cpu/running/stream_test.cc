#include "runtime/stream.h"

#include <cstring>
#include <limits>
#include <set>

#include "runtime/cpu/testing/graphs.h"
#include "runtime/reference/backend.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;

namespace {

// Matrices through a chain of products and functions, some of which are outputs, read again later, or both.
Graph random_graph(std::mt19937& random) {
  Graph graph;
  std::vector<ValueId> values;
  for (int i = 0; i < 4; ++i) values.push_back(graph.add_input("x" + std::to_string(i), {DataType::kFloat, {8, 8}}));
  const auto any = [&] { return values[random() % values.size()]; };
  for (int n = 0; n < 12; ++n) {
    switch (random() % 5) {
      case 0:
        values.push_back(node(graph, "MatMul", {any(), any()})[0]);
        break;
      case 1:
        values.push_back(node(graph, "Tanh", {any()})[0]);
        break;
      case 2:
        values.push_back(node(graph, "Add", {any(), any()})[0]);
        break;
      case 3:
        values.push_back(node(graph, "Transpose", {any()}, {{"perm", Indices{1, 0}}})[0]);
        break;
      default: {
        const ValueId tall = node(graph, "Concat", {any(), any()}, {{"axis", Index(0)}})[0];
        values.push_back(node(graph, "Slice", {tall}, {{"begin", Indices{4, 0}}, {"length", Indices{8, 8}}})[0]);
      }
    }
  }
  for (int o = 0; o < 5; ++o) graph.add_output("y" + std::to_string(o), any());
  graph.add_output("same", graph.outputs()[0].value);
  return graph;
}

// Overwrites memory when it is released.
class Poisoning : public TensorStream {
 public:
  Poisoning(const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) : inputs_(inputs) {
    for (const Tensor& t : like) memory_.emplace_back(t.type(), t.sizes());
    for (const Tensor& t : like) results.emplace_back(t.type(), t.sizes());
  }
  Tensor input(std::size_t number) override {
    auto copy = std::make_shared<Tensor>(inputs_[number].type(), inputs_[number].sizes());
    std::memcpy(copy->mutable_bytes().data(), inputs_[number].bytes().data(), copy->byte_count());
    const std::byte* const bytes = copy->bytes().data();
    const std::shared_ptr<const void> owner(copy.get(), [copy](const void*) { poison(*copy); });
    return {copy->type(), copy->sizes(), owner, bytes};
  }
  std::span<std::byte> output(std::size_t number) override {
    CHECK(given.insert(number).second);
    return memory_[number].mutable_bytes();
  }
  void finished(std::size_t number) override {
    CHECK(given.contains(number));
    CHECK(handed_over.insert(number).second);
    std::memcpy(results[number].mutable_bytes().data(), memory_[number].bytes().data(), memory_[number].byte_count());
    poison(memory_[number]);
  }

  std::vector<Tensor> results;
  std::set<std::size_t> given, handed_over;

 private:
  static void poison(Tensor& tensor) {
    for (float& v : tensor.mutable_data<float>()) v = std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<Tensor> inputs_, memory_;
};

TEST_CASE("tensors that come and go while a session runs make no difference") {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const Graph graph = random_graph(random);
    std::vector<Tensor> inputs;
    for (int i = 0; i < 4; ++i) inputs.push_back(random_tensor(random, DataType::kFloat, {8, 8}));
    for (const Backend* backend : {&cpu_backend(), &reference_backend()}) {
      const std::unique_ptr<Session> session = backend->prepare(graph);
      const std::vector<Tensor> expected = session->run(inputs);
      for (int again = 0; again < 2; ++again) {
        Poisoning stream(inputs, expected);
        run_streamed(*session, inputs.size(), stream);
        CHECK(stream.results == expected);
        CHECK(stream.handed_over.size() == expected.size());
      }
    }
  }
}

TEST_CASE("outputs are handed over while the rest is computed, and inputs let go") {
  Graph graph;
  std::mt19937 random(6);
  ValueId y = graph.add_input("x", {DataType::kFloat, {8, 8}});
  for (int n = 0; n < 4; ++n) {
    y = node(graph, "MatMul", {y, graph.add_input("w" + std::to_string(n), {DataType::kFloat, {8, 8}})})[0];
    graph.add_output("y" + std::to_string(n), y);
  }
  std::vector<Tensor> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(random_tensor(random, DataType::kFloat, {8, 8}));
  struct Order : TensorStream {
    const std::vector<Tensor>& inputs;
    std::vector<Tensor> outputs;
    std::vector<int> events;
    explicit Order(const std::vector<Tensor>& i) : inputs(i) {
      for (int n = 0; n < 4; ++n) outputs.emplace_back(DataType::kFloat, Sizes{8, 8});
    }
    Tensor input(std::size_t number) override {
      events.push_back(static_cast<int>(number));
      return inputs[number];
    }
    std::span<std::byte> output(std::size_t number) override { return outputs[number].mutable_bytes(); }
    void finished(std::size_t number) override { events.push_back(-1 - static_cast<int>(number)); }
  } order(inputs);
  run_streamed(*cpu_backend().prepare(graph), 5, order);
  // The next product reads a product, so it is delivered after that.
  CHECK(order.events == std::vector<int>{0, 1, 2, -1, 3, -2, 4, -3, -4});
}

}  // namespace
