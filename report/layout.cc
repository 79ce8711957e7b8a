#include "report/layout.h"

#include <graphviz/gvc.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace rewright::report {

namespace {

constexpr double kPointsPerInch = 72;
constexpr const char* kHint = "install the package graphviz, or leave out --report";

// Graphviz declares constant text as char*.
char* text(const char* literal) { return const_cast<char*>(literal); }

void set(void* object, const char* name, const std::string& value) {
  agsafeset(object, text(name), const_cast<char*>(value.c_str()), text(""));
}

struct CloseGraph {
  void operator()(Agraph_t* graph) const { agclose(graph); }
};
struct FreeContext {
  void operator()(GVC_t* context) const { gvFreeContext(context); }
};

// Puts all boxes of one row on one rank. Boxes between are ranked by their arrows.
void put_in_row(Agraph_t* graph, const char* rank, Box::Row row, std::span<const Box> boxes,
                const std::vector<Agnode_t*>& nodes) {
  Agraph_t* part = nullptr;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].row != row) continue;
    if (!part) part = agsubg(graph, text(rank), 1);
    agsubnode(part, nodes[i], 1);
  }
  if (part) set(part, "rank", rank);
}

}  // namespace

Layout layered_layout(std::span<const Box> boxes, std::span<const Arrow> arrows) {
  agseterr(AGMAX);  // otherwise it prints warnings on standard error
  const std::unique_ptr<GVC_t, FreeContext> context(gvContext());
  const std::unique_ptr<Agraph_t, CloseGraph> graph(agopen(text("g"), Agdirected, nullptr));
  if (!context || !graph) throw Error(ErrorCode::kMissing, "Graphviz could not be started", {}, kHint);
  set(graph.get(), "ranksep", "0.35");
  set(graph.get(), "nodesep", "0.15");
  std::vector<Agnode_t*> nodes;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    Agnode_t* node = agnode(graph.get(), const_cast<char*>(std::to_string(i).c_str()), 1);
    set(node, "shape", "box");
    set(node, "label", "");
    set(node, "fixedsize", "true");
    set(node, "width", std::to_string(boxes[i].width / kPointsPerInch));
    set(node, "height", std::to_string(boxes[i].height / kPointsPerInch));
    nodes.push_back(node);
  }
  put_in_row(graph.get(), "source", Box::Row::kFirst, boxes, nodes);
  put_in_row(graph.get(), "sink", Box::Row::kLast, boxes, nodes);
  std::vector<Agedge_t*> edges;
  for (std::size_t i = 0; i < arrows.size(); ++i) {
    Agedge_t* edge =
        agedge(graph.get(), nodes.at(arrows[i].from), nodes.at(arrows[i].to), const_cast<char*>(std::to_string(i).c_str()), 1);
    set(edge, "arrowhead", "none");
    edges.push_back(edge);
  }
  if (gvLayout(context.get(), graph.get(), "dot") != 0)
    throw Error(ErrorCode::kMissing, "Graphviz has no layout \"dot\"", {}, kHint);

  const boxf frame = GD_bb(graph.get());
  const auto place = [&](pointf p) { return Point{p.x - frame.LL.x, frame.UR.y - p.y}; };
  Layout layout{frame.UR.x - frame.LL.x, frame.UR.y - frame.LL.y, {}, {}};
  for (Agnode_t* node : nodes) layout.boxes.push_back(place(ND_coord(node)));
  for (Agedge_t* edge : edges) {
    std::vector<Point>& points = layout.arrows.emplace_back();
    const splines* curve = ED_spl(edge);
    if (!curve || curve->size == 0) continue;  // an arrow from a box to itself may have none
    for (int k = 0; k < curve->list[0].size; ++k) points.push_back(place(curve->list[0].list[k]));
  }
  gvFreeLayout(context.get(), graph.get());
  return layout;
}

}  // namespace rewright::report
