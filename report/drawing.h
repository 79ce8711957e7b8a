// Draws a graph for the report's page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <unordered_set>

#include "optimizer/costs/cost_model.h"

namespace rewright::report {

// The common part of two graphs: nodes that both have, as in the model.
class Kept {
 public:
  Kept(const Graph& a, const Graph& b);
  bool contains(const Node& node) const;

 private:
  std::unordered_set<const void*> origins_, expansions_;
};

inline constexpr double kBoxHeight = 34;  // of a node, two lines of the page's font (page/report.css)

// In the notation of SVG.
std::string coordinate(double value);

// A graph in regions that are drawn one below the other (optimizer/matching/region.h), each laid out by itself, so that the
// time is linear in the number of nodes and the page can fold regions. Nodes computed from constants alone are left out.
//
//   {"regions": [{"nodes": [node ...], "edges": [path ...], "entries": [port ...], "exits": [port ...], "width": w, "height":
//   h,
//                 "same_as": an earlier region that differs in the contents of constants alone, or -1}],
//    "left_out": n}
//
// A node has the position of its centre, its size, its operator, its cost, and whether the other graph has it. A port is a
// value from or to another region, with its x. Paths are Bezier curves in the notation of SVG. Sizes are in points.
nlohmann::json draw_graph(const MatchedGraph& graph, std::span<const NodeWork> work, const Kept& kept);

}  // namespace rewright::report
