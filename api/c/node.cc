#include "api/c/node.h"

#include <algorithm>

using rewright::Error;
using rewright::ErrorCode;
using rewright::c::guarded;
using rewright::c::required;

namespace rewright::c {

namespace {

class OnnxReader final : public AttributeReader {
 public:
  explicit OnnxReader(const OnnxAttributes& attributes) : attributes_(attributes) {}
  std::optional<std::vector<std::int64_t>> integers(const std::string& name) const override {
    return read<std::int64_t>(
        name, [&] { return attributes_.integers(name); }, [&] { return attributes_.integer(name, 0); });
  }
  std::optional<std::vector<double>> reals(const std::string& name) const override {
    return read<double>(
        name, [&] { return attributes_.reals(name); }, [&] { return attributes_.real(name, 0); });
  }
  std::optional<std::string> text(const std::string& name) const override {
    return attributes_.has(name) ? std::optional(attributes_.text(name, "")) : std::nullopt;
  }

 private:
  // ONNX tells a number from a list of one; callers need not.
  template <class T, class List, class Single>
  std::optional<std::vector<T>> read(const std::string& name, const List& list, const Single& single) const {
    if (!attributes_.has(name)) return std::nullopt;
    try {
      return list();
    } catch (const Error&) {
      return std::vector<T>{single()};
    }
  }
  const OnnxAttributes& attributes_;
};

class FieldReader final : public AttributeReader {
 public:
  FieldReader(const Operator& op, const Attributes& attributes) : op_(op), attributes_(attributes) {}
  std::optional<std::vector<std::int64_t>> integers(const std::string& name) const override {
    const AttributeValue* const value = find(name);
    if (!value) return std::nullopt;
    if (const auto* truth = std::get_if<bool>(value)) return std::vector<std::int64_t>{*truth};
    if (const auto* index = std::get_if<Index>(value)) return std::vector<std::int64_t>{index->value()};
    if (const auto* indices = std::get_if<Indices>(value)) return rewright::values(*indices);
    if (const auto* type = std::get_if<DataType>(value)) return std::vector<std::int64_t>{static_cast<std::int64_t>(*type)};
    throw other(name, "whole numbers");
  }
  std::optional<std::vector<double>> reals(const std::string& name) const override {
    const AttributeValue* const value = find(name);
    if (!value) return std::nullopt;
    if (const auto* real = std::get_if<Real>(value)) return std::vector<double>{real->value};
    if (const auto* reals = std::get_if<std::vector<double>>(value)) return *reals;
    throw other(name, "real numbers");
  }
  std::optional<std::string> text(const std::string& name) const override {
    const AttributeValue* const value = find(name);
    if (!value) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(value)) return *text;
    throw other(name, "a text");
  }

 private:
  const AttributeValue* find(const std::string& name) const {
    const auto field = op_.field(name);
    return field ? &attributes_.at(*field) : nullptr;
  }
  Error other(const std::string& name, const std::string& what) const {
    return Error(ErrorCode::kUsage, "attribute \"" + name + "\" of " + op_.name() + " is not " + what);
  }
  const Operator& op_;
  const Attributes& attributes_;
};

}  // namespace

std::unique_ptr<AttributeReader> read_attributes(const OnnxAttributes& attributes) {
  return std::make_unique<OnnxReader>(attributes);
}

std::unique_ptr<AttributeReader> read_attributes(const Operator& op, const Attributes& attributes) {
  return std::make_unique<FieldReader>(op, attributes);
}

}  // namespace rewright::c

namespace {

// The numbers that `read` finds, kept with the node.
template <class T, class Read>
rewright_status numbers(const rewright_node* node, const char* attribute, const T** values, size_t* count,
                        std::map<std::string, std::vector<T>> rewright_node::Given::*kept, const Read& read) {
  return guarded([&] {
    required(values, "values") = nullptr;
    required(count, "count") = 0;
    const rewright_node& n = required(node, "node");
    const std::string name = &required(attribute, "attribute");
    auto found = read(*n.attributes, name);
    if (!found) return;
    const std::vector<T>& all = (n.given.*kept)[name] = std::move(*found);
    *values = all.data();
    *count = all.size();
  });
}

}  // namespace

extern "C" {

const char* rewright_node_operator(const rewright_node* node) { return node ? node->op.c_str() : ""; }
const char* rewright_node_domain(const rewright_node* node) { return node ? node->domain.c_str() : ""; }
size_t rewright_node_input_count(const rewright_node* node) { return node ? node->inputs.size() : 0; }
size_t rewright_node_output_count(const rewright_node* node) { return node ? node->outputs.size() : 0; }

rewright_status rewright_node_input(const rewright_node* node, size_t i, rewright_value* value) {
  return rewright::c::value_of(node ? &node->inputs : nullptr, i, value);
}

rewright_status rewright_node_output(const rewright_node* node, size_t i, rewright_value* value) {
  return rewright::c::value_of(node ? &node->outputs : nullptr, i, value);
}

rewright_status rewright_node_integers(const rewright_node* node, const char* attribute, const int64_t** values,
                                       size_t* count) {
  return numbers(node, attribute, values, count, &rewright_node::Given::integers,
                 [](const auto& reader, const std::string& name) { return reader.integers(name); });
}

rewright_status rewright_node_reals(const rewright_node* node, const char* attribute, const double** values, size_t* count) {
  return numbers(node, attribute, values, count, &rewright_node::Given::reals,
                 [](const auto& reader, const std::string& name) { return reader.reals(name); });
}

rewright_status rewright_node_text(const rewright_node* node, const char* attribute, const char** text) {
  return guarded([&] {
    required(text, "text") = nullptr;
    const rewright_node& n = required(node, "node");
    const std::string name = &required(attribute, "attribute");
    if (auto found = n.attributes->text(name)) *text = (n.given.texts[name] = std::move(*found)).c_str();
  });
}

rewright_status rewright_node_set_output(rewright_node* node, size_t i, int32_t type, int32_t rank, const int64_t* sizes) {
  return guarded([&] {
    rewright_node& n = required(node, "node");
    if (!n.said) throw Error(ErrorCode::kUsage, "outputs are described by the callback that infers types alone");
    if (i >= n.said->size()) throw Error(ErrorCode::kUsage, "the node has only " + std::to_string(n.said->size()) + " outputs");
    const auto element = static_cast<rewright::DataType>(type);
    if (rewright::byte_size(element) == 0)
      throw Error(ErrorCode::kUsage, "element type " + std::to_string(type) + " cannot be an output here");
    if (rank < 0) throw Error(ErrorCode::kUsage, "the rank of an output cannot be " + std::to_string(rank));
    if (rank > 0) required(sizes, "sizes");
    (*n.said)[i] = rewright::operators::Procedure::KnownType{element, {sizes, sizes + rank}};
  });
}

int rewright_node_fail(rewright_node* node, const char* text) {
  guarded([&] { required(node, "node").failure = text ? text : ""; });
  return 1;
}

}  // extern "C"
