#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

struct ScatterBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  Tensor positions(DataType type, const Sizes& sizes, const std::function<std::int64_t(std::int64_t)>& size_at) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(element_count(sizes)));
    for (std::size_t n = 0; n < list.size(); ++n) {
      const std::int64_t size = size_at(static_cast<std::int64_t>(n));
      list[n] = pick(-size, size - 1);
    }
    return Tensor::from_integers(type, sizes, list);
  }
  ValueId given(const Tensor& tensor) {
    inputs.push_back(tensor);
    return graph.add_input("x" + std::to_string(inputs.size()), {tensor.type(), to_indices(tensor.sizes())});
  }
  std::string reduction() {
    return std::vector<std::string>{"none", "add", "mul", "max", "min"}[static_cast<std::size_t>(pick(0, 4))];
  }
  DataType element() {  // of updates that may come from tiles
    return pick(0, 3) == 0 ? DataType::kInt64 : pick(0, 3) == 0 ? DataType::kDouble : DataType::kFloat;
  }
  DataType any_element() {
    static constexpr DataType kOthers[] = {DataType::kInt64, DataType::kDouble, DataType::kInt32, DataType::kInt16,
                                           DataType::kInt8};
    return pick(0, 1) == 0 ? DataType::kFloat : kOthers[pick(0, 4)];
  }
  DataType index() { return pick(0, 1) == 0 ? DataType::kInt32 : DataType::kInt64; }
};

// Messages along edges: what a gather reads, by several operators, with what edges have of their own.
struct MessageBuilder : ScatterBuilder {
  explicit MessageBuilder(unsigned seed) : ScatterBuilder(seed), type(element()), nodes(pick(1, 9)) {
    edges = seed % 16 == 0 ? pick(200, 400) : pick(1, 20);
    for (std::int64_t more = pick(0, 2); more > 0; --more) features.push_back(pick(1, 5));
    if (!features.empty() && seed % 2 == 0) features.back() = pick(8, 60);
  }
  DataType type;
  std::int64_t nodes, edges;
  Sizes features;

  Sizes with_features(Sizes sizes) const {
    sizes.insert(sizes.end(), features.begin(), features.end());
    return sizes;
  }
  // A node for each edge, as a column or not.
  ValueId nodes_of_edges(std::int64_t columns = 0) {
    const Sizes sizes = columns == 0 ? Sizes{edges} : Sizes{edges, columns};
    return given(positions(index(), sizes, [this](std::int64_t) { return nodes; }));
  }
  ValueId rows_of(ValueId of) { return node(graph, "Gather", {of, nodes_of_edges()}, {{"axis", Index(0)}})[0]; }
  ValueId gathered() {
    switch (pick(features.empty() ? 1 : 0, 3)) {
      case 0: {  // a part of each row
        Sizes wide = with_features({nodes});
        wide[1] += 3;
        Indices begin(wide.size(), 0), step(wide.size(), 1);
        begin[1] = 2;
        return node(graph, "Slice", {rows_of(input(type, wide))},
                    {{"begin", begin}, {"length", to_indices(with_features({edges}))}, {"step", step}})[0];
      }
      case 1:
        return node(graph, "GatherND", {input(type, with_features({nodes})), nodes_of_edges(1)})[0];
      case 2: {
        const auto size_at = [this](std::int64_t n) { return n % 2 == 0 ? 3 : nodes; };
        return node(graph, "GatherND",
                    {input(type, with_features({3, nodes})), given(positions(index(), {edges, 2}, size_at))})[0];
      }
      default:
        return rows_of(input(type, with_features({nodes})));
    }
  }
  ValueId messages() {
    ValueId result = gathered();
    for (std::int64_t more = pick(0, 2); more > 0; --more) {
      Sizes weights(1 + features.size(), 1);
      weights[0] = edges;
      switch (pick(0, 4)) {
        case 0:
          result = node(graph, "Neg", {result})[0];
          break;
        case 4: {  // does nothing, as exporters write it
          Indices perm;
          for (std::size_t a = 0; a < weights.size(); ++a) perm.emplace_back(a);
          result = node(graph, "Transpose", {result}, {{"perm", perm}})[0];
          break;
        }
        case 1:
          result = node(graph, "Mul", {result, input(type, weights)})[0];
          break;
        case 2:
          result = node(graph, "Add", {result, input(type, with_features({edges}))})[0];
          break;
        default:
          result = node(graph, "Sub", {result, gathered()})[0];
      }
    }
    return result;
  }
  ValueId target() {
    const Sizes sizes = with_features({nodes});
    if (pick(0, 2) == 0) return input(type, sizes);
    const std::vector<double> same(static_cast<std::size_t>(element_count(sizes)), static_cast<double>(pick(-1, 1)));
    return graph.add_constant(Tensor::from_reals(type, sizes, same));
  }
};

}  // namespace

TEST_CASE("elements are scattered as the interpreter scatters them") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes, from;
    for (std::int64_t rank = b.pick(1, 4); rank > 0; --rank) {
      sizes.push_back(b.pick(1, 6));
      from.push_back(b.pick(1, sizes.back()));
    }
    const auto axis = static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(sizes.size()) - 1));
    from[axis] = b.pick(1, 9);
    const bool is_byte = seed % 4 == 0;  // which are only moved
    const DataType type = is_byte ? (b.pick(0, 1) ? DataType::kBool : DataType::kUint8) : b.any_element();
    const ValueId x = b.input(type, sizes, is_byte ? 0 : -2, is_byte ? 1 : 2),
                  at = b.given(b.positions(b.index(), from, [&](std::int64_t) { return sizes[axis]; }));
    const ValueId updates = b.input(type, from, is_byte ? 0 : -2, is_byte ? 1 : 2);
    const ValueId y = node(b.graph, "ScatterElements", {x, at, updates},
                           {{"axis", Index(axis)}, {"reduction", is_byte ? "none" : b.reduction()}})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("stretches with one index among others are scattered as the interpreter scatters them") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes;
    for (std::int64_t rank = b.pick(2, 4); rank > 0; --rank) sizes.push_back(b.pick(1, 6));
    if (seed % 2 == 0) sizes.back() = b.pick(60, 140);
    const auto axis = static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(sizes.size()) - 2));
    Sizes from = sizes;
    for (std::size_t a = 0; a < axis; ++a) from[a] = b.pick(1, sizes[a]);
    from[axis] = b.pick(1, 9);
    std::int64_t stretch = 1;
    for (std::size_t a = axis + 1; a < sizes.size(); ++a) stretch *= sizes[a];
    const std::int64_t size = sizes[axis];
    std::vector<std::int64_t> at(static_cast<std::size_t>(element_count(from)));
    for (std::size_t n = 0; n < at.size(); ++n)
      at[n] = static_cast<std::int64_t>(n) % stretch == 0 ? b.pick(-size, size - 1) : at[n - 1];
    for (std::int64_t others = b.pick(0, 3); others > 0; --others)
      at[static_cast<std::size_t>(b.pick(0, std::ssize(at) - 1))] = b.pick(-size, size - 1);
    const DataType type = b.any_element();
    const ValueId x = b.input(type, sizes), indices = b.given(Tensor::from_integers(b.index(), from, at));
    b.graph.add_output("y", node(b.graph, "ScatterElements", {x, indices, b.input(type, from)},
                                 {{"axis", Index(axis)}, {"reduction", b.pick(0, 2) == 0 ? b.reduction() : "none"}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("without updates the result is the target, and the interpreter is not asked") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes;
    for (std::int64_t rank = b.pick(1, 4); rank > 0; --rank) sizes.push_back(b.pick(1, 6));
    const std::int64_t axis = b.pick(0, std::ssize(sizes) - 1), depth = b.pick(1, std::ssize(sizes));
    const bool whole_rows = b.pick(0, 1) == 0;
    Sizes from = sizes, at = sizes;
    from[static_cast<std::size_t>(axis)] = 0, at = from;
    if (whole_rows) {
      at = {0, depth};
      from.assign(sizes.begin() + depth, sizes.end()), from.insert(from.begin(), 0);
    }
    const DataType type = b.any_element();
    const ValueId x = b.input(type, sizes), indices = b.given(b.positions(b.index(), at, [](std::int64_t) { return 1; }));
    ValueId updates = b.input(type, from);
    if (b.pick(0, 1) == 0) updates = node(b.graph, "Neg", {updates})[0];
    const ValueId y = whole_rows ? node(b.graph, "ScatterND", {x, indices, updates}, {{"reduction", b.reduction()}})[0]
                                 : node(b.graph, "ScatterElements", {x, indices, updates},
                                        {{"axis", Index(axis)}, {"reduction", b.reduction()}})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs);
    for (const Step& step : make_plan(b.graph, {}).steps) CHECK(step.kernel->source() != "the interpreter");
  }
}

// As in graph networks: messages are added to the rows that edges name.
TEST_CASE("an index that is the same all along a row scatters whole rows") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes, updates;
    for (std::int64_t rank = b.pick(1, 4); rank > 0; --rank) sizes.push_back(b.pick(1, 6));
    if (seed % 4 == 0) sizes.back() = b.pick(16, 40);
    updates = sizes;
    updates[0] = b.pick(1, 9);
    Sizes column(sizes.size(), 1);
    column[0] = updates[0];
    const DataType type = b.element();
    const ValueId x = b.input(type, sizes);
    ValueId at = b.given(b.positions(b.index(), {updates[0]}, [&](std::int64_t) { return sizes[0]; }));
    const bool several = b.pick(0, 1) == 0;  // scatters with the same index
    if (b.pick(0, 1) == 0) at = node(b.graph, "Neg", {node(b.graph, "Neg", {at})[0]})[0];
    at = node(b.graph, "Reshape", {at}, {{"shape", to_indices(column)}})[0];
    const ValueId repeated = node(b.graph, "Expand", {at}, {{"shape", to_indices(updates)}})[0];
    b.graph.add_output("y", node(b.graph, "ScatterElements", {x, repeated, b.input(type, updates)},
                                 {{"axis", Index(0)}, {"reduction", b.reduction()}})[0]);
    for (int n = 0; several && n < 2; ++n)
      b.graph.add_output("y" + std::to_string(n), node(b.graph, "ScatterElements", {x, repeated, b.input(type, updates)},
                                                       {{"axis", Index(0)}, {"reduction", b.reduction()}})[0]);
    if (b.pick(0, 3) == 0) b.graph.add_output("z", node(b.graph, "GatherElements", {x, repeated}, {{"axis", Index(0)}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("rows that are gathered only to be scattered are never stored") {
  for (unsigned seed = 0; seed < testing::instances(160); ++seed) {
    CAPTURE(seed);
    MessageBuilder b(seed);
    const ValueId messages = b.messages(), target = b.target(), to = b.nodes_of_edges(1);
    const std::string reduction = b.reduction();
    if (b.pick(0, 1) == 0 || b.features.empty()) {
      b.graph.add_output("y", node(b.graph, "ScatterND", {target, to, messages}, {{"reduction", reduction}})[0]);
    } else {
      Indices column(1 + b.features.size(), 1);
      column[0] = b.edges;
      const ValueId at = node(b.graph, "Reshape", {to}, {{"shape", column}})[0];
      const ValueId repeated = node(b.graph, "Expand", {at}, {{"shape", to_indices(b.with_features({b.edges}))}})[0];
      b.graph.add_output("y", node(b.graph, "ScatterElements", {target, repeated, messages},
                                   {{"axis", Index(0)}, {"reduction", reduction}})[0]);
    }
    const bool is_seen = b.pick(0, 5) == 0;
    if (is_seen) b.graph.add_output("messages", messages);
    check_graph(b.graph, b.inputs);
    if (!is_seen) CHECK(b.steps().size() == 1);
  }
}

TEST_CASE("a gathered row outside of its tensor is refused where it is scattered") {
  ScatterBuilder b(1);
  const ValueId x = b.input({4, 20}),
                from = b.given(Tensor::from_integers(DataType::kInt64, {3}, std::vector<std::int64_t>{0, 4, 1})),
                to = b.given(Tensor::from_integers(DataType::kInt64, {3, 1}, std::vector<std::int64_t>{0, 1, 2}));
  const ValueId rows = node(b.graph, "Gather", {x, from}, {{"axis", Index(0)}})[0];
  b.graph.add_output("y", node(b.graph, "ScatterND", {b.input({5, 20}), to, rows}, {{"reduction", std::string("add")}})[0]);
  CHECK_THROWS_WITH(cpu_backend().prepare(b.graph)->run(b.inputs), Catch::Contains("is outside of an axis of size"));
}

TEST_CASE("sub-tensors are scattered as the interpreter scatters them") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes;
    for (std::int64_t rank = b.pick(1, 4); rank > 0; --rank) sizes.push_back(b.pick(1, 6));
    if (seed % 4 == 0) sizes.back() = b.pick(100, 300);  // long rows are copied
    const std::int64_t depth = b.pick(1, static_cast<std::int64_t>(sizes.size())), rows = b.pick(1, 9);
    Sizes updates{rows};
    updates.insert(updates.end(), sizes.begin() + depth, sizes.end());
    const DataType type = b.element();
    const ValueId x = b.input(type, sizes);
    const ValueId at = b.given(
        b.positions(b.index(), {rows, depth}, [&](std::int64_t n) { return sizes[static_cast<std::size_t>(n % depth)]; }));
    b.graph.add_output("y", node(b.graph, "ScatterND", {x, at, b.input(type, updates)}, {{"reduction", b.reduction()}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("long rows are gathered, and turned, as the interpreter does it") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    ScatterBuilder b(seed);
    Sizes sizes, rows;
    const std::int64_t batches = b.pick(0, 2), depth = b.pick(1, 2);
    for (std::int64_t a = 0; a < batches + depth; ++a) sizes.push_back(b.pick(1, 5));
    sizes.push_back(b.pick(1, 3));
    sizes.push_back(b.pick(4, 30));
    rows.assign(sizes.begin(), sizes.begin() + batches);
    for (std::int64_t more = b.pick(batches == 0 ? 1 : 0, 2); more > 0; --more) rows.push_back(b.pick(1, 7));
    if (rows.size() == static_cast<std::size_t>(batches)) rows.push_back(3);
    rows.push_back(depth);
    const ValueId x = b.input(b.element(), sizes);
    const ValueId at = b.given(
        b.positions(b.index(), rows, [&](std::int64_t n) { return sizes[static_cast<std::size_t>(batches + n % depth)]; }));
    const ValueId found = node(b.graph, "GatherND", {x, at}, {{"batch_dims", Index(batches)}})[0];
    Indices perm;
    for (std::size_t a = b.graph.value(found).type.rank(); a-- > 0;) perm.emplace_back(a);
    b.graph.add_output("y", found);
    b.graph.add_output("turned", node(b.graph, "Transpose", {found}, {{"perm", perm}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("a position outside of the tensor is refused") {
  ScatterBuilder b(1);
  const ValueId x = b.input({4}), at = b.given(Tensor::from_integers(DataType::kInt64, {2}, std::vector<std::int64_t>{1, 4}));
  b.graph.add_output("y", node(b.graph, "ScatterElements", {x, at, b.input({2})})[0]);
  CHECK_THROWS_AS(cpu_backend().prepare(b.graph)->run(b.inputs), Error);
  ScatterBuilder c(1);
  const ValueId rows = c.input({4, 20}),
                to = c.given(Tensor::from_integers(DataType::kInt64, {1, 1}, std::vector<std::int64_t>{-5}));
  c.graph.add_output("y", node(c.graph, "GatherND", {rows, to})[0]);
  CHECK_THROWS_AS(cpu_backend().prepare(c.graph)->run(c.inputs), Error);
}

TEST_CASE("elements are scattered into a target of one value while its rows are filled") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    ScatterBuilder b(seed);
    const DataType type = b.any_element();
    Sizes x;
    for (std::int64_t axes = b.pick(1, 4); axes > 0; --axes) x.push_back(b.pick(1, 5));
    if (seed % 4 == 0) x = {b.pick(20, 60), b.pick(200, 1200)};
    Sizes from = x;
    from.back() = b.pick(1, 3);
    const bool is_smaller = from.size() > 1 && b.pick(0, 4) == 0;  // on another axis, so that rows have no updates
    if (is_smaller) from[0] = b.pick(1, from[0]);
    const std::vector<double> same(static_cast<std::size_t>(element_count(x)), b.pick(0, 1) == 0 ? 0 : 3);
    const ValueId target = b.graph.add_constant(Tensor::from_reals(type, x, same));
    const ValueId at = b.given(b.positions(b.index(), from, [&](std::int64_t) { return x.back(); }));
    b.graph.add_output("y", node(b.graph, "ScatterElements", {target, at, b.input(type, from)},
                                 {{"axis", Index(static_cast<std::int64_t>(x.size()) - 1)}})[0]);
    CAPTURE(seed, x, from);
    check_graph(b.graph, b.inputs);
  }
}
