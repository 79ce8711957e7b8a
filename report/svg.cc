#include "report/svg.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "optimizer/matching/match.h"
#include "report/drawing.h"

namespace rewright::report {

namespace {

using nlohmann::json;

constexpr double kMargin = 12, kBetweenRegions = 26;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const std::string& what, const std::string& style) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"middle\" class=\"" + style + "\">" +
         escaped(what) + "</text>\n";
}

std::string drawn(const json& node, bool marks) {
  const double x = node.at("x"), y = node.at("y"), width = node.at("w");
  const std::string attributes = node.at("attributes");
  const std::string title = node.at("name").get<std::string>() + (attributes.empty() ? "" : ": " + attributes);
  return "<g><title>" + escaped(title) + "</title><rect x=\"" + coordinate(x - width / 2) + "\" y=\"" +
         coordinate(y - kBoxHeight / 2) + "\" width=\"" + coordinate(width) + "\" height=\"" + coordinate(kBoxHeight) +
         "\" rx=\"4\" class=\"" + (marks && !node.at("kept").get<bool>() ? "new" : "node") + "\"/>\n" +
         text_at(x, y - 3, node.at("operator"), "operator") + text_at(x, y + 11, node.at("shape"), "shape") + "</g>\n";
}

std::string region_svg(const json& region, bool marks) {
  std::string text;
  for (const json& edge : region.at("edges")) text += "<path d=\"" + edge.get<std::string>() + "\" class=\"edge\"/>\n";
  for (const json& node : region.at("nodes")) text += drawn(node, marks);
  for (const json& port : region.at("entries")) text += text_at(port.at("x"), -4, port.at("name"), "port");
  for (const json& port : region.at("exits"))
    text += text_at(port.at("x"), region.at("height").get<double>() + 10, port.at("name"), "port");
  return text;
}

constexpr const char* kStyle =
    "<style>text{font-family:monospace;fill:#1a202c}.operator{font-size:10px;font-weight:bold}.shape,.port{font-size:8px}"
    ".port{fill:#4a5568}.node{fill:#edf2f7;stroke:#4a5568}.new{fill:#c6f6d5;stroke:#276749}"
    ".edge{fill:none;stroke:#718096}</style>\n";

}  // namespace

std::string graph_svg(const Graph& graph, const Graph* before) {
  const MatchedGraph matched(graph, false);
  const std::vector<NodeWork> work(graph.nodes().size());
  const json drawing = draw_graph(matched, work, Kept(graph, before ? *before : graph));
  double width = 0, height = kMargin;
  std::string body;
  for (const json& region : drawing.at("regions")) {
    height += kMargin;
    body += "<g transform=\"translate(" + coordinate(kMargin) + " " + coordinate(height) + ")\">\n" +
            region_svg(region, before != nullptr) + "</g>\n";
    width = std::max(width, region.at("width").get<double>());
    height += region.at("height").get<double>() + kBetweenRegions;
  }
  width += 2 * kMargin;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + coordinate(width) + "\" height=\"" + coordinate(height) +
         "\" viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) + "\" role=\"img\" aria-label=\"a graph of " +
         std::to_string(graph.nodes().size()) + " nodes\">\n" + kStyle +
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + body + "</svg>\n";
}

}  // namespace rewright::report
