// The tensors of one run of a process's program, and its exchanges, in the one order that all processes have.
//
// A thread that needs the result of an exchange does it, and those before it, unless another thread is at it: handing it over
// would take longer. A second thread begins an exchange when its value is there, so that it runs beside computing, if it has a
// processor for itself; else it would take the time from computing, and more for looking whether messages have come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "expressions/tensor_pool.h"
#include "plans/execution/local_program.h"

namespace rewright::runtime {

// Shared by all runs of a program, one after another.
struct ExchangesOfRuns {
  std::vector<plans::LocalExchange> exchanges;
  std::shared_ptr<plans::PlanProcesses> processes;
  TensorPool pool{0.5};
  bool beside = false;  // has the second thread a processor for itself?
  // By exchange: its result takes less memory than its source. Without a second thread it is not put off: what a plan needs at
  // most supposes that the source goes when it is there.
  std::vector<bool> shrinks;
  // By exchange: its result was waited for as its value was there, in the run before: it is not begun beside computing.
  std::vector<bool> at_once;
  // By exchange, of all runs: with waiting for the other processes.
  std::vector<double> seconds;
};

// Kept by both threads, as one whose message never comes outlives a run that has failed.
class ExchangeQueue {
 public:
  // `readers` of each value: pieces, exchanges and outputs.
  ExchangeQueue(std::shared_ptr<ExchangesOfRuns> shared, std::vector<int> readers);

  // ---- The thread that computes

  void put(std::size_t number, Tensor tensor);
  // Waits for the value. Throws what has failed.
  Tensor get(std::size_t number);
  // One of the value's readers is done.
  void release(std::size_t number);
  void fail(std::exception_ptr failure);
  // Does the exchanges that are left; all values are there.
  void finish();
  // Has the other thread left the queue after so long?
  bool is_left_within(std::chrono::seconds time);

  // ---- The thread beside it

  // Exchanges values as they come, until all are exchanged or something fails.
  void exchange_beside();

 private:
  using Clock = std::chrono::steady_clock;
  bool can_exchange() const;  // the next one
  bool is_for_other() const;  // the next one, by the thread that does not compute
  void exchange_next(std::unique_lock<std::mutex>& lock);
  void set(std::size_t number, Tensor tensor);
  void drop_reader(std::size_t number);

  const std::shared_ptr<ExchangesOfRuns> shared_;
  std::mutex mutex_;
  std::condition_variable computing_, beside_;  // what the two threads wait for
  std::vector<Tensor> values_;
  std::vector<bool> ready_;
  std::vector<Clock::time_point> since_;  // when values were there
  std::vector<std::size_t> made_by_;      // exchanges, by value; the number of exchanges: none
  std::vector<std::size_t> shrunk_by_;    // likewise, the last one that makes it smaller
  std::vector<int> readers_;
  std::size_t next_ = 0;  // exchange
  bool exchanging_ = false;
  bool other_is_here_ = true;
  std::exception_ptr failure_;
};

}  // namespace rewright::runtime
