#include "distribution/testing.h"

#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace rewright::testing {

namespace {

// Messages that were sent and not yet received, by sender and receiver.
struct Post {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<std::vector<std::byte>>> boxes;
  std::exception_ptr failure;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Post& mail, std::size_t rank, std::size_t size) : mail_(mail), rank_(rank), size_(size) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    std::unique_lock lock(mail_.mutex);
    for (const Outgoing& out : sent) mail_.boxes[{rank_, out.to}].emplace_back(out.bytes.begin(), out.bytes.end());
    mail_.changed.notify_all();
    for (const Incoming& in : received) {
      auto& box = mail_.boxes[{in.from, rank_}];
      mail_.changed.wait(lock, [&] { return !box.empty() || mail_.failure; });
      if (box.empty()) throw Error(ErrorCode::kCancelled, "another process failed");
      if (box.front().size() != in.bytes.size()) throw Error(ErrorCode::kBadInput, "a message has another length");
      std::copy(box.front().begin(), box.front().end(), in.bytes.begin());
      box.pop_front();
    }
  }

 private:
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
