// Networks of a machine: cables between members (devices of a node, or nodes of a cluster) and switches, and the routes of
// messages over them. Shapes:
//   switch       each member has a cable to one switch
//   ring         each member has a cable to the next
//   torus:4x4    a ring along each dimension, for any number of them; members are numbered along the last dimension first
//   fat-tree:K   pods of switches with K ports each (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008) for up to K^3/4 members
//   edges        cables one by one
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/namespaces.h"

namespace rewright::plans {

using LinkNumber = std::uint32_t;

// One direction of a cable. Vertices are the members, then the switches.
struct Link {
  std::uint32_t from = 0, to = 0;
  double latency = 0;           // seconds that a message's first byte takes
  double bytes_per_second = 0;  // shared by the messages that pass at the same time
};

// As a machine file says it. `latency` is that of a message between two members next to each other: of the cable where they are
// joined directly, and where a switch stands between them, half of it on each of its two cables. A cable carries
// `bytes_per_second` in each direction at the same time.
struct NetworkDescription {
  double latency = 0, bytes_per_second = 0;
  std::string shape = "switch";
  // For the shape "edges". A cable serves both directions, unless the opposite one is listed too.
  std::vector<Link> edges = {};
};

class Network {
 public:
  virtual ~Network() = default;
  std::span<const Link> links() const { return links_; }
  // Appends the links of a message's route. It is the same on every call: the shortest; in a torus along the last dimension
  // first, and in the positive direction where both are equally long; in a fat tree up to the switches that the receiver's
  // number chooses, and down again; over edges the one of the least latency, then of the fewest links, then over the members of
  // the lowest numbers.
  virtual void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const = 0;
  // "3", "switch", "core switch 1".
  virtual std::string vertex_name(std::size_t vertex) const = 0;

 protected:
  LinkNumber add_link(std::size_t from, std::size_t to, double latency, double bytes_per_second);

 private:
  std::vector<Link> links_;
};

// The most members and links that a machine may have.
constexpr std::size_t kMostDevices = std::size_t{1} << 16;
constexpr std::size_t kMostLinks = std::size_t{1} << 22;

// Throws Error(kBadInput) for shapes that do not exist or have not as many places, for edges from or to members that do not
// exist, and for members that cannot be reached. `member`: what one is called in messages ("node").
std::unique_ptr<const Network> make_network(const NetworkDescription& description, std::size_t count,
                                            const std::string& member);

// The network's cables one by one, so that each can be changed. Throws Error(kUnsupported) for shapes with switches.
NetworkDescription as_edges(const NetworkDescription& description, std::size_t count);

}  // namespace rewright::plans
