#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

// A gather with operators that compute its indices and use its result; one index may be outside.
struct GatherBuilder : rewright::testing::GraphBuilder {
  explicit GatherBuilder(unsigned seed) : GraphBuilder(seed) {
    for (std::int64_t rank = pick(1, 3); rank > 0; --rank) sizes_.push_back(pick(1, 7));
    axis_ = static_cast<std::size_t>(pick(0, std::ssize(sizes_) - 1));
    result_ = data_ = input(DataType::kFloat, sizes_);
    switch (pick(0, 2)) {
      case 0:
        gather("Gather", {pick(1, 3), pick(1, 9)});
        break;
      case 1:
        gather("GatherElements", sizes_);
        break;
      default:
        axis_ = 0;
        gather("GatherND", {pick(1, 9), 1});
    }
    use();
    graph.add_output("y", result_);
  }

 private:
  void gather(const char* name, const Sizes& shape) {
    const std::int64_t size = sizes_[axis_], count = element_count(shape), wrong = pick(0, 2 * count);
    std::vector<std::int64_t> indices;
    for (std::int64_t n = 0; n < count; ++n) {
      indices.push_back(pick(-size, size - 1));
      if (n == wrong) indices.back() = std::vector<std::int64_t>{size, -size - 1, size + 40, std::int64_t{1} << 40}[pick(0, 3)];
    }
    const std::int64_t shift = pick(0, 1) == 0 ? 0 : pick(1, 5);
    for (std::int64_t& i : indices) i -= shift;
    const Tensor given = Tensor::from_integers(DataType::kInt64, shape, indices);
    ValueId at;
    if (pick(0, 2) == 0) {
      at = graph.add_constant(given);
    } else {
      inputs.push_back(given);
      at = graph.add_input("i", {DataType::kInt64, to_indices(shape)});
    }
    if (shift != 0) {
      const Tensor shifts = Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{shift});
      at = node(graph, "Add", {at, graph.add_constant(shifts)})[0];
    }
    if (std::string_view(name) == "GatherND")
      result_ = node(graph, name, {data_, at})[0];
    else
      result_ = node(graph, name, {data_, at}, {{"axis", Index(axis_)}})[0];
  }

  void use() {
    const Indices shape = graph.value(result_).type.shape;
    switch (pick(0, 5)) {
      case 0:
        break;
      case 1:
        result_ = node(graph, "Relu", {result_})[0];
        break;
      case 2: {
        const Indices pads(shape.size(), Index(pick(0, 2)));
        result_ = node(graph, "Pad", {result_}, {{"pads_begin", pads}, {"pads_end", pads}})[0];
        break;
      }
      case 3:
        result_ = node(graph, "Concat", {result_, node(graph, "Neg", {result_})[0]}, {{"axis", Index(0)}})[0];
        break;
      case 4:
        result_ = node(graph, "ReduceSum", {result_}, {{"axes", Indices{Index(0)}}})[0];
        break;
      default:
        result_ = node(graph, "Mul", {result_, constant(values(shape))})[0];
    }
  }

  Sizes sizes_;
  std::size_t axis_ = 0;
  ValueId data_ = kNoValue, result_ = kNoValue;
};

}  // namespace

TEST_CASE("an index outside of its axis ends the run where the interpreter ends it") {
  int outside = 0;
  for (unsigned seed = 0; seed < testing::instances(400); ++seed) {
    CAPTURE(seed);
    GatherBuilder b(seed);
    std::string said;
    try {
      interpret(b.graph, b.inputs);
    } catch (const Error& e) {
      said = e.what();
    }
    if (said.empty()) {
      check_graph(b.graph, b.inputs);
      continue;
    }
    ++outside;
    REQUIRE_THAT(said, Catch::Contains("is outside of an axis of size"));
    for (const Isa isa : rewright::testing::tested_isas()) {
      SessionOptions options;
      options.max_isa = isa;
      CHECK_THROWS_WITH(cpu_backend().prepare(b.graph, options)->run(b.inputs),
                        Catch::Contains("is outside of an axis of size"));
    }
  }
  CHECK(outside > 10);
}
