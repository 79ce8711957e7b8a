#include "runtime/planned/exchange_queue.h"

#include <utility>

namespace rewright::runtime {

namespace {

// A result that is wanted so soon behind its value is waited for at once: a thread that wakes takes some tens of microseconds.
constexpr auto kAtOnce = std::chrono::microseconds(50);

}  // namespace

ExchangeQueue::ExchangeQueue(std::shared_ptr<ExchangesOfRuns> shared, std::vector<int> readers)
    : shared_(std::move(shared)),
      values_(readers.size()),
      ready_(readers.size()),
      since_(readers.size()),
      made_by_(readers.size(), shared_->exchanges.size()),
      shrunk_by_(readers.size(), shared_->exchanges.size()),
      readers_(std::move(readers)) {
  for (std::size_t e = 0; e < shared_->exchanges.size(); ++e) {
    made_by_[shared_->exchanges[e].to] = e;
    if (shared_->shrinks[e]) shrunk_by_[shared_->exchanges[e].from] = e;
  }
}

bool ExchangeQueue::can_exchange() const {
  return !exchanging_ && next_ < shared_->exchanges.size() && ready_[shared_->exchanges[next_].from];
}
bool ExchangeQueue::is_for_other() const { return can_exchange() && shared_->beside && !shared_->at_once[next_]; }

void ExchangeQueue::set(std::size_t number, Tensor tensor) {
  values_[number] = std::move(tensor);
  ready_[number] = true;
  since_[number] = Clock::now();
}

void ExchangeQueue::drop_reader(std::size_t number) {
  if (--readers_[number] == 0) values_[number] = Tensor();
}

void ExchangeQueue::put(std::size_t number, Tensor tensor) {
  std::unique_lock lock(mutex_);
  set(number, std::move(tensor));
  if (is_for_other()) beside_.notify_one();
  if (shared_->beside || shrunk_by_[number] == shared_->exchanges.size()) return;
  while (next_ <= shrunk_by_[number] && !failure_ && can_exchange()) exchange_next(lock);
}

Tensor ExchangeQueue::get(std::size_t number) {
  std::unique_lock lock(mutex_);
  if (const std::size_t e = made_by_[number]; e < shared_->exchanges.size() && since_[number] == Clock::time_point())
    shared_->at_once[e] = Clock::now() - since_[shared_->exchanges[e].from] < kAtOnce;
  while (!ready_[number]) {
    if (failure_) std::rethrow_exception(failure_);
    if (can_exchange())
      exchange_next(lock);
    else
      computing_.wait(lock);
  }
  return values_[number];
}

void ExchangeQueue::exchange_next(std::unique_lock<std::mutex>& lock) {
  exchanging_ = true;
  const plans::LocalExchange& e = shared_->exchanges[next_];
  const Tensor from = values_[e.from];
  lock.unlock();
  Tensor result;
  std::exception_ptr failure;
  const Clock::time_point begin = Clock::now();
  try {
    result = plans::exchanged(e, from, *shared_->processes, &shared_->pool);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  shared_->seconds[next_] += std::chrono::duration<double>(Clock::now() - begin).count();
  exchanging_ = false;
  if (failure) {
    if (!failure_) failure_ = failure;
    beside_.notify_one();
  } else {
    drop_reader(e.from);
    set(e.to, std::move(result));
    ++next_;
  }
  computing_.notify_one();
  if (is_for_other() || next_ == shared_->exchanges.size()) beside_.notify_one();
}

void ExchangeQueue::release(std::size_t number) {
  const std::lock_guard lock(mutex_);
  drop_reader(number);
}

void ExchangeQueue::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  computing_.notify_one();
  beside_.notify_one();
}

void ExchangeQueue::finish() {
  std::unique_lock lock(mutex_);
  while (next_ < shared_->exchanges.size()) {
    if (failure_) std::rethrow_exception(failure_);
    if (can_exchange())
      exchange_next(lock);
    else
      computing_.wait(lock);
  }
}

bool ExchangeQueue::is_left_within(std::chrono::seconds time) {
  std::unique_lock lock(mutex_);
  return computing_.wait_for(lock, time, [&] { return !other_is_here_; });
}

void ExchangeQueue::exchange_beside() {
  std::unique_lock lock(mutex_);
  while (next_ < shared_->exchanges.size() && !failure_) {
    if (is_for_other())
      exchange_next(lock);
    else
      beside_.wait(lock);
  }
  other_is_here_ = false;
  computing_.notify_one();
}

}  // namespace rewright::runtime
