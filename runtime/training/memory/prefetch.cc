#include "runtime/training/memory/prefetch.h"

#include <memory>
#include <utility>

namespace rewright::training {

Prefetch::Prefetch(Fetch fetch, WorkQueue* queue) : fetch_(std::move(fetch)), queue_(queue) {}

void Prefetch::start_step() {
  taken_ = 0;
  ahead_.reset();
}

Prefetch::Fetched Prefetch::start(std::size_t parameter) {
  const auto task = std::make_shared<std::packaged_task<Memory()>>([this, parameter] { return fetch_(parameter); });
  Fetched fetched{parameter, task->get_future()};
  queue_->add([task] { (*task)(); }, WorkQueue::kAny);
  return fetched;
}

Memory Prefetch::take(std::size_t parameter) {
  if (queue_ == nullptr) return fetch_(parameter);
  Fetched fetched = ahead_ && ahead_->parameter == parameter ? *std::exchange(ahead_, std::nullopt) : start(parameter);
  if (taken_ == order_.size()) order_.push_back(parameter);
  ++taken_;
  if (taken_ < order_.size()) ahead_ = start(order_[taken_]);
  return fetched.memory.get();
}

}  // namespace rewright::training
