#include "tools/cli/show_plan.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/file.h"
#include "plans/plan.h"

namespace rewright::cli {

namespace {

using nlohmann::json;
using plans::Plan, plans::PlannedExchange, plans::PlanPrediction;

struct CutTotal {
  int nodes = 0;
  double seconds = 0;
};

// By level, operator and cut, what takes longest first. Times are of the level that is cut last.
json operators(const Plan& plan, const json& file, const std::string& level, bool is_last, const PlanPrediction* predicted) {
  std::map<std::pair<std::string, std::string>, CutTotal> totals;
  for (std::size_t n = 0; n < plan.cuts.size(); ++n) {
    const std::string cut = plan.cuts[n] ? to_string(*plan.cuts[n]) : "whole";
    std::string op = file.at("nodes").at(n).value("operator", "");
    if (op == "opaque" && level == "within") op = "(between groups)";
    CutTotal& total = totals[{op, cut}];
    ++total.nodes;
    if (is_last && predicted && n < predicted->node_seconds.size()) total.seconds += predicted->node_seconds[n];
  }
  std::vector<std::pair<std::pair<std::string, std::string>, CutTotal>> in_order(totals.begin(), totals.end());
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  json result = json::array();
  for (const auto& [key, total] : in_order)
    result.push_back(
        {{"level", level}, {"operator", key.first}, {"cut", key.second}, {"nodes", total.nodes}, {"seconds", total.seconds}});
  return result;
}

json exchanges(const Plan& plan, const json& file, const std::string& level) {
  std::map<std::string, std::pair<int, double>> totals;
  for (std::size_t e = 0; e < plan.exchanges.size(); ++e) {
    auto& [count, bytes] = totals[std::string(name(plan.exchanges[e].exchange))];
    ++count;
    bytes += file.at("exchanges").at(e).value("bytes", 0.0);
  }
  json result = json::array();
  for (const auto& [kind, total] : totals)
    result.push_back({{"level", level}, {"exchange", kind}, {"count", total.first}, {"bytes", total.second}});
  return result;
}

// Neighbours of which the same is predicted are one entry.
json processes(const PlanPrediction& p) {
  json result = json::array();
  const auto of = [](const std::vector<double>& list, std::size_t i) { return i < list.size() ? list[i] : 0; };
  for (std::size_t i = 0; i < p.peak_bytes.size(); ++i) {
    const json entry{{"peak_bytes", p.peak_bytes[i]},
                     {"bytes_sent", of(p.bytes_sent, i)},
                     {"computing_seconds", of(p.computing_seconds, i)},
                     {"exchanging_seconds", of(p.exchanging_seconds, i)}};
    if (!result.empty() && result.back().at("predicted") == entry)
      result.back()["last"] = i;
    else
      result.push_back({{"first", i}, {"last", i}, {"predicted", entry}});
  }
  return result;
}

// The stages, what they send each other, and the schedule.
json pipeline_of(const Plan& plan) {
  const plans::Pipeline& pipeline = *plan.pipeline;
  std::vector<std::size_t> nodes(pipeline.schedule.stages, 0);
  for (const std::uint32_t stage : pipeline.nodes)
    if (stage < nodes.size()) ++nodes[stage];
  std::map<std::string, int> sends;
  for (const plans::StageSend& s : pipeline.sends) ++sends[std::string(name(s.time))];
  json schedule = json::array();
  for (const auto& list : pipeline.schedule.processes) {
    std::string line;
    for (const plans::PipelineAction& a : list) line += (line.empty() ? "" : " ") + to_string(a);
    schedule.push_back(line);
  }
  return {{"stages", pipeline.schedule.stages},
          {"micro_batches", pipeline.schedule.micro_batches},
          {"nodes_by_stage", nodes},
          {"sends", sends},
          {"schedule", schedule}};
}

constexpr std::size_t kShownOfSchedule = 110;  // characters of a process's line

std::string pipeline_text(const json& pipeline, const Plan& plan) {
  std::ostringstream text;
  text << "  " << pipeline.at("micro_batches").get<int>() << " micro-batches through " << pipeline.at("stages").get<int>()
       << " stages";
  if (plan.predicted && plan.predicted->bubble)
    text << ", waiting " << std::setprecision(4) << *plan.predicted->bubble * 100 << "% of a step";
  text << "\n  nodes by stage ";
  for (const json& count : pipeline.at("nodes_by_stage")) text << " " << count.get<int>();
  text << "\n  values sent    ";
  for (const auto& [time, count] : pipeline.at("sends").items()) text << " " << count.get<int>() << " " << time;
  text << "\n";
  std::size_t process = 0;
  for (const json& line : pipeline.at("schedule")) {
    std::string shown = line.get<std::string>();
    if (shown.size() > kShownOfSchedule) shown = shown.substr(0, shown.rfind(' ', kShownOfSchedule)) + " ...";
    text << "  process " << process++ << ": " << shown << "\n";
  }
  return text.str();
}

std::string column(double value, int width) {
  std::ostringstream text;
  text << std::setw(width) << std::fixed << std::setprecision(value >= 100 ? 0 : 2) << value;
  return text.str();
}

std::string table(const json& report) {
  std::ostringstream text;
  const auto level = [](const json& entry) {
    const std::string text = entry.at("level");
    return text.empty() ? text : text + ": ";
  };
  text << "\n  " << std::left << std::setw(26) << "operator" << std::right << std::setw(6) << "nodes" << std::setw(10) << "ms"
       << "  cut\n";
  for (const json& o : report.at("operators"))
    text << "  " << std::left << std::setw(26) << level(o) + o.at("operator").get<std::string>() << std::right << std::setw(6)
         << o.at("nodes").get<int>() << column(o.at("seconds").get<double>() * 1e3, 10) << "  "
         << o.at("cut").get<std::string>() << "\n";
  text << "\n  " << std::left << std::setw(26) << "exchange" << std::right << std::setw(6) << "times" << std::setw(14)
       << "MB of values\n";
  for (const json& e : report.at("exchanges"))
    text << "  " << std::left << std::setw(26) << level(e) + e.at("exchange").get<std::string>() << std::right << std::setw(6)
         << e.at("count").get<int>() << column(e.at("bytes").get<double>() / 1e6, 13) << "\n";
  if (!report.contains("by_process")) return text.str();
  text << "\n  " << std::left << std::setw(18) << "process" << std::right << std::setw(12) << "memory MB" << std::setw(12)
       << "sent MB" << std::setw(14) << "computing ms" << std::setw(15) << "exchanging ms\n";
  for (const json& p : report.at("by_process")) {
    const std::size_t first = p.at("first"), last = p.at("last");
    const json& of = p.at("predicted");
    text << "  " << std::left << std::setw(18)
         << (first == last ? std::to_string(first) : std::to_string(first) + " to " + std::to_string(last)) << std::right
         << column(of.at("peak_bytes").get<double>() / 1e6, 12) << column(of.at("bytes_sent").get<double>() / 1e6, 12)
         << column(of.at("computing_seconds").get<double>() * 1e3, 14)
         << column(of.at("exchanging_seconds").get<double>() * 1e3, 14) << "\n";
  }
  return text.str();
}

}  // namespace

bool is_plan(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return false;  // rules have names as well
  const FileBytes mapped = map_file(file);
  const std::string_view text = mapped.text();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

int show_plan(const std::string& file, const CommonOptions& common) try {
  const FileBytes mapped = map_file(file);
  const Plan plan = plans::read_plan(mapped.text(), file);
  const json content = json::parse(mapped.text());
  const PlanPrediction* predicted = plan.predicted ? &*plan.predicted : nullptr;
  const std::string outer = plan.within ? "groups" : plan.pipeline ? "micro-batches" : "", inner = "within";
  json report{{"plan", file},
              {"for", plan.purpose},
              {"processes", plan.all_processes()},
              {"groups", plan.within ? plan.processes : 1},
              {"strategy", plan.strategy}};
  report["operators"] = operators(plan, content, outer, !plan.within, predicted);
  report["exchanges"] = exchanges(plan, content, outer);
  if (plan.within) {
    for (json& o : operators(*plan.within, content.at("within"), inner, true, predicted))
      report["operators"].push_back(std::move(o));
    for (json& e : exchanges(*plan.within, content.at("within"), inner)) report["exchanges"].push_back(std::move(e));
  }
  if (plan.pipeline) report["pipeline"] = pipeline_of(plan);
  std::ostringstream text;
  text << file << ": " << plan.purpose << (plan.batch ? ", batch " + std::to_string(*plan.batch) : "") << ", "
       << plan.all_processes() << " processes" << (plan.within ? " in " + std::to_string(plan.processes) + " groups" : "")
       << ", strategy " << plan.strategy << "\n";
  const plans::Plan& last = plan.within ? *plan.within : plan;
  report["recomputed_nodes"] = std::count(last.again.begin(), last.again.end(), true);
  if (!last.recomputed.empty()) text << "  " << report["recomputed_nodes"].dump() << " nodes are computed again\n";
  if (plan.pipeline) text << pipeline_text(report.at("pipeline"), plan);
  if (predicted) {
    report["seconds"] = predicted->seconds, report["lower_bound"] = predicted->lower_bound;
    report["by_process"] = processes(*predicted);
    text << "  a step takes " << std::setprecision(4) << predicted->seconds * 1e3
         << " ms on the machine it was made for (lower bound " << predicted->lower_bound * 1e3 << " ms)\n";
  }
  text << table(report);
  say(common, text.str());
  write_json(common, report);
  return kDone;
} catch (const json::exception& e) {  // names and sizes, which plans do not depend on
  throw Error(ErrorCode::kBadInput, std::string("no plan: ") + e.what(), file);
}

}  // namespace rewright::cli
