#include "report/plan_page.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "optimizer/matching/match.h"
#include "plans/groups/execution_order.h"
#include "plans/groups/step.h"
#include "report/drawing.h"
#include "report/fill.h"
#include "report/page.h"

namespace rewright::report {

namespace {

using nlohmann::json;
using plans::Cut, plans::DeviceQueue, plans::Share;

constexpr std::size_t kMostProcesses = 8;  // in the timeline
constexpr double kLeastGap = 1.0 / 4000;   // of a step; what is nearer together is drawn as one

// The meaning of a colour: the cut of the operator's first result.
std::string kind_of(const std::optional<Cut>& cut) {
  if (!cut) return "whole";
  const Share& result = cut->outputs.at(0);
  return result.kind == Share::Kind::kCut ? "axis " + std::to_string(result.axis) : "partial";
}

struct DrawnCut {
  std::string kind, text;
};

// By position of the graph's nodes.
std::vector<DrawnCut> cuts_of(const PlanSource& source) {
  const auto text_of = [](const std::optional<Cut>& cut) { return cut ? to_string(*cut) : std::string("whole"); };
  const plans::Plan& last = source.plan.within ? *source.plan.within : source.plan;
  std::vector<DrawnCut> result;
  std::size_t outer = 0;  // the node of the model
  for (std::size_t n = 0; n < last.cuts.size(); ++n) {
    DrawnCut drawn{kind_of(last.cuts[n]), text_of(last.cuts[n])};
    if (source.group && source.group->exchanges.contains(n))
      drawn.kind = "between groups";
    else if (source.group)
      drawn.text = "between groups " + text_of(source.plan.cuts.at(outer++)) + "; within " + drawn.text;
    result.push_back(std::move(drawn));
  }
  return result;
}

json drawing_of(const PlanSource& source, const std::vector<DrawnCut>& cuts) {
  const MatchedGraph matched(source.graph, false);
  std::vector<NodeWork> work(source.graph.nodes().size());
  if (const auto& predicted = source.plan.predicted)
    for (std::size_t n = 0; n < work.size() && n < predicted->node_seconds.size(); ++n)
      work[n].seconds = predicted->node_seconds[n];
  json drawing = draw_graph(matched, work, Kept(source.graph, source.graph));
  for (json& region : drawing.at("regions"))
    for (json& node : region.at("nodes")) {
      const auto n = node.at("position").get<std::size_t>();
      node["kept"] = true, node["kind"] = cuts[n].kind, node["cut"] = cuts[n].text;
      if (source.group)
        if (const auto exchange = source.group->exchanges.find(n); exchange != source.group->exchanges.end())
          node["operator"] = std::string(plans::name(exchange->second.exchange)) + " between groups";
    }
  return drawing;
}

json exchanges_of(const PlanSource& source) {
  json result = json::array();
  const plans::Plan& last = source.plan.within ? *source.plan.within : source.plan;
  for (const plans::PlannedExchange& e : last.exchanges) {
    const Value& value = source.graph.value(e.value);
    result.push_back({{"exchange", plans::name(e.exchange)},
                      {"value", value.name.empty() ? "%" + std::to_string(e.value) : value.name},
                      {"type", to_string(value.type)},
                      {"from", to_string(e.from)},
                      {"to", to_string(e.to.holding)}});
  }
  return result;
}

// Tasks of a queue of a device in the order of their starts, with neighbours of one kind joined.
class Lane {
 public:
  explicit Lane(double gap) : gap_(gap) {}
  void add(const std::string& label, const std::string& kind, double start, double end) {
    if (!(end > start)) return;
    if (!pieces_.empty()) {
      Piece& last = pieces_.back();
      if (last.kind == kind && start - last.end < gap_ && (end - start < gap_ || last.end - last.start < 4 * gap_)) {
        last.end = std::max(last.end, end), ++last.count;
        return;
      }
    }
    pieces_.push_back({label, kind, start, end, 1});
  }
  json pieces() const {
    json result = json::array();
    for (const Piece& p : pieces_) result.push_back({p.start * 1e3, (p.end - p.start) * 1e3, p.kind, p.label, p.count});
    return result;
  }

 private:
  struct Piece {
    std::string label, kind;
    double start, end;
    int count;
  };
  double gap_;
  std::vector<Piece> pieces_;
};

// In which the nodes that are cut last are computed.
plans::ExecutionOrder order_of(const PlanSource& source) {
  const plans::Plan& last = source.plan.within ? *source.plan.within : source.plan;
  if (!source.group) return execution_order(source.graph, partition_of(last, source.graph), last.exchanges, {});
  return execution_order(source.graph, partition_within(last, *source.group), last.exchanges, source.group->exchanges);
}

json timeline_of(const PlanSource& source, const std::vector<DrawnCut>& cuts) {
  const plans::Simulation& simulation = source.simulation;
  const std::size_t shown = std::min(simulation.machine().devices(), kMostProcesses);
  const double gap = simulation.seconds() * kLeastGap;
  std::vector<std::uint32_t> in_order;
  for (std::uint32_t t = 0; t < simulation.graph().numbers(); ++t)
    if (simulation.graph()[t].exists && simulation.graph()[t].task.queue != DeviceQueue::kNone) in_order.push_back(t);
  std::sort(in_order.begin(), in_order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = simulation.times_of(a).start, y = simulation.times_of(b).start;
    return x != y ? x < y : simulation.graph()[a].name < simulation.graph()[b].name;
  });
  std::map<std::uint32_t, std::size_t> node_of_block;
  const std::vector<std::size_t> nodes = order_of(source).nodes;
  for (std::size_t place = 0; place < nodes.size(); ++place) node_of_block[plans::block_of(place)] = nodes[place];
  std::vector<Lane> computing(shown, Lane(gap)), exchanging(shown, Lane(gap));
  for (const std::uint32_t t : in_order) {
    const plans::TaskGraph::Entry& entry = simulation.graph()[t];
    const bool computes = entry.task.queue == DeviceQueue::kCompute;
    const auto node = node_of_block.find(entry.name.block);
    const std::string kind = !computes ? "exchange" : node != node_of_block.end() ? cuts[node->second].kind : "whole";
    for (const std::uint32_t device : entry.task.devices)
      if (device < shown)
        (computes ? computing : exchanging)[device].add(entry.task.label, kind, simulation.times_of(t).start,
                                                        simulation.times_of(t).end);
  }
  json processes = json::array();
  for (std::size_t p = 0; p < shown; ++p)
    processes.push_back({{"computing", computing[p].pieces()}, {"exchanging", exchanging[p].pieces()}});
  return {{"ms", simulation.seconds() * 1e3}, {"of", simulation.machine().devices()}, {"processes", processes}};
}

}  // namespace

std::string plan_page(const PlanSource& source) {
  const std::vector<DrawnCut> cuts = cuts_of(source);
  const json data = {{"facts", json::parse(source.facts)},
                     {"drawing", drawing_of(source, cuts)},
                     {"exchanges", exchanges_of(source)},
                     {"timeline", timeline_of(source, cuts)}};
  const std::string text = inside_of_page(data);
  return filled(page::plan_html(),
                {{"STYLE", page::plan_css()}, {"D3", page::d3_js()}, {"SCRIPT", page::plan_js()}, {"DATA", text}});
}

}  // namespace rewright::report
