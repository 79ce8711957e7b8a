#include "distribution/testing.h"

#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace rewright::testing {

namespace {

// Messages from one process to another that were sent and not yet received. Each is for the receiver that began as so many-th.
struct Box {
  std::deque<std::vector<std::byte>> messages;
  std::size_t begun = 0, received = 0;
};
struct Post {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<std::size_t, std::size_t>, Box> boxes;  // by sender and receiver
  std::exception_ptr failure;

  // Takes the message into `bytes` if it is there.
  bool take(Box& box, std::size_t number, std::span<std::byte> bytes) {
    if (box.received != number || box.messages.empty()) {
      if (failure) throw Error(ErrorCode::kCancelled, "another process failed");
      return false;
    }
    if (box.messages.front().size() != bytes.size()) throw Error(ErrorCode::kBadInput, "a message has another length");
    std::copy(box.messages.front().begin(), box.messages.front().end(), bytes.begin());
    box.messages.pop_front(), ++box.received;
    return true;
  }
};

class Sent final : public PendingMessage {
 public:
  bool done() override { return true; }
};

class Awaited final : public PendingMessage {
 public:
  Awaited(Post& mail, Box& box, std::span<std::byte> bytes) : mail_(mail), box_(box), number_(box.begun++), bytes_(bytes) {}
  bool done() override {
    const std::lock_guard lock(mail_.mutex);
    return mail_.take(box_, number_, bytes_);
  }

 private:
  Post& mail_;
  Box& box_;
  const std::size_t number_;
  const std::span<std::byte> bytes_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Post& mail, std::size_t rank, std::size_t size) : mail_(mail), rank_(rank), size_(size) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::unique_ptr<PendingMessage> begin_receiving(const Incoming& message) override {
    const std::lock_guard lock(mail_.mutex);
    return std::make_unique<Awaited>(mail_, mail_.boxes[{message.from, rank_}], message.bytes);
  }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    std::unique_lock lock(mail_.mutex);
    for (const Outgoing& out : sent) put(out);
    for (const Incoming& in : received) {
      Box& box = mail_.boxes[{in.from, rank_}];
      const std::size_t number = box.begun++;
      mail_.changed.wait(lock, [&] { return mail_.take(box, number, in.bytes); });
    }
  }
  std::unique_ptr<PendingMessage> begin_transfer(const Outgoing& message) override {
    const std::lock_guard lock(mail_.mutex);
    put(message);
    return std::make_unique<Sent>();
  }

 private:
  void put(const Outgoing& message) {
    mail_.boxes[{rank_, message.to}].messages.emplace_back(message.bytes.begin(), message.bytes.end());
    mail_.changed.notify_all();
  }

  Post& mail_;
  std::size_t rank_, size_;
};

}  // namespace

void run_as_processes(std::size_t count, const std::function<void(Communicator&)>& process) {
  Post mail;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(mail, rank, count);
      try {
        process(communicator);
      } catch (...) {
        const std::lock_guard lock(mail.mutex);
        if (!mail.failure) mail.failure = std::current_exception();
        mail.changed.notify_all();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (mail.failure) std::rethrow_exception(mail.failure);
}

void run_with_mail(std::size_t count, const std::function<void(Mail)>& process) {
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw Error(ErrorCode::kMissing, "there are no sockets left");
      sockets[a][b] = pair[0], sockets[b][a] = pair[1];
    }
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        process(Mail(rank, sockets[rank]));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

Communicator& started_processes() {
  static const std::unique_ptr<Communicator> processes = make_communicator();
  return *processes;
}

}  // namespace rewright::testing
