// Executes a process's program of a plan (plans/execution/local_program.h): pieces on a backend, exchanges beside them.
//
// A thread of its own sends and receives, in the one order that all processes have. An exchange begins when its value is
// computed, in the midst of a piece, and a piece waits for its result only at the first step that reads it. So all kinds of
// exchanges run beside computing, one after another, which is what simulations of plans suppose (plans/groups/step.h).
#pragma once

#include <memory>
#include <vector>

#include "distribution/communicator.h"
#include "plans/execution/local_program.h"
#include "runtime/session.h"

namespace rewright::runtime {

class PlannedRun {
 public:
  // `processes` must outlive this object, and be used by nobody else during a run.
  PlannedRun(plans::LocalProgram program, distribution::Communicator& processes, const Backend& backend,
             const SessionOptions& options);
  ~PlannedRun();

  // This process's parts of the inputs and of the outputs, in the order of the program's. All processes call it.
  std::vector<Tensor> run(std::vector<Tensor> inputs);

  // The ports of the program: how inputs and outputs are held.
  const plans::LocalProgram& program() const { return program_; }
  plans::PlanProcesses& processes() const { return *processes_; }
  std::size_t peak_bytes() const;            // of intermediate values in the pieces, of the largest one
  std::vector<StepProfile> profile() const;  // of all pieces

 private:
  plans::LocalProgram program_;
  std::shared_ptr<plans::PlanProcesses> processes_;
  std::vector<std::unique_ptr<Session>> pieces_;
  std::vector<int> readers_;  // of each value: pieces, exchanges and outputs
  // Shared with the thread that exchanges, which may outlive a run that has failed.
  std::shared_ptr<const std::vector<plans::LocalExchange>> exchanges_;
};

}  // namespace rewright::runtime
