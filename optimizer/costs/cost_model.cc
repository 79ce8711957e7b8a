#include "optimizer/costs/cost_model.h"

#include <algorithm>
#include <unordered_set>

#include "optimizer/costs/parts.h"

namespace rewright::optimizer {

namespace {

// A factor on the costs of operators that cannot be executed alone, which keeps searches away from them.
constexpr double kFailurePenalty = 10;

// The share of the shorter of computing and reading weights that the longer one does not hide.
constexpr double kNotOverlapped = 0.25;

// The weight of all bytes held, in addition to the peak, if memory is the objective.
constexpr double kHeldShare = 1e-3;

// Operators measured between two checks for cancellation: at most this many, or an estimate of this many seconds.
constexpr std::size_t kBatch = 32;
constexpr double kBatchSeconds = 1;
constexpr double kRunsOfSample = 4;      // at least, for a slow sample
constexpr double kLeastOfSample = 0.03;  // seconds, for a fast sample
constexpr double kMissesRoofline = 3;    // factor on the estimate, which is a lower bound

}  // namespace

CostModel::CostModel(Device* device, CostDatabase* database, CostOptions options)
    : device_(device), database_(device && !device->measures() ? nullptr : database), options_(std::move(options)) {
  if (device_) {
    roofline_ = device_->roofline();
    strided_reads_ = device_->strided_reads();
    cache_bytes_ = device_->cache_bytes();
    identity_ = device_->identity();
  }
  if (options_.sizes.empty()) options_.sizes.emplace_back();
  double weights = 0;
  for (const CostedSizes& at : options_.sizes) weights += at.weight;
  for (CostedSizes& at : options_.sizes) {
    at.weight = weights > 0 ? at.weight / weights : 1 / static_cast<double>(options_.sizes.size());
    at.sizes = [given = std::move(at.sizes)](const Atom& atom) -> std::optional<Index> {
      if (given)
        if (std::optional<Index> size = given(atom)) return size;
      if (atom.kind == Atom::Kind::kSymbol) return Index(1);
      return std::nullopt;
    };
  }
}

CostModel::~CostModel() = default;

std::unique_ptr<CostModel> CostModel::fork() const {
  auto copy = std::make_unique<CostModel>(nullptr, nullptr, CostOptions());
  copy->device_ = device_;
  copy->database_ = database_;
  copy->options_ = options_;
  copy->roofline_ = roofline_;
  copy->strided_reads_ = strided_reads_;
  copy->cache_bytes_ = cache_bytes_;
  copy->cold_ = cold_;
  copy->identity_ = identity_;
  copy->deadline_ = deadline_;
  copy->is_fork_ = true;
  copy->by_text_ = by_text_;
  for (const auto& [text, time] : times_) copy->times_.emplace(text, std::make_shared<Time>(*time));
  for (const auto& signature : signatures_) {
    copy->signatures_.push_back(std::make_unique<Signature>(*signature));
    for (Timed& timed : copy->signatures_.back()->at) timed.time = copy->times_.at(timed.text);
  }
  return copy;
}

void CostModel::update(const CostModel& other) {
  incomplete_ = false;
  for (const auto& [text, time] : other.times_) {
    if (!time->measured && !time->failed) continue;
    std::shared_ptr<Time>& mine = times_[text];
    if (!mine) mine = std::make_shared<Time>();
    *mine = *time;
  }
}

void CostModel::clear() {
  nodes_.clear();
  groups_.clear();
}

bool CostModel::strided(const OperatorTraits& traits, std::size_t operand) const {
  if (strided_reads_ == StridedReads::kNone || operand >= traits.axes.size()) return false;
  const bool multiplied = traits.contraction && traits.reduced[operand];
  if (strided_reads_ == StridedReads::kWindows) return multiplied || traits.pointwise || !traits.axes[operand];
  return traits.axes[operand] && (multiplied || traits.pointwise);
}

// For nodes that are not computed from constants; users come first.
bool CostModel::passes(const MatchedGraph& matched, const Node& node, const std::vector<Counted>& counted) const {
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    if (matched.is_output[output]) return false;
    const auto users = matched.users(output);
    for (const std::int32_t user : users) {
      const Counted& reader = counted[static_cast<std::size_t>(user)];
      const Node& other = *matched.graph->nodes()[static_cast<std::size_t>(user)];
      if (!reader.signature || reader.signature->opaque) return false;
      const OperatorTraits& traits = reader.signature->traits;
      bool reads = false;
      for (std::size_t i = 0; i < other.inputs.size(); ++i) {
        if (other.inputs[i] != output) continue;
        reads = true;
        if (traits.free ? !reader.passed : !traits.moves && !strided(traits, i)) return false;
      }
      // Elementwise operators recompute it, if nothing else needs it.
      if (!reads || (strided_reads_ == StridedReads::kProducts && traits.pointwise && users.size() > 1 && !traits.moves))
        return false;
    }
  }
  return true;
}

void CostModel::learn(const MatchedGraph& graph) {
  learning_ = true;
  visit(graph, [](Signature&, double, std::span<const std::uint32_t>) {});
  learning_ = false;
  double weights = 0;
  for (ValueId id = 0; id < graph.graph->value_count(); ++id)
    if (graph.graph->is_constant(id) && !graph.users(id).empty())
      weights += static_cast<double>(graph.graph->value(id).constant.byte_count());
  cold_ = weights > cache_bytes_;
}

double CostModel::estimate(const Timed& timed) const {
  return roofline_.call_seconds +
         std::max(timed.operations / roofline_.operations_per_second, timed.bytes / roofline_.bytes_per_second);
}

double CostModel::seconds(const Timed& timed) const {
  if (timed.time->measured) {
    const double known = *timed.time->measured, reading = cold_ ? timed.weights / roofline_.bytes_per_second : 0;
    return std::max(known, reading) + kNotOverlapped * std::min(known, reading);
  }
  return timed.time->failed ? kFailurePenalty * estimate(timed) : estimate(timed);
}

double CostModel::seconds(const Signature& signature) const {
  double mean = 0;
  for (const Timed& timed : signature.at) mean += timed.share * seconds(timed);
  return mean;
}

bool CostModel::is_asked(Timed& timed) {
  if (timed.time->asked) return true;
  const auto known = database_ ? database_->find(identity_, timed.text) : std::nullopt;
  if (known) take(timed, *known);
  timed.time->asked = known.has_value();
  return timed.time->asked;
}

bool CostModel::prepare(std::span<const MatchedGraph* const> graphs) {
  if (!device_ || !options_.measure) return true;
  std::vector<Timed*> missing;
  for (const MatchedGraph* graph : graphs) {
    visit(*graph, [&](Signature& signature, double share, std::span<const std::uint32_t>) {
      if (share == 0 || signature.opaque || signature.traits.free) return;
      for (Timed& timed : signature.at) {
        if (is_asked(timed)) continue;
        timed.time->asked = true;
        missing.push_back(&timed);
      }
    });
  }
  for (std::size_t first = 0; first < missing.size();) {
    const std::size_t count = device_->measures() ? batch_at(missing, first) : missing.size() - first;
    const std::span<Timed* const> batch = std::span(missing).subspan(first, count);
    std::size_t done = 0;
    if (!device_->measures() || (!is_fork_ && !options_.cancel.stop_requested() && fits(*batch[0]))) done = measure(batch);
    first += done;
    if (done == count) continue;
    missing[first++]->time->asked = false;  // but others may take less
    incomplete_ = true;
  }
  return !incomplete_;
}

std::optional<double> CostModel::measured_cost(const MatchedGraph& graph) {
  const MatchedGraph* const one = &graph;
  return prepare({&one, 1}) ? std::optional(cost(graph)) : std::nullopt;
}

double CostModel::measuring_seconds(const Timed& timed) const {
  return kLeastOfSample + kRunsOfSample * kMissesRoofline * estimate(timed);
}

// The number of missing samples, from `first` on, that are measured at once: at least one.
std::size_t CostModel::batch_at(std::span<Timed* const> missing, std::size_t first) const {
  double seconds = 0;
  std::size_t count = 0;
  while (first + count < missing.size() && count < kBatch) {
    seconds += measuring_seconds(*missing[first + count]);
    if (count > 0 && seconds > kBatchSeconds) break;
    ++count;
  }
  return count;
}

// Is there time to measure it? By what it takes at least: what an estimate adds may be wrong.
bool CostModel::fits(const Timed& timed) const {
  const auto now = std::chrono::steady_clock::now();
  if (deadline_ == std::chrono::steady_clock::time_point::max()) return true;
  return now <= deadline_ && std::chrono::duration<double>(deadline_ - now).count() >= kRunsOfSample * estimate(timed);
}

void CostModel::take(Timed& timed, std::optional<double> seconds) {
  timed.time->measured = seconds;
  timed.time->failed = !seconds;
}

std::size_t CostModel::measure(std::span<Timed* const> batch) {
  std::vector<NodeSample> samples;
  for (const Timed* timed : batch) samples.push_back({timed->sample(), timed->text, timed->size});
  const std::vector<std::optional<double>> times = device_->time_nodes(samples);
  std::vector<CostDatabase::Entry> entries;
  const std::size_t done = std::min(batch.size(), times.size());
  for (std::size_t i = 0; i < done; ++i) {
    take(*batch[i], times[i]);
    entries.push_back({batch[i]->text, times[i]});
  }
  measured_ += done;
  if (database_) database_->store(identity_, entries);
  return done;
}

std::vector<ProfiledOperator> CostModel::operators() const {
  std::vector<ProfiledOperator> found;
  std::unordered_set<std::string> seen;
  for (const auto& signature : signatures_)
    for (const Timed& timed : signature->at)
      if ((timed.time->measured || timed.time->failed) && seen.insert(timed.text).second)
        found.push_back({timed.text, timed.time->measured, timed.size});
  return found;
}

double CostModel::cost(const MatchedGraph& graph) {
  double total = 0;
  visit(graph, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    total += added(signature, share, nodes.size(), price(signature));
  });
  if (options_.objective == Objective::kMemory) total += peak_bytes(graph) / roofline_.bytes_per_second;
  return total;
}

double CostModel::added(const Signature& signature, double share, std::size_t nodes, double own) const {
  const double executed = signature.opaque ? roofline_.call_seconds : signature.traits.free ? 0 : share * own;
  return least() * static_cast<double>(nodes) + executed;
}

double CostModel::price(const Signature& signature) const {
  switch (options_.objective) {
    case Objective::kLatency:
      break;
    case Objective::kMemory:
      return kHeldShare * signature.traits.output_bytes / roofline_.bytes_per_second;
    case Objective::kEnergy:
      return signature.traits.bytes / roofline_.bytes_per_second;
  }
  return seconds(signature);
}

std::vector<NodeWork> CostModel::work(const MatchedGraph& graph) {
  std::vector<NodeWork> result(graph.graph->nodes().size());
  visit(graph, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    for (const std::uint32_t n : nodes) {
      const Signature& own = *signatures_[signature_of(graph, graph.graph->nodes()[n])];
      result[n] = {0, own.traits.operations, own.traits.bytes, 0};
    }
    NodeWork& last = result[nodes.back()];
    last.share = nodes.size() > 1 ? 1 : share;
    last.seconds = added(signature, share, nodes.size(), seconds(signature));
  });
  return result;
}

Quantities CostModel::quantities(const MatchedGraph& graph) {
  Quantities result;
  visit(graph, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    result.seconds += added(signature, share, nodes.size(), seconds(signature));
    if (!signature.opaque && !signature.traits.free) result.moved_bytes += share * signature.traits.bytes;
  });
  result.peak_bytes = peak_bytes(graph);
  return result;
}

std::string_view name(Objective objective) {
  switch (objective) {
    case Objective::kLatency:
      return "latency";
    case Objective::kMemory:
      return "memory";
    case Objective::kEnergy:
      return "energy-proxy";
  }
  return "latency";
}

// A small cost for each node, so that of two graphs with equal costs the smaller is preferred.
double CostModel::least() const { return 0.02 * roofline_.call_seconds; }

double CostModel::fused_share() { return kFusedShare; }

std::vector<NodeCost> CostModel::alone(const MatchedGraph& graph) {
  std::vector<Signature*> found;
  double measured = 0, estimated = 0;
  for (const auto& node : graph.graph->nodes()) {
    Signature& signature = *signatures_[signature_of(graph, node)];
    found.push_back(&signature);
    if (signature.opaque || signature.traits.free) continue;
    for (Timed& timed : signature.at) {
      if (device_ && options_.measure && !is_asked(timed) && !device_->measures()) {
        Timed* const missing = &timed;
        measure({&missing, 1});
        timed.time->asked = true;
      }
      if (!timed.time->measured) continue;
      measured += timed.share * *timed.time->measured;
      estimated += timed.share * estimate(timed);
    }
  }
  // The roofline is a lower bound. Unmeasured operators are assumed to exceed it as much as measured ones.
  const double miss = estimated > 0 && measured > 0 ? measured / estimated : 1;
  std::vector<NodeCost> costs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Signature& signature = *found[i];
    NodeCost cost;
    if (!signature.opaque && !signature.traits.free && options_.objective != Objective::kLatency)
      cost.executed = price(signature);
    else if (!signature.opaque && !signature.traits.free)
      for (const Timed& timed : signature.at)
        cost.executed += timed.share * seconds(timed) * (timed.time->measured || timed.time->failed ? 1 : miss);
    cost.seconds = least() + (signature.opaque ? roofline_.call_seconds : cost.executed);
    cost.pointwise = signature.traits.pointwise;
    cost.contraction = signature.traits.contraction;
    cost.aligned = signature.traits.aligned;
    cost.aligned.resize(graph.graph->nodes()[i]->inputs.size());
    cost.moves = signature.traits.moves && !signature.opaque;
    cost.free = signature.traits.free && !signature.opaque;
    for (std::size_t input = 0; input < cost.aligned.size(); ++input)
      cost.strided.push_back(!signature.opaque && strided(signature.traits, input));
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::vector<std::pair<std::vector<std::uint32_t>, double>> CostModel::groups(const MatchedGraph& graph) {
  std::vector<std::pair<std::vector<std::uint32_t>, double>> found;
  visit(graph, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    if (nodes.size() < 2) return;
    found.emplace_back(std::vector<std::uint32_t>(nodes.begin(), nodes.end()),
                       added(signature, share, nodes.size(), price(signature)));
  });
  return found;
}

}  // namespace rewright::optimizer
