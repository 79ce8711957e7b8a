#include "plans/machines/network.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "plans/machines/edge_network.h"

namespace rewright::plans {

namespace {

class SwitchNetwork : public Network {
 public:
  SwitchNetwork(const NetworkDescription& d, std::size_t count) : count_(count) {
    for (std::size_t m = 0; m < count; ++m) {
      add_link(m, count, d.latency / 2, d.bytes_per_second);
      add_link(count, m, d.latency / 2, d.bytes_per_second);
    }
  }
  void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const override {
    if (from == to) return;
    links.push_back(static_cast<LinkNumber>(2 * from));
    links.push_back(static_cast<LinkNumber>(2 * to + 1));
  }
  std::string vertex_name(std::size_t vertex) const override { return vertex < count_ ? std::to_string(vertex) : "switch"; }

 private:
  std::size_t count_;
};

// Rings are tori of one dimension.
class TorusNetwork : public Network {
 public:
  TorusNetwork(const NetworkDescription& d, std::vector<std::size_t> sizes) {
    std::size_t stride = 1;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      axes_.push_back({*size, stride, per_member_});
      per_member_ += *size == 1 ? 0 : *size == 2 ? 1 : 2;
      stride *= *size;
    }
    for (std::size_t m = 0; m < stride; ++m)
      for (const Axis& axis : axes_) {
        if (axis.size > 1) add_link(m, axis.next(m), d.latency, d.bytes_per_second);
        if (axis.size > 2) add_link(m, axis.previous(m), d.latency, d.bytes_per_second);
      }
  }

  void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const override {
    for (const Axis& axis : axes_) {
      const std::size_t forward = (axis.position(to) + axis.size - axis.position(from)) % axis.size;
      const bool backward = 2 * forward > axis.size;
      for (std::size_t left = backward ? axis.size - forward : forward; left > 0; --left) {
        links.push_back(static_cast<LinkNumber>(from * per_member_ + axis.first_link + (backward ? 1 : 0)));
        from = backward ? axis.previous(from) : axis.next(from);
      }
    }
  }
  std::string vertex_name(std::size_t vertex) const override { return std::to_string(vertex); }

 private:
  struct Axis {
    std::size_t size, stride, first_link;  // first_link: among the links of a member
    std::size_t position(std::size_t m) const { return m / stride % size; }
    std::size_t next(std::size_t m) const { return position(m) + 1 < size ? m + stride : m - (size - 1) * stride; }
    std::size_t previous(std::size_t m) const { return position(m) > 0 ? m - stride : m + (size - 1) * stride; }
  };
  std::vector<Axis> axes_;  // the last dimension first
  std::size_t per_member_ = 0;
};

// K pods of K/2 edge and K/2 aggregation switches. Edge switch e of a pod has K/2 members, aggregation switch j of each pod is
// joined to the core switches j*K/2 to (j+1)*K/2 - 1.
class FatTreeNetwork : public Network {
 public:
  FatTreeNetwork(const NetworkDescription& d, std::size_t ports, std::size_t count) : half_(ports / 2), count_(count) {
    const auto cable = [&](std::size_t below, std::size_t above) {
      add_link(below, above, d.latency / 2, d.bytes_per_second);
      add_link(above, below, d.latency / 2, d.bytes_per_second);
    };
    const std::size_t edges = ports * half_;  // as many aggregation switches
    edge_cables_ = 2 * count, core_cables_ = edge_cables_ + 2 * edges * half_;
    for (std::size_t m = 0; m < count; ++m) cable(m, count + m / half_);
    for (std::size_t e = 0; e < edges; ++e)
      for (std::size_t j = 0; j < half_; ++j) cable(count + e, count + edges + e / half_ * half_ + j);
    for (std::size_t a = 0; a < edges; ++a)
      for (std::size_t i = 0; i < half_; ++i) cable(count + edges + a, count + 2 * edges + a % half_ * half_ + i);
  }

  void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const override {
    if (from == to) return;
    const auto push = [&](std::size_t first, std::size_t cable, bool down) {
      links.push_back(static_cast<LinkNumber>(first + 2 * cable + (down ? 1 : 0)));
    };
    const std::size_t from_edge = from / half_, to_edge = to / half_, from_pod = from_edge / half_, to_pod = to_edge / half_;
    const std::size_t j = to % half_, core = to_edge % half_;  // chosen by the receiver, which spreads receivers evenly
    push(0, from, false);
    if (from_edge != to_edge) push(edge_cables_, from_edge * half_ + j, false);
    if (from_pod != to_pod) {
      push(core_cables_, (from_pod * half_ + j) * half_ + core, false);
      push(core_cables_, (to_pod * half_ + j) * half_ + core, true);
    }
    if (from_edge != to_edge) push(edge_cables_, to_edge * half_ + j, true);
    push(0, to, true);
  }

  std::string vertex_name(std::size_t vertex) const override {
    const std::size_t edges = 2 * half_ * half_;
    if (vertex < count_) return std::to_string(vertex);
    vertex -= count_;
    if (vertex < edges) return "edge switch " + std::to_string(vertex);
    if (vertex < 2 * edges) return "aggregation switch " + std::to_string(vertex - edges);
    return "core switch " + std::to_string(vertex - 2 * edges);
  }

 private:
  std::size_t half_, count_, edge_cables_ = 0, core_cables_ = 0;
};

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class Shape {
 public:
  Shape(const NetworkDescription& d, std::size_t count, const std::string& member) : d_(d), count_(count), member_(member) {}

  std::unique_ptr<const Network> network() const {
    const std::string_view text = d_.shape;
    const std::string_view kind = text.substr(0, text.find(':'));
    const bool has_sizes = kind.size() < text.size() && text.size() < 200;
    if (text == "switch") return std::make_unique<SwitchNetwork>(d_, count_);
    if (text == "ring") return std::make_unique<TorusNetwork>(d_, std::vector{count_});
    if (kind == "torus" && has_sizes) return torus(text.substr(kind.size() + 1));
    if (kind == "fat-tree" && has_sizes) return fat_tree(text.substr(kind.size() + 1));
    throw bad("is no shape", "there are switch, ring, torus:4x4, fat-tree:4 (with the sizes that apply), and edges");
  }

 private:
  Error bad(const std::string& what, const std::string& hint = {}) const {
    return Error(ErrorCode::kBadInput, "'" + d_.shape.substr(0, 80) + "' " + what, "shape", hint);
  }
  std::string members() const { return std::to_string(count_) + " " + member_ + "s"; }

  std::unique_ptr<const Network> torus(std::string_view text) const {
    std::vector<std::size_t> sizes;
    std::size_t places = 1;
    while (true) {
      const std::string_view part = text.substr(0, text.find('x'));
      const std::optional<std::size_t> size = whole_number(part);
      if (!size || *size == 0) throw bad("is no shape: after the colon stand sizes from 1 up, as in torus:4x4x2");
      if (*size > kMostDevices / places) throw bad("has more than " + std::to_string(kMostDevices) + " places");
      sizes.push_back(*size);
      places *= *size;
      if (part.size() == text.size()) break;
      text.remove_prefix(part.size() + 1);
    }
    if (places != count_) throw bad("has " + std::to_string(places) + " places for " + members());
    return std::make_unique<TorusNetwork>(d_, std::move(sizes));
  }

  std::unique_ptr<const Network> fat_tree(std::string_view text) const {
    const std::optional<std::size_t> ports = whole_number(text);
    if (!ports || *ports < 2 || *ports % 2 != 0 || *ports > 64)
      throw bad("is no shape: after the colon stands the number of a switch's ports, which is even and from 2 to 64");
    const std::size_t places = *ports * *ports * *ports / 4;
    if (places < count_) throw bad("has " + std::to_string(places) + " places for " + members());
    return std::make_unique<FatTreeNetwork>(d_, *ports, count_);
  }

  const NetworkDescription& d_;
  std::size_t count_;
  const std::string& member_;
};

}  // namespace

LinkNumber Network::add_link(std::size_t from, std::size_t to, double latency, double bytes_per_second) {
  links_.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), latency, bytes_per_second});
  return static_cast<LinkNumber>(links_.size() - 1);
}

std::unique_ptr<const Network> make_network(const NetworkDescription& description, std::size_t count,
                                            const std::string& member) {
  if (description.shape == "edges") return make_edge_network(description.edges, count, member);
  return Shape(description, count, member).network();
}

NetworkDescription as_edges(const NetworkDescription& description, std::size_t count) {
  const std::unique_ptr<const Network> network = make_network(description, count, "member");
  NetworkDescription result{.shape = "edges"};
  for (const Link& link : network->links()) {
    if (std::max(link.from, link.to) >= count)
      throw Error(ErrorCode::kUnsupported, "has switches, and edges join members alone", "shape '" + description.shape + "'");
    result.edges.push_back(link);
  }
  return result;
}

}  // namespace rewright::plans
