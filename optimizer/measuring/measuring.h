// Times whole graphs end to end within the remaining budget.
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
  int check_runs = 1;  // executions of each graph in the following check, for which time is reserved
  std::stop_token cancel;
};

class Measuring {
 public:
  // All sizes of the original graph are known. The graph, the device and the budget must outlive this object.
  Measuring(const Graph& given, Device& device, MeasuringOptions options, const Budget& budget);

  // Executes the original graph on inputs that it accepts, and records the time, on which later plans rest.
  enum class Look { kExecuted, kFailed, kNoTime };
  Look look();
  const std::string& reason() const { return reason_; }  // of a failure
  // For a caller that executed the original graph in a check. The next check, which does not repeat that, is estimated from its
  // time.
  void note(double seconds) { prepare_ = run_ = seconds / 4; }

  // Estimates: a check of one graph, including writing it; the least for measuring one graph; measuring as many as worthwhile.
  double check_seconds() const;
  double least_seconds() const;
  double wanted_seconds() const;

  struct Result {
    std::optional<std::size_t> best;  // of the candidates; nullopt: none was faster, or there was no time
    bool no_time = false;
    std::size_t measured = 0;      // candidates measured: those for which there was time, and that the device can execute
    double before = 0, after = 0;  // seconds, medians; 0: not measured
    double speedup = 1;
  };
  // Candidates are sorted, best first. Measures all of them in one process, then the best in another one. `reserve`: seconds to
  // leave.
  Result choose(std::span<const Graph> candidates, double reserve);
  // Alternating times of one candidate and the original, for the report only.
  Result compare(const Graph& candidate, double reserve);

  // A sentence that recommends a budget for this model.
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
  double prepare_ = 0, run_ = 0;  // seconds, of the original graph
  std::vector<Tensor> inputs_;
  std::string reason_;
};

}  // namespace rewright::optimizer
