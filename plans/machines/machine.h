// A machine to plan for: equal devices on nodes, and the links between them.
//
//   const Machine machine = read_machine("cluster.json");   // plans/machines/machine_file.h
//   machine.seconds(2e9, 4e6);                              // an operator on one device
//   machine.route(0, 5);                                    // the links that a message passes
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "optimizer/costs/operator_factors.h"
#include "optimizer/devices/device_profile.h"
#include "plans/machines/network.h"
#include "plans/machines/rings.h"

namespace rewright::plans {

// The least rate of a machine file, in bytes or operations a second: no time is infinite.
constexpr double kLeastRate = 1e-3;

struct DeviceRates {
  double operations_per_second = 0, bytes_per_second = 0;
  double call_seconds = 0;  // of an operator that does next to nothing

  // Seconds of one operator by the roofline: the longer of its operations and its bytes, and the call.
  double seconds(double operations, double bytes) const {
    return call_seconds + std::max(operations / operations_per_second, bytes / bytes_per_second);
  }
};

// Kernels that compute in a layout of their own (channels last): where one reads what is plain, and where something else
// reads its result, the value is copied (plans/groups/rearranging.h). Ports are texts: "operand 0 of Conv".
struct LayoutFacts {
  static constexpr const char *kOperand = "operand", *kResult = "result";
  static std::string port(const char* kind, std::size_t number, const std::string& op) {
    return std::string(kind) + " " + std::to_string(number) + " of " + op;
  }

  std::set<std::string> changed = {};  // ports that have another layout than a plain tensor's
  std::set<std::string> kept = {};     // operands that are read as they are, and the results are alike
  std::set<std::string> read = {};     // operands that are read as they are, and the results are written as they are wanted
  std::size_t least_channels = 1;      // values with fewer stay plain
  double bytes_per_second = 0;         // read and written, by such copies and by copies of parts

  bool changes(const std::string& op, const char* kind, std::size_t number) const {
    return changed.contains(port(kind, number, op));
  }
  bool keeps(const std::string& op, std::size_t operand) const { return kept.contains(port(kOperand, operand, op)); }
  bool reads(const std::string& op, std::size_t operand) const { return read.contains(port(kOperand, operand, op)); }
  friend bool operator==(const LayoutFacts&, const LayoutFacts&) = default;
};

// The contents of a machine file.
struct MachineDescription {
  std::size_t devices = 1, per_node = 1;
  std::optional<DeviceRates> rates = {};                    // none: the profile's
  std::string profile = {};                                 // a device profile's file; empty: none
  double memory = std::numeric_limits<double>::infinity();  // bytes of a device
  // Bytes that the devices of a node read and write together in a second, where they share a memory.
  double node_bytes_per_second = std::numeric_limits<double>::infinity();
  double exchange_seconds = 0;                     // that an exchange takes beside its messages
  bool exchanges_beside = true;                    // exchanging needs no time of the device that computes
  std::optional<LayoutFacts> layouts = {};         // none: all values are plain
  std::optional<NetworkDescription> node = {};     // between the devices of a node; needed if there are several
  std::optional<NetworkDescription> cluster = {};  // between nodes; needed if there are several
  // Collectives of all nodes look at the network: vectors are reduced and gathered within nodes, and go between them around all
  // rings of direct cables, or around one in the order of the ranks where there are none. Else they go around one ring of all
  // devices in the order of their numbers.
  bool rings = false;
};

// Device d is on node d / per_node. Messages between devices of one node take the node's links; others take the cluster's, and
// all devices of a node share its links to the cluster.
class Machine {
 public:
  // `profile` has been read from the description's file, or is null. Throws Error(kBadInput) for numbers that cannot be, and
  // for networks that do not fit (make_network).
  explicit Machine(MachineDescription description, std::shared_ptr<const ProfileModel> profile = {});

  const MachineDescription& description() const { return description_; }
  std::size_t devices() const { return description_.devices; }
  std::size_t nodes() const { return description_.devices / description_.per_node; }
  std::size_t node_of(std::size_t device) const { return device / description_.per_node; }
  double memory() const { return description_.memory; }  // bytes of a device; infinity: not limited
  double exchange_seconds() const { return description_.exchange_seconds; }
  bool exchanges_beside() const { return description_.exchanges_beside; }
  // While all devices compute: those of a node have equal shares of what its memory gives.
  const DeviceRates& rates() const { return rates_; }
  const ProfileModel* profile() const { return profile_.get(); }  // of a device, may be null
  const std::shared_ptr<const ProfileModel>& shared_profile() const { return profile_; }
  // By the profile; null without one.
  const std::shared_ptr<const OperatorFactors>& operator_factors() const { return factors_; }

  double seconds(double operations, double bytes) const { return rates_.seconds(operations, bytes); }  // of one operator

  // By number. Their vertices are those of their network.
  std::span<const Link> links() const { return links_; }
  // As many of the last ones join nodes.
  std::size_t cluster_links() const { return links_.size() - cluster_begin(); }
  // "node 2: 1 -> switch", "cluster: edge switch 0 -> core switch 3".
  std::string link_name(LinkNumber link) const;
  // The links between two devices, in the order of their passage; none from a device to itself. The same on every call.
  std::vector<LinkNumber> route(std::size_t from, std::size_t to) const;
  void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& links) const;  // appends them
  // Rings of nodes that collectives go around; none where they go around one in the order of the ranks.
  std::span<const Ring> rings() const { return rings_; }
  // A message alone on its way: the links' latencies, and the bytes at the rate of the slowest.
  double message_seconds(std::size_t from, std::size_t to, double bytes) const;

 private:
  Ring ring_of_ranks() const;
  std::size_t cluster_begin() const { return node_links_ * nodes(); }

  MachineDescription description_;
  std::shared_ptr<const ProfileModel> profile_;
  std::shared_ptr<const OperatorFactors> factors_;
  DeviceRates rates_;
  std::shared_ptr<const Network> node_, cluster_;  // null: not needed
  std::size_t node_links_ = 0;                     // of one node
  std::vector<Link> links_;                        // those of all nodes, then the cluster's
  std::vector<Ring> rings_;
};

}  // namespace rewright::plans
