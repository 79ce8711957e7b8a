// The predicted cost of a graph on a device: the sum of its operators' measured times.
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

// Facts that the cost model reads off an operator's denotation, for given attributes and operand types.
struct OperatorTraits {
  bool free = false;          // a pure reindexing that keeps every element where it is in memory (a reshape)
  bool contraction = false;   // sums products of elements of two operands
  bool pointwise = false;     // no reductions: an element depends on single elements of its operands
  std::vector<bool> aligned;  // per operand: has the output's shape, and is read at the output's own position alone
  bool applies = false;       // pointwise, and by a function (erf, tanh, ...) of an aligned operand
  std::vector<bool> reduced;  // per operand: read inside of a reduction
  bool moves = false;         // an element of any output is an element of an operand
  std::vector<bool> axes;     // per operand: each axis is read at one variable or number, and not in windows
  double operations = 0;      // arithmetic operations
  double bytes = 0;           // read and written
  double output_elements = 0, output_bytes = 0;
};
OperatorTraits operator_traits(const Operator& op, const Attributes& attributes,
                               std::span<const std::optional<TensorType>> operands);

// The quantity that the optimizer minimizes.
enum class Objective { kLatency, kMemory, kEnergy };
std::string_view name(Objective objective);  // "latency", "memory", "energy-proxy"

// Predictions for a graph, whatever the objective.
struct Quantities {
  double seconds = 0;
  double peak_bytes = 0;   // inputs, weights, and the most that is needed at a time of what is computed, in the graph's order
  double moved_bytes = 0;  // read and written by its operators, in place of energy: moving data is what costs most of it
};

struct CostOptions {
  Substitution sizes;         // numbers for symbolic sizes; where it has none, 1
  bool measure = true;        // false: the roofline alone
  bool for_training = false;  // weights are variables: nothing counts as constant
  Objective objective = Objective::kLatency;
  std::stop_token cancel;  // ends measuring
};

// The cost of one node by itself, and the savings of fusing it.
struct NodeCost {
  double seconds = 0;
  double executed = 0;  // of these seconds, what is saved if it is fused and reads nothing else
  bool pointwise = false, contraction = false;
  std::vector<bool> aligned;  // as in OperatorTraits
  bool moves = false, free = false;
  std::vector<bool> strided;  // per operand: read at any strides
};

// A node's share of the cost of a graph that is executed as the cost model assumes.
struct NodeWork {
  double seconds = 0;  // what it adds to Quantities::seconds; of nodes that are timed together, all with the last of them
  double operations = 0, bytes = 0;  // alone
  double share = 0;                  // 0: fused into another, free, or computed from constants
};

// Costs are additive over nodes, with four exceptions: what is computed from constants alone costs nothing (it is evaluated
// once), a pure reindexing costs nothing, nor does what only moves elements if all that reads it takes strides, as the device
// says; and pointwise operators that follow a convolution or product which nobody else reads
// are taken as fused into it: they cost nothing, or, if they read another varying operand, half of what they cost alone. For
// the same reason an optional constant that a convolution or product adds at the end (a bias) costs nothing. The parts of an
// activation are timed together, if they stand so in the graph that was given: what else a backend fuses is not guessed.
class CostModel {
 public:
  // Both may be null: no device, the roofline; no database, nothing is kept. They must outlive the model.
  CostModel(Device* device, CostDatabase* database, CostOptions options);
  ~CostModel();

  // Takes note of the activations of a given graph, and of whether its weights fit into the device's caches.
  void learn(const MatchedGraph& graph);
  // Measures in one batch what the costs of these graphs lack. False once something was asked for that could not be measured:
  // after the deadline or the caller's stop, or in a CostFork. From then on costs partly rest on estimates, and searches end.
  bool prepare(std::span<const MatchedGraph* const> graphs);
  // prepare() and cost() of one graph; nullopt where prepare() returns false.
  std::optional<double> measured_cost(const MatchedGraph& graph);
  // The quantity that the objective minimizes. Latency in seconds: operators that were not prepared are estimated by the
  // roofline, those that the device could not execute by a multiple of that. Bytes count as the seconds that the device needs
  // to move them; and of two graphs with the same peak the one that holds less in all is better.
  double cost(const MatchedGraph& graph);
  Quantities quantities(const MatchedGraph& graph);
  // The cost of each node of the graph.
  std::vector<NodeWork> work(const MatchedGraph& graph);
  // Bytes that are held: before the first node (inputs and weights), and while each of the nodes is computed, in the graph's
  // order.
  std::vector<double> live_bytes(const MatchedGraph& graph);

  // The cost of each node alone, by what is known already; nothing is measured. Nodes computed from constants cost what they
  // would cost otherwise.
  std::vector<NodeCost> alone(const MatchedGraph& graph);
  StridedReads strided_reads() const { return strided_reads_; }
  // The least cost of any node.
  double least() const;
  // Share of a fused node's cost that counts if it reads other varying operands too.
  static double fused_share();
  // The activations of a graph that are timed together: positions of nodes, and seconds.
  std::vector<std::pair<std::vector<std::uint32_t>, double>> groups(const MatchedGraph& graph);

  void set_deadline(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  // Forgets the nodes of earlier graphs; costs stay.
  void clear();
  std::size_t measured() const { return measured_; }
  // All that has been measured, or found in the database.
  std::vector<ProfiledOperator> operators() const;

 private:
  friend class CostFork;
  struct Signature;
  struct Time;
  struct Remembered {
    std::shared_ptr<const Node> node;  // kept alive, so that its address is never another's
    std::uint32_t signature;
  };
  std::unique_ptr<CostModel> fork() const;
  void update(const CostModel& other);  // takes over its times, and forgets that something was not measured
  std::uint32_t signature_of(const MatchedGraph& graph, const std::shared_ptr<const Node>& node);
  // Null: one that is not timed. Its time is kept under `timed`, or else the text.
  std::uint32_t add_signature(const std::string& text, std::unique_ptr<Signature> signature, const std::string& timed = {});
  struct Counted {  // a node, while a graph's cost is added up
    Signature* signature = nullptr;
    double share = 1;             // of its own cost that counts
    bool in_contraction = false;  // a contraction, or fused into one
    bool may_group = false, grouped = false;
    bool passed = false;  // a reindexing or a movement, and all that reads it takes strides
  };
  bool strided(const OperatorTraits& traits, std::size_t operand) const;
  bool passes(const MatchedGraph& graph, const Node& node, const std::vector<Counted>& counted) const;
  std::vector<std::uint32_t> group_of(const MatchedGraph& graph, std::uint32_t last, std::vector<Counted>& counted);
  Signature* group_signature(const MatchedGraph& graph, const std::vector<std::uint32_t>& members);  // null: not learned
  // Calls back (signature, share of its cost that counts, positions of nodes) for what is not computed from constants.
  template <class Visit>
  void visit(const MatchedGraph& graph, const Visit& visit);
  double estimate(const Signature& signature) const;  // by the roofline
  double seconds(const Signature& signature) const;
  double price(const Signature& signature) const;  // what it adds to the cost: seconds, unless the objective is another
  // The cost that nodes timed together add, if they cost `own` and `share` of that counts.
  double added(const Signature& signature, double share, std::size_t nodes, double own) const;
  double peak_bytes(const MatchedGraph& graph);
  static void take(Signature& signature, std::optional<double> seconds);
  std::size_t measure(std::span<Signature* const> batch);      // how many there was time for
  double measuring_seconds(const Signature& signature) const;  // estimated
  std::size_t batch_at(std::span<Signature* const> missing, std::size_t first) const;
  bool fits(const Signature& signature) const;

  Device* device_;
  CostDatabase* database_;
  CostOptions options_;
  Roofline roofline_;
  StridedReads strided_reads_ = StridedReads::kNone;
  double cache_bytes_ = std::numeric_limits<double>::infinity();
  bool cold_ = false;  // weights come from beyond the caches
  std::string identity_;
  std::unordered_map<const Node*, Remembered> nodes_;
  std::map<std::vector<const Node*>, Signature*> groups_;  // of nodes that are remembered
  bool learning_ = false;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::vector<std::unique_ptr<Signature>> signatures_;
  std::unordered_map<std::string, std::shared_ptr<Time>> times_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::size_t measured_ = 0;
  bool is_fork_ = false, incomplete_ = false;
};

// A copy of a cost model for another thread. It measures nothing: it knows the times that its origin knows, those in the
// database, and those of devices that only look times up. The origin must outlive it.
//
//   CostFork fork(costs);
//   fork.run([&](CostModel& model) { found = backtrack(region, rules, model, options, limits); });
class CostFork {
 public:
  explicit CostFork(const CostModel& origin) : origin_(origin), model_(origin.fork()) {}
  // Takes over what the origin has measured since. Not while the origin is used by another thread.
  void update() { model_->update(origin_); }
  // Calls work(model). Whatever the model lacked, the next call begins anew. Several forks of one origin may run at once, as
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
