// Executes a process's program of a pipeline (plans/execution/pipeline_program.h): its tasks in the order of the schedule, on a
// backend. A thread of its own sends what a task has computed and receives what later ones wait for, beside the computing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "distribution/communicator.h"
#include "plans/execution/pipeline_program.h"
#include "runtime/session.h"

namespace rewright::runtime {

class PipelineRun {
 public:
  // `processes` must outlive this object, and be used by nobody else during a run.
  PipelineRun(plans::PipelineProgram program, distribution::Communicator& processes, const Backend& backend,
              const SessionOptions& options);
  ~PipelineRun();

  // A step, or a run of inference; all processes call it. `inputs`: whole, in the order of the graph's; those that this process
  // does not need (PipelineInput::used) may be empty. Returns the outputs for each update of the step, in the order of the
  // graph's; those that this process does not compute are empty, and those that replace inputs are there for the last update
  // alone. A schedule with stale weights goes on from the run before, with the older versions that it reads.
  std::vector<std::vector<Tensor>> run(std::vector<Tensor> inputs);
  void take_back();   // the last run never was
  void begin_anew();  // the next run is the first

  // From the whole inputs that the first process has, those that each process needs. All processes call it.
  std::vector<Tensor> scatter(std::vector<Tensor> inputs);
  // The outputs that any process has, in the first one; empty in the others.
  std::vector<Tensor> gather_in_first(const std::vector<Tensor>& outputs);
  // A kept tensor from the processes that have it: in all, or in the first one and empty elsewhere.
  Tensor gather(std::size_t input, const Tensor& mine, bool in_first);
  bool needs(std::size_t input) const;  // does this process?

  const plans::PipelineProgram& program() const { return program_; }
  std::size_t peak_bytes() const;            // of intermediate values in a task
  std::vector<StepProfile> profile() const;  // of all tasks

 private:
  struct Prepared;
  struct History;
  Tensor passed_on(const Tensor& tensor, std::size_t from, const std::vector<std::size_t>& to, DataType type,
                   const Sizes& sizes);

  plans::PipelineProgram program_;
  distribution::Communicator& processes_;
  std::unique_ptr<Prepared> prepared_;
  std::unique_ptr<History> history_, before_;  // `before_`: what take_back() restores
};

}  // namespace rewright::runtime
