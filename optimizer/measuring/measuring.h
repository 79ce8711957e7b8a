// Times whole graphs end to end, within what is left of a budget.
#pragma once

#include <cstddef>
#include <cstdint>
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
  int check_runs = 1;  // executions of each graph in the check that follows, which is left time
  std::stop_token cancel;
};

class Measuring {
 public:
  // All sizes of the given graph are known. The graph, the device and the budget must outlive it.
  Measuring(const Graph& given, Device& device, MeasuringOptions options, const Budget& budget);

  // Executes the given graph on inputs of some kind that it accepts, and notes what that takes: what follows is planned by it.
  enum class Look { kExecuted, kFailed, kNoTime };
  Look look();
  const std::string& reason() const { return reason_; }  // of a failure
  // For a caller that executed the given graph in a check: the next check, which does not execute it again, is estimated by
  // what this one took.
  void note(double seconds) { prepare_ = run_ = seconds / 4; }

  // Estimated: of a check of one graph, with writing it; of measuring one graph at the least; of measuring some as well as is
  // worth while.
  double check_seconds() const;
  double least_seconds() const;
  double wanted_seconds() const;

  struct Result {
    std::optional<std::size_t> best;  // of the candidates; none: no one was faster, or there was no time
    bool no_time = false;
    std::size_t measured = 0;      // the first ones, for which there was time, and that the device can execute
    double before = 0, after = 0;  // seconds, medians; 0: not measured
    double speedup = 1;
  };
  // Best first. In a process of its own all of them, in another one the best of these. `reserve`: seconds that are to be left.
  Result choose(std::span<const Graph> candidates, double reserve);
  // Times of one in turn with the given graph, for the report alone.
  Result compare(const Graph& candidate, double reserve);

  // A sentence that names a budget that would do for this model.
  std::string advice() const;

 private:
  double process_seconds(std::size_t graphs, std::size_t files, double rounds) const;
  std::optional<TimingOptions> timing(std::size_t graphs, std::size_t files, double seconds) const;
  std::vector<std::vector<double>> times(std::span<const Graph> graphs, const TimingOptions& timing, double reserve);
  std::vector<std::size_t> executable(std::span<const Graph> candidates, double reserve);
  Result measure(std::span<const Graph> candidates, std::vector<std::size_t> numbers, double reserve);

  const Graph& given_;
  Device& device_;
  const MeasuringOptions options_;
  const Budget& budget_;
  double weights_ = 0;            // bytes
  double prepare_ = 0, run_ = 0;  // seconds, of the given graph
  std::vector<Tensor> inputs_;
  std::string reason_;
};

}  // namespace rewright::optimizer
