// Predicts a graph's cost on a device: the sum of its operators' measured times.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "optimizer/costs/database.h"
#include "optimizer/devices/device.h"
#include "optimizer/devices/device_profile.h"
#include "optimizer/matching/match.h"

namespace rewright::optimizer {

struct NodeOfSample;

// Facts that the cost model reads off an operator's denotation, for given attributes and operand types.
struct OperatorTraits {
  bool free = false;          // only changes sizes: every element keeps its place in memory (a reshape)
  bool contraction = false;   // sums products of elements of two operands
  bool pointwise = false;     // no reductions: an element depends on single elements of its operands
  std::vector<bool> aligned;  // by operand: it has the output's shape, and is read only at the output's position
  bool applies = false;       // pointwise, and applies a function (erf, tanh, ...) to an aligned operand
  std::vector<bool> reduced;  // by operand: read inside of a reduction
  bool moves = false;         // every output element is an element of an operand
  std::vector<bool> axes;     // by operand: each axis is read at one variable or number, not in windows
  double operations = 0;      // arithmetic operations
  double bytes = 0;           // read and written
  double output_elements = 0, output_bytes = 0;
};
// Bytes of a value; sizes that are not known count as 1.
inline double bytes_of(const TensorType& type) {
  double bytes = static_cast<double>(byte_size(type.type));
  for (const Index& size : type.shape) bytes *= static_cast<double>(size.constant().value_or(1));
  return bytes;
}

OperatorTraits operator_traits(const Operator& op, const Attributes& attributes,
                               std::span<const std::optional<TensorType>> operands);

// The quantity that the optimizer minimizes.
enum class Objective { kLatency, kMemory, kEnergy };
std::string_view name(Objective objective);  // "latency", "memory", "energy-proxy"

// Predictions for a graph, whatever the objective.
struct Quantities {
  double seconds = 0;
  double peak_bytes = 0;   // inputs, weights, and the peak of computed values in the graph's order
  double moved_bytes = 0;  // read and written by operators; a proxy for energy, which is mostly spent on moving data
};

// Numbers for symbolic sizes, 1 where there is none, and how much a graph's cost at them counts.
struct CostedSizes {
  Substitution sizes;
  double weight = 1;
};

struct CostOptions {
  std::vector<CostedSizes> sizes;  // all costs and amounts are means over them; none: all symbolic sizes are 1
  bool measure = true;             // false: the roofline alone
  bool for_training = false;       // weights are variables: nothing counts as constant
  Objective objective = Objective::kLatency;
  std::stop_token cancel;  // ends measuring
};

// The cost of one node by itself, and the savings if it is fused.
struct NodeCost {
  double seconds = 0;
  double executed = 0;  // seconds saved if it is fused and reads no other operands
  bool pointwise = false, contraction = false;
  std::vector<bool> aligned;  // as in OperatorTraits
  bool moves = false, free = false;
  std::vector<bool> strided;  // by operand: read at any strides
};

// A node's share of a graph's cost, as the cost model assumes execution.
struct NodeWork {
  double seconds = 0;                // its part of Quantities::seconds; the last of several nodes timed together has all
  double operations = 0, bytes = 0;  // alone
  double share = 0;                  // 0: fused, free, or computed from constants
};

// Where the model leaves sizes open, a cost is the weighted mean of the costs at the sizes that the options give.
//
// Costs are additive over nodes, with four exceptions: what is computed from constants alone costs nothing (it is evaluated
// once), a pure reindexing costs nothing, nor does what only moves elements if all that reads it takes strides, as the device
// says; and pointwise operators that follow a convolution or product which nobody else reads
// are taken as fused into it: they cost nothing, or, if they read another varying operand, half of what they cost alone. For
// the same reason an optional constant that a convolution or product adds at the end (a bias) costs nothing. The parts of an
// activation are timed together, if they stand so in the graph that was given: what else a backend fuses is not guessed.
class CostModel {
 public:
  // Null device: use the roofline. Null database: times are not stored. Both must outlive the model.
  CostModel(Device* device, CostDatabase* database, CostOptions options);
  ~CostModel();

  // Records the activations of a given graph, and whether its weights fit into the device's caches.
  void learn(const MatchedGraph& graph);
  // Measures missing costs of these graphs in one batch. False once a cost could not be measured: after the deadline, the
  // caller's stop, or in a CostFork. Later costs then partly rest on estimates, and searches end.
  bool prepare(std::span<const MatchedGraph* const> graphs);
  // prepare() and cost() of one graph; nullopt where prepare() returns false.
  std::optional<double> measured_cost(const MatchedGraph& graph);
  // The value of the objective. Latency in seconds: unprepared operators are estimated by the roofline, operators that the
  // device could not execute by a multiple of it. Bytes are converted to the seconds needed to move them; of two graphs with
  // the same peak, the one that holds fewer bytes in total is better.
  double cost(const MatchedGraph& graph);
  Quantities quantities(const MatchedGraph& graph);
  // The cost of each node.
  std::vector<NodeWork> work(const MatchedGraph& graph);
  // Bytes in memory: before the first node (inputs and weights), and while each node is computed, in the graph's order.
  std::vector<double> live_bytes(const MatchedGraph& graph);

  // The cost of each node alone, from known times; nothing is measured. Nodes computed from constants cost as if they were not.
  std::vector<NodeCost> alone(const MatchedGraph& graph);
  StridedReads strided_reads() const { return strided_reads_; }
  // The least cost of any node.
  double least() const;
  // The share of a fused node's cost that counts if it reads other varying operands.
  static double fused_share();
  // A graph's activations that are timed together: node positions, and seconds.
  std::vector<std::pair<std::vector<std::uint32_t>, double>> groups(const MatchedGraph& graph);

  void set_deadline(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  // Forgets earlier graphs' nodes; costs stay.
  void clear();
  std::size_t measured() const { return measured_; }
  // Everything that was measured, or found in the database.
  std::vector<ProfiledOperator> operators() const;

 private:
  friend class CostFork;
  struct Signature;
  struct Timed;
  struct Time;
  struct Remembered {
    std::shared_ptr<const Node> node;  // keeps the address from being reused
    std::uint32_t signature;
  };
  std::unique_ptr<CostModel> fork() const;
  void update(const CostModel& other);  // takes over its times, and forgets that some could not be measured
  std::uint32_t signature_of(const MatchedGraph& graph, const std::shared_ptr<const Node>& node);
  std::uint32_t add_signature(const std::string& text, Signature signature);
  std::string add_sample(NodeOfSample sample, double share, Signature& signature);  // equal texts are equal samples
  std::shared_ptr<Time> time_of(const std::string& text);
  struct Counted {  // a node, while a graph's cost is added up
    Signature* signature = nullptr;
    double share = 1;             // the share of its own cost that counts
    bool in_contraction = false;  // a contraction, or fused into one
    bool may_group = false, grouped = false;
    bool passed = false;  // a reindexing or movement whose readers all take strides
  };
  bool strided(const OperatorTraits& traits, std::size_t operand) const;
  bool passes(const MatchedGraph& graph, const Node& node, const std::vector<Counted>& counted) const;
  std::vector<std::uint32_t> group_of(const MatchedGraph& graph, std::uint32_t last, std::vector<Counted>& counted);
  Signature* group_signature(const MatchedGraph& graph, const std::vector<std::uint32_t>& members);  // null: unknown group
  // Calls back (signature, share of its cost that counts, node positions) for everything not computed from constants.
  template <class Visit>
  void visit(const MatchedGraph& graph, const Visit& visit);
  double estimate(const Timed& timed) const;  // by the roofline
  double seconds(const Timed& timed) const;
  double seconds(const Signature& signature) const;
  bool is_asked(Timed& timed);                     // otherwise the device is to be asked for its time
  double price(const Signature& signature) const;  // what it adds to the cost: seconds, unless the objective is another
  // The cost that nodes timed together add, if they cost `own` and `share` of that counts.
  double added(const Signature& signature, double share, std::size_t nodes, double own) const;
  double peak_bytes(const MatchedGraph& graph);
  static void take(Timed& timed, std::optional<double> seconds);
  std::size_t measure(std::span<Timed* const> batch);  // how many there was time for
  double measuring_seconds(const Timed& timed) const;  // estimated
  std::size_t batch_at(std::span<Timed* const> missing, std::size_t first) const;
  bool fits(const Timed& timed) const;

  Device* device_;
  CostDatabase* database_;
  CostOptions options_;
  Roofline roofline_;
  StridedReads strided_reads_ = StridedReads::kNone;
  double cache_bytes_ = std::numeric_limits<double>::infinity();
  bool cold_ = false;  // weights do not fit into the caches
  std::string identity_;
  std::unordered_map<const Node*, Remembered> nodes_;
  std::map<std::vector<const Node*>, Signature*> groups_;  // by the nodes of the group
  bool learning_ = false;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::vector<std::unique_ptr<Signature>> signatures_;
  std::unordered_map<std::string, std::shared_ptr<Time>> times_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::size_t measured_ = 0;
  bool is_fork_ = false, incomplete_ = false;
};

// A copy of a cost model for another thread. It measures nothing: it uses the times that its origin, the database, and devices
// that only look times up already have. The origin must outlive it.
//
//   CostFork fork(costs);
//   fork.run([&](CostModel& model) { found = backtrack(region, rules, model, options, limits); });
class CostFork {
 public:
  explicit CostFork(const CostModel& origin) : origin_(origin), model_(origin.fork()) {}
  // Takes over what the origin has measured since. Not while another thread uses the origin.
  void update() { model_->update(origin_); }
  // Calls work(model). Missing costs in one call do not affect the next. Several forks of one origin may run concurrently, as
  // long as nothing uses the origin.
  template <class Work>
  void run(const Work& work) {
    work(*model_);
    if (model_->incomplete_) update();
    model_->clear();
  }

 private:
  const CostModel& origin_;
  std::unique_ptr<CostModel> model_;
};

}  // namespace rewright::optimizer
