#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"
#include "plans/plan.h"

namespace rewright::plans {

namespace {

using nlohmann::json;

constexpr const char* kReductions[] = {"sum", "product", "maximum", "minimum"};
constexpr const char* kChanges[] = {"scaled", "front_pad", "back_pad"};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kBadInput, what); }

const json& at(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) refuse(std::string("\"") + key + "\" is missing");
  return object.at(key);
}

std::int64_t whole_number(const json& object, const char* key, std::int64_t low, std::int64_t high) {
  const json& value = at(object, key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse(std::string("\"") + key + "\" is " + value.dump() + ", not a number from " + std::to_string(low) + " to " +
           std::to_string(high));
  return value.get<std::int64_t>();
}

std::string text_of(const json& object, const char* key) {
  const json& value = at(object, key);
  if (!value.is_string()) refuse(std::string("\"") + key + "\" is no text");
  return value.get<std::string>();
}

template <std::size_t N>
std::size_t one_of(const std::string& text, const char* const (&names)[N]) {
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) return i;
  refuse("\"" + text + "\" is none of its kind");
}

constexpr std::int64_t kMost = std::int64_t{1} << 40, kMostProcesses = 1 << 16;

json write(const Share& s) {
  switch (s.kind) {
    case Share::Kind::kWhole:
      return "whole";
    case Share::Kind::kFirst:
      return "once";
    case Share::Kind::kPartial:
      return {{"partial", kReductions[static_cast<int>(s.reduction)]}};
    case Share::Kind::kCut:
      break;
  }
  json result{{"axis", s.axis}, {"unit", s.unit.value()}};
  if (!(s.before == Index(0))) result["before"] = s.before.value();
  if (!(s.after == Index(0))) result["after"] = s.after.value();
  return result;
}

Share read_share(const json& value) {
  Share s;
  if (value.is_string()) {
    const char* names[] = {"whole", "once"};
    s.kind = one_of(value.get<std::string>(), names) == 0 ? Share::Kind::kWhole : Share::Kind::kFirst;
    return s;
  }
  if (value.is_object() && value.contains("partial")) {
    s.kind = Share::Kind::kPartial;
    s.reduction = static_cast<Reduction>(one_of(text_of(value, "partial"), kReductions));
    return s;
  }
  s.kind = Share::Kind::kCut;
  s.axis = static_cast<std::size_t>(whole_number(value, "axis", 0, 64));
  s.unit = whole_number(value, "unit", 1, kMost);
  if (value.contains("before")) s.before = whole_number(value, "before", 0, kMost);
  if (value.contains("after")) s.after = whole_number(value, "after", -kMost, kMost);
  return s;
}

json write(const Cut& cut) {
  json result{{"units", cut.units.value()}};
  for (const Share& s : cut.operands) result["operands"].push_back(write(s));
  for (const Share& s : cut.outputs) result["outputs"].push_back(write(s));
  for (const AttributeChange& c : cut.changes) {
    json change{{"kind", kChanges[static_cast<int>(c.kind)]}, {"attribute", c.place.field}};
    if (c.place.entry) change["entry"] = *c.place.entry;
    if (c.kind == AttributeChange::Kind::kScaled) change["rows"] = c.multiplier.value();
    result["attributes"].push_back(std::move(change));
  }
  return result;
}

Cut read_cut(const json& value) {
  Cut cut;
  cut.units = whole_number(value, "units", 1, kMost);
  if (value.contains("operands"))
    for (const json& s : at(value, "operands")) cut.operands.push_back(read_share(s));
  for (const json& s : at(value, "outputs")) cut.outputs.push_back(read_share(s));
  if (value.contains("attributes"))
    for (const json& c : at(value, "attributes")) {
      AttributeChange change;
      change.kind = static_cast<AttributeChange::Kind>(one_of(text_of(c, "kind"), kChanges));
      change.place.field = static_cast<std::size_t>(whole_number(c, "attribute", 0, 1000));
      if (c.contains("entry")) change.place.entry = static_cast<std::size_t>(whole_number(c, "entry", 0, 1000));
      if (c.contains("rows")) change.multiplier = whole_number(c, "rows", 1, kMost);
      cut.changes.push_back(change);
    }
  return cut;
}

json write(const Holding& h) {
  if (h.kind == Holding::Kind::kWhole) return "whole";
  if (h.kind == Holding::Kind::kPartial) return {{"partial", kReductions[static_cast<int>(h.reduction)]}};
  return {{"axis", h.axis}, {"unit", h.unit}, {"units", h.units}};
}

Holding read_holding(const json& value) {
  if (value.is_string() && value.get<std::string>() == "whole") return {};
  if (value.is_object() && value.contains("partial"))
    return partial(static_cast<Reduction>(one_of(text_of(value, "partial"), kReductions)));
  Holding h{Holding::Kind::kCut};
  h.axis = static_cast<std::size_t>(whole_number(value, "axis", 0, 64));
  h.unit = whole_number(value, "unit", 1, kMost);
  h.units = whole_number(value, "units", 1, kMost);
  return h;
}

Exchange read_exchange(const std::string& text) {
  for (const Exchange e :
       {Exchange::kAllGather, Exchange::kAllReduce, Exchange::kReduceScatter, Exchange::kAllToAll, Exchange::kHalo})
    if (text == name(e)) return e;
  refuse("\"" + text + "\" is no exchange");
}

constexpr std::pair<const char*, std::vector<double> PlanPrediction::*> kListsOfPrediction[] = {
    {"peak_bytes", &PlanPrediction::peak_bytes},
    {"bytes_sent", &PlanPrediction::bytes_sent},
    {"computing_seconds", &PlanPrediction::computing_seconds},
    {"exchanging_seconds", &PlanPrediction::exchanging_seconds},
    {"node_seconds", &PlanPrediction::node_seconds}};

json write(const PlanPrediction& p) {
  json result{{"seconds", p.seconds}, {"lower_bound", p.lower_bound}};
  for (const auto& [key, list] : kListsOfPrediction) result[key] = p.*list;
  if (p.bubble) result["bubble"] = *p.bubble;
  if (p.seconds_alone) result["seconds_alone"] = *p.seconds_alone;
  return result;
}

double number_from_0(const json& n, const char* of) {
  if (!n.is_number() || !(n.get<double>() >= 0))
    refuse("\"" + std::string(of) + "\" has " + n.dump() + ", not a number from 0 up");
  return n.get<double>();
}

PlanPrediction read_prediction(const json& value) {
  const auto number = [](const json& n) { return number_from_0(n, "predicted"); };
  PlanPrediction p;
  p.seconds = number(at(value, "seconds")), p.lower_bound = number(at(value, "lower_bound"));
  for (const auto& [key, list] : kListsOfPrediction)
    for (const json& n : at(value, key)) (p.*list).push_back(number(n));
  if (value.contains("bubble")) p.bubble = number(value.at("bubble"));
  if (value.contains("seconds_alone")) p.seconds_alone = number(value.at("seconds_alone"));
  return p;
}

Recomputation read_recomputation(const json& value) {
  constexpr std::int64_t kMostNodes = std::numeric_limits<std::int32_t>::max();
  Recomputation r{static_cast<std::int32_t>(whole_number(value, "before", 0, kMostNodes)), {}};
  for (const json& n : at(value, "nodes")) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostNodes))
      refuse("\"recomputed\" has a node " + n.dump());
    r.nodes.push_back(n.get<std::int32_t>());
  }
  return r;
}

constexpr SendTime kSendTimes[] = {SendTime::kBefore, SendTime::kForward, SendTime::kBackward, SendTime::kAfter};

json write(const Pipeline& pipeline) {
  json lines = json::array(), sends = json::array();
  std::istringstream schedule(write_schedule(pipeline.schedule));
  for (std::string line; std::getline(schedule, line);) lines.push_back(line);
  for (const StageSend& s : pipeline.sends)
    sends.push_back({{"value", s.value}, {"from", s.from}, {"to", s.to}, {"time", name(s.time)}});
  return {{"schedule", std::move(lines)}, {"nodes", pipeline.nodes}, {"given", pipeline.given}, {"sends", std::move(sends)}};
}

Pipeline read_pipeline(const json& value) {
  Pipeline result;
  std::string schedule;
  for (const json& line : at(value, "schedule")) {
    if (!line.is_string()) refuse("\"schedule\" is no list of lines");
    schedule += line.get<std::string>() + "\n";
  }
  result.schedule = read_schedule(schedule, "its schedule");
  const auto stage_of = [](const json& number) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostProcesses))
      refuse("\"pipeline\" has a stage " + number.dump());
    return number.get<std::uint32_t>();
  };
  for (const json& number : at(value, "nodes")) result.nodes.push_back(stage_of(number));
  for (const json& number : at(value, "given")) result.given.push_back(stage_of(number));
  for (const json& send : at(value, "sends")) {
    StageSend s;
    s.value = static_cast<ValueId>(whole_number(send, "value", 0, kMost >> 10));
    s.from = stage_of(at(send, "from")), s.to = stage_of(at(send, "to"));
    const std::string time = text_of(send, "time");
    const auto known = std::find_if(std::begin(kSendTimes), std::end(kSendTimes), [&](SendTime t) { return name(t) == time; });
    if (known == std::end(kSendTimes)) refuse("\"" + time + "\" is no time of a message");
    s.time = *known;
    result.sends.push_back(s);
  }
  return result;
}

json write(const Plan& plan, const Graph& graph) {
  json result{{"format", "rewright plan 1"},
              {"for", plan.purpose},
              {"processes", plan.pipeline ? plan.all_processes() : plan.processes},
              {"strategy", plan.strategy},
              {"graph", plan.graph_hash},
              {"values", plan.given.size()}};
  if (plan.batch) result["batch"] = *plan.batch;
  if (!plan.sequence.empty()) result["order"] = plan.sequence;
  if (plan.pairs) result["pairs"] = {{"whole", plan.pairs->whole}, {"halves", plan.pairs->halves}};
  if (plan.purpose == "training") result["loss"] = plan.loss, result["update"] = plan.update;
  json nodes = json::array(), given = json::array(), exchanges = json::array();
  for (std::size_t n = 0; n < plan.cuts.size(); ++n) {
    const Node& node = *graph.nodes()[n];
    json entry{{"operator", node.op ? node.op->name() : "opaque"}};
    if (!node.outputs.empty() && node.outputs[0] != kNoValue && !graph.value(node.outputs[0]).name.empty())
      entry["name"] = graph.value(node.outputs[0]).name;
    if (plan.cuts[n]) entry["cut"] = write(*plan.cuts[n]);
    if (!plan.again.empty() && plan.again[n]) entry["again"] = true;
    nodes.push_back(std::move(entry));
  }
  for (ValueId v = 0; v < plan.given.size(); ++v)
    if (plan.given[v].kind != Holding::Kind::kWhole)
      given.push_back({{"value", v}, {"name", graph.value(v).name}, {"held", write(plan.given[v])}});
  for (const PlannedExchange& e : plan.exchanges) {
    json entry{{"value", e.value}, {"exchange", name(e.exchange)}, {"from", write(e.from)}, {"to", write(e.to.holding)}};
    if (e.to.before > 0) entry["before"] = e.to.before;
    if (e.to.after > 0) entry["after"] = e.to.after;
    if (e.to.once) entry["once"] = true;
    if (e.before >= 0) entry["node"] = e.before;
    entry["bytes"] = bytes_of(graph.value(e.value).type);
    exchanges.push_back(std::move(entry));
  }
  result["nodes"] = std::move(nodes), result["given"] = std::move(given), result["exchanges"] = std::move(exchanges);
  for (const Recomputation& r : plan.recomputed) result["recomputed"].push_back({{"before", r.before}, {"nodes", r.nodes}});
  if (plan.pipeline) result["micro_batches"] = plan.processes, result["pipeline"] = write(*plan.pipeline);
  if (plan.predicted) result["predicted"] = write(*plan.predicted);
  return result;
}

Plan read(const json& file, bool is_inner) {
  if (text_of(file, "format") != "rewright plan 1") refuse("it is no plan, or one of another version");
  Plan plan;
  plan.purpose = text_of(file, "for");
  if (plan.purpose == "training") plan.loss = text_of(file, "loss"), plan.update = text_of(file, "update");
  if (file.contains("batch")) plan.batch = whole_number(file, "batch", 1, kMost);
  plan.processes = whole_number(file, "processes", 1, kMostProcesses);
  plan.strategy = text_of(file, "strategy");
  plan.graph_hash = text_of(file, "graph");
  if (file.contains("order"))
    for (const json& n : at(file, "order")) {
      if (!n.is_number_unsigned() || n.get<std::uint64_t>() >= at(file, "nodes").size())
        refuse("\"order\" has a node " + n.dump());
      plan.sequence.push_back(n.get<std::size_t>());
    }
  if (file.contains("pairs")) {
    const json& pairs = file.at("pairs");
    plan.pairs = {number_from_0(at(pairs, "whole"), "pairs"), number_from_0(at(pairs, "halves"), "pairs")};
  }
  for (const json& node : at(file, "nodes"))
    plan.cuts.push_back(node.contains("cut") ? std::optional(read_cut(node.at("cut"))) : std::nullopt);
  if (file.contains("recomputed")) {
    for (const json& node : at(file, "nodes"))
      plan.again.push_back(node.contains("again") && node.at("again").is_boolean() && node.at("again").get<bool>());
    for (const json& r : at(file, "recomputed")) plan.recomputed.push_back(read_recomputation(r));
  }
  // Not more than its nodes can speak of: the file is not trusted.
  plan.given.resize(
      static_cast<std::size_t>(whole_number(file, "values", 0, 1000 * (static_cast<std::int64_t>(plan.cuts.size()) + 1))));
  for (const json& value : at(file, "given"))
    plan.given[static_cast<std::size_t>(whole_number(value, "value", 0, static_cast<std::int64_t>(plan.given.size()) - 1))] =
        read_holding(at(value, "held"));
  for (const json& e : at(file, "exchanges")) {
    PlannedExchange exchange;
    exchange.value = static_cast<ValueId>(whole_number(e, "value", 0, static_cast<std::int64_t>(plan.given.size()) - 1));
    exchange.exchange = read_exchange(text_of(e, "exchange"));
    exchange.from = read_holding(at(e, "from"));
    exchange.to.holding = read_holding(at(e, "to"));
    if (e.contains("before")) exchange.to.before = whole_number(e, "before", 0, kMost);
    if (e.contains("after")) exchange.to.after = whole_number(e, "after", 0, kMost);
    if (e.contains("once")) exchange.to.once = at(e, "once").is_boolean() && e.at("once").get<bool>();
    if (e.contains("node"))
      exchange.before = static_cast<std::int32_t>(whole_number(e, "node", 0, static_cast<std::int64_t>(plan.cuts.size()) - 1));
    plan.exchanges.push_back(std::move(exchange));
  }
  if (file.contains("predicted")) plan.predicted = read_prediction(file.at("predicted"));
  if (file.contains("pipeline")) {
    plan.pipeline = std::make_shared<const Pipeline>(read_pipeline(file.at("pipeline")));
    if (is_inner || file.contains("within")) refuse("a pipeline has one level");
    if (plan.all_processes() != plan.processes)
      refuse("its schedule is for " + std::to_string(plan.all_processes()) + " processes");
    plan.processes = whole_number(file, "micro_batches", 1, kMostProcesses);
  }
  if (!file.contains("within")) return plan;
  if (is_inner) refuse("it has more than two levels");
  plan.within = std::make_shared<const Plan>(read(file.at("within"), true));
  if (plan.all_processes() > kMostProcesses) refuse("it is for more than " + std::to_string(kMostProcesses) + " processes");
  return plan;
}

}  // namespace

std::string write_plan(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced) {
  json result = write(plan, graph);
  if (plan.within) result["within"] = write(*plan.within, group_of(plan, graph, replaced, 0).graph);
  return result.dump(1) + "\n";
}

Plan read_plan(std::string_view text, const std::string& name) try {
  return read(json::parse(text), false);
} catch (const json::exception& e) {
  throw Error(ErrorCode::kBadInput, std::string("no plan: ") + e.what(), name);
} catch (const Error& e) {
  throw Error(e.code(), std::string("no plan: ") + e.what(), name);
}

}  // namespace rewright::plans
