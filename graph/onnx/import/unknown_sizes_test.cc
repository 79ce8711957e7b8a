// Sizes that depend on elements: equal symbols are equal sizes, and a contradiction ends the run.
#include <random>

#include <catch2/catch.hpp>

#include "graph/onnx/body.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

Graph import_unknown(const std::string& graph, const std::string& more_opsets = "", ImportOptions options = {}) {
  return import_onnx_bytes(text_bytes(graph, 17, more_opsets), "test", options);
}

ValueId value_named(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).name == name) return id;
  throw Error(ErrorCode::kUsage, "there is no value " + name);
}

Index size_of(const Graph& graph, const std::string& name, std::size_t axis) {
  const Value& value = graph.value(value_named(graph, name));
  REQUIRE(value.shape_known);
  return value.type.shape.at(axis);
}

Tensor truths(const std::vector<std::int64_t>& elements) {
  return Tensor::from_integers(DataType::kBool, {static_cast<std::int64_t>(elements.size())}, elements);
}

Tensor counted(std::int64_t count) {
  std::vector<double> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<double>(i));
  return Tensor::from_reals(DataType::kFloat, {count}, elements);
}

std::string failure_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  try {
    interpret(graph, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// u has as many elements as b has true ones, v as many as c.
constexpr const char* kTwoChoices = R"(
  n = NonZero(b)
  m = NonZero(c)
  nt = Transpose(n)
  mt = Transpose(m)
  u = GatherND(x, nt)
  v = GatherND(x, mt)
)";

std::string two_choices(const std::string& outputs, const std::string& nodes) {
  return "agraph (float[N] x, bool[N] b, bool[N] c) => (" + outputs + ") {" + kTwoChoices + nodes + "}";
}

}  // namespace

TEST_CASE("two nodes of unknown sizes have different ones") {
  const Graph graph = import_unknown(two_choices("float[K] u, float[K] v", ""));
  CHECK_FALSE(size_of(graph, "u", 0) == size_of(graph, "v", 0));
  CHECK(size_of(graph, "u", 0) == size_of(graph, "n", 1));
  CHECK(size_of(graph, "u", 0).to_string() == "n_1");
}

TEST_CASE("what is done with the size of one choice is not done with that of another") {
  std::mt19937 random(1);
  const std::string zero =
      "  zero = Constant <value = int64[1] {0}> ()\n  flat = Constant <value = int64[1] {-1}> ()\n  s = Shape(v)\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"float[K] r", zero + "r = Slice(u, zero, s, zero)"},
      {"float[K] r, int64[K] i",
       zero + "most = Shape(u)\n both = Concat <axis = 0> (most, s)\n k = ReduceMin <keepdims = 1> (both)\n"
              " r, i = TopK(u, k)"},
      {"float[K] r, float[L] t", zero + "r = Reshape(u, flat)\n t = Reshape(v, flat)"},
      {"float[K, L] r", zero + "one = Constant <value = int64[1] {1}> ()\n w = Unsqueeze(u, one)\n h = Shape(u)\n"
                               " both = Concat <axis = 0> (h, s)\n r = Expand(w, both)"},
      {"float[K] r", zero + "r = Concat <axis = 0> (u, v, u)"},
  };
  for (const auto& [outputs, nodes] : cases) {
    const Graph graph = import_unknown(two_choices(outputs, nodes));
    for (int round = 0; round < 5; ++round) {
      const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 9);
      std::vector<std::int64_t> b, c;
      for (std::int64_t i = 0; i < count; ++i) b.push_back(random() % 2), c.push_back(random() % 2);
      const Tensor x = counted(count);
      std::vector<double> u, v;
      for (std::size_t i = 0; i < b.size(); ++i) {
        if (b[i]) u.push_back(static_cast<double>(i));
        if (c[i]) v.push_back(static_cast<double>(i));
      }
      const std::vector<Tensor> results = interpret(graph, std::vector{x, truths(b), truths(c)});
      const std::vector<double> r = results[0].reals();
      INFO(nodes << "\n" << u.size() << " and " << v.size() << " of " << count);
      const std::size_t least = std::min(u.size(), v.size());
      if (nodes.find("Slice") != nodes.npos)
        CHECK(r == std::vector<double>(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(least)));
      if (nodes.find("TopK") != nodes.npos) CHECK(r.size() == least);
      if (nodes.find("Reshape") != nodes.npos) CHECK((r == u && results[1].reals() == v));
      if (nodes.find("Expand") != nodes.npos)
        CHECK(results[0].sizes() == Sizes{static_cast<std::int64_t>(u.size()), static_cast<std::int64_t>(v.size())});
      if (nodes.find("Concat <axis = 0> (u") != nodes.npos) CHECK(r.size() == 2 * u.size() + v.size());
    }
  }
}

TEST_CASE("outputs that one inference calls equal have one size") {
  const Graph graph = import_unknown(R"(agraph (bool[N] x) => (a, b, c, d) {
      a, b = local.places(x)
      c, d = local.places(x)
    }
    <domain: "local", opset_import: ["" : 17]> places (x) => (p, q) {
      p = NonZero(x)
      q = Neg(p)
    }
  )",
                                     ", \"local\" : 1");
  CHECK(size_of(graph, "a", 1) == size_of(graph, "b", 1));
  CHECK_FALSE(size_of(graph, "a", 1) == size_of(graph, "c", 1));
}

TEST_CASE("made up names of sizes are none of the model's") {
  const Graph graph =
      import_unknown(R"(agraph (float[n_1, unk__0] x, bool[n_1_] b) => (int64[1, n_1] n, int64[1, unk__0] m, float[K] y)
      <int64[2, b] p> {
    n = NonZero(b)
    m = NonZero(b)
    p = NonZero(x)
    flat = Constant <value = int64[1] {-1}> ()
    y = Reshape(x, flat)
  })");
  std::vector<std::string> names{"n_1", "n_1_", "unk__0", "b"};
  for (const char* value : {"n", "m", "p"}) {
    const std::string name = size_of(graph, value, 1).to_string();
    CHECK(std::find(names.begin(), names.end(), name) == names.end());
    names.push_back(name);
  }
  // The names are the same each time.
  CHECK(import_onnx_bytes(export_onnx_bytes(graph), "again").hash() == graph.hash());
}

TEST_CASE("an expression and a name that reads like one are different sizes") {
  onnx::ModelProto model = text_model(R"(agraph (float[N] x, float[M] y) => (float[A] a, float[B] b) {
    xx = Concat <axis = 0> (x, x)
    a = custom.Strange(xx)
    b = custom.Strange(y)
  })",
                                      17, ", \"custom\" : 1");
  auto* type = model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type();
  type->mutable_shape()->mutable_dim(0)->set_dim_param("2*N");
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "test");
  CHECK_FALSE(size_of(graph, "xx", 0) == size_of(graph, "y", 0));
  CHECK(size_of(graph, "xx", 0).to_string() == size_of(graph, "y", 0).to_string());
}

TEST_CASE("functions that are called twice, and bodies, have sizes of their own") {
  ImportOptions execution;
  execution.for_execution = true;
  const std::string text = R"(agraph (bool[N] b, bool[N] c) => (int64[1, K] n, int64[1, L] m) {
      n = local.places(b)
      m = local.places(c)
    }
    <domain: "local", opset_import: ["" : 17]> places (a) => (p) { p = NonZero(a) }
  )";
  for (const ImportOptions& options : {ImportOptions(), execution}) {
    const Graph graph = import_unknown(text, ", \"local\" : 1", options);
    const auto& outputs = graph.outputs();
    CHECK_FALSE(outputs[0].type.shape.at(1) == outputs[1].type.shape.at(1));
  }
  const Graph graph = import_unknown(R"(agraph (bool c, bool[N] b, float[N] x) => (float[K] y) {
    n = NonZero(b)
    nt = Transpose(n)
    u = GatherND(x, nt)
    y = If (c) <
      then_branch = t () => (float[n_1] z) { k = NonZero(b)  kt = Transpose(k)  p = GatherND(x, kt)  z = Neg(p) },
      else_branch = e () => (float[n_1] w) { k = NonZero(x)  kt = Transpose(k)  p = GatherND(x, kt)  w = Mul(u, u) }>
  })");
  const Node& branch = *graph.nodes().back();
  const OuterNames names = outer_names(graph);
  const Graph then = body_of(graph, branch, "then_branch", names), otherwise = body_of(graph, branch, "else_branch", names);
  CHECK(size_of(otherwise, "w", 0) == size_of(graph, "u", 0));
  CHECK(size_of(then, "z", 0) == size_of(then, "k", 1));
  for (const Index& other : {size_of(graph, "u", 0), size_of(otherwise, "k", 1)}) CHECK_FALSE(size_of(then, "z", 0) == other);
}

TEST_CASE("elements of a sequence need not have one size") {
  const Graph graph = import_unknown(R"(agraph (float[N] x, bool[N] b, int64 i, int64 j) => (float[K] v, float[L] w) {
    n = NonZero(b)
    nt = Transpose(n)
    u = GatherND(x, nt)
    one = Constant <value = int64 {1}> ()
    parts = SplitToSequence(u, one)
    more = SequenceInsert(parts, u)
    v = SequenceAt(more, i)
    w = SequenceAt(more, j)
    z = Neg(v)
    y = Neg(w)
  })");
  CHECK_FALSE(size_of(graph, "v", 0) == size_of(graph, "w", 0));
}

TEST_CASE("a loop that carries what grows") {
  const Graph graph = import_unknown(R"(agraph (int64 m, float[N] x) => (float[N] y, float[K, N] all) {
    yes = Constant <value = bool {1}> ()
    last, all = Loop (m, yes, x) <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] next, float[N] out) {
      next = Concat <axis = 0> (v, x)
      out = Add(x, x)
      go = Identity(c)
    }>
    y = Neg(last)
  })");
  const auto results =
      interpret(graph, std::vector{Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{2}), counted(2)});
  CHECK(results[0].sizes() == Sizes{6});
  CHECK(results[1].sizes() == Sizes{2, 2});
}

TEST_CASE("sizes that were made up are not declared in what is written") {
  onnx::ModelProto model = text_model(two_choices("float[K] u, r", "w = Neg(v)\n r = Mul(w, w)"));
  model.mutable_graph()->mutable_output(1)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  auto* info = model.mutable_graph()->add_value_info();
  info->set_name("w");
  info->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  ImportOptions sized;
  sized.input_sizes["x"] = {7};
  for (const ImportOptions& options : {ImportOptions(), sized}) {
    Graph graph = import_onnx_bytes(model.SerializeAsString(), "test", options);
    std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
    outputs.push_back(outputs[1]);
    outputs[2].name = "again";
    graph.set_outputs(outputs);
    onnx::ModelProto written;
    REQUIRE(written.ParseFromString(export_onnx_bytes(graph)));
    for (const auto* list : {&written.graph().output(), &written.graph().value_info()})
      for (const auto& value : *list)
        for (const auto& dim : value.type().tensor_type().shape().dim())
          CHECK((!dim.has_dim_param() || dim.dim_param() == "K" || dim.dim_param() == "N"));
    CHECK(written.graph().output(0).type().tensor_type().shape().dim(0).dim_param() == "K");
  }
}

TEST_CASE("inner values are not declared with names of sizes that they do not have") {
  onnx::ModelProto model =
      text_model(two_choices("float[K] r", "w = Neg(u)\n t = Neg(v)\n q = Neg(x)\n z = Neg(q)\n r = Neg(z)"));
  for (const char* const name : {"w", "t", "q"}) {
    auto* info = model.mutable_graph()->add_value_info();
    info->set_name(name);
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(1);
    type->mutable_shape()->add_dim()->set_dim_param(std::string(name) == "q" ? "N" : "wrong");
  }
  for (const char* const name : {"w", "t"}) {
    auto* output = model.mutable_graph()->add_output();
    output->set_name(name);
    output->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  }
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(export_onnx_bytes(import_onnx_bytes(model.SerializeAsString(), "test"))));
  REQUIRE(written.graph().value_info_size() == 3);
  for (const auto& info : written.graph().value_info()) {
    const auto& shape = info.type().tensor_type().shape();
    REQUIRE(shape.dim_size() == 1);
    CHECK(shape.dim(0).dim_param() == (info.name() == "q" ? "N" : ""));
  }
}

TEST_CASE("what tells a size is executed before what only needs the size") {
  Graph graph = import_unknown(
      two_choices("float[K] r", "zero = Constant <value = int64[1] {0}> ()\n s = Shape(v)\n r = Slice(u, zero, s, zero)\n"));
  // Made from operands and attributes, as rewrites make nodes.
  const Node& slice = *graph.nodes().back();
  REQUIRE(slice.op != nullptr);
  const ValueId made = graph.add_node(*slice.op, slice.attributes, slice.inputs).at(0);
  graph.replace_uses(graph.outputs()[0].value, made);
  graph.tidy();
  const std::vector<Tensor> inputs{counted(4), truths({1, 1, 0, 1}), truths({0, 1, 1, 0})};
  CHECK(interpret(graph, inputs).at(0).reals() == std::vector<double>{0, 1});
  const Graph again = import_onnx_bytes(export_onnx_bytes(graph), "again");
  CHECK(interpret(again, inputs).at(0).reals() == std::vector<double>{0, 1});
}

TEST_CASE("a size that contradicts what is known of it ends the run") {
  const std::string carried = R"(agraph (int64 m, float[N] x) => (float[K] y) <float[)" + std::string("SIZE") + R"(] last> {
    yes = Constant <value = bool {1}> ()
    last = Loop (m, yes, x) <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] next) {
      next = Concat <axis = 0> (v, x)
      go = Identity(c)
    }>
    y = Neg(last)
  })";
  const std::vector<Tensor> inputs{Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{2}), counted(2)};
  const auto with = [&](const std::string& size) {
    std::string text = carried;
    text.replace(text.find("SIZE"), 4, size);
    return import_unknown(text);
  };
  CHECK_THAT(failure_of(with("5"), inputs), Catch::Contains("\"last\" is float[6], the model says float[5]: axis 0 must be 5"));
  CHECK_THAT(failure_of(with("N"), inputs),
             Catch::Contains("\"last\" is float[6], the model says float[N]: axis 0 must be 2, as axis 0 of \"x\" is 2"));
  CHECK_THAT(failure_of(with("N, 1"), inputs), Catch::Contains("\"last\" is float[6], the model says float[N, 1]"));
  CHECK(failure_of(with("6"), inputs).empty());
  CHECK(failure_of(with("S"), inputs).empty());  // a name that no input determines is ignored
  // So is the declared type of a result that only callers read.
  const Graph output = import_unknown(R"(agraph (int64 m, float[N] x) => (float[N] last) {
    yes = Constant <value = bool {1}> ()
    last = Loop (m, yes, x) <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] next) {
      next = Concat <axis = 0> (v, x)
      go = Identity(c)
    }>
  })");
  CHECK(failure_of(output, inputs).empty());
}

TEST_CASE("inputs of different sizes under one name are refused") {
  const Graph graph = import_unknown("agraph (float[N] x, float[N] y) => (float[K] z) { z = Concat <axis = 0> (x, y) }");
  CHECK_THAT(
      failure_of(graph, {counted(3), counted(4)}),
      Catch::Contains("input \"y\": is float[4], the model asks for float[N]: axis 0 must be 3, as axis 0 of \"x\" is 3"));
}

}  // namespace rewright::graph
