#include "runtime/session.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "optimizer/devices/device.h"

namespace rewright::runtime {

int usable_threads(int asked) {
  if (asked > 0) return asked;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<Datum> Session::execute(std::span<const Datum> inputs) {
  std::vector<Tensor> tensors;
  for (const Datum& input : inputs) tensors.push_back(input.tensor());
  const std::vector<Tensor> results = run(tensors);
  return {results.begin(), results.end()};
}

namespace {

double seconds_of(const StepProfile& step) { return step.runs > 0 ? step.seconds / step.runs : 0; }

double least_seconds(const StepProfile& step, const Roofline& roofline) {
  return std::max(roofline.operations_per_second > 0 ? step.flops / roofline.operations_per_second : 0,
                  roofline.bytes_per_second > 0 ? step.bytes / roofline.bytes_per_second : 0);
}

}  // namespace

double roofline_share(const StepProfile& step, const Roofline& roofline) { return roofline_share({&step, 1}, roofline); }

double roofline_share(std::span<const StepProfile> steps, const Roofline& roofline) {
  double seconds = 0, least = 0;
  for (const StepProfile& step : steps) {
    if (step.runs == 0) continue;
    seconds += seconds_of(step);
    least += least_seconds(step, roofline);
  }
  return seconds > 0 ? least / seconds : 0;
}

std::string profile_table(std::span<const StepProfile> steps, const Roofline& roofline) {
  std::vector<const StepProfile*> sorted;
  double total = 0;
  for (const StepProfile& s : steps) {
    sorted.push_back(&s);
    total += seconds_of(s);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const StepProfile* a, const StepProfile* b) { return a->seconds > b->seconds; });
  char line[400];
  std::string table = "      ms  share   GFLOP/s     GB/s  of roofline  operators: node\n";
  for (const StepProfile* s : sorted) {
    const double seconds = seconds_of(*s);
    const double per_second = seconds > 0 ? 1e-9 / seconds : 0;
    std::snprintf(line, sizeof line, "%8.3f  %4.1f%%  %8.2f %8.2f  %10.1f%%  ", seconds * 1e3,
                  total > 0 ? 100 * seconds / total : 0, s->flops * per_second, s->bytes * per_second,
                  100 * roofline_share(*s, roofline));
    table += line + s->operators + ": " + s->node + "\n";
  }
  std::snprintf(line, sizeof line, "%8.3f  in total, %.1f%% of roofline (%.1f GFLOP/s, %.1f GB/s)\n", total * 1e3,
                100 * roofline_share(steps, roofline), roofline.operations_per_second * 1e-9, roofline.bytes_per_second * 1e-9);
  return table + line;
}

}  // namespace rewright::runtime
