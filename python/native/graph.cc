#include "python/native/graph.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <span>
#include <variant>

#include "graph/onnx/given.h"
#include "graph/onnx/interface.h"
#include "graph/onnx/wire.h"
#include "graph/print.h"
#include "python/native/errors.h"
#include "python/native/tensors.h"
#include "report/svg.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

// ---- Sizes and attributes

nb::object size_to_python(const Index& index) {
  if (const auto number = index.constant()) return nb::int_(*number);
  return nb::str(index.to_string().c_str());
}

nb::object size_to_python(const Indices& indices) {
  nb::list list;
  for (const Index& index : indices) list.append(size_to_python(index));
  return list;
}

Index to_index(nb::handle size) {
  if (nb::isinstance<nb::str>(size)) return Index::symbol(nb::cast<std::string>(size));
  return nb::cast<std::int64_t>(size);
}

Indices to_indices(nb::handle sizes) {
  Indices result;
  for (const nb::handle size : sizes) result.push_back(to_index(size));
  return result;
}

DataType type_named(const std::string& text) {
  if (const auto type = data_type_from_name(text)) return *type;
  throw Error(ErrorCode::kUsage, "there is no element type \"" + text + "\"", {}, "there are float, half, int64, ...");
}

struct ToPython {
  nb::object operator()(bool value) const { return nb::bool_(value); }
  nb::object operator()(const Index& value) const { return size_to_python(value); }
  nb::object operator()(const Indices& value) const { return size_to_python(value); }
  nb::object operator()(const Real& value) const { return nb::float_(value.value); }
  nb::object operator()(const std::vector<double>& value) const { return nb::cast(value); }
  nb::object operator()(const std::string& value) const { return nb::str(value.c_str(), value.size()); }
  nb::object operator()(DataType value) const { return nb::str(std::string(name(value)).c_str()); }
  nb::object operator()(const Tensor& value) const { return value ? to_array(value, false) : nb::none(); }
};

// Converts to the kind of attribute that the operator's field has.
struct FromPython {
  nb::handle given;
  AttributeValue operator()(bool) const { return nb::cast<bool>(given); }
  AttributeValue operator()(const Index&) const { return to_index(given); }
  AttributeValue operator()(const Indices&) const { return to_indices(given); }
  AttributeValue operator()(const Real&) const { return Real(nb::cast<double>(given)); }
  AttributeValue operator()(const std::vector<double>&) const { return nb::cast<std::vector<double>>(given); }
  AttributeValue operator()(const std::string&) const { return nb::cast<std::string>(given); }
  AttributeValue operator()(DataType) const { return type_named(nb::cast<std::string>(given)); }
  AttributeValue operator()(const Tensor&) const { return to_datum(given, {}).tensor(); }
};

Attributes attributes_of(const Operator& op, nb::dict given) {
  Attributes attributes = op.defaults();
  for (const auto [key, value] : given) {
    const auto field_name = nb::cast<std::string>(key);
    const auto field = op.field(field_name);
    if (!field) {
      std::string all;
      for (const Field& f : op.fields()) all += (all.empty() ? "" : ", ") + f.name;
      throw Error(ErrorCode::kUsage, "has no attribute \"" + field_name + "\"", op.name(),
                  all.empty() ? "it has none" : "it has " + all);
    }
    try {
      attributes[*field] = std::visit(FromPython{value}, op.fields()[*field].default_value);
    } catch (const std::bad_cast&) {
      throw Error(ErrorCode::kUsage, "cannot be " + nb::cast<std::string>(nb::repr(value)),
                  op.name() + ": attribute \"" + field_name + "\"");
    }
  }
  return attributes;
}

// ---- Models as read

FileBytes copied(const nb::bytes& bytes) {
  auto copy = std::make_shared<const std::string>(bytes.c_str(), bytes.size());
  const auto span = std::as_bytes(std::span(copy->data(), copy->size()));
  return {std::move(copy), span};
}

// From a dict: input_values (arrays by name), named_sizes, denoted_sizes, weights ((value, is it external?) by name),
// external_files (bytes by name).
struct Given {
  ImportOptions options;
  GivenParts parts;
};

Given given_of(const nb::dict& dict) {
  Given given;
  for (const auto [key, values] : dict) {
    const auto part = nb::cast<std::string>(key);
    for (const auto [name_given, value] : nb::cast<nb::dict>(values)) {
      const auto name = nb::cast<std::string>(name_given);
      if (part == "named_sizes") {
        given.parts.named_sizes[name] = nb::cast<std::int64_t>(value);
      } else if (part == "denoted_sizes") {
        given.parts.denoted_sizes[name] = nb::cast<std::int64_t>(value);
      } else if (part == "external_files") {
        given.parts.external_files[name] = copied(nb::cast<nb::bytes>(value));
      } else if (part == "weights") {
        given.parts.weights[name] = {to_datum(value[0], {}).tensor(), nb::cast<bool>(value[1])};
      } else {
        const Datum datum = to_datum(value, {});
        if (datum.is_tensor()) given.options.input_values[name] = datum.tensor();
      }
    }
  }
  return given;
}

// The situation for an Error thrown while this file is read as a model.
const char* situation_of(const std::string& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return "file";
  try {
    return is_readable_model(map_file(file).text()) ? "model" : "bytes";
  } catch (const Error&) {
    return "bytes";
  }
}

NamedGraph read_model(const std::string& file, const nb::dict& dict) {
  const Given given = given_of(dict);
  const nb::gil_scoped_release release;
  try {
    return {import_onnx(file, given.options, given.parts), file};
  } catch (const Error& error) {
    throw SituatedError(error, situation_of(file));
  }
}

NamedGraph parse_model(const nb::bytes& bytes, const std::string& name, const nb::dict& dict) {
  const Given given = given_of(dict);
  const std::string_view text(bytes.c_str(), bytes.size());
  const nb::gil_scoped_release release;
  try {
    return {import_onnx_bytes(text, name, given.options, given.parts), name};
  } catch (const Error& error) {
    throw SituatedError(error, is_readable_model(text) ? "model" : "bytes");
  }
}

// ---- Nodes and values

struct NodeView {
  std::shared_ptr<const Node> node;
  std::string name;
};

std::string operator_type(const Node& node) {
  if (node.op != nullptr) return node.op->name();
  constexpr std::uint32_t kOperatorType = 4;  // of ONNX's NodeProto
  if (!node.origin) return {};
  wire::Reader reader(node.origin->node_proto);
  while (const auto field = reader.next())
    if (field->number == kOperatorType) return std::string(field->content);
  return {};
}

nb::dict attributes_of(const Node& node) {
  nb::dict result;
  for (std::size_t i = 0; i < node.attributes.size(); ++i)
    result[node.op->fields()[i].name.c_str()] = std::visit(ToPython{}, node.attributes[i]);
  return result;
}

std::vector<std::optional<ValueId>> ids_of(const std::vector<ValueId>& ids) {
  std::vector<std::optional<ValueId>> result;
  for (const ValueId id : ids) result.push_back(id == kNoValue ? std::nullopt : std::optional(id));
  return result;
}

const Value& value_of(const NamedGraph& graph, ValueId id) {
  if (id >= graph.graph.value_count()) throw Error(ErrorCode::kUsage, "there is no value " + std::to_string(id), graph.name);
  return graph.graph.value(id);
}

std::vector<ValueId> add_node(NamedGraph& graph, const std::string& type, const std::vector<std::optional<ValueId>>& inputs,
                              const nb::dict& attributes, std::vector<std::string> names) {
  const Operator& op = registry().get(type);
  std::vector<ValueId> ids;
  for (const auto& id : inputs) {
    if (id) value_of(graph, *id);
    ids.push_back(id.value_or(kNoValue));
  }
  return graph.graph.add_node(op, attributes_of(op, attributes), std::move(ids), std::move(names));
}

nb::dict operator_facts(const Operator& op) {
  nb::dict fields, result;
  for (const Field& field : op.fields()) fields[field.name.c_str()] = std::visit(ToPython{}, field.default_value);
  result["name"] = op.name();
  result["attributes"] = fields;
  result["min_inputs"] = op.min_inputs();
  result["max_inputs"] = op.max_inputs() >= kVariadic ? nb::none() : nb::object(nb::int_(op.max_inputs()));
  return result;
}

void bind_declarations(nb::module_& m) {
  nb::class_<Declaration>(m, "NodeArg", "An input or output of a model, as the model declares it.")
      .def_prop_ro("name", [](const Declaration& d) { return d.name; })
      .def_prop_ro(
          "type", [](const Declaration& d) { return d.type; }, "As ONNX writes it: \"tensor(float)\".")
      .def_prop_ro(
          "shape",
          [](const Declaration& d) -> nb::object {
            nb::list list;
            if (!d.shape) return list;
            for (const Declaration::Size& size : *d.shape) {
              if (size.number)
                list.append(*size.number);
              else if (size.name.empty())
                list.append(nb::none());
              else
                list.append(size.name);
            }
            return list;
          },
          "A number, a name or None for each axis.")
      .def("__repr__", [](nb::handle d) {
        return nb::str("NodeArg(name={!r}, type={!r}, shape={!r})")
            .attr("format")(d.attr("name"), d.attr("type"), d.attr("shape"));
      });
  nb::class_<ModelDescription>(m, "ModelMetadata", "What a model says of itself.")
      .def_rw("producer_name", &ModelDescription::producer_name)
      .def_rw("producer_version", &ModelDescription::producer_version)
      .def_rw("graph_name", &ModelDescription::graph_name)
      .def_rw("domain", &ModelDescription::domain)
      .def_rw("description", &ModelDescription::description)
      .def_rw("graph_description", &ModelDescription::graph_description)
      .def_rw("version", &ModelDescription::version)
      .def_rw("custom_metadata_map", &ModelDescription::metadata);
}

void bind_nodes(nb::module_& m) {
  nb::class_<NodeView>(m, "Node")
      .def_ro("name", &NodeView::name)
      .def_prop_ro("op_type", [](const NodeView& v) { return operator_type(*v.node); })
      .def_prop_ro("is_opaque", [](const NodeView& v) { return v.node->op == nullptr; })
      .def_prop_ro("opaque_reason", [](const NodeView& v) { return v.node->opaque_reason; })
      .def_prop_ro("is_rewritten", [](const NodeView& v) { return v.node->origin == nullptr; })
      .def_prop_ro("inputs", [](const NodeView& v) { return ids_of(v.node->inputs); })
      .def_prop_ro("outputs", [](const NodeView& v) { return ids_of(v.node->outputs); })
      .def_prop_ro("attributes", [](const NodeView& v) { return attributes_of(*v.node); });
}

void bind_files(nb::class_<NamedGraph>& graph) {
  graph
      .def_static(
          "read", &read_model, nb::arg("file"), nb::arg("given") = nb::dict(),
          "given: what stands in place of parts of the model: named_sizes, denoted_sizes, weights, external_files; and\n"
          "    input_values, for a graph that is executed on just these: what a model computes from them is known.")
      .def_static("parse", &parse_model, nb::arg("bytes"), nb::arg("name"), nb::arg("given") = nb::dict())
      .def(
          "write",
          [](const NamedGraph& g, const std::string& file) {
            const nb::gil_scoped_release release;
            export_onnx(g.graph, file, kRewritten);
          },
          nb::arg("file"))
      .def("serialize",
           [](const NamedGraph& g) {
             std::string text;
             {
               const nb::gil_scoped_release release;
               text = export_onnx_bytes(g.graph, kRewritten);
             }
             return nb::bytes(text.data(), text.size());
           })
      .def("declared_inputs", [](const NamedGraph& g) { return declared_inputs(g.graph); })
      .def("declared_outputs", [](const NamedGraph& g) { return declared_outputs(g.graph); })
      .def("description", [](const NamedGraph& g) { return describe_model(g.graph); });
}

void bind_reading(nb::class_<NamedGraph>& graph) {
  graph
      .def_prop_ro("nodes",
                   [](const NamedGraph& g) {
                     std::vector<NodeView> nodes;
                     for (const auto& node : g.graph.nodes()) nodes.push_back({node, node_name(g.graph, *node)});
                     return nodes;
                   })
      .def_prop_ro("value_count", [](const NamedGraph& g) { return g.graph.value_count(); })
      .def_prop_ro("inputs",
                   [](const NamedGraph& g) { return std::vector<ValueId>(g.graph.inputs().begin(), g.graph.inputs().end()); })
      .def_prop_ro("outputs",
                   [](const NamedGraph& g) {
                     std::vector<std::pair<std::string, ValueId>> outputs;
                     for (const GraphOutput& output : g.graph.outputs()) outputs.emplace_back(output.name, output.value);
                     return outputs;
                   })
      .def("producers", [](const NamedGraph& g) { return g.graph.producers(); })
      .def("users", [](const NamedGraph& g) { return g.graph.users(); })
      .def("name_of", [](const NamedGraph& g, ValueId id) { return value_of(g, id).name; })
      .def("type_of",
           [](const NamedGraph& g, ValueId id) -> std::optional<std::string> {
             const DataType type = value_of(g, id).type.type;
             return type == DataType::kUndefined ? std::nullopt : std::optional(std::string(name(type)));
           })
      .def("shape_of",
           [](const NamedGraph& g, ValueId id) -> nb::object {
             const Value& value = value_of(g, id);
             return value.shape_known ? size_to_python(value.type.shape) : nb::none();
           })
      .def("constant_of",
           [](const NamedGraph& g, ValueId id) -> nb::object {
             const Tensor& constant = value_of(g, id).constant;
             return constant ? to_array(constant, false) : nb::none();
           })
      .def("is_constant", [](const NamedGraph& g, ValueId id) { return static_cast<bool>(value_of(g, id).constant); })
      .def(
          "svg",
          [](const NamedGraph& g, const NamedGraph* before) { return graph_svg(g.graph, before ? &before->graph : nullptr); },
          nb::arg("before").none())
      .def_prop_ro("hash", [](const NamedGraph& g) { return g.graph.hash(); })
      .def("__str__", [](const NamedGraph& g) { return to_string(g.graph); });
}

void bind_building(nb::class_<NamedGraph>& graph) {
  graph
      .def(
          "add_input",
          [](NamedGraph& g, const std::string& input, const std::string& type, nb::handle shape) {
            return g.graph.add_input(input, {type_named(type), to_indices(shape)});
          },
          nb::arg("name"), nb::arg("type"), nb::arg("shape"))
      .def(
          "add_constant",
          [](NamedGraph& g, nb::handle array, const std::string& constant) {
            const Tensor given = to_datum(array, {}).tensor();
            if (given.type() == DataType::kString || given.byte_count() == 0) return g.graph.add_constant(given, constant);
            Tensor copy(given.type(), given.sizes());  // the array's owner may write to it
            std::memcpy(copy.mutable_bytes().data(), given.bytes().data(), given.byte_count());
            return g.graph.add_constant(std::move(copy), constant);
          },
          nb::arg("array"), nb::arg("name") = "")
      .def("add_node", &add_node, nb::arg("op_type"), nb::arg("inputs"), nb::arg("attributes"), nb::arg("names"))
      .def(
          "add_output",
          [](NamedGraph& g, const std::string& output, ValueId id) {
            value_of(g, id);
            g.graph.add_output(output, id);
          },
          nb::arg("name"), nb::arg("value"))
      .def("tidy", [](NamedGraph& g) { g.graph.tidy(); });
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_declarations(m);
  bind_nodes(m);
  nb::class_<NamedGraph> graph(m, "Graph");
  graph.def(nb::init<>()).def_ro("name", &NamedGraph::name).def("copy", [](const NamedGraph& g) { return g; });
  bind_files(graph);
  bind_reading(graph);
  bind_building(graph);
  m.def(
      "operators",
      [] {
        std::vector<nb::dict> all;
        for (const Operator* op : registry().all()) all.push_back(operator_facts(*op));
        return all;
      },
      "All operators with a definition: name, attributes with their defaults, numbers of inputs.");
}

}  // namespace rewright::python
