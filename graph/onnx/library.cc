// Calls to ONNX's own library. Its exceptions are caught here.
#include <algorithm>

#include <onnx/checker.h>
#include <onnx/common/version.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/wire.h"

namespace rewright::graph {

namespace {

// ONNX's messages have several lines and repeat the node. The first line has the reason.
std::string first_line(const std::string& text) {
  const std::size_t start = text.find_first_not_of("\n\r ");
  if (start == std::string::npos) return text;
  return text.substr(start, text.find_first_of("\n\r", start) - start);
}

}  // namespace

std::string onnx_version() { return onnx::LAST_RELEASE_VERSION; }

int newest_opset() { return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second; }

int newest_ir_version() { return onnx::Version::IR_VERSION; }

bool verify_node(const onnx::NodeProto& node, const std::string& domain, int opset) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, domain);
  if (schema == nullptr || schema->Deprecated()) return false;
  try {
    schema->Verify(node);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kBadInput, first_line(error.what()));
  }
  return true;
}

bool is_standard(const std::string& type, int opset) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(type, opset, "");
  return schema != nullptr && !schema->Deprecated();
}

bool is_same_operator(const std::string& type, int opset, int other) {
  const onnx::OpSchema* const a = onnx::OpSchemaRegistry::Schema(type, std::min(opset, other), "");
  const onnx::OpSchema* const b = onnx::OpSchemaRegistry::Schema(type, std::max(opset, other), "");
  if (a == nullptr || b == nullptr || b->Deprecated()) return false;
  if (a == b) return true;
  if (a->attributes().size() != b->attributes().size() || a->outputs().size() != b->outputs().size() ||
      a->inputs().size() > b->inputs().size())
    return false;
  for (const auto& [name, attribute] : a->attributes()) {
    const auto found = b->attributes().find(name);
    if (found == b->attributes().end() || found->second.type != attribute.type ||
        found->second.required != attribute.required ||
        serialize(found->second.default_value) != serialize(attribute.default_value))
      return false;
  }
  for (std::size_t i = 0; i < b->inputs().size(); ++i)
    if (i < a->inputs().size() ? a->inputs()[i].GetOption() != b->inputs()[i].GetOption()
                               : b->inputs()[i].GetOption() != onnx::OpSchema::Optional)
      return false;
  return true;
}

bool is_schema_function(const onnx::NodeProto& node, const std::string& domain, int opset) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, domain);
  return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
}

void add_default_attributes(onnx::NodeProto& node, const std::string& domain, int opset) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, domain);
  if (schema == nullptr) return;
  for (const auto& [name, attribute] : schema->attributes()) {
    if (!attribute.default_value.has_name()) continue;
    const bool given = std::any_of(node.attribute().begin(), node.attribute().end(),
                                   [&name = name](const onnx::AttributeProto& a) { return a.name() == name; });
    if (!given) *node.add_attribute() = attribute.default_value;
  }
}

std::optional<SchemaFunction> schema_function(const onnx::NodeProto& node, const std::string& domain, int opset,
                                              const std::vector<onnx::TypeProto>& input_types) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, domain);
  if (schema == nullptr) return std::nullopt;
  SchemaFunction result;
  result.call = node;
  add_default_attributes(result.call, domain, opset);
  try {
    if (const onnx::FunctionProto* function = schema->GetFunction(opset)) {
      result.function = *function;
      return result;
    }
    // ONNX's builders assume that types are known.
    for (int i = 0; i < node.input_size(); ++i)
      if (!node.input(i).empty() && input_types.at(static_cast<std::size_t>(i)).value_case() == onnx::TypeProto::VALUE_NOT_SET)
        return std::nullopt;
    if (!schema->HasContextDependentFunction()) return std::nullopt;
    const onnx::FunctionBodyBuildContextImpl context(node, input_types);
    if (schema->BuildContextDependentFunction(context, result.function, opset)) return result;
  } catch (const std::exception&) {
    // ONNX cannot build the body for this call; it is treated as missing.
  }
  return std::nullopt;
}

void check_function_calls(const onnx::ModelProto& model) {
  if (model.functions_size() == 0) return;
  try {
    onnx::checker::check_function_call_cycles(model);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kBadInput, first_line(error.what()));
  }
}

std::unordered_map<std::string, onnx::TypeProto> infer_types(onnx::ModelProto model) {
  std::unordered_map<std::string, onnx::TypeProto> types;
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions(false, 0, true));
  } catch (const std::exception&) {
    // Types that cannot be inferred stay unknown; this is no error.
  }
  for (const auto& info : model.graph().value_info())
    if (info.has_type()) types.emplace(info.name(), info.type());
  return types;
}

std::optional<std::string> checker_objection(std::string_view bytes) {
  // Large weights are left out and declared as inputs: the checker ignores their elements.
  constexpr std::size_t kLarge = 4096;
  onnx::ModelProto model;
  std::string rest;
  std::string graph_rest;
  std::vector<onnx::TensorProto> large;
  wire::Reader reader(bytes);
  while (auto part = reader.next()) {
    if (part->number != field::kModelGraph || part->type != wire::Type::kBytes) {
      rest += part->whole;
      continue;
    }
    wire::Reader graph(part->content);
    while (auto inner = graph.next()) {
      if (inner->number == field::kGraphInitializer && inner->type == wire::Type::kBytes) {
        TensorParts parts = split_tensor(inner->content);
        if (inner->content.size() > kLarge || parts.header.data_location() == onnx::TensorProto::EXTERNAL) {
          large.push_back(std::move(parts.header));
          continue;
        }
      }
      graph_rest += inner->whole;
    }
  }
  if (!model.ParseFromString(rest) || !model.mutable_graph()->ParseFromString(graph_rest)) return "is not a model";
  std::unordered_map<std::string, int> declared;
  for (const auto& input : model.graph().input()) declared.emplace(input.name(), 0);
  for (const auto& tensor : large) {
    if (declared.contains(tensor.name())) continue;
    onnx::ValueInfoProto& info = *model.mutable_graph()->add_input();
    info.set_name(tensor.name());
    info.mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (std::int64_t size : tensor.dims()) shape->add_dim()->set_dim_value(size);
  }
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
  return std::nullopt;
}

}  // namespace rewright::graph
