#include "runtime/training/data/batches.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace rewright::training {

namespace {

template <class T>
std::optional<std::size_t> first_not_finite(std::span<const T> values) {
  const auto at = std::find_if(values.begin(), values.end(), [](T v) { return !std::isfinite(v); });
  return at == values.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - values.begin()));
}

std::optional<std::size_t> first_not_finite(const Tensor& tensor) {
  if (!is_real(tensor.type())) return std::nullopt;
  if (tensor.type() == DataType::kFloat) return first_not_finite(tensor.data<float>());
  const std::vector<double> values = tensor.reals();
  return first_not_finite(std::span<const double>(values));
}

}  // namespace

Batches::Batches(const Dataset& data, std::vector<std::string> columns, BatchPart part, std::uint64_t seed, std::int64_t steps)
    : data_(data), columns_(std::move(columns)), part_(part), seed_(seed), steps_(steps), thread_([this] { work(); }) {}

Batches::~Batches() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Batches::take(std::int64_t step) {
  std::unique_lock lock(mutex_);
  if (wanted_ != step && ready_ != step) {
    // Another step was gathered ahead: waits until that is done, then gathers this one.
    changed_.wait(lock, [&] { return wanted_ < 0; });
    ready_ = -1, failure_ = nullptr;
    wanted_ = step;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return ready_ == step; });
  ready_ = -1;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  Batch result = std::move(batch_);
  if (step + 1 < steps_) {
    wanted_ = step + 1;
    changed_.notify_all();
  }
  return result;
}

void Batches::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || wanted_ >= 0; });
    if (ending_) return;
    const std::int64_t step = wanted_;
    lock.unlock();
    Batch batch;
    std::exception_ptr failure;
    try {
      batch = gather(step);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    batch_ = std::move(batch);
    failure_ = failure;
    ready_ = step, wanted_ = -1;
    changed_.notify_all();
  }
}

Batch Batches::gather(std::int64_t step) {
  const std::int64_t steps_per_epoch = data_.size() / part_.batch, epoch = step / steps_per_epoch;
  if (order_of_ != epoch) order_ = shuffled(data_.size(), seed_, order_of_ = epoch);
  Batch result;
  for (std::int64_t shard = part_.first; shard < part_.first + part_.count; ++shard) {
    const std::int64_t first = step % steps_per_epoch * part_.batch + shard * part_.rows;
    const std::span<const std::int64_t> which(order_.data() + first, static_cast<std::size_t>(part_.rows));
    std::vector<Tensor>& tensors = result.shards.emplace_back();
    for (const std::string& name : columns_) {
      tensors.push_back(data_.rows(name, which));
      const std::optional<std::size_t> bad = first_not_finite(tensors.back());
      if (!bad || !result.complaint.empty()) continue;
      const std::size_t each = static_cast<std::size_t>(tensors.back().size() / part_.rows);
      result.complaint = data_.column(name).place(which[*bad / each]) + ": holds a number that is not finite";
    }
  }
  return result;
}

}  // namespace rewright::training
