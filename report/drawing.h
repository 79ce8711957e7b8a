// A graph as the report's page draws it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_set>

#include "optimizer/costs/cost_model.h"

namespace rewright::report {

// What two graphs have in common: nodes that stand in both as the model had them.
class Kept {
 public:
  Kept(const Graph& a, const Graph& b);
  bool contains(const Node& node) const;

 private:
  std::unordered_set<const void*> origins_, expansions_;
};

inline constexpr double kBoxHeight = 34;  // of a node, two lines of the page's font (page/report.css)

// As SVG writes it.
std::string coordinate(double value);

// A graph in regions that are drawn one below the other (optimizer/matching/region.h), each laid out by itself, so that the
// time grows with the number of nodes alone and the page can fold what nobody looks at. What is computed from constants is left
// out.
//
//   {"regions": [{"nodes": [node ...], "edges": [path ...], "entries": [port ...], "exits": [port ...], "width": w, "height":
//   h,
//                 "same_as": an earlier region that differs in the contents of constants alone, or -1}],
//    "left_out": n}
//
// A node has the position of its centre, its size, what it computes, what that costs, and whether the other graph has it; a
// port is a value that comes from or goes to elsewhere, with its x. Paths are Bezier curves as SVG writes them. Sizes are in
// points.
nlohmann::json draw_graph(const MatchedGraph& graph, std::span<const NodeWork> work, const Kept& kept);

}  // namespace rewright::report
