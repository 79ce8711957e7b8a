#include "plans/machines/machine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace rewright::plans {

namespace {

void require(bool sound, const std::string& what, const std::string& where) {
  if (!sound) throw Error(ErrorCode::kBadInput, what, where);
}

void require_rate(double value, const std::string& where) {
  require(std::isfinite(value) && value > 0, "must be a number above 0", where);
}

void require_time(double value, const std::string& where) {
  require(std::isfinite(value) && value >= 0, "must be a number from 0 up", where);
}

void require_sound(const NetworkDescription& d) {
  if (d.shape != "edges") {
    require_time(d.latency, "latency");
    require_rate(d.bytes_per_second, "bytes_per_second");
  }
  for (std::size_t n = 0; n < d.edges.size(); ++n) {
    require_time(d.edges[n].latency, "edges[" + std::to_string(n) + "][2]");
    require_rate(d.edges[n].bytes_per_second, "edges[" + std::to_string(n) + "][3]");
  }
}

void require_sound(const MachineDescription& d) {
  require(d.devices >= 1 && d.devices <= kMostDevices, "must be from 1 to " + std::to_string(kMostDevices), "devices.count");
  require(d.per_node >= 1 && d.per_node <= d.devices && d.devices % d.per_node == 0,
          "must divide devices.count, " + std::to_string(d.devices) + ", and is " + std::to_string(d.per_node),
          "devices.per_node");
  require(d.rates.has_value() || !d.profile.empty(), "has neither a profile nor operations_per_second and bytes_per_second",
          "devices");
  if (d.rates) {
    require_rate(d.rates->operations_per_second, "devices.operations_per_second");
    require_rate(d.rates->bytes_per_second, "devices.bytes_per_second");
    require_time(d.rates->call_seconds, "devices.call_seconds");
  }
  require(d.memory > 0, "must be a number above 0", "devices.memory");  // not for a NaN
  require(d.node_bytes_per_second > 0, "must be a number above 0", "devices.node_bytes_per_second");
  require_time(d.exchange_seconds, "devices.exchange_seconds");
}

// Null where there is nothing to join.
std::shared_ptr<const Network> network(const std::optional<NetworkDescription>& description, std::size_t count,
                                       const std::string& member, const std::string& where) {
  require(count == 1 || description.has_value(), "is missing, and joins the " + std::to_string(count) + " " + member + "s",
          where);
  if (!description) return nullptr;
  try {
    require_sound(*description);
    return make_network(*description, count, member);
  } catch (const Error& error) {
    throw error.within(where);
  }
}

}  // namespace

Machine::Machine(MachineDescription description, std::shared_ptr<const ProfileModel> profile)
    : description_(std::move(description)), profile_(std::move(profile)) {
  require_sound(description_);
  if (description_.rates) {
    rates_ = *description_.rates;
  } else {
    require(profile_ != nullptr, "was not read", description_.profile);
    const Roofline& measured = profile_->profile().roofline;
    rates_ = {measured.operations_per_second, measured.bytes_per_second, measured.call_seconds};
  }
  rates_.bytes_per_second =
      std::min(rates_.bytes_per_second, description_.node_bytes_per_second / static_cast<double>(description_.per_node));
  require(rates_.bytes_per_second > 0, "is too small to be shared by its devices", "devices.node_bytes_per_second");
  if (profile_) factors_ = std::make_shared<OperatorFactors>(profile_->profile());
  node_ = network(description_.node, description_.per_node, "device", "links.node");
  cluster_ = network(description_.cluster, nodes(), "node", "links.cluster");
  if (node_) node_links_ = node_->links().size();
  const std::size_t of_cluster = cluster_ ? cluster_->links().size() : 0;
  require(node_links_ <= (kMostLinks - std::min(of_cluster, kMostLinks)) / nodes(),
          "there are more than " + std::to_string(kMostLinks) + " of them", "links");
  links_.reserve(node_links_ * nodes() + of_cluster);
  for (std::size_t n = 0; node_ && n < nodes(); ++n) links_.insert(links_.end(), node_->links().begin(), node_->links().end());
  if (cluster_) links_.insert(links_.end(), cluster_->links().begin(), cluster_->links().end());
  if (!cluster_ || !description_.rings || nodes() < 2) return;
  rings_ = rings_over(cluster_->links(), nodes());
  if (rings_.empty()) rings_.push_back(ring_of_ranks());
}

Ring Machine::ring_of_ranks() const {
  Ring ring{{}, std::numeric_limits<double>::infinity()};
  for (std::size_t node = 0; node < nodes(); ++node) {
    ring.order.push_back(static_cast<std::uint32_t>(node));
    for (const LinkNumber l : route(node * description_.per_node, (node + 1) % nodes() * description_.per_node))
      ring.bytes_per_second = std::min(ring.bytes_per_second, links_[l].bytes_per_second);
  }
  return ring;
}

std::string Machine::link_name(LinkNumber link) const {
  const bool of_cluster = link >= cluster_begin();
  const Network& network = of_cluster ? *cluster_ : *node_;
  const Link& l = links_[link];
  return (of_cluster ? "cluster: " : "node " + std::to_string(link / node_links_) + ": ") + network.vertex_name(l.from) +
         " -> " + network.vertex_name(l.to);
}

void Machine::route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const {
  if (from == to) return;
  const std::size_t before = links.size(), node = node_of(from);
  std::size_t first = cluster_begin();
  if (node == node_of(to)) {
    node_->route(from % description_.per_node, to % description_.per_node, links);
    first = node * node_links_;
  } else {
    cluster_->route(node, node_of(to), links);
  }
  for (std::size_t n = before; n < links.size(); ++n) links[n] += static_cast<LinkNumber>(first);
}

std::vector<LinkNumber> Machine::route(std::size_t from, std::size_t to) const {
  std::vector<LinkNumber> links;
  route(from, to, links);
  return links;
}

double Machine::message_seconds(std::size_t from, std::size_t to, double bytes) const {
  double latency = 0, rate = std::numeric_limits<double>::infinity();
  for (const LinkNumber l : route(from, to)) {
    latency += links_[l].latency;
    rate = std::min(rate, links_[l].bytes_per_second);
  }
  return latency + bytes / rate;
}

}  // namespace rewright::plans
