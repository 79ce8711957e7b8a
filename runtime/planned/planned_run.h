// Executes a process's program of a plan (plans/execution/local_program.h): pieces on a backend, exchanges beside them.
//
// Exchanges go one after another, in the one order that all processes have (runtime/planned/exchange_queue.h). Where a
// processor is free, a second thread begins one when its value is computed, in the midst of a piece, and a piece waits for its
// result only at the first step that reads it: so exchanges of all kinds run beside computing, which is what simulations of
// plans suppose (plans/groups/step.h). A thread that waits for an exchange does it itself.
//
// Outputs of pieces, results of exchanges and messages use the memory of earlier ones.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "distribution/communicator.h"
#include "plans/execution/local_program.h"
#include "runtime/session.h"

namespace rewright::runtime {

struct ExchangesOfRuns;

// Does each process have a processor for exchanges beside those of its computing threads? Also true where processes are on
// several machines, as messages take time there that no processor is needed for. All processes call it.
bool can_exchange_beside(distribution::Communicator& processes, int threads);

class PlannedRun {
 public:
  // `processes` must outlive this object, and be used by nobody else during a run. `beside`: do exchanges run beside computing?
  // None: if they can. All processes call it.
  PlannedRun(plans::LocalProgram program, distribution::Communicator& processes, const Backend& backend,
             const SessionOptions& options, std::optional<bool> beside = {});
  ~PlannedRun();

  // This process's parts of the inputs and of the outputs, in the order of the program's. All processes call it.
  std::vector<Tensor> run(std::vector<Tensor> inputs);

  // The ports of the program: how inputs and outputs are held.
  const plans::LocalProgram& program() const { return program_; }
  plans::PlanProcesses& processes() const { return *processes_; }
  std::size_t peak_bytes() const;  // of intermediate values in the pieces, of the largest one
  // Steps of all pieces, if the sessions were to profile, and of the exchanges between them, with waiting for other processes.
  std::vector<StepProfile> profile() const;

 private:
  plans::LocalProgram program_;
  std::shared_ptr<plans::PlanProcesses> processes_;
  std::vector<std::unique_ptr<Session>> pieces_;
  int runs_ = 0;
  std::vector<int> readers_;                    // of each value: pieces, exchanges and outputs
  std::shared_ptr<ExchangesOfRuns> exchanges_;  // shared with the thread that exchanges
};

}  // namespace rewright::runtime
