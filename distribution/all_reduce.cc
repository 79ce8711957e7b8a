#include "distribution/all_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "distribution/elements.h"

namespace rewright::distribution {

namespace {

using Bytes = std::span<std::byte>;

constexpr std::array<std::string_view, 8> kNames{"engine",    "parameter-server",   "naive",       "ring", "tree",
                                                 "butterfly", "recursive-doubling", "hierarchical"};
// Bytes. Longer vectors are received and added in pieces, to bound the buffer.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// A subset of the processes that works on one vector. Members are numbered by their position in `ranks`.
class Group {
 public:
  Group(Communicator& all, std::vector<std::size_t> ranks, DataType type)
      : all_(all), ranks_(std::move(ranks)), type_(type), width_(byte_size(type)) {
    me_ = static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), all.rank()) - ranks_.begin());
  }
  static Group of_all(Communicator& all, DataType type) {
    std::vector<std::size_t> ranks(all.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return {all, std::move(ranks), type};
  }

  std::size_t me() const { return me_; }
  std::size_t size() const { return ranks_.size(); }
  bool has_me() const { return me_ < size(); }
  std::size_t width() const { return width_; }

  void send(std::size_t to, std::span<const std::byte> bytes) {
    const Outgoing out{ranks_[to], bytes};
    all_.exchange({&out, 1}, {});
  }
  void receive(std::size_t from, Bytes bytes) {
    const Incoming in{ranks_[from], bytes};
    all_.exchange({}, {&in, 1});
  }
  void exchange(std::size_t to, std::span<const std::byte> sent, std::size_t from, Bytes received) {
    const Outgoing out{ranks_[to], sent};
    const Incoming in{ranks_[from], received};
    all_.exchange({&out, 1}, {&in, 1});
  }
  // Adds what `from` sends to `into`; `sent` and `into` may be the same bytes.
  void exchange_and_add(std::size_t to, std::span<const std::byte> sent, std::size_t from, Bytes into) {
    received_.resize(std::max(received_.size(), into.size()));
    const Bytes received = Bytes(received_).first(into.size());
    exchange(to, sent, from, received);
    add_elements(into, received, type_);
  }
  void send_in_pieces(std::size_t to, std::span<const std::byte> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kPiece, bytes.size())))
      send(to, bytes.first(std::min(kPiece, bytes.size())));
  }
  void receive_in_pieces_and_add(std::size_t from, Bytes into) {
    received_.resize(std::max(received_.size(), std::min(kPiece, into.size())));
    for (; !into.empty(); into = into.subspan(std::min(kPiece, into.size()))) {
      const Bytes piece = into.first(std::min(kPiece, into.size()));
      receive(from, Bytes(received_).first(piece.size()));
      add_elements(piece, Bytes(received_).first(piece.size()), type_);
    }
  }

 private:
  Communicator& all_;
  std::vector<std::size_t> ranks_;
  DataType type_;
  std::size_t width_, me_ = 0;
  std::vector<std::byte> received_;
};

Bytes part(Bytes values, std::size_t width, std::size_t first, std::size_t last) {
  return values.subspan(first * width, (last - first) * width);
}

Bytes part(Bytes values, std::size_t width, const Bounds& bounds, std::size_t number) {
  return part(values, width, bounds[number], bounds[number + 1]);
}

// Every process adds in the order of the ranks, so that all get the same bits.
void naive(Group& group, Bytes values, Communicator& all, DataType type) {
  const std::size_t n = group.size();
  std::vector<std::byte> others(std::min(kPiece, values.size()) * n);
  for (; !values.empty(); values = values.subspan(std::min(kPiece, values.size()))) {
    const Bytes piece = values.first(std::min(kPiece, values.size()));
    const auto from = [&](std::size_t p) { return Bytes(others).subspan(p * piece.size(), piece.size()); };
    std::vector<Outgoing> sent;
    std::vector<Incoming> received;
    for (std::size_t p = 0; p < n; ++p) {
      if (p == group.me()) continue;
      sent.push_back({p, piece});
      received.push_back({p, from(p)});
    }
    std::copy(piece.begin(), piece.end(), from(group.me()).begin());
    all.exchange(sent, received);
    std::copy(from(0).begin(), from(0).end(), piece.begin());
    for (std::size_t p = 1; p < n; ++p) add_elements(piece, from(p), type);
  }
}

void parameter_server(Group& group, Bytes values) {
  if (group.me() != 0) {
    group.send_in_pieces(0, values);
    group.receive(0, values);
    return;
  }
  for (std::size_t p = 1; p < group.size(); ++p) group.receive_in_pieces_and_add(p, values);
  for (std::size_t p = 1; p < group.size(); ++p) group.send(p, values);
}

void ring_reduce_scatter(Group& group, Bytes values, const Bounds& bounds) {
  const std::size_t n = group.size(), me = group.me(), w = group.width();
  for (std::size_t step = 0; step + 1 < n; ++step)
    group.exchange_and_add((me + 1) % n, part(values, w, bounds, (me + 2 * n - step - 1) % n), (me + n - 1) % n,
                           part(values, w, bounds, (me + 2 * n - step - 2) % n));
}

void ring_all_gather(Group& group, Bytes values, const Bounds& bounds) {
  const std::size_t n = group.size(), me = group.me(), w = group.width();
  for (std::size_t step = 0; step + 1 < n; ++step)
    group.exchange((me + 1) % n, part(values, w, bounds, (me + n - step) % n), (me + n - 1) % n,
                   part(values, w, bounds, (me + 2 * n - step - 1) % n));
}

void ring(Group& group, Bytes values) {
  const Bounds bounds = even_bounds(values.size() / group.width(), group.size());
  ring_reduce_scatter(group, values, bounds);
  ring_all_gather(group, values, bounds);
}

// In round k, each member whose lowest set bit is 2^k sends its sum to the member with that bit cleared, and is done.
void tree_reduce(Group& group, Bytes values) {
  const std::size_t n = group.size(), me = group.me();
  for (std::size_t bit = 1; bit < n; bit *= 2) {
    if (me & bit) return group.send_in_pieces(me - bit, values);
    if (me + bit < n) group.receive_in_pieces_and_add(me + bit, values);
  }
}

void tree_broadcast(Group& group, Bytes values) {
  const std::size_t n = group.size(), me = group.me();
  for (std::size_t bit = std::bit_ceil(n) / 2; bit > 0; bit /= 2) {
    if (me % bit != 0) continue;
    if (me & bit)
      group.receive(me - bit, values);
    else if (me + bit < n)
      group.send(me + bit, values);
  }
}

// Butterflies need a power of 2: each member beyond it first hands its vector to a partner, and receives the sum at the end.
template <class F>
void among_power_of_2(Group& group, Bytes values, const F& butterfly) {
  const std::size_t n = group.size(), me = group.me(), power = std::bit_floor(n);
  if (me >= power) {
    group.send_in_pieces(me - power, values);
    group.receive(me - power, values);
    return;
  }
  if (me + power < n) group.receive_in_pieces_and_add(me + power, values);
  butterfly(power);
  if (me + power < n) group.send(me + power, values);
}

void recursive_doubling(Group& group, Bytes values) {
  among_power_of_2(group, values, [&](std::size_t power) {
    for (std::size_t bit = 1; bit < power; bit *= 2) group.exchange_and_add(group.me() ^ bit, values, group.me() ^ bit, values);
  });
}

void halving_and_doubling(Group& group, Bytes values) {
  const std::size_t w = group.width(), me = group.me();
  among_power_of_2(group, values, [&](std::size_t power) {
    struct Round {
      std::size_t bit, first, middle, last;
    };
    std::vector<Round> rounds;
    std::size_t first = 0, last = values.size() / w;
    for (std::size_t bit = 1; bit < power; bit *= 2) {
      const std::size_t middle = first + (last - first) / 2;
      rounds.push_back({bit, first, middle, last});
      const Bytes low = part(values, w, first, middle), high = part(values, w, middle, last);
      const bool upper = (me & bit) != 0;
      group.exchange_and_add(me ^ bit, upper ? low : high, me ^ bit, upper ? high : low);
      (upper ? first : last) = middle;
    }
    for (; !rounds.empty(); rounds.pop_back()) {
      const Round& r = rounds.back();
      const Bytes low = part(values, w, r.first, r.middle), high = part(values, w, r.middle, r.last);
      const bool upper = (me & r.bit) != 0;
      group.exchange(me ^ r.bit, upper ? high : low, me ^ r.bit, upper ? low : high);
    }
  });
}

void hierarchical(Communicator& all, std::size_t node, Bytes values, DataType type) {
  std::map<std::size_t, std::vector<std::size_t>> members;
  const std::vector<std::size_t> nodes = node == 0 ? all.nodes() : std::vector<std::size_t>{};
  for (std::size_t p = 0; p < all.size(); ++p) members[node == 0 ? nodes[p] : p / node].push_back(p);
  std::vector<std::size_t> firsts, beside_me;
  for (const auto& [number, ranks] : members) {
    firsts.push_back(ranks[0]);
    if (std::find(ranks.begin(), ranks.end(), all.rank()) != ranks.end()) beside_me = ranks;
  }
  Group inside(all, beside_me, type), across(all, firsts, type);
  tree_reduce(inside, values);
  if (across.has_me()) ring(across, values);
  tree_broadcast(inside, values);
}

double levels(std::size_t processes) { return std::bit_width(std::bit_ceil(processes)) - 1; }

}  // namespace

std::span<const std::string_view> all_reduce_names() { return kNames; }

AllReduce all_reduce_from_name(std::string_view name) {
  AllReduce result;
  const std::size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  const auto at = std::find(kNames.begin(), kNames.end(), kind);
  const auto refuse = [&](const std::string& why) {
    std::string all;
    for (const std::string_view n : kNames) all += (all.empty() ? "" : ", ") + std::string(n);
    return Error(ErrorCode::kUsage, "'" + std::string(name) + "' is no all-reduce: " + why, {}, "there are " + all);
  };
  if (at == kNames.end()) throw refuse("no strategy has this name");
  result.strategy = static_cast<AllReduceStrategy>(at - kNames.begin());
  if (colon == std::string_view::npos) return result;
  if (result.strategy != AllReduceStrategy::kHierarchical) throw refuse("only 'hierarchical' takes a number");
  const std::string_view number = name.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), result.node);
  if (error != std::errc() || end != number.data() + number.size() || result.node == 0)
    throw refuse("after the colon stands the number of processes of a node");
  return result;
}

void all_reduce(Communicator& processes, const AllReduce& how, Bytes values, DataType type) {
  if (processes.size() == 1 || values.empty()) return;
  Group group = Group::of_all(processes, type);
  switch (how.strategy) {
    case AllReduceStrategy::kEngine:
      return processes.sum(values, type);
    case AllReduceStrategy::kParameterServer:
      return parameter_server(group, values);
    case AllReduceStrategy::kNaive:
      return naive(group, values, processes, type);
    case AllReduceStrategy::kRing:
      return ring(group, values);
    case AllReduceStrategy::kTree:
      tree_reduce(group, values);
      return tree_broadcast(group, values);
    case AllReduceStrategy::kButterfly:
      return halving_and_doubling(group, values);
    case AllReduceStrategy::kRecursiveDoubling:
      return recursive_doubling(group, values);
    case AllReduceStrategy::kHierarchical:
      return hierarchical(processes, how.node, values, type);
  }
}

std::uint64_t all_reduce_bytes(const AllReduce& how, std::size_t processes, std::uint64_t bytes) {
  const std::uint64_t n = processes, power = std::bit_floor(n);
  switch (how.strategy) {
    case AllReduceStrategy::kEngine:
      return 0;
    case AllReduceStrategy::kNaive:
      return n * (n - 1) * bytes;
    case AllReduceStrategy::kRecursiveDoubling:
      return (power * static_cast<std::uint64_t>(std::countr_zero(power)) + 2 * (n - power)) * bytes;
    case AllReduceStrategy::kParameterServer:
    case AllReduceStrategy::kRing:
    case AllReduceStrategy::kTree:
    case AllReduceStrategy::kButterfly:
    case AllReduceStrategy::kHierarchical:
      return 2 * (n - 1) * bytes;
  }
  return 0;
}

LongestChain longest_chain(const AllReduce& how, std::size_t processes, double bytes) {
  const auto n = static_cast<double>(processes), power = static_cast<double>(std::bit_floor(processes));
  const double around = 2 * (n - 1) / n, beyond = n > power ? 2 : 0;
  switch (how.strategy) {
    case AllReduceStrategy::kEngine:
      return {0, 0};
    case AllReduceStrategy::kParameterServer:
      return {2 * (n - 1), 2 * (n - 1) * bytes};
    case AllReduceStrategy::kNaive:
      return {n - 1, (n - 1) * bytes};
    case AllReduceStrategy::kRing:
      return {2 * (n - 1), around * bytes};
    case AllReduceStrategy::kTree:
      return {2 * levels(processes), 2 * levels(processes) * bytes};
    case AllReduceStrategy::kButterfly:
      return {2 * std::log2(power) + beyond, (2 * (power - 1) / power + beyond) * bytes};
    case AllReduceStrategy::kRecursiveDoubling:
      return {std::log2(power) + beyond, (std::log2(power) + beyond) * bytes};
    case AllReduceStrategy::kHierarchical: {
      const std::size_t node = how.node == 0 ? processes : std::min(how.node, processes);
      const auto nodes = static_cast<double>((processes + node - 1) / node);
      return {2 * levels(node) + 2 * (nodes - 1), (2 * levels(node) + 2 * (nodes - 1) / nodes) * bytes};
    }
  }
  return {0, 0};
}

Bounds even_bounds(std::size_t count, std::size_t processes) {
  Bounds bounds(processes + 1);
  for (std::size_t p = 0; p <= processes; ++p) bounds[p] = count / processes * p + std::min(p, count % processes);
  return bounds;
}

void reduce_scatter(Communicator& processes, Bytes values, DataType type, const Bounds& bounds) {
  Group group = Group::of_all(processes, type);
  ring_reduce_scatter(group, values, bounds);
}

void all_gather_parts(Communicator& processes, Bytes values, std::size_t width, const Bounds& bounds) {
  const std::size_t n = processes.size(), me = processes.rank();
  for (std::size_t step = 0; step + 1 < n; ++step) {
    const Outgoing out{(me + 1) % n, part(values, width, bounds, (me + n - step) % n)};
    const Incoming in{(me + n - 1) % n, part(values, width, bounds, (me + 2 * n - step - 1) % n)};
    processes.exchange({&out, 1}, {&in, 1});
  }
}

void reduce_scatter_in_order(Communicator& processes, std::span<const Bytes> vectors, DataType type, const Bounds& bounds) {
  const std::size_t n = processes.size(), me = processes.rank(), w = byte_size(type), here = vectors.size();
  const std::size_t mine = bounds[me + 1] - bounds[me];
  const bool narrow_type = w == 2;
  std::vector<std::byte> others(n * here * mine * w);
  const auto from = [&](std::size_t p, std::size_t k) { return Bytes(others).subspan((p * here + k) * mine * w, mine * w); };
  std::vector<Outgoing> sent;
  std::vector<Incoming> received;
  for (std::size_t p = 0; p < n; ++p)
    for (std::size_t k = 0; k < here; ++k) {
      if (p == me) continue;
      sent.push_back({p, part(vectors[k], w, bounds, p)});
      received.push_back({p, from(p, k)});
    }
  for (std::size_t k = 0; k < here; ++k) std::ranges::copy(part(vectors[k], w, bounds, me), from(me, k).begin());
  processes.exchange(sent, received);
  const Bytes result = part(vectors[0], w, bounds, me);
  std::vector<float> sum(narrow_type ? mine : 0), next(sum.size());
  for (std::size_t p = 0; p < n; ++p)
    for (std::size_t k = 0; k < here; ++k) {
      const bool first = p == 0 && k == 0;
      if (narrow_type) {
        widen(from(p, k), first ? sum : next, type);
        if (!first) add_elements(std::as_writable_bytes(std::span(sum)), std::as_bytes(std::span(next)), DataType::kFloat);
      } else if (first) {
        std::ranges::copy(from(p, k), result.begin());
      } else {
        add_elements(result, from(p, k), type);
      }
    }
  if (narrow_type) narrow(sum, result, type);
}

}  // namespace rewright::distribution
