// Executing a plan: the memory that its values lie in, the times of its steps, and who may run beside whom.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/cpu/plan.h"

namespace rewright::cpu {

// A clock, in seconds, to time kernels by. With one thread it is the thread's CPU time: the time that passes while nothing else
// runs on the machine, and hardly another one when something does. With more threads it is the time that passes.
double work_seconds(int threads);

// While it lives, OpenMP and the libraries on it use this number of threads on behalf of the calling thread.
class ThreadsInUse {
 public:
  explicit ThreadsInUse(int threads);
  ~ThreadsInUse();
  ThreadsInUse(const ThreadsInUse&) = delete;
  ThreadsInUse& operator=(const ThreadsInUse&) = delete;

 private:
  int before_;
  bool changed_;
};

// Executes a plan again and again. May be called by several threads at once: each execution has an arena of its own, which
// later ones use again. An execution on one thread runs beside others like it; one on several threads has the process's thread
// pool to itself. After the first run on as many threads as ever nothing is allocated but the outputs.
class PlanRunner {
 public:
  explicit PlanRunner(Plan plan);
  ~PlanRunner();
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // Into tensors of the right types and sizes that nothing shares.
  void run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  const Plan& plan() const { return plan_; }

  void measure(bool on) { measured_ = on; }
  // Of each step, over all runs so far that were measured.
  std::vector<double> seconds() const;
  int runs() const;

 private:
  struct Execution;
  std::unique_ptr<Execution> take();
  void execute(Execution& execution, std::span<const Tensor> inputs, std::span<Tensor> outputs) const;

  Plan plan_;
  bool measured_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Execution>> free_;
  std::vector<double> seconds_;
  int runs_ = 0;
};

}  // namespace rewright::cpu
