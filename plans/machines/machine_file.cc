#include "plans/machines/machine_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::plans {

namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostName = 1000;  // characters of an operator's

enum class FieldKind { kCount, kRate, kSeconds, kText, kTruth, kObject, kEdges, kTexts };

// A field of the form, which the schema is made from, too. `object`: the kind of object that has the field.
struct Field {
  const char *object, *key;
  FieldKind kind;
  bool needed;
  const char* of;  // the kind of object that the field is
  const char* description;
};

constexpr std::array kFields{
    Field{"machine", "devices", FieldKind::kObject, true, "devices", "the devices, all alike"},
    Field{"machine", "links", FieldKind::kObject, false, "links", "what joins them; not needed for one device"},
    Field{"devices", "count", FieldKind::kCount, true, "", "how many devices there are"},
    Field{"devices", "per_node", FieldKind::kCount, false, "",
          "devices of a node: device d is on node d / per_node; without it all are on one, or one is on each where links has "
          "no node"},
    Field{"devices", "profile", FieldKind::kText, false, "",
          "file of a device's profile, relative to this file; or the two rates (which go before a profile's)"},
    Field{"devices", "operations_per_second", FieldKind::kRate, false, "", "operations of arithmetic a second on one device"},
    Field{"devices", "bytes_per_second", FieldKind::kRate, false, "", "bytes that one device reads and writes in a second"},
    Field{"devices", "call_seconds", FieldKind::kSeconds, false, "", "seconds of an operator that does next to nothing"},
    Field{"devices", "memory", FieldKind::kRate, false, "", "bytes of a device; without it not limited"},
    Field{"devices", "node_bytes_per_second", FieldKind::kRate, false, "",
          "bytes that all devices of a node together read and write in a second, where they share a memory"},
    Field{"devices", "exchange_seconds", FieldKind::kSeconds, false, "",
          "seconds that each exchange takes beside its messages; without it 0"},
    Field{"devices", "exchanges_beside", FieldKind::kTruth, false, "",
          "whether a device computes while it exchanges; without it true"},
    Field{"devices", "layouts", FieldKind::kObject, false, "layouts",
          "kernels with a layout of their own, to which values are changed and back"},
    Field{"layouts", "changed", FieldKind::kTexts, true, "", "operands and results in this layout: operand 0 of Conv"},
    Field{"layouts", "kept", FieldKind::kTexts, true, "",
          "operands that are read in either layout, which results then have: operand 0 of Relu"},
    Field{"layouts", "read", FieldKind::kTexts, false, "", "operands that are read in either layout, for results in either"},
    Field{"layouts", "least_channels", FieldKind::kCount, true, "", "values with fewer channels (axis 1) are not changed"},
    Field{"layouts", "bytes_per_second", FieldKind::kRate, true, "",
          "bytes that a device reads and writes in a second as it changes layouts, and copies parts of values"},
    Field{"links", "node", FieldKind::kObject, false, "network", "between the devices of a node"},
    Field{"links", "cluster", FieldKind::kObject, false, "network",
          "between nodes; all devices of a node share the node's cables"},
    Field{"links", "edges", FieldKind::kEdges, false, "", "cables between nodes one by one, in place of cluster"},
    Field{"links", "rings", FieldKind::kTruth, false, "",
          "collectives of all nodes look at the network, as some libraries do: vectors are reduced and gathered within nodes, "
          "and go between them around all rings that cables form; without it around one ring of all devices"},
    Field{"network", "latency", FieldKind::kSeconds, false, "",
          "seconds of a message's first byte between neighbours: of a direct cable, or through one switch"},
    Field{"network", "bytes_per_second", FieldKind::kRate, false, "", "of a cable, in each direction"},
    Field{"network", "shape", FieldKind::kText, false, "", "switch (if it is not said), ring, torus:4x4, fat-tree:4"},
    Field{"network", "edges", FieldKind::kEdges, false, "",
          "cables one by one, in place of the other three; one serves both directions unless the opposite is listed too"},
};

std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

bool is_whole(const json& value) {
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() == std::floor(value.get<double>());
}

constexpr const char* kRateForm = "a number from 0.001 up";
bool is_rate(const json& value) { return value.is_number() && value >= kLeastRate; }

// Is it "operand 0 of Conv", or with `results` "result 0 of Conv"? One pass, of texts of any length.
bool is_port(std::string_view text, bool results) {
  constexpr std::size_t kMostDigits = 9;
  const auto drop = [&](std::string_view start) {
    const bool starts = text.starts_with(start);
    if (starts) text.remove_prefix(start.size());
    return starts;
  };
  if (!drop(LayoutFacts::kOperand) && !(results && drop(LayoutFacts::kResult))) return false;
  if (!drop(" ")) return false;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > kMostDigits) return false;
  text.remove_prefix(digits);
  return drop(" of ") && !text.empty() && text.size() <= kMostName &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c <= ' '; });
}

// The message's "must be ..." for a value that is not of this kind; empty if it is.
std::string needed_instead(const json& value, FieldKind kind) {
  switch (kind) {
    case FieldKind::kCount:
      return is_whole(value) && value > 0 && value <= kMostDevices ? ""
                                                                   : "a whole number from 1 to " + std::to_string(kMostDevices);
    case FieldKind::kRate:
      return is_rate(value) ? "" : kRateForm;
    case FieldKind::kSeconds:
      return value.is_number() && value >= 0 ? "" : "a number from 0 up";
    case FieldKind::kText:
      return value.is_string() ? "" : "a text";
    case FieldKind::kTruth:
      return value.is_boolean() ? "" : "true or false";
    case FieldKind::kObject:
      return value.is_object() ? "" : "an object";
    case FieldKind::kEdges:
      return value.is_array() ? "" : "a list of [from, to, latency, bytes_per_second]";
    case FieldKind::kTexts:
      return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); })
                 ? ""
                 : "a list of texts";
  }
  return "";
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  MachineDescription machine(const json& file) const {
    check(file, "machine", "");
    MachineDescription result;
    devices(file["devices"], result);
    if (file.contains("links")) links(file["links"], result);
    if (!file["devices"].contains("per_node")) result.per_node = result.cluster && !result.node ? 1 : result.devices;
    return result;
  }

  Error bad(const std::string& what, const std::string& where) const {
    return Error(ErrorCode::kBadInput, what, where.empty() ? name_ : name_ + ": " + where);
  }

 private:
  // The fields of this kind of object are there and of the right kind, and so are those of objects within.
  void check(const json& value, const std::string& object, const std::string& where) const {
    if (!value.is_object()) throw bad("must be an object, and is " + shown(value), where);
    for (const Field& f : kFields) {
      if (f.object != object) continue;
      const std::string here = where.empty() ? f.key : where + "." + f.key;
      const auto at = value.find(f.key);
      if (at == value.end()) {
        if (f.needed) throw bad("is missing", here);
        continue;
      }
      if (const std::string instead = needed_instead(*at, f.kind); !instead.empty())
        throw bad("must be " + instead + ", and is " + shown(*at), here);
      if (f.kind == FieldKind::kObject) check(*at, f.of, here);
      if (f.kind == FieldKind::kEdges) check_edges(*at, here);
    }
  }

  void check_edges(const json& edges, const std::string& where) const {
    if (edges.size() > kMostLinks) throw bad("are more than " + std::to_string(kMostLinks), where);
    for (std::size_t n = 0; n < edges.size(); ++n) {
      const json& e = edges[n];
      const std::string here = where + "[" + std::to_string(n) + "]";
      if (!e.is_array() || e.size() < 4) throw bad("must be [from, to, latency, bytes_per_second], and is " + shown(e), here);
      for (const std::size_t end : {0, 1})
        if (!is_whole(e[end]) || e[end] > kMostDevices) throw bad("leads nowhere: there is no " + shown(e[end]), here);
      if (!e[2].is_number() || !(e[2] >= 0)) throw bad("must be a number from 0 up, and is " + shown(e[2]), here + "[2]");
      if (!is_rate(e[3])) throw bad(std::string("must be ") + kRateForm + ", and is " + shown(e[3]), here + "[3]");
    }
  }

  void devices(const json& d, MachineDescription& result) const {
    result.devices = static_cast<std::size_t>(d["count"].get<double>());
    if (d.contains("per_node")) result.per_node = static_cast<std::size_t>(d["per_node"].get<double>());
    result.profile = d.value("profile", "");
    const bool computes = d.contains("operations_per_second"), reads = d.contains("bytes_per_second");
    if (computes != reads || (!computes && result.profile.empty()))
      throw bad("is missing: devices have a profile, or the two rates operations_per_second and bytes_per_second",
                std::string("devices.") + (computes ? "bytes_per_second" : "operations_per_second"));
    if (computes) result.rates = {d["operations_per_second"], d["bytes_per_second"], d.value("call_seconds", 0.0)};
    if (d.contains("memory")) result.memory = d["memory"];
    if (d.contains("node_bytes_per_second")) result.node_bytes_per_second = d["node_bytes_per_second"];
    result.exchange_seconds = d.value("exchange_seconds", 0.0), result.exchanges_beside = d.value("exchanges_beside", true);
    if (!d.contains("layouts")) return;
    const json& l = d["layouts"];
    const auto ports = [&](const char* key, bool results) {
      const auto texts = l.value(key, std::set<std::string>());
      for (const std::string& port : texts)
        if (!is_port(port, results))
          throw bad("must be as \"operand 0 of Conv\", and is " + shown(port), std::string("devices.layouts.") + key);
      return texts;
    };
    result.layouts = {ports("changed", true), ports("kept", false), ports("read", false),
                      static_cast<std::size_t>(l["least_channels"].get<double>()), l["bytes_per_second"].get<double>()};
  }

  void links(const json& l, MachineDescription& result) const {
    if (l.contains("node")) result.node = network(l["node"], "links.node");
    if (l.contains("cluster")) result.cluster = network(l["cluster"], "links.cluster");
    result.rings = l.value("rings", false);
    if (!l.contains("edges")) return;
    if (result.cluster) throw bad("stand in place of cluster, and it is there too", "links.edges");
    result.cluster = {.shape = "edges", .edges = edges(l["edges"])};
  }

  NetworkDescription network(const json& n, const std::string& where) const {
    if (n.contains("edges")) {
      if (n.contains("shape") && n["shape"] != "edges")
        throw bad("stand in place of a shape, and it is there too", where + ".edges");
      return {.shape = "edges", .edges = edges(n["edges"])};
    }
    if (n.contains("shape") && n["shape"] == "edges") throw bad("is missing", where + ".edges");
    for (const char* needed : {"latency", "bytes_per_second"})
      if (!n.contains(needed)) throw bad("is missing", where + "." + needed);
    return {n["latency"], n["bytes_per_second"], n.value("shape", "switch")};
  }

  static std::vector<Link> edges(const json& list) {
    std::vector<Link> result;
    for (const json& e : list)
      result.push_back(
          {static_cast<std::uint32_t>(e[0].get<double>()), static_cast<std::uint32_t>(e[1].get<double>()), e[2], e[3]});
    return result;
  }

  std::string name_;
};

json edges_json(const std::vector<Link>& edges) {
  json list = json::array();
  for (const Link& e : edges) list.push_back({e.from, e.to, e.latency, e.bytes_per_second});
  return list;
}

json network_json(const NetworkDescription& d) {
  if (d.shape == "edges") return {{"edges", edges_json(d.edges)}};
  return {{"latency", d.latency}, {"bytes_per_second", d.bytes_per_second}, {"shape", d.shape}};
}

json field_schema(const Field& field);

json object_schema(const std::string& object) {
  json properties = json::object(), needed = json::array();
  for (const Field& f : kFields) {
    if (f.object != object) continue;
    properties[f.key] = field_schema(f);
    if (f.needed) needed.push_back(f.key);
  }
  json schema = {{"type", "object"}, {"properties", properties}};
  if (!needed.empty()) schema["required"] = needed;
  return schema;
}

json field_schema(const Field& field) {
  json schema;
  const json number = {{"type", "number"}}, rate = {{"type", "number"}, {"minimum", kLeastRate}};
  const json from_0 = {{"type", "number"}, {"minimum", 0}}, member = {{"type", "integer"}, {"minimum", 0}};
  switch (field.kind) {
    case FieldKind::kCount:
      schema = {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostDevices}};
      break;
    case FieldKind::kRate:
      schema = rate;
      break;
    case FieldKind::kSeconds:
      schema = from_0;
      break;
    case FieldKind::kText:
      schema = {{"type", "string"}};
      break;
    case FieldKind::kTruth:
      schema = {{"type", "boolean"}};
      break;
    case FieldKind::kObject:
      schema = object_schema(field.of);
      break;
    case FieldKind::kEdges:
      schema = {{"type", "array"},
                {"maxItems", kMostLinks},
                {"items", {{"type", "array"}, {"minItems", 4}, {"prefixItems", {member, member, from_0, rate}}}}};
      break;
    case FieldKind::kTexts:
      schema = {{"type", "array"}, {"items", {{"type", "string"}}}};
  }
  schema["description"] = field.description;
  return schema;
}

}  // namespace

MachineDescription parse_machine(std::string_view text, const std::string& name) {
  const Reader reader(name);
  if (text.size() > kMostBytes) throw reader.bad("the file is larger than " + std::to_string(kMostBytes) + " bytes", "");
  json file;
  try {
    file = json::parse(text);
  } catch (const json::exception& error) {
    const std::string what = error.what();
    throw reader.bad("is no JSON: " + what.substr(std::min(what.find("] ") + 2, what.size())), "");
  }
  return reader.machine(file);
}

Machine read_machine(const std::filesystem::path& file) {
  const graph::FileBytes bytes = graph::map_file(file);
  MachineDescription description = parse_machine(bytes.text(), file.string());
  std::shared_ptr<const ProfileModel> profile;
  try {
    if (!description.profile.empty())
      profile = std::make_shared<ProfileModel>(optimizer::read_profile(file.parent_path() / description.profile));
    return Machine(std::move(description), std::move(profile));
  } catch (const Error& error) {
    throw error.within(file.string());
  }
}

std::string write_machine(const MachineDescription& d) {
  json devices = {{"count", d.devices}, {"per_node", d.per_node}};
  if (!d.profile.empty()) devices["profile"] = d.profile;
  if (d.rates) {
    devices["operations_per_second"] = d.rates->operations_per_second;
    devices["bytes_per_second"] = d.rates->bytes_per_second;
    if (d.rates->call_seconds > 0) devices["call_seconds"] = d.rates->call_seconds;
  }
  if (std::isfinite(d.memory)) devices["memory"] = d.memory;
  if (std::isfinite(d.node_bytes_per_second)) devices["node_bytes_per_second"] = d.node_bytes_per_second;
  if (d.exchange_seconds > 0) devices["exchange_seconds"] = d.exchange_seconds;
  if (!d.exchanges_beside) devices["exchanges_beside"] = false;
  if (d.layouts)
    devices["layouts"] = {{"changed", d.layouts->changed},
                          {"kept", d.layouts->kept},
                          {"least_channels", d.layouts->least_channels},
                          {"bytes_per_second", d.layouts->bytes_per_second}};
  if (d.layouts && !d.layouts->read.empty()) devices["layouts"]["read"] = d.layouts->read;
  json links = json::object();
  if (d.node) links["node"] = network_json(*d.node);
  if (d.cluster) links["cluster"] = network_json(*d.cluster);
  if (d.rings) links["rings"] = true;
  return json{{"devices", devices}, {"links", links}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string machine_schema() {
  json schema = object_schema("machine");
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "A machine that plans are made for";
  return schema.dump(2) + "\n";
}

MachineDescription make_node(std::size_t devices, const DeviceRates& rates, double memory, NetworkDescription network) {
  return make_cluster(1, devices, rates, memory, std::move(network), {});
}

MachineDescription make_cluster(std::size_t nodes, std::size_t per_node, const DeviceRates& rates, double memory,
                                NetworkDescription node, NetworkDescription cluster) {
  MachineDescription result{.devices = nodes * per_node, .per_node = per_node, .rates = rates, .memory = memory};
  if (per_node > 1) result.node = std::move(node);
  if (nodes > 1) result.cluster = std::move(cluster);
  return result;
}

}  // namespace rewright::plans
