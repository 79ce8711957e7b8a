// Executes plans: their memory, the times of their steps, and concurrency.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "expressions/tensor_pool.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/running/arena.h"
#include "runtime/stream.h"

namespace rewright::cpu {

// A clock in seconds for timing kernels. With one thread, the thread's CPU time, which other processes hardly affect. With
// several threads, wall-clock time.
double work_seconds(int threads);

// Executes a plan repeatedly. Thread-safe: each execution has its own arena, which later ones reuse. Executions with several
// threads use free threads of the process's pool. After the first run at the highest concurrency nothing is allocated but the
// outputs, and state of helpers at their first piece.
class PlanRunner {
 public:
  // `arenas`: shared with other plans; null: not shared. `outputs`: where outputs are allocated; null: by the system.
  explicit PlanRunner(Plan plan, std::shared_ptr<ArenaPool> arenas = nullptr, std::shared_ptr<TensorPool> outputs = nullptr);
  ~PlanRunner();
  // `lengths`: of caches, if they are not those of the plan.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const CacheLengths* lengths = nullptr);
  // Outputs in the memory of inputs reuse it.
  std::vector<Tensor> advance(std::vector<Tensor> inputs, const CacheLengths* lengths = nullptr);
  // May its caches have other lengths in a call?
  bool serves_any_lengths() const;
  // Calls `observe` after each step with its number and the storages' addresses, which change from run to run.
  using Observe = std::function<void(std::size_t step, std::span<std::byte* const> addresses)>;
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const Observe& observe);
  // With tensors that are streamed: see runtime/stream.h.
  void stream(TensorStream& tensors);
  const Plan& plan() const { return plan_; }

  void measure(bool on) { measured_ = on; }
  // By step, over all measured runs so far.
  std::vector<double> seconds() const;
  int runs() const;

 private:
  struct Execution;
  struct Uses;
  std::unique_ptr<Execution> take();
  std::unique_ptr<Execution> take_free();
  std::unique_ptr<Execution> make_execution() const;
  void give_back(std::unique_ptr<Execution> execution);
  void run_step(Execution& execution, std::size_t number, const Workers& workers, const CacheLengths* lengths) const;
  // A new output, and where to write it.
  TensorPool::Output make_output(std::size_t number, const CacheLengths* lengths = nullptr) const;
  // Execution::results says where outputs go.
  void execute(Execution& execution, std::span<const Tensor> inputs, const Observe& observe = {},
               const CacheLengths* lengths = nullptr) const;

  Plan plan_;
  std::vector<Sizes> output_sizes_;
  std::shared_ptr<ArenaPool> arenas_;
  std::shared_ptr<TensorPool> outputs_;
  std::unique_ptr<Uses> uses_;  // for streams: created when the first one runs
  bool measured_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Execution>> free_;
  std::vector<double> seconds_;
  int runs_ = 0;
};

}  // namespace rewright::cpu
