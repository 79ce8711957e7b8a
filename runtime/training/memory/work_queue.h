// A thread that executes tasks in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace rewright::training {

class WorkQueue {
 public:
  // An unlimited queue, for tasks that cannot pile up.
  static constexpr std::size_t kAny = ~std::size_t{0};

  WorkQueue() : thread_([this] { work(); }) {}
  ~WorkQueue() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Blocks while more than `most` other tasks are pending.
  void add(std::function<void()> task, std::size_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() + (busy_ ? 1 : 0) < most; });
    waiting_.push_back(std::move(task));
    changed_.notify_all();
  }
  // Waits for all tasks. Throws a task's exception; the tasks after it were skipped.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> task = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      const bool leave_out = failure_ != nullptr;
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!leave_out) task();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::exception_ptr failure_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace rewright::training
