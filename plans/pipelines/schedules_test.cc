#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/pipelines/schedule_check.h"
#include "plans/pipelines/schedule_search.h"
#include "plans/pipelines/schedule_timing.h"

namespace rewright::plans {

namespace {

constexpr std::size_t kMostProcesses = 8, kMostMicroBatches = 32;

// Calls work(size, schedule) for all sizes that the schedule has.
template <class Work>
void each_size(const std::string& name, const Work& work) {
  for (std::size_t p = 1; p <= kMostProcesses; ++p)
    for (std::size_t m = 1; m <= kMostMicroBatches; ++m) {
      const ScheduleSize size{p, m};
      if (!why_no_schedule(name, size).empty()) continue;
      INFO(name << ", " << p << " processes, " << m << " micro-batches");
      work(size, named_schedule(name, size));
    }
}

double number(std::size_t n) { return static_cast<double>(n); }

// waiting / whole, exactly: all times are small whole numbers.
void require_bubble(const PipelineSchedule& schedule, const StageSeconds& stage, double waiting, double whole) {
  const ScheduleTiming timing = time_schedule(schedule, {std::vector<StageSeconds>(schedule.stages, stage), 0});
  for (const double share : timing.waiting) {
    const double waits = timing.seconds - (1 - share) * timing.seconds;
    REQUIRE(std::abs(waits * whole - waiting * timing.seconds) < 1e-9);
  }
  // A process is busy for a whole number of times: no rounding.
  for (const auto& list : schedule.processes) {
    double busy = 0;
    for (const PipelineAction& a : list)
      busy += action_seconds(schedule, {std::vector<StageSeconds>(schedule.stages, stage), 0}, a);
    REQUIRE((timing.seconds * number(schedule.steps) - busy) * whole == waiting * timing.seconds * number(schedule.steps));
  }
}

std::size_t most_of(const std::vector<std::size_t>& list) { return *std::max_element(list.begin(), list.end()); }

constexpr StageSeconds kEqual{1, 1, 1, 0}, kBackwardTwice{1, 1, 1, 0}, kBackwardAlike{2, 1, 1, 0};

}  // namespace

TEST_CASE("the first step of schedules whose steps overlap is a schedule, and of others all", "[pipelines]") {
  for (const std::string& name : schedule_names())
    for (const std::size_t processes : {2, 4}) {
      const PipelineSchedule schedule = named_schedule(name, {processes, 8}), first = first_step(schedule);
      INFO(name << " on " << processes);
      const ScheduleCheck check = check_schedule(first);
      INFO(check.reason);
      REQUIRE(check.fault == ScheduleFault::kNone);
      REQUIRE(first.actions() * schedule.steps == schedule.actions());
      if (schedule.steps == 1) REQUIRE(first == schedule);
      // As if it were repeated, for several steps of weights that are not stale.
      if (name == "pipedream-2bw") REQUIRE(first.processes == named_schedule("1f1b", {processes, 8}).processes);
    }
}

TEST_CASE("GPipe and 1F1B wait (p-1)/(m+p-1) and hold m and p micro-batches", "[pipelines]") {
  for (const char* name : {"gpipe", "1f1b"})
    each_size(name, [&](ScheduleSize size, const PipelineSchedule& schedule) {
      const double p = number(size.processes), m = number(size.micro_batches);
      for (const StageSeconds& stage : {kBackwardTwice, kBackwardAlike, StageSeconds{3, 2, 5, 0}})
        require_bubble(schedule, stage, p - 1, m + p - 1);
      require_bubble(for_inference(schedule), kEqual, p - 1, m + p - 1);
      const auto held = most_activations(schedule);
      for (std::size_t r = 0; r < size.processes; ++r)
        REQUIRE(held[r] ==
                (name == std::string("gpipe") ? size.micro_batches : std::min(size.processes - r, size.micro_batches)));
    });
}

TEST_CASE("interleaved 1F1B waits (p-1)/(vm+p-1)", "[pipelines]") {
  for (std::size_t p = 1; p <= kMostProcesses; ++p)
    for (std::size_t m = p; m <= kMostMicroBatches; m += p)
      for (const std::size_t v : {1, 2, 3, 4}) {
        const PipelineSchedule schedule = named_schedule("interleaved", {p, m, v});
        require_bubble(schedule, kBackwardTwice, number(p - 1), number(v * m + p - 1));
        REQUIRE(check_schedule(schedule).fault == ScheduleFault::kNone);
        REQUIRE(why_asynchronous(schedule).empty());
        // Process 0 holds, in chunks: p (1 + (p-1) / (p v)) in stages.
        REQUIRE(most_of(most_activations(schedule)) == std::min(v * m, v * p + p - 1));
      }
}

TEST_CASE("Chimera waits (p-2)/(2m+p-2) and holds p/2+1 to p micro-batches", "[pipelines]") {
  each_size("chimera", [&](ScheduleSize size, const PipelineSchedule& schedule) {
    const std::size_t p = size.processes, m = size.micro_batches;
    const auto held = most_activations(schedule);
    REQUIRE(most_of(held) <= p);
    if (m % p == 0) require_bubble(schedule, kBackwardAlike, number(p - 2), number(2 * m + p - 2));
    if (m <= p) require_bubble(schedule, kBackwardAlike, number(2 * p - 2 - m), number(2 * m + 2 * p - 2 - m));
    if (m != p) return;
    // The paper's other figure, for backward passes of twice the time: (p-2) / (3m/2 + p-2).
    require_bubble(schedule, kBackwardTwice, number(2 * p - 4), number(3 * m + 2 * p - 4));
    REQUIRE(*std::min_element(held.begin(), held.end()) == p / 2 + 1);
    REQUIRE(most_of(held) == p);
    for (const std::size_t versions : most_versions(schedule)) REQUIRE(versions == 2);  // one of each of two stages
  });
}

TEST_CASE("ZB-H1 waits a third of 1F1B's time, with its memory", "[pipelines]") {
  each_size("zb-h1", [&](ScheduleSize size, const PipelineSchedule& schedule) {
    const std::size_t p = size.processes, m = size.micro_batches;
    REQUIRE(most_of(most_activations(schedule)) == std::min(p, m));
    if (m < p) return;
    require_bubble(schedule, kEqual, number(p - 1), number(3 * m + p - 1));
    require_bubble(named_schedule("1f1b", size), kEqual, number(3 * (p - 1)), number(3 * m + 3 * (p - 1)));
  });
}

TEST_CASE("ZB-V does not wait from 2p-1 micro-batches on, with the memory of 1F1B", "[pipelines]") {
  each_size("zb-v", [&](ScheduleSize size, const PipelineSchedule& schedule) {
    const std::size_t p = size.processes, m = size.micro_batches;
    const std::size_t waits = m >= 2 * p - 1 ? 0 : 2 * (2 * p - 1 - m);
    require_bubble(schedule, kEqual, number(waits), number(6 * m + waits));
    REQUIRE(most_of(most_activations(schedule)) == 2 * std::min(p, m));  // of half the size
  });
}

TEST_CASE("PipeDream's steps overlap, at the price of versions of the weights", "[pipelines]") {
  for (const char* name : {"pipedream", "pipedream-2bw"})
    each_size(name, [&](ScheduleSize size, const PipelineSchedule& schedule) {
      const std::size_t p = size.processes, m = size.micro_batches;
      require_bubble(schedule, kBackwardTwice, 0, 1);
      const auto held = most_activations(schedule), versions = most_versions(schedule);
      for (std::size_t r = 0; r < p; ++r) {
        REQUIRE(held[r] == std::min(p - r, m * size.steps));
        // As long as all of them are in use at the same time.
        if (name == std::string("pipedream-2bw"))
          REQUIRE(versions[r] == 2);
        else if (m * size.steps >= 2 * p)
          REQUIRE(versions[r] == p - r);
        else
          REQUIRE(versions[r] <= p - r);
      }
    });
  REQUIRE(why_asynchronous(named_schedule("pipedream", {3, 4})) ==
          "stage 0 updates its weights in the midst of a batch, after 1 of its micro-batches");
  REQUIRE(why_asynchronous(named_schedule("pipedream-2bw", {2, 2})) ==
          "stage 0 computes micro-batch 2 with weights of version 0, where one process has version 1");
}

TEST_CASE("named schedules are complete, and the same after writing and reading", "[pipelines]") {
  for (const std::string& name : schedule_names())
    each_size(name, [&](ScheduleSize, const PipelineSchedule& schedule) {
      const ScheduleCheck check = check_schedule(schedule);
      INFO(check.reason);
      REQUIRE(check.fault == ScheduleFault::kNone);
      REQUIRE(check.order.size() == schedule.actions());
      // Alone with one micro-batch there is nothing to be stale.
      const bool is_asynchronous =
          name == "pipedream-2bw" || (name == "pipedream" && schedule.stages * schedule.micro_batches > 1);
      REQUIRE(why_asynchronous(schedule).empty() == !is_asynchronous);
      if (schedule.micro_batches > 8) return;
      REQUIRE(read_schedule(write_schedule(schedule), "a file") == schedule);
      if (is_asynchronous || schedule.steps > 1) return;
      for (const PipelineSchedule& other : {for_inference(schedule), with_gradients_apart(schedule), repeated(schedule, 3)}) {
        REQUIRE(check_schedule(other).fault == ScheduleFault::kNone);
        REQUIRE(why_asynchronous(other).empty());
      }
      // Steps behind each other take what the cycles say.
      const double one = time_schedule(schedule, {}).seconds;
      REQUIRE(time_schedule(repeated(schedule, 9), {}).seconds <= one * 1.01 + 1e-9);
    });
}

TEST_CASE("sizes that a schedule does not have are refused in one line", "[pipelines]") {
  REQUIRE_THROWS_WITH(
      named_schedule("2f2b", {4, 8}),
      "there is no schedule \"2f2b\": it is one of gpipe, 1f1b, interleaved, pipedream, pipedream-2bw, chimera, zb-h1, zb-v");
  REQUIRE_THROWS_WITH(named_schedule("interleaved", {4, 6}),
                      Catch::Contains("in groups of its 4 processes, and 6 are no multiple"));
  REQUIRE_THROWS_WITH(named_schedule("chimera", {3, 4}), Catch::Contains("an even number of processes, not 3"));
  REQUIRE_THROWS_WITH(named_schedule("chimera", {4, 3}), Catch::Contains("an even number of micro-batches, not 3"));
  REQUIRE_THROWS_WITH(named_schedule("pipedream-2bw", {4, 3}), Catch::Contains("at least as many micro-batches as processes"));
  REQUIRE_THROWS_WITH(named_schedule("1f1b", {4, 0}), Catch::Contains("at least one"));
}

TEST_CASE("what is no schedule is refused with its line", "[pipelines]") {
  const auto refused = [](const std::string& text, const std::string& why) {
    INFO(text);
    REQUIRE_THROWS_WITH(read_schedule(text, "f"), "f" + why);
  };
  const std::string head = "rewright pipeline 1\nstages 1\nmicro-batches 1\ngradients together\n";
  REQUIRE(read_schedule(head + "process 0: F0.0 B0.0 U0  # all\n", "f").actions() == 3);
  refused("", ": it is no schedule of a pipeline, or one of another version");
  refused("rewright plan 1\n", " line 1: it is no schedule of a pipeline, or one of another version");
  refused(head + "process 1: F0.0\n", " line 5: process 1 stands where process 0 should");
  refused(head + "process 0: F0\n", " line 5: \"F0\" is no action: F1.2, B1.2, W1.2@3 or U1");
  refused(head + "process 0: F0.0x\n", " line 5: \"F0.0x\" is no action: F1.2, B1.2, W1.2@3 or U1");
  refused(head + "process 0: F-1.0\n", " line 5: \"F-1.0\" is no action: F1.2, B1.2, W1.2@3 or U1");
  refused(head + "process 0: F0.99999999999999999999\n",
          " line 5: \"F0.99999999999999999999\" is no action: F1.2, B1.2, W1.2@3 or U1");
  refused(head + "speed 3\n", " line 5: \"speed\" is none of name, stages, micro-batches, steps, gradients and process");
  refused(head + "stages 1 2\n", " line 5: there is more behind \"1\"");
  refused(head + "micro-batches 0\n", " line 5: \"0\" is no number from 1 to 1048576");
  refused(head + "gradients some\n", " line 5: gradients are none, together or apart");
  refused(head, " line 4: it has no processes");
  refused("rewright pipeline 1\nstages 65536\nmicro-batches 1048576\nprocess 0:\n",
          " line 4: its stages and micro-batches are more than 8388608 actions");
}

namespace {

struct Mutant {
  PipelineSchedule schedule;
  std::vector<ScheduleFault> expected;
};

// An action dropped, repeated, moved before one that it needs, or moved to another process.
Mutant random_mutant(PipelineSchedule schedule, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::size_t p = below(schedule.processes.size());
  while (schedule.processes[p].empty()) p = below(schedule.processes.size());
  auto& list = schedule.processes[p];
  const std::size_t n = below(list.size());
  const PipelineAction a = list[n];
  const bool is_update = a.kind == ActionKind::kUpdate;
  const auto at = [&](std::size_t k) { return list.begin() + static_cast<std::ptrdiff_t>(k); };
  switch (below(4)) {
    case 0:
      list.erase(at(n));
      if (is_update) return {schedule, {ScheduleFault::kUpdate, ScheduleFault::kVersion}};  // that later passes read
      return {schedule, {ScheduleFault::kMissing}};
    case 1:
      list.insert(at(is_update ? n : below(list.size() + 1)), a);
      return {schedule, {is_update ? ScheduleFault::kUpdate : ScheduleFault::kTwice}};
    case 2: {
      // To the front of what it needs: the first forward pass of the process stands before all others, and after all updates.
      if (a.kind == ActionKind::kForward || is_update) {
        list.erase(at(n)), list.insert(is_update ? list.begin() : list.end(), a);
        return {schedule, {is_update ? ScheduleFault::kUpdate : ScheduleFault::kOrder}};
      }
      list.erase(at(n)), list.insert(list.begin(), a);
      return {schedule, {ScheduleFault::kOrder}};
    }
    default: {
      if (schedule.processes.size() == 1 || is_update) return random_mutant(std::move(schedule), random);
      list.erase(at(n));
      auto& other = schedule.processes[(p + 1) % schedule.processes.size()];
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1)), a);
      return {schedule, {ScheduleFault::kElsewhere}};
    }
  }
}

}  // namespace

TEST_CASE("mutants of schedules are refused for what is wrong with them", "[pipelines]") {
  std::mt19937 random(7);
  for (int n = 0; n < 600; ++n) {
    const std::string& name = schedule_names()[random() % schedule_names().size()];
    const ScheduleSize size{2 * (1 + random() % 2), 4 * (1 + random() % 2)};
    const PipelineSchedule schedule = named_schedule(name, size);
    const Mutant mutant = random_mutant(schedule, random);
    const ScheduleCheck check = check_schedule(mutant.schedule);
    INFO(write_schedule(mutant.schedule) << check.reason);
    REQUIRE(std::count(mutant.expected.begin(), mutant.expected.end(), check.fault) == 1);
    REQUIRE(!check.reason.empty());
    REQUIRE(check.reason.find('\n') == std::string::npos);
  }
}

TEST_CASE("a schedule whose processes wait for each other is refused", "[pipelines]") {
  // Each process alone is in order: 0 wants micro-batch 0 back before it sends micro-batch 1, 1 wants both first.
  PipelineSchedule schedule = named_schedule("1f1b", {2, 2});
  using K = ActionKind;
  schedule.processes[0] = {
      {K::kForward, 0, 0, 0}, {K::kBackward, 0, 0, 0}, {K::kForward, 0, 1, 0}, {K::kBackward, 0, 1, 0}, {K::kUpdate, 0, 0, 0}};
  REQUIRE(check_schedule(schedule).fault == ScheduleFault::kNone);
  schedule.processes[1] = {
      {K::kForward, 1, 0, 0}, {K::kForward, 1, 1, 0}, {K::kBackward, 1, 0, 0}, {K::kBackward, 1, 1, 0}, {K::kUpdate, 1, 0, 0}};
  const ScheduleCheck check = check_schedule(schedule);
  REQUIRE(check.fault == ScheduleFault::kDeadlock);
  REQUIRE(check.reason == "process 0 waits at B0.0 for B1.0 on process 1, which itself waits at F1.1");
}

TEST_CASE("limits of memory are checked", "[pipelines]") {
  const auto fault = [](const char* name, ScheduleLimits limits) {
    return check_schedule(named_schedule(name, {4, 8}), limits).fault;
  };
  REQUIRE(fault("gpipe", {.activations = 7}) == ScheduleFault::kMemory);
  REQUIRE(fault("gpipe", {.activations = 8}) == ScheduleFault::kNone);
  REQUIRE(fault("1f1b", {.activations = 3}) == ScheduleFault::kMemory);
  REQUIRE(fault("1f1b", {.activations = 4, .versions = 1}) == ScheduleFault::kNone);
  REQUIRE(fault("pipedream", {.versions = 3}) == ScheduleFault::kMemory);
  REQUIRE(fault("pipedream-2bw", {.versions = 2}) == ScheduleFault::kNone);
}

TEST_CASE("weights are read when they are there, and go back as they came", "[pipelines]") {
  PipelineSchedule schedule = named_schedule("pipedream", {2, 4});
  PipelineAction& last = *std::find_if(schedule.processes[1].rbegin(), schedule.processes[1].rend(),
                                       [](const auto& a) { return a.kind == ActionKind::kForward; });
  ++last.version;
  REQUIRE(check_schedule(schedule).fault == ScheduleFault::kVersion);
  --last.version;
  PipelineAction& back = *std::find_if(schedule.processes[0].rbegin(), schedule.processes[0].rend(),
                                       [](const auto& a) { return a.kind == ActionKind::kBackward; });
  --back.version;
  REQUIRE(check_schedule(schedule).reason.ends_with("reads other weights than F0.11@10"));
}

TEST_CASE("a longer message or a slower stage never shortens a step", "[pipelines]") {
  std::mt19937 random(3);
  for (const std::string& name : schedule_names()) {
    const PipelineSchedule schedule = named_schedule(name, {4, 8});
    ScheduleTimes times{std::vector<StageSeconds>(schedule.stages), 0};
    double before = time_schedule(schedule, times).seconds;
    for (int n = 0; n < 6; ++n) {
      if (n % 2 == 0)
        times.message += 0.25;
      else
        times.stages[random() % times.stages.size()].forward += 0.5;
      const double now = time_schedule(schedule, times).seconds;
      INFO(name << " change " << n);
      REQUIRE(now >= before - 1e-9);
      before = now;
    }
  }
}

TEST_CASE("what is searched for is never worse than the named schedules", "[pipelines]") {
  std::mt19937 random(11);
  for (int n = 0; n < 3; ++n) {
    const double times[] = {1, 2, 3};
    ScheduleSearch search;
    search.processes = 2, search.micro_batches = 2 + static_cast<std::size_t>(n % 2);
    search.stage = {times[random() % 3], times[random() % 3], times[random() % 3], 0};
    search.message = times[random() % 3] / 4;
    search.seconds = 5, search.nodes = 300, search.most_pairs = 60;
    const FoundSchedule found = search_schedule(search);
    REQUIRE(check_schedule(found.schedule).fault == ScheduleFault::kNone);
    REQUIRE(why_asynchronous(found.schedule).empty());
    REQUIRE(found.seconds <= found.named_seconds);
    REQUIRE(found.bound <= found.seconds);
  }
}

TEST_CASE("a schedule with room for activations is found without waiting", "[pipelines]") {
  // With one stage a process, 2 processes need 3 activations in place of 1F1B's 2 (ZB-H2).
  ScheduleSearch search;
  search.processes = 2, search.micro_batches = 3, search.two_copies = false, search.most_pairs = 30, search.nodes = 2000;
  search.activations = 3;
  const FoundSchedule found = search_schedule(search);
  REQUIRE(found.seconds == 9);
  REQUIRE(found.proved_best == (found.bound == 9));
}

}  // namespace rewright::plans
