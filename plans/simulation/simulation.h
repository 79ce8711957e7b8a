// Simulates a step: tasks on devices and messages on links, in time.
//
//   Simulation simulation(machine);
//   BlockMaker block(machine, 0);
//   const TaskName product = block.compute("product", {0}, 2e9, 4e6, {});
//   block.send("result", 0, 1, 4e6, {product});
//   simulation.set_block(0, block.take());
//   simulation.run();
//   simulation.seconds();
//
// A task starts when all that it waits for has ended, and those before it in the queues of its devices. Messages that are on a
// link at the same time share it max-min fairly (fair_shares.h); a message takes the latencies of its route, and then its bytes
// at its rate, so that it takes longer only where links are shared.
//
// After blocks were set anew, run() simulates again what the change touches: tasks whose times change, and messages that share
// links with others on their way. Times are the same bits as in a new simulation of the same blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/namespaces.h"
#include "plans/machines/machine.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

struct TaskTimes {
  double start = 0, end = 0;
  double sending = 0;  // when its bytes begin to move; its end if there are none
};

class Engine;
class MemoryPeaks;

class Simulation {
 public:
  explicit Simulation(const Machine& machine);  // which lives longer
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Replaces the tasks of a block, from the next run() on. An empty block removes it.
  void set_block(std::uint32_t number, Block block);
  // Throws Error(kUsage) for tasks that wait for what is not there or not before them; the simulation is then of no more use.
  void run();

  // Results of the last run.
  double seconds() const;
  TaskTimes times(TaskName task) const;
  std::size_t tasks() const { return graph_.tasks(); }
  std::size_t touched() const;  // how many tasks the last run simulated
  // The most bytes that buffers take at one time, by device. A task's buffers count while it runs: those that it ends, and
  // those that begin with it. Where tasks start and end at the same time, in the order of their names.
  std::span<const double> peak_bytes();
  // The tasks that make it as long as it is, from the first: each starts when the one before it ends.
  std::vector<TaskName> critical_path() const;

  const Machine& machine() const { return machine_; }
  const TaskGraph& graph() const { return graph_; }
  TaskTimes times_of(std::uint32_t number) const;  // of a task of graph()

 private:
  const Machine& machine_;
  TaskGraph graph_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MemoryPeaks> memory_;
};

// Sums over a step.
struct StepTotals {
  double seconds = 0;
  std::vector<double> operations, memory_bytes, sent_bytes;   // by device
  std::vector<double> computing_seconds, exchanging_seconds;  // by device: its queues' tasks take so long
  std::vector<double> link_bytes;                             // by link
  // Operations a byte of memory and of messages sent: the intensity in the roofline of a device of many.
  double intensity() const;
};

StepTotals totals(const Simulation& simulation);

}  // namespace rewright::plans
