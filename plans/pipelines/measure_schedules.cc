// Prints as JSON what schedules of pipelines take with equal stages, for bench/pipelines: the named ones, and for small sizes
// the best ones that the search finds.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/pipelines/schedule_check.h"
#include "plans/pipelines/schedule_search.h"
#include "plans/pipelines/schedule_timing.h"

namespace {

using namespace rewright;
using namespace rewright::plans;
using nlohmann::json;

// Forward passes, gradients of inputs and of weights take equally long, messages and updates no time.
json measured(const std::string& name, std::size_t processes, std::size_t micro_batches) {
  const PipelineSchedule schedule = named_schedule(name, {processes, micro_batches});
  const ScheduleTiming timing = time_schedule(schedule, {});
  const auto held = most_activations(schedule), versions = most_versions(schedule);
  const double stages = static_cast<double>(schedule.stages) / static_cast<double>(processes);  // of a process
  return {{"schedule", name},
          {"processes", processes},
          {"micro_batches", micro_batches},
          {"bubble", timing.bubble},
          {"activations", static_cast<double>(*std::max_element(held.begin(), held.end())) / stages},
          {"weights", static_cast<double>(*std::max_element(versions.begin(), versions.end())) / stages}};
}

json searched(std::size_t processes, std::size_t micro_batches, double activations, double seconds) {
  ScheduleSearch search;
  search.processes = processes, search.micro_batches = micro_batches;
  search.activations = activations, search.seconds = seconds;
  const FoundSchedule found = search_schedule(search);
  return {{"processes", processes},         {"micro_batches", micro_batches},
          {"activations", activations},     {"seconds", found.seconds},
          {"bound", found.bound},           {"proved_best", found.proved_best},
          {"best_named", found.best_named}, {"named_seconds", found.named_seconds}};
}

}  // namespace

int main(int count, char** arguments) try {
  const double seconds = count > 1 ? std::stod(arguments[1]) : 20;  // for each search
  json named = json::array(), found = json::array();
  for (const std::string& name : schedule_names())
    for (const std::size_t p : {2, 4, 8})
      for (const std::size_t m : {p, 2 * p, 4 * p}) named.push_back(measured(name, p, m));
  for (const auto& [p, m, held] :
       {std::tuple{2, 2, 2}, {2, 3, 2}, {2, 3, 3}, {2, 4, 2}, {3, 3, 3}, {3, 4, 3}, {3, 4, 5}, {4, 4, 4}})
    found.push_back(searched(static_cast<std::size_t>(p), static_cast<std::size_t>(m), held, seconds));
  std::cout << json{{"named", named}, {"searched", found}}.dump(1) << "\n";
  return 0;
} catch (const Error& e) {
  std::cerr << "error: " << e.what() << "\n";
  return 2;
}
