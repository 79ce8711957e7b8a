// Times whole graphs end to end, at one or several sets of sizes, within what is left of a budget.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "optimizer/devices/device.h"
#include "optimizer/limits/budget.h"
#include "optimizer/measuring/gain.h"

namespace rewright::optimizer {

struct MeasuringOptions {
  TimingOptions timing;  // of the whole graphs
  std::uint64_t seed = 0;
  int check_runs = 1;  // executions of each graph in the following check, for which time is reserved
  std::stop_token cancel;
};

// The given graph at known sizes, and how much its time at them counts.
struct SizedGraph {
  Graph graph;
  double weight = 1;
};

class Measuring {
 public:
  // At least one. The device and the budget must outlive it.
  Measuring(std::vector<SizedGraph> given, Device& device, MeasuringOptions options, const Budget& budget);

  // Executes the given graph at all sizes, on inputs of some kind that it accepts, and notes what that takes: what follows is
  // planned by it.
  enum class Look { kExecuted, kFailed, kNoTime };
  Look look();
  const std::string& reason() const { return reason_; }  // of a failure
  // For a caller that executed the original graph in a check. The next check, which does not repeat that, is estimated from its
  // time.
  void note(double seconds);

  // Estimates: a check of one graph, including writing it; the least for measuring one graph; measuring as many as worthwhile.
  double check_seconds() const;
  double least_seconds() const;
  double wanted_seconds() const;

  // A graph at each of the sizes, in the order of the given ones.
  using AtSizes = std::vector<Graph>;
  struct Times {
    double before = 0, after = 0;  // seconds, medians; 0: not measured
    double speedup = 1;
  };
  struct Result : Times {             // the weighted mean over the sizes
    std::optional<std::size_t> best;  // of the candidates; nullopt: none was faster, or there was no time
    bool no_time = false;
    std::optional<std::size_t> slower_at;  // sizes at which the one that was faster in the mean was slower
    std::size_t measured = 0;              // the first ones, for which there was time, and that the device can execute
    std::vector<Times> at;                 // each of the sizes
  };
  // Best first. In a process of its own all of them, in another one the best of these: it is to be faster in the mean, and not
  // slower than kLeastAtAnySizes at any. `reserve`: seconds that are to be left.
  Result choose(std::span<const AtSizes> candidates, double reserve);
  // Alternating times of one candidate and the original, for the report only.
  Result compare(const AtSizes& candidate, double reserve);

  // A sentence that recommends a budget for this model.
  std::string advice() const;

 private:
  struct Given {
    Graph graph;
    double share = 1;             // of its time in the mean
    double prepare = 0, run = 0;  // seconds; without packing weights that other sizes have packed
    std::vector<Tensor> inputs;
  };
  // Seconds of each round: [graph][round].
  using Rounds = std::vector<std::vector<double>>;
  struct AllRounds {
    Rounds mean;
    std::vector<Rounds> at;  // each of the sizes
  };
  double prepare_seconds() const;
  double run_seconds() const;
  double process_seconds(std::size_t graphs, double rounds) const;
  std::optional<TimingOptions> timing(std::size_t graphs, double seconds) const;
  TimingOptions timing_at(const Given& given, const TimingOptions& all) const;
  AllRounds time_in_turn(std::span<const AtSizes* const> graphs, const TimingOptions& timing, bool afresh);
  AllRounds times(std::span<const AtSizes* const> graphs, const TimingOptions& timing, double reserve);
  struct Choice {
    std::optional<std::size_t> best;
    std::size_t promising = 0;             // the one with the largest gain, certain or not
    double most = 1;                       // that gain
    std::optional<std::size_t> slower_at;  // sizes at which it is slower, where its gain is certain and it is not taken
  };
  Choice best_of(const AllRounds& rounds, std::size_t count) const;
  Result confirm(std::span<const AtSizes> candidates, std::size_t number, const FreshTimes& first,
                 std::span<const double> first_speedups, Result result, double reserve);
  std::optional<std::size_t> slower_at(std::span<const double> speedups) const;  // sizes
  Look look_at(Given& given, std::chrono::steady_clock::time_point end);
  std::vector<std::size_t> executable(std::span<const AtSizes* const> candidates, double reserve);
  Result measure(std::span<const AtSizes> candidates, std::vector<std::size_t> numbers, double reserve);

  std::vector<Given> given_;
  AtSizes given_graphs_;
  Device& device_;
  const MeasuringOptions options_;
  const Budget& budget_;
  double weights_ = 0;  // bytes
  double packing_ = 0;  // seconds for the weights that all sizes have in common
  std::unique_ptr<KeptWeights> kept_;
  std::string reason_;
};

}  // namespace rewright::optimizer
