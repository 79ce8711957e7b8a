#include "runtime/training/asynchronous/hogwild.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace rewright::training {

namespace {

// Floats that threads read and write at the same time, each of them whole.
class SharedFloats {
 public:
  explicit SharedFloats(std::vector<float> start) : values_(std::move(start)) {}
  void read(std::span<float> into) {
    for (std::size_t n = 0; n < values_.size(); ++n) into[n] = at(n).load(std::memory_order_relaxed);
  }
  // Adds after - before; returns how many elements that changes.
  std::size_t add_difference(std::span<const float> after, std::span<const float> before) {
    std::size_t changed = 0;
    for (std::size_t n = 0; n < values_.size(); ++n) {
      if (after[n] == before[n]) continue;
      at(n).store(at(n).load(std::memory_order_relaxed) + (after[n] - before[n]), std::memory_order_relaxed);
      ++changed;
    }
    return changed;
  }
  std::size_t size() const { return values_.size(); }
  const std::vector<float>& values() const { return values_; }

 private:
  std::atomic_ref<float> at(std::size_t n) { return std::atomic_ref<float>(values_[n]); }
  std::vector<float> values_;
};

class Hogwild {
 public:
  Hogwild(AsynchronousRun& run, const std::stop_token& stop)
      : run_(run),
        stop_(stop),
        weights_(run.weights()),
        states_(std::vector<float>(run.graphs().states.size() * run.layout().parameter_elements())),
        bounded_(run.asynchronous().max_staleness) {}

  AsynchronousFacts work(const AsynchronousListener& listener) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    const auto count = static_cast<std::size_t>(run_.options().threads);
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < count; ++w) threads.emplace_back([this, w] { train(w); });
    AsynchronousFacts facts;
    facts.workers = count;
    std::unique_lock lock(mutex_);
    for (std::size_t ended = 0; ended < count || !losses_.empty();) {
      changed_.wait(lock, [&] { return !losses_.empty() || ended_ > ended; });
      ended = ended_;
      while (!losses_.empty()) {
        const double loss = losses_.front();
        losses_.pop_front();
        lock.unlock();
        ++facts.steps;
        if (listener.step && !failed_) listener.step(run_.report(facts.steps, loss, seconds()));
        lock.lock();
      }
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    facts.seconds = seconds();
    facts.complete = facts.steps == run_.steps();
    facts.staleness = counts_;
    if (counts_.updates > 0)
      facts.written = written_ / static_cast<double>(counts_.updates) / static_cast<double>(weights_.size() + states_.size());
    run_.weights() = weights_.values();
    return facts;
  }

 private:
  void train(std::size_t worker) {
    try {
      train_steps(worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
    const std::lock_guard lock(mutex_);
    staleness_of_.forget(worker);
    ++ended_;
    changed_.notify_all();
  }

  void train_steps(std::size_t worker) {
    Replica replica = run_.replica(1);
    OwnedWeights update = run_.owned(run_.layout().whole(), 1);
    const std::unique_ptr<RunData> data = run_.own_data();
    std::vector<float> weights(weights_.size()), gradient(weights_.size()), before(weights_.size()), after(weights_.size());
    std::vector<float> states(states_.size()), states_after(states_.size());
    for (std::int64_t step; !failed_ && !stop_.stop_requested() && (step = next_++) < run_.steps();) {
      std::vector<Tensor> batch = batch_of(*data, step, run_.options());
      const std::int64_t version = read(worker, weights);
      const double loss = replica.gradient(std::move(batch), weights, gradient);
      run_.require_finite(loss, step);
      std::unique_lock<std::mutex> turn = await_turn(worker, std::isfinite(loss));
      std::optional<std::int64_t> missed;
      std::size_t changed = 0;
      if (std::isfinite(loss)) {
        weights_.read(before);
        states_.read(states);
        update.set(before);
        update.set_states(states);
        update.update(gradient, run_.rate(step), version_ + 1);
        update.copy_to(after);
        update.copy_states_to(states_after);
        changed = weights_.add_difference(after, before) + states_.add_difference(states_after, states);
        missed = version_++ - version;
      }
      if (!turn.owns_lock()) turn.lock();
      if (missed) counts_.add(*missed);
      written_ += static_cast<double>(changed);
      losses_.push_back(loss);
      changed_.notify_all();
    }
  }

  // Only a bound of staleness makes threads wait for each other, and read and write one at a time.
  std::int64_t read(std::size_t worker, std::span<float> weights) {
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (bounded_) {
      lock.lock();
      changed_.wait(lock, [&] { return staleness_of_.may_read(worker) || failed_; });
      staleness_of_.read(worker);
    }
    const std::int64_t version = version_;
    weights_.read(weights);
    return version;
  }

  std::unique_lock<std::mutex> await_turn(std::size_t worker, bool updates) {
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (!bounded_) return lock;
    lock.lock();
    if (!updates) {
      staleness_of_.forget(worker);
      return lock;
    }
    changed_.wait(lock, [&] { return staleness_of_.may_apply(worker) || failed_; });
    staleness_of_.apply(worker, false);
    return lock;
  }

  AsynchronousRun& run_;
  const std::stop_token stop_;
  SharedFloats weights_, states_;
  std::atomic<std::int64_t> next_ = 0, version_ = 0;
  std::atomic<bool> failed_ = false;
  const bool bounded_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Staleness staleness_of_{run_.asynchronous().max_staleness};
  StalenessCounts counts_;
  double written_ = 0;  // elements
  std::deque<double> losses_;
  std::size_t ended_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

AsynchronousFacts run_hogwild(AsynchronousRun& run, const std::stop_token& stop, const AsynchronousListener& listener) {
  return Hogwild(run, stop).work(listener);
}

}  // namespace rewright::training
