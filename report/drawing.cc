#include "report/drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/print.h"
#include "optimizer/matching/region.h"
#include "report/layout.h"

namespace rewright::report {

namespace {

using nlohmann::json;

constexpr std::size_t kNodesOfRegion = 40;

// In the page's font (page/report.css): the width of a letter, and the margins of a node's box around two lines.
constexpr double kLetter = 6.1, kPadding = 16, kLeastWidth = 60, kMostWidth = 190;
constexpr double kPortWidth = 10, kPortHeight = 4;

std::string path(const std::vector<Point>& points) {
  std::string text;
  for (std::size_t i = 0; i < points.size(); ++i)
    text += (i == 0 ? "M" : i == 1 ? "C" : " ") + coordinate(points[i].x) + "," + coordinate(points[i].y);
  return text;
}

std::string operator_of(const Node& node) { return node.op ? node.op->name() : "kept as it is"; }

// The second line of a box: the shape of the result.
std::string shape_of(const Graph& graph, const Node& node) {
  for (const ValueId id : node.outputs)
    if (id != kNoValue) return graph.value(id).shape_known ? to_string(graph.value(id).type.shape) : "?";
  return "";
}

std::string attribute_text(const Node& node) {
  if (!node.op) return node.opaque_reason;
  std::string text;
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    const std::string value = to_string(node.attributes[i]);
    if (value == to_string(node.op->fields()[i].default_value)) continue;
    text += (text.empty() ? "" : ", ") + node.op->fields()[i].name + "=" +
            (value.size() > 200 ? value.substr(0, 200) + "..." : value);
  }
  return text;
}

json values_of(const MatchedGraph& matched, std::span<const ValueId> ids) {
  json list = json::array();
  for (const ValueId id : ids) {
    if (id == kNoValue) continue;
    const Value& value = matched.graph->value(id);
    list.push_back(json{{"name", value.name.empty() ? "%" + std::to_string(id) : value.name},
                        {"type", type_text(value.type, value.shape_known)},
                        {"constant", static_cast<bool>(matched.constant[id])}});
  }
  return list;
}

class RegionDrawing {
 public:
  RegionDrawing(const MatchedGraph& matched, std::span<const NodeWork> work, const Kept& kept,
                const std::vector<std::uint32_t>& positions)
      : matched_(matched), graph_(*matched.graph), work_(work), kept_(kept), positions_(positions) {
    for (std::size_t i = 0; i < positions.size(); ++i) box_of_[static_cast<std::int32_t>(positions[i])] = i;
  }

  json draw() {
    add_nodes();
    add_edges();
    add_exits();
    const Layout layout = layered_layout(boxes_, arrows_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i]["x"] = round(layout.boxes[i].x);
      nodes_[i]["y"] = round(layout.boxes[i].y);
      nodes_[i]["w"] = round(boxes_[i].width);
    }
    json edges = json::array();
    for (const std::vector<Point>& points : layout.arrows)
      if (!points.empty()) edges.push_back(path(points));
    return {{"nodes", nodes_},
            {"edges", edges},
            {"entries", ports(entries_, layout)},
            {"exits", ports(exits_, layout)},
            {"width", round(layout.width)},
            {"height", round(layout.height)}};
  }

 private:
  static double round(double value) { return std::round(value * 10) / 10; }

  void add_nodes() {
    for (const std::uint32_t position : positions_) {
      const Node& node = *graph_.nodes()[position];
      const std::string name = operator_of(node), shape = shape_of(graph_, node);
      const double letters = static_cast<double>(std::max(name.size(), shape.size()));
      boxes_.push_back({std::clamp(letters * kLetter + kPadding, kLeastWidth, kMostWidth), kBoxHeight});
      const NodeWork& work = work_[position];
      nodes_.push_back({{"position", position},
                        {"name", node_name(graph_, node)},
                        {"operator", name},
                        {"shape", shape},
                        {"attributes", attribute_text(node)},
                        {"inputs", values_of(matched_, node.inputs)},
                        {"outputs", values_of(matched_, node.outputs)},
                        {"ms", work.seconds * 1e3},
                        {"operations", work.operations},
                        {"bytes", work.bytes},
                        {"share", work.share},
                        {"kept", kept_.contains(node)}});
    }
  }

  void add_edges() {
    std::vector<std::pair<std::size_t, std::size_t>> seen;
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      for (const ValueId id : graph_.nodes()[positions_[i]]->inputs) {
        if (id == kNoValue || matched_.constant[id]) continue;
        const auto made_here = box_of_.find(matched_.producers[id]);
        const std::size_t from = made_here != box_of_.end() ? made_here->second : port(entries_, id, Box::Row::kFirst);
        if (std::find(seen.begin(), seen.end(), std::pair(from, i)) != seen.end()) continue;
        seen.emplace_back(from, i);
        arrows_.push_back({from, i});
      }
    }
  }

  void add_exits() {
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      for (const ValueId id : graph_.nodes()[positions_[i]]->outputs) {
        if (id == kNoValue) continue;
        const auto users = matched_.users(id);
        const bool leaves = matched_.is_output[id] ||
                            std::any_of(users.begin(), users.end(), [&](std::int32_t user) { return !box_of_.contains(user); });
        if (leaves) arrows_.push_back({i, port(exits_, id, Box::Row::kLast)});
      }
    }
  }

  std::size_t port(std::map<ValueId, std::size_t>& ports, ValueId id, Box::Row row) {
    const auto [at, is_new] = ports.try_emplace(id, boxes_.size());
    if (is_new) boxes_.push_back({kPortWidth, kPortHeight, row});
    return at->second;
  }

  json ports(const std::map<ValueId, std::size_t>& ports, const Layout& layout) const {
    json list = json::array();
    for (const auto& [id, box] : ports) {
      const std::string& name = graph_.value(id).name;
      list.push_back(json{{"value", id},
                          {"name", name.empty() ? "%" + std::to_string(id) : name},
                          {"x", round(layout.boxes[box].x)},
                          {"graph", graph_.is_input(id) || matched_.is_output[id]}});
    }
    return list;
  }

  const MatchedGraph& matched_;
  const Graph& graph_;
  std::span<const NodeWork> work_;
  const Kept& kept_;
  const std::vector<std::uint32_t>& positions_;
  std::map<std::int32_t, std::size_t> box_of_;  // of nodes
  std::vector<Box> boxes_;                      // nodes, then ports
  std::vector<Arrow> arrows_;
  std::map<ValueId, std::size_t> entries_, exits_;  // boxes of ports
  json nodes_ = json::array();
};

}  // namespace

Kept::Kept(const Graph& a, const Graph& b) {
  const auto collect = [](const Graph& graph, std::unordered_set<const void*>& origins,
                          std::unordered_set<const void*>& expansions) {
    for (const auto& node : graph.nodes()) {
      if (node->origin) origins.insert(node->origin.get());
      if (node->expansion) expansions.insert(node->expansion.get());
    }
  };
  std::unordered_set<const void*> origins, expansions;
  collect(a, origins, expansions);
  collect(b, origins_, expansions_);
  std::erase_if(origins_, [&](const void* origin) { return !origins.contains(origin); });
  std::erase_if(expansions_, [&](const void* expansion) { return !expansions.contains(expansion); });
}

bool Kept::contains(const Node& node) const {
  return origins_.contains(node.origin.get()) || expansions_.contains(node.expansion.get());
}

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

json draw_graph(const MatchedGraph& graph, std::span<const NodeWork> work, const Kept& kept) {
  json regions = json::array();
  std::map<std::uint64_t, std::size_t> by_structure;
  std::size_t drawn = 0;
  for (const std::vector<std::uint32_t>& positions : split(*graph.graph, graph.constant, kNodesOfRegion, 0)) {
    if (positions.empty()) continue;
    drawn += positions.size();
    json region = RegionDrawing(graph, work, kept, positions).draw();
    const auto [first, is_new] =
        by_structure.try_emplace(structure_hash(extract(*graph.graph, positions).graph), regions.size());
    region["same_as"] = is_new ? -1 : static_cast<int>(first->second);
    regions.push_back(std::move(region));
  }
  return {{"regions", regions}, {"left_out", graph.graph->nodes().size() - drawn}};
}

}  // namespace rewright::report
