#include "distribution/mail.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace rewright::distribution {

namespace {

using Clock = std::chrono::steady_clock;

// Before the numbers and bytes of a letter.
struct Head {
  std::uint32_t kind, numbers;
  std::uint64_t bytes;
  std::uint64_t size() const { return sizeof(Head) + numbers * sizeof(std::int64_t) + bytes; }
};

constexpr double kSecondsToLeave = 5;                    // for letters on their way out at the end ...
constexpr std::chrono::milliseconds kToHearOthers{500};  // ... and for those that others send meanwhile
constexpr std::size_t kReadAtOnce = 1 << 18;             // bytes

// A host that vanishes says nothing: it counts as ended some 30 seconds later.
void watch_for_vanished_host(int socket) {
  const int on = 1, idle = 10, between = 5, probes = 4;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

struct Mail::Peer {
  int socket = -1;
  std::vector<std::byte> in;
  std::deque<std::vector<std::byte>> out;
  std::size_t sent = 0;  // of the first of these
};

Mail::Mail(std::size_t rank, std::vector<int> sockets) : rank_(rank) {
  for (const int socket : sockets) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = socket;
    if (socket >= 0) fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  }
}

Mail::Mail(Mail&&) noexcept = default;

Mail::~Mail() {
  flush(kSecondsToLeave);
  // A socket that is closed with unread letters would cut off those that are still on their way out.
  for (const auto& peer : peers_)
    if (peer->socket >= 0) shutdown(peer->socket, SHUT_WR);
  const auto end = Clock::now() + kToHearOthers;
  while (std::ranges::any_of(peers_, [](const auto& peer) { return peer->socket >= 0; }) && Clock::now() < end) exchange(10);
  for (const auto& peer : peers_)
    if (peer->socket >= 0) close(peer->socket);
}

bool Mail::is_lost(std::size_t process) const { return process != rank_ && peers_.at(process)->socket < 0; }

void Mail::send(std::size_t to, std::uint32_t kind, std::span<const std::int64_t> numbers, std::span<const std::byte> bytes) {
  if (to == rank_) {
    arrived_.push_back({to, kind, {numbers.begin(), numbers.end()}, {bytes.begin(), bytes.end()}});
    return;
  }
  Peer& peer = *peers_.at(to);
  if (peer.socket < 0) return;
  const Head head{kind, static_cast<std::uint32_t>(numbers.size()), bytes.size()};
  std::vector<std::byte> letter(head.size());
  std::memcpy(letter.data(), &head, sizeof head);
  if (!numbers.empty()) std::memcpy(letter.data() + sizeof head, numbers.data(), numbers.size_bytes());
  if (!bytes.empty()) std::memcpy(letter.data() + sizeof head + numbers.size_bytes(), bytes.data(), bytes.size());
  peer.out.push_back(std::move(letter));
  write_some(peer);
}

std::optional<Letter> Mail::receive(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(std::max(seconds, 0.0));
  while (arrived_.empty()) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    exchange(seconds < 0 ? -1 : std::max(0, static_cast<int>(left * 1e3 + 0.999)));
    if (arrived_.empty() && seconds >= 0 && left <= 0) return std::nullopt;
  }
  Letter letter = std::move(arrived_.front());
  arrived_.pop_front();
  return letter;
}

void Mail::flush(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (unsent() && Clock::now() < end) exchange(10);
}

bool Mail::unsent() const {
  return std::ranges::any_of(peers_, [](const auto& peer) { return peer->socket >= 0 && !peer->out.empty(); });
}

void Mail::exchange(int milliseconds) {
  std::vector<pollfd> polled;
  std::vector<std::size_t> of;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (peers_[p]->socket < 0) continue;
    const int events = POLLIN | (peers_[p]->out.empty() ? 0 : POLLOUT);
    polled.push_back({peers_[p]->socket, static_cast<short>(events), 0});
    of.push_back(p);
  }
  if (polled.empty()) throw Error(ErrorCode::kMissing, "all other processes have ended");
  if (poll(polled.data(), polled.size(), milliseconds) <= 0) return;
  for (std::size_t n = 0; n < polled.size(); ++n) {
    if (polled[n].revents & POLLOUT) write_some(*peers_[of[n]]);
    if (polled[n].revents & (POLLIN | POLLHUP | POLLERR)) read_some(of[n]);
  }
}

// A process that has ended is noticed by reading, which its last letters come before.
void Mail::write_some(Peer& peer) {
  while (!peer.out.empty()) {
    const std::vector<std::byte>& letter = peer.out.front();
    const ssize_t count = ::send(peer.socket, letter.data() + peer.sent, letter.size() - peer.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) return peer.out.clear(), static_cast<void>(peer.sent = 0);
    peer.sent += static_cast<std::size_t>(count);
    if (peer.sent < letter.size()) continue;
    peer.out.pop_front();
    peer.sent = 0;
  }
}

void Mail::read_some(std::size_t process) {
  Peer& peer = *peers_[process];
  const std::size_t before = peer.in.size();
  peer.in.resize(before + kReadAtOnce);
  const ssize_t count = recv(peer.socket, peer.in.data() + before, kReadAtOnce, 0);
  peer.in.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return lose(process);
  std::size_t at = 0;
  Head head{};
  while (peer.in.size() - at >= sizeof head) {
    std::memcpy(&head, peer.in.data() + at, sizeof head);
    if (peer.in.size() - at < head.size()) break;
    Letter letter{process, head.kind, std::vector<std::int64_t>(head.numbers), std::vector<std::byte>(head.bytes)};
    const std::byte* from = peer.in.data() + at + sizeof head;
    if (head.numbers > 0) std::memcpy(letter.numbers.data(), from, head.numbers * sizeof(std::int64_t));
    if (head.bytes > 0) std::memcpy(letter.bytes.data(), from + head.numbers * sizeof(std::int64_t), head.bytes);
    arrived_.push_back(std::move(letter));
    at += head.size();
  }
  peer.in.erase(peer.in.begin(), peer.in.begin() + static_cast<std::ptrdiff_t>(at));
}

void Mail::lose(std::size_t process) {
  Peer& peer = *peers_[process];
  close(std::exchange(peer.socket, -1));
  peer.in.clear(), peer.out.clear();
  arrived_.push_back({process, kLost, {}, {}});
}

namespace {

constexpr std::chrono::seconds kToConnect{30};

// The port that a process listens on, and the addresses of its host.
struct Place {
  std::uint16_t port = 0;
  std::vector<std::string> addresses;
};

std::vector<std::string> own_addresses() {
  std::vector<std::string> result;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return result;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP))
      continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text.data(), text.size());
    result.emplace_back(text.data());
  }
  freeifaddrs(all);
  return result;
}

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

Error no_connection(const std::string& what) {
  return Error(ErrorCode::kMissing, what + ": " + std::strerror(errno), {}, "processes connect to each other by TCP");
}

int listening_socket(bool on_one_machine, std::size_t processes, std::uint16_t& port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = address_of(on_one_machine ? "127.0.0.1" : "0.0.0.0", 0);
  socklen_t length = sizeof address;
  if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(socket, static_cast<int>(2 * processes)) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw no_connection("cannot listen for other processes");
  port = ntohs(address.sin_port);
  return socket;
}

bool write_all(int socket, const void* bytes, std::size_t count) {
  return ::send(socket, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

bool read_all(int socket, void* bytes, std::size_t count) {
  return recv(socket, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

// A connection begins with these. The key is drawn for the run, so that nothing else can join.
struct Greeting {
  std::uint64_t key, rank;
};

int connected(const Place& to, bool same_machine, const Greeting& greeting) {
  const auto end = Clock::now() + kToConnect;
  std::vector<std::string> hosts = same_machine ? std::vector<std::string>{"127.0.0.1"} : to.addresses;
  while (true) {
    for (const std::string& host : hosts) {
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const timeval patience{5, 0};
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // of connect, too
      const sockaddr_in address = address_of(host, to.port);
      std::uint64_t answer = 0;
      if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
          write_all(socket, &greeting, sizeof greeting) && read_all(socket, &answer, sizeof answer) && answer == greeting.key)
        return socket;
      close(socket);
    }
    if (Clock::now() > end) throw no_connection("another process cannot be reached");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The rank of a process of this run that connects; its socket replaces `socket`. Others are turned away.
std::size_t accepted(int listening, std::uint64_t key, std::size_t processes, int& socket) {
  pollfd waiting{listening, POLLIN, 0};
  while (true) {
    if (poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(2 * kToConnect).count())) == 0)
      throw Error(ErrorCode::kMissing, "another process does not connect");
    socket = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const timeval patience{5, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    Greeting greeting{};
    if (read_all(socket, &greeting, sizeof greeting) && greeting.key == key && greeting.rank < processes &&
        write_all(socket, &key, sizeof key))
      return greeting.rank;
    close(socket);
  }
}

}  // namespace

Mail introduce(Communicator& processes) {
  const std::size_t here = processes.rank(), count = processes.size();
  const std::vector<std::size_t> machines = processes.nodes();
  const bool one_machine = std::ranges::all_of(machines, [&](std::size_t m) { return m == machines[0]; });
  std::random_device random;
  std::string key_text = std::to_string(std::uint64_t{random()} << 32 | random());
  processes.broadcast(key_text, 0);
  const std::uint64_t key = std::stoull(key_text);

  std::uint16_t port = 0;
  const int listening = listening_socket(one_machine, count, port);
  std::string text = std::to_string(port);
  for (const std::string& address : own_addresses()) text += " " + address;
  std::vector<Place> places;
  for (const std::string& place : processes.all_gather(text)) {
    std::istringstream words(place);
    places.emplace_back();
    words >> places.back().port;
    for (std::string address; words >> address;) places.back().addresses.push_back(address);
  }
  // Each accepts those of higher ranks in a thread of its own, while it connects to those of lower ranks.
  std::vector<int> sockets(count, -1);
  std::exception_ptr failure;
  std::thread accepting([&] {
    try {
      for (std::size_t n = here + 1; n < count; ++n) {
        int socket = -1;
        const std::size_t rank = accepted(listening, key, count, socket);
        sockets[rank] = socket;
      }
    } catch (...) {
      failure = std::current_exception();
    }
  });
  std::exception_ptr other;
  try {
    for (std::size_t p = 0; p < here; ++p) sockets[p] = connected(places[p], machines[p] == machines[here], {key, here});
  } catch (...) {
    other = std::current_exception();
  }
  accepting.join();
  close(listening);
  if (failure || other) std::rethrow_exception(other ? other : failure);
  for (const int socket : sockets) {
    if (socket < 0) continue;
    const timeval for_ever{0, 0};
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof for_ever);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
    watch_for_vanished_host(socket);
  }
  return Mail(here, std::move(sockets));
}

}  // namespace rewright::distribution
