#include "distribution/background_messages.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rewright::distribution {

namespace {

// So many times in a row the thread looks again at once whether a message is there: it mostly comes within that time, and
// sleeping takes some 50 microseconds.
constexpr int kEager = 300;
constexpr auto kPause = std::chrono::microseconds(20);

struct Message {
  bool is_sent = false;
  std::size_t process = 0, number = 0;
  Tensor tensor;
  std::unique_ptr<PendingMessage> pending;
};

}  // namespace

class BackgroundMessages::Thread {
 public:
  explicit Thread(Communicator& processes) : processes_(processes), thread_([this] { work(); }) {}

  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
    for (Message& m : under_way_) leave(std::move(m));
  }

  void begin(Message message) {
    const std::lock_guard lock(mutex_);
    ++open_;
    queue_.push_back(std::move(message));
    changed_.notify_all();
  }

  std::size_t next_number() { return next_++; }

  void receive_nothing(std::size_t number, Tensor empty) {
    const std::lock_guard lock(mutex_);
    received_.emplace(number, std::move(empty));
  }

  Tensor wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return received_.contains(number) || failure_; });
    const auto at = received_.find(number);
    if (at == received_.end()) std::rethrow_exception(failure_);
    Tensor result = std::move(at->second);
    received_.erase(at);
    return result;
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0 || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // The library may go on reading or writing the bytes of what is not done, until the process ends.
  static void leave(Message message) {
    static std::mutex mutex;
    static std::vector<Message> all;
    const std::lock_guard lock(mutex);
    all.push_back(std::move(message));
  }

  void work() {
    int idle = 0;
    try {
      for (;;) {
        std::vector<Message> begun;
        {
          std::unique_lock lock(mutex_);
          if (under_way_.empty()) changed_.wait(lock, [&] { return ended_ || !queue_.empty(); });
          if (ended_) return;
          begun.swap(queue_);
        }
        for (Message& m : begun) {
          m.pending = m.is_sent ? processes_.begin_sending({m.process, m.tensor.bytes()})
                                : processes_.begin_receiving({m.process, m.tensor.mutable_bytes()});
          under_way_.push_back(std::move(m));
        }
        idle = look() || !begun.empty() ? 0 : idle + 1;
        if (idle > kEager)
          std::this_thread::sleep_for(kPause);
        else if (idle > 0)
          std::this_thread::yield();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  // Hands over what is done. Was there anything?
  bool look() {
    std::vector<Message> done;
    for (std::size_t n = 0; n < under_way_.size();) {
      if (under_way_[n].pending->done()) {
        done.push_back(std::move(under_way_[n]));
        under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(n));
      } else {
        ++n;
      }
    }
    if (done.empty()) return false;
    const std::lock_guard lock(mutex_);
    for (Message& m : done) {
      if (!m.is_sent) received_.emplace(m.number, std::move(m.tensor));
      --open_;
    }
    changed_.notify_all();
    return true;
  }

  Communicator& processes_;
  std::size_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message> queue_;  // to begin
  std::map<std::size_t, Tensor> received_;
  std::size_t open_ = 0;
  std::exception_ptr failure_;
  bool ended_ = false;
  std::vector<Message> under_way_;  // the thread's own
  std::thread thread_;              // the last member: it uses the others
};

BackgroundMessages::BackgroundMessages(Communicator& processes) : thread_(std::make_unique<Thread>(processes)) {}
BackgroundMessages::~BackgroundMessages() = default;

void BackgroundMessages::send(std::size_t to, Tensor tensor) {
  if (tensor.byte_count() == 0) return;
  thread_->begin({true, to, 0, std::move(tensor), nullptr});
}

std::size_t BackgroundMessages::receive(std::size_t from, DataType type, Sizes sizes) {
  const std::size_t number = thread_->next_number();
  Tensor tensor(type, std::move(sizes));
  if (tensor.byte_count() == 0)
    thread_->receive_nothing(number, std::move(tensor));
  else
    thread_->begin({false, from, number, std::move(tensor), nullptr});
  return number;
}

Tensor BackgroundMessages::wait(std::size_t number) { return thread_->wait(number); }
void BackgroundMessages::finish() { thread_->finish(); }

}  // namespace rewright::distribution
