#include <catch2/catch.hpp>
#include <map>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

// One ONNX node over values that are all tensors, and what its import builds.
class Node : public OnnxSource {
 public:
  Node(std::string type, int opset, std::vector<Tensor> inputs, std::map<std::string, double, std::less<>> numbers = {},
       std::map<std::string, std::vector<std::int64_t>, std::less<>> lists = {})
      : type_(std::move(type)), opset_(opset), inputs_(inputs.size()), numbers_(std::move(numbers)), lists_(std::move(lists)) {
    for (Tensor& t : inputs) constant(std::move(t));
  }
  std::size_t outputs = 1;
  std::string reason;

  // Imports; nothing if the operator refuses the form.
  std::optional<std::vector<Tensor>> run() {
    const Operator* op = find_onnx("", type_);
    REQUIRE(op != nullptr);
    const auto results = op->onnx().import ? op->onnx().import(*this, reason) : import_default(*op, *this, reason);
    if (!results) return std::nullopt;
    std::vector<Tensor> tensors;
    for (const OnnxValue v : *results) tensors.push_back(values_.at(static_cast<std::size_t>(v)));
    return tensors;
  }
  const Attributes& built() const { return built_; }

  const std::string& type() const override { return type_; }
  int opset() const override { return opset_; }
  std::size_t input_count() const override { return inputs_; }
  std::size_t output_count() const override { return outputs; }
  OnnxValue input(std::size_t i) const override { return values_.at(i) ? static_cast<int>(i) : kAbsent; }
  bool has(std::string_view a) const override { return numbers_.contains(a) || lists_.contains(a); }
  std::int64_t integer(std::string_view a, std::int64_t otherwise) const override {
    return static_cast<std::int64_t>(real(a, static_cast<double>(otherwise)));
  }
  std::vector<std::int64_t> integers(std::string_view a) const override {
    const auto at = lists_.find(a);
    return at == lists_.end() ? std::vector<std::int64_t>() : at->second;
  }
  double real(std::string_view a, double otherwise) const override {
    const auto at = numbers_.find(a);
    return at == numbers_.end() ? otherwise : at->second;
  }
  std::vector<double> reals(std::string_view) const override { return {}; }
  std::string text(std::string_view, std::string_view otherwise) const override { return std::string(otherwise); }
  std::vector<std::string> texts(std::string_view) const override { return {}; }
  std::optional<Tensor> tensor(std::string_view) const override { return std::nullopt; }
  const TensorType& type_of(OnnxValue v) const override { return types_.at(static_cast<std::size_t>(v)); }
  std::optional<Indices> contents(OnnxValue v) const override {
    return to_indices(values_.at(static_cast<std::size_t>(v)).integers());
  }
  bool never_empty(const Index&) const override { return true; }
  std::optional<Tensor> constant_value(OnnxValue v) const override { return values_.at(static_cast<std::size_t>(v)); }
  std::vector<OnnxValue> node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) override {
    std::vector<std::optional<TensorType>> types;
    std::vector<Tensor> tensors;
    for (const OnnxValue v : inputs) {
      tensors.push_back(v == kAbsent ? Tensor() : values_.at(static_cast<std::size_t>(v)));
      types.push_back(v == kAbsent ? std::nullopt : std::optional(type_of(v)));
    }
    built_ = op.normalized(std::move(attributes), Inputs::of(types));
    std::vector<OnnxValue> results;
    for (Tensor& t : interpret(op, built_, tensors)) results.push_back(constant(std::move(t)));
    return results;
  }
  OnnxValue constant(Tensor t) override {
    types_.push_back({t.type(), to_indices(t.sizes())});
    values_.push_back(std::move(t));
    return static_cast<int>(values_.size()) - 1;
  }

 private:
  std::string type_;
  int opset_;
  std::size_t inputs_;
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> lists_;
  std::vector<Tensor> values_;
  std::vector<TensorType> types_;
  Attributes built_;
};

// An exported node as text: "Clip[min=0, max=6](0) -> 9".
class Text : public OnnxSink {
 public:
  Text(int opset, std::vector<TensorType> types) : opset_(opset), types_(std::move(types)), constants_(types_.size()) {}
  std::string written;

  std::string write(const std::string& name, const Named& named, std::vector<OnnxValue> inputs) {
    const Operator& op = registry().get(name);
    std::vector<std::optional<TensorType>> types;
    for (const OnnxValue v : inputs) types.push_back(v == kAbsent ? std::nullopt : std::optional(type_of(v)));
    const Attributes canonical = op.normalized(attributes(op, named), Inputs::of(types));
    const std::vector<OnnxValue> outputs{99};
    const bool said = op.onnx().write ? op.onnx().write(*this, canonical, inputs, outputs)
                                      : write_default(op, *this, canonical, inputs, outputs);
    return said ? written : "cannot be said";
  }

  int opset() const override { return opset_; }
  const TensorType& type_of(OnnxValue v) const override { return types_.at(static_cast<std::size_t>(v)); }
  std::optional<Tensor> constant_value(OnnxValue v) const override { return constants_.at(static_cast<std::size_t>(v)); }
  void node(const std::string& type, NamedAttributes named, std::vector<OnnxValue> inputs, std::vector<OnnxValue> outputs,
            const std::string&) override {
    std::string text = type + "[";
    for (std::size_t n = 0; n < named.size(); ++n) text += (n ? ", " : "") + named[n].first + "=" + to_string(named[n].second);
    text += "](";
    for (std::size_t n = 0; n < inputs.size(); ++n) text += (n ? ", " : "") + std::to_string(inputs[n]);
    written += (written.empty() ? "" : "; ") + text + ") -> " + std::to_string(outputs[0]);
  }
  OnnxValue fresh(const TensorType& type) override {
    types_.push_back(type);
    constants_.emplace_back();
    return static_cast<int>(types_.size()) - 1;
  }
  OnnxValue constant(Tensor t) override {
    const OnnxValue v = fresh({t.type(), to_indices(t.sizes())});
    constants_.back() = std::move(t);
    return v;
  }
  OnnxValue index_tensor(const Indices& elements) override {
    return constant(Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(elements.size())}, values(elements)));
  }

 private:
  int opset_;
  std::vector<TensorType> types_;
  std::vector<std::optional<Tensor>> constants_;
};

Tensor floats(Sizes sizes, const std::vector<double>& values) { return tensor(std::move(sizes), values, DataType::kFloat); }

TEST_CASE("the bounds of Clip are attributes before opset 11") {
  Node old("Clip", 9, {floats({3}, {-1, 3, 9})}, {{"min", 0}, {"max", 6}});
  CHECK(old.run()->at(0).reals() == std::vector<double>{0, 3, 6});
  Node current("Clip", 13, {floats({3}, {-1, 3, 9}), Tensor(), floats({}, {6})});
  CHECK(current.run()->at(0).reals() == std::vector<double>{-1, 3, 6});

  const auto write = [](int opset, bool constant) {
    Text sink(opset, {reals({3}), reals({})});
    const OnnxValue bound = constant ? sink.constant(floats({}, {6})) : 1;
    return sink.write("Clip", {}, {0, kAbsent, bound});
  };
  CHECK(write(9, true) == "Clip[max=6](0) -> 99");
  CHECK(write(9, false) == "cannot be said");
  CHECK(write(13, true) == "Clip[](0, -1, 2) -> 99");
}

TEST_CASE("the bounds of Slice are lists") {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const auto integers = [](Sizes sizes, std::int64_t value) {
    return Tensor::from_integers(DataType::kInt64, std::move(sizes), std::vector{value});
  };
  CHECK(Node("Slice", 13, {x, integers({1}, 0), integers({1}, 1)}).run()->at(0) == floats({1, 2}, {1, 2}));
  CHECK_THROWS_WITH(Node("Slice", 13, {x, integers({1, 1}, 0), integers({1}, 1)}).run(), "starts has rank 2, must be 1");
  CHECK_THROWS_WITH(Node("Slice", 13, {x, integers({1}, 0), integers({}, 1)}).run(), "ends has rank 0, must be 1");
}

TEST_CASE("the axes of reductions are attributes, later inputs") {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const Tensor axes = Tensor::from_integers(DataType::kInt64, {1}, std::vector<std::int64_t>{-1});
  CHECK(Node("ReduceMean", 13, {x}, {{"keepdims", 0}}, {{"axes", {-1}}}).run()->at(0) == floats({2}, {1.5, 3.5}));
  CHECK(Node("ReduceMean", 18, {x, axes}).run()->at(0) == floats({2, 1}, {1.5, 3.5}));
  CHECK(Node("ReduceSum", 13, {x, axes}).run()->at(0) == floats({2, 1}, {3, 7}));
  CHECK(Node("ReduceSum", 13, {x}, {{"noop_with_empty_axes", 1}}).run()->at(0) == x);
  CHECK(Node("ReduceSum", 13, {x}).run()->at(0) == floats({1, 1}, {10}));

  const Named last{{"axes", Indices{-1}}};
  CHECK(Text(13, {reals({2, 3})}).write("ReduceMean", last, {0}) == "ReduceMean[axes=[1]](0) -> 99");
  CHECK(Text(18, {reals({2, 3})}).write("ReduceMean", last, {0}) == "ReduceMean[](0, 1) -> 99");
  CHECK(Text(13, {reals({2, 3})}).write("ReduceSum", last, {0}) == "ReduceSum[](0, 1) -> 99");
}

TEST_CASE("Softmax before opset 13 takes all axes from its axis on") {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  CHECK(Node("Softmax", 11, {x}).run()->at(0).reals()[0] == 0.25);
  CHECK(Node("Softmax", 11, {x}, {{"axis", 2}}).run()->at(0).reals()[0] == 0.5);
  CHECK(Node("Softmax", 13, {x}).run()->at(0).reals()[0] == 0.5);
  CHECK(Node("LogSoftmax", 13, {x}, {{"axis", 0}}).run()->at(0).reals()[0] == 0);

  const std::vector<TensorType> types{reals({2, 3, 4})};
  const Named old{{"axis", Index(1)}, {"flatten", true}}, middle{{"axis", Index(1)}};
  CHECK(Text(11, types).write("Softmax", old, {0}) == "Softmax[axis=1](0) -> 99");
  CHECK(Text(13, types).write("Softmax", old, {0}) == "cannot be said");
  CHECK(Text(13, types).write("Softmax", middle, {0}) == "Softmax[axis=1](0) -> 99");
  CHECK(Text(11, types).write("Softmax", {}, {0}) == "Softmax[axis=2](0) -> 99");
  CHECK(Text(11, types).write("Softmax", middle, {0}) ==
        "Transpose[perm=[0, 2, 1]](0) -> 1; Softmax[axis=2](1) -> 2; Transpose[perm=[0, 2, 1]](2) -> 99");
}

TEST_CASE("BatchNormalization in training mode is not understood") {
  const Tensor x = floats({1, 1}, {1}), c = floats({1}, {1});
  Node training("BatchNormalization", 15, {x, c, c, c, c}, {{"training_mode", 1}});
  CHECK_FALSE(training.run());
  CHECK(training.reason == "BatchNormalization in training mode");
  Node three_outputs("BatchNormalization", 9, {x, c, c, c, c});
  three_outputs.outputs = 3;
  CHECK_FALSE(three_outputs.run());
  CHECK_FALSE(Node("BatchNormalization", 7, {x, c, c, c, c}, {{"spatial", 0}}).run());
  CHECK_FALSE(Node("BatchNormalization", 6, {x, c, c, c, c}).run());
  CHECK(Node("BatchNormalization", 9, {x, c, c, c, c}, {{"momentum", 0.9}}).run()->at(0).reals()[0] == 1);
}

TEST_CASE("broadcasting before opset 7 is not understood") {
  Node old("Add", 6, {floats({2, 1}, {1, 2}), floats({2}, {1, 2})}, {{"broadcast", 1}, {"axis", 0}});
  CHECK_FALSE(old.run());
  CHECK(old.reason == "its form before opset 7 has another meaning");
}

TEST_CASE("Gemm must have its third input before opset 11") {
  const std::vector<TensorType> types{reals({2, 3}), reals({3, 4})};
  CHECK(Text(9, types).write("Gemm", {{"alpha", Real(0.5)}}, {0, 1}) == "Gemm[alpha=0.5](0, 1, 2) -> 99");
  CHECK(Text(11, types).write("Gemm", {}, {0, 1}) == "Gemm[](0, 1) -> 99");
}

}  // namespace
}  // namespace rewright::testing
