// Letters between the processes of a run over sockets. Unlike messages of a Communicator, they are received from whoever sends,
// and the end of a process is a letter too: the others go on.
//
//   Mail mail = introduce(*processes);
//   mail.send(0, kGradient, {step}, std::as_bytes(std::span(gradient)));
//   const std::optional<Letter> answer = mail.receive(1.0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distribution/communicator.h"

namespace rewright::distribution {

struct Letter {
  std::size_t from = 0;
  std::uint32_t kind = 0;  // chosen by the sender, or Mail::kLost
  std::vector<std::int64_t> numbers;
  std::vector<std::byte> bytes;

  std::span<const float> floats() const { return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}; }
};

class Mail {
 public:
  // The last letter from a process: it has ended, or closed its mail.
  static constexpr std::uint32_t kLost = ~std::uint32_t{0};

  // sockets[p]: a connected stream socket to process p, owned from now on; -1 for this process.
  Mail(std::size_t rank, std::vector<int> sockets);
  // Waits up to some seconds for letters that are still on their way out.
  ~Mail();
  Mail(Mail&&) noexcept;
  Mail& operator=(Mail&&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return peers_.size(); }
  bool is_lost(std::size_t process) const;

  // Never waits: what the receiver does not take yet goes out while this process receives. A letter to a lost process is
  // dropped.
  void send(std::size_t to, std::uint32_t kind, std::span<const std::int64_t> numbers, std::span<const std::byte> bytes = {});
  void send(std::size_t to, std::uint32_t kind, std::initializer_list<std::int64_t> numbers,
            std::span<const std::byte> bytes = {}) {
    send(to, kind, std::span(numbers.begin(), numbers.size()), bytes);
  }
  // The next letter, in the order of arrival; empty if none comes within `seconds` (negative: waits for ever).
  std::optional<Letter> receive(double seconds);
  // Waits until everything sent has gone out; gives up after `seconds`.
  void flush(double seconds);

 private:
  struct Peer;
  bool unsent() const;
  // Reads and writes what is possible, after waiting up to `milliseconds` for that (-1: for ever).
  void exchange(int milliseconds);
  void write_some(Peer& peer);
  void read_some(std::size_t process);
  void lose(std::size_t process);

  std::size_t rank_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::deque<Letter> arrived_;
};

// Connects every two of these processes by TCP. All of them call it; afterwards `processes` is not needed any more. On one
// machine the connections stay inside of it. Throws Error(kMissing) if a process cannot be reached.
Mail introduce(Communicator& processes);

// Parts from the starter's watch, which would end all processes with one: all of them call it, and use no other communicator
// afterwards, but for abort(), which then ends this process alone. Without effect where the program itself started MPI.
void leave_starter();

}  // namespace rewright::distribution
