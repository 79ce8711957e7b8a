// Executing a plan: the memory that its values lie in, the times of its steps, and who may run beside whom.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/running/arena.h"
#include "runtime/stream.h"

namespace rewright::cpu {

// A clock, in seconds, to time kernels by. With one thread it is the thread's CPU time: the time that passes while nothing else
// runs on the machine, and hardly another one when something does. With more threads it is the time that passes.
double work_seconds(int threads);

// Executes a plan again and again. May be called by several threads at once: each execution has an arena to itself, which
// later ones use again. Executions on several threads are helped by threads of the process's pool as far as these are free.
// After the first run on as many threads as ever nothing is allocated but the outputs, and what a helper needs that has its
// first piece.
class PlanRunner {
 public:
  // `arenas`: shared with other plans; null: of this one alone.
  explicit PlanRunner(Plan plan, std::shared_ptr<ArenaPool> arenas = nullptr);
  ~PlanRunner();
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // Outputs that lie in the memory of inputs take it from there.
  std::vector<Tensor> advance(std::vector<Tensor> inputs);
  // Into tensors of the right types and sizes that nothing shares.
  void run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  // After each step `observe` gets its number and where each storage lies; all lie elsewhere in the next run.
  using Observe = std::function<void(std::size_t step, std::span<std::byte* const> addresses)>;
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const Observe& observe);
  // With tensors that come and go: see runtime/stream.h.
  void stream(TensorStream& tensors);
  const Plan& plan() const { return plan_; }

  void measure(bool on) { measured_ = on; }
  // Of each step, over all runs so far that were measured.
  std::vector<double> seconds() const;
  int runs() const;

 private:
  struct Execution;
  struct Uses;
  std::unique_ptr<Execution> take();
  std::unique_ptr<Execution> take_free();
  std::unique_ptr<Execution> make_execution() const;
  void give_back(std::unique_ptr<Execution> execution);
  void run_step(Execution& execution, std::size_t number, const Workers& workers) const;
  void execute(Execution& execution, const Workers& workers, std::span<const Tensor> inputs, std::span<Tensor> outputs,
               const Observe& observe = {}) const;

  Plan plan_;
  std::shared_ptr<ArenaPool> arenas_;
  std::unique_ptr<Uses> uses_;  // for streams: made when the first one runs
  bool measured_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Execution>> free_;
  std::vector<double> seconds_;
  int runs_ = 0;
};

}  // namespace rewright::cpu
