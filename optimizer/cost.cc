#include "optimizer/cost.h"

#include <algorithm>
#include <unordered_set>

#include "optimizer/sample.h"

namespace rewright {

// What is known of all signatures of one text.
struct CostModel::Time {
  bool asked = false;              // the database and the device have been asked
  bool failed = false;             // the device could not execute it
  std::optional<double> measured;  // seconds
};

struct CostModel::Signature {
  std::string text;  // under which its time is kept
  OperatorTraits traits;
  double weights = 0;  // bytes of operands that are constant
  bool opaque = false;
  std::shared_ptr<Time> time;
  std::function<Graph()> sample;  // to be timed
  OperatorSize size;              // the same for all signatures of one text
};

namespace {

// Of a fused operator with another varying operand: that is still to be read, but its own input and output are not.
constexpr double kFusedShare = 0.5;

// Pointwise operators of so few operations an element wait for memory alone. They share one cost for the same operands, so
// that the noise of measuring does not make one of them look better than another.
constexpr double kCheapOperations = 2;

// Nor does the order of the operands. What it makes counts if it is no real number, as of a comparison.
std::string describe_cheap(std::vector<OperandSample> operands, const OperatorTraits& traits) {
  std::stable_sort(operands.begin(), operands.end(), [](const OperandSample& a, const OperandSample& b) {
    return std::pair(a.constant, to_string(a.type)) < std::pair(b.constant, to_string(b.type));
  });
  const std::string text = describe("pointwise", {}, operands);
  const double width = traits.output_bytes / std::max(traits.output_elements, 1.0);
  const bool same = std::any_of(operands.begin(), operands.end(), [&](const OperandSample& operand) {
    return operand.present && static_cast<double>(byte_size(operand.type.type)) == width;
  });
  return same ? text : text + " to " + std::to_string(static_cast<int>(width)) + " bytes";
}

OperatorSize size_of(const OperatorTraits& traits) { return {traits.operations, traits.bytes, traits.output_elements}; }

// What cannot be executed alone is not what a search should run into.
constexpr double kFailurePenalty = 10;

// Of computing and of reading weights from memory, the shorter one's share that the longer one does not hide.
constexpr double kNotOverlapped = 0.25;

// What a graph holds in all, beside its peak, where memory is the objective.
constexpr double kHeldShare = 1e-3;

constexpr std::size_t kBatch = 32;  // operators measured before it is asked whether to go on

// Activations are often written as several operators (x * sigmoid(x), the parts of a Gelu), for which backends have one kernel:
// pointwise operators that hang together are timed together if one of them applies a function. Chains of sums and products are
// not: they wait for memory one by one, and searches make too many of them to time each.
//
// Pointwise operators on less than this are as fast one by one: what they cost is the calls.
constexpr double kGroupedBytes = 1 << 16;
constexpr std::size_t kMostInGroup = 8;

double bytes_of(const TensorType& type) {
  double bytes = static_cast<double>(byte_size(type.type));
  for (const Index& size : type.shape) bytes *= static_cast<double>(size.constant().value_or(1));
  return bytes;
}

}  // namespace

CostModel::CostModel(Device* device, CostDatabase* database, CostOptions options)
    : device_(device), database_(device && !device->measures() ? nullptr : database), options_(std::move(options)) {
  if (device_) {
    roofline_ = device_->roofline();
    strided_reads_ = device_->strided_reads();
    cache_bytes_ = device_->cache_bytes();
    identity_ = device_->identity();
  }
  const Substitution given = std::move(options_.sizes);
  options_.sizes = [given](const Atom& atom) -> std::optional<Index> {
    if (given)
      if (std::optional<Index> size = given(atom)) return size;
    if (atom.kind == Atom::Kind::kSymbol) return Index(1);
    return std::nullopt;
  };
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
    copy->signatures_.back()->time = copy->times_.at(signature->text);
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

std::uint32_t CostModel::signature_of(const MatchedGraph& matched, const std::shared_ptr<const Node>& node) {
  const auto known = nodes_.find(node.get());
  if (known != nodes_.end()) return known->second.signature;
  const auto remember = [&](std::uint32_t number) {
    nodes_.emplace(node.get(), Remembered{node, number});
    return number;
  };
  if (!node->op) return remember(add_signature("opaque", nullptr));

  NodeOfSample sample = node_of_sample(matched, *node, options_.sizes);
  std::vector<OperandSample>& operands = sample.operands;
  const Attributes& attributes = sample.attributes;
  const std::string text = describe(node->op->name(), attributes, operands);
  if (const auto found = by_text_.find(text); found != by_text_.end()) return remember(found->second);
  auto signature = std::make_unique<Signature>();
  OperatorTraits& traits = signature->traits;
  try {
    traits = operator_traits(*node->op, attributes, types_of(operands));
    const std::size_t given = operands.size();
    if (traits.contraction)
      while (operands.size() > static_cast<std::size_t>(node->op->min_inputs()) &&
             (!operands.back().present || (operands.back().constant && !traits.reduced[operands.size() - 1])))
        operands.pop_back();
    if (operands.size() < given) traits = operator_traits(*node->op, attributes, types_of(operands));
  } catch (const Error&) {
    return remember(by_text_[text] = add_signature("opaque", nullptr));  // sizes that are not known
  }
  for (const OperandSample& operand : operands)
    if (operand.present && operand.constant) signature->weights += bytes_of(operand.type);
  const bool cheap = traits.pointwise && !traits.free && traits.operations <= kCheapOperations * traits.output_elements;
  signature->size = size_of(traits);
  if (cheap) signature->size.operations = traits.output_elements;
  const std::string canonical = describe(node->op->name(), attributes, operands);
  const std::string timed = cheap ? describe_cheap(operands, traits) : canonical;
  signature->sample = [sample] { return make_sample({&sample, 1}); };
  return remember(by_text_[text] = add_signature(canonical, std::move(signature), timed));
}

std::uint32_t CostModel::add_signature(const std::string& text, std::unique_ptr<Signature> signature,
                                       const std::string& timed) {
  const auto [entry, added] = by_text_.emplace(text, static_cast<std::uint32_t>(signatures_.size()));
  if (!added) return entry->second;
  if (!signature) {
    signature = std::make_unique<Signature>();
    signature->opaque = true;
  }
  signature->text = timed.empty() ? text : timed;
  std::shared_ptr<Time>& time = times_[signature->text];
  if (!time) time = std::make_shared<Time>();
  signature->time = time;
  signatures_.push_back(std::move(signature));
  return entry->second;
}

CostModel::Signature* CostModel::group_signature(const MatchedGraph& matched, const std::vector<std::uint32_t>& members) {
  std::vector<const Node*> key;
  for (const std::uint32_t n : members) key.push_back(matched.graph->nodes()[n].get());
  if (const auto known = groups_.find(key); known != groups_.end()) return known->second;
  std::vector<NodeOfSample> nodes = nodes_of_sample(matched, members, options_.sizes);
  const std::string text = describe(nodes);
  if (const auto found = by_text_.find(text); found != by_text_.end()) return groups_[key] = signatures_[found->second].get();
  if (!learning_) return groups_[key] = nullptr;
  auto signature = std::make_unique<Signature>();
  for (const std::uint32_t n : members) {
    const OperatorTraits& traits = signatures_[signature_of(matched, matched.graph->nodes()[n])]->traits;
    signature->traits.operations += traits.operations;
    signature->traits.bytes += traits.bytes;
    signature->traits.output_elements += traits.output_elements;
    signature->traits.output_bytes += traits.output_bytes;
    signature->weights += signatures_[signature_of(matched, matched.graph->nodes()[n])]->weights;
  }
  signature->size = size_of(signature->traits);
  signature->sample = [nodes = std::move(nodes)] { return make_sample(nodes); };
  return groups_[key] = signatures_[add_signature(text, std::move(signature))].get();
}

// Pointwise nodes that lead to one of them, and to nothing else: what a backend may fuse into one loop.
std::vector<std::uint32_t> CostModel::group_of(const MatchedGraph& matched, std::uint32_t last, std::vector<Counted>& counted) {
  std::vector<std::uint32_t> members{last}, open{last};
  counted[last].grouped = true;
  while (!open.empty() && members.size() < kMostInGroup) {
    const Node& node = *matched.graph->nodes()[open.back()];
    open.pop_back();
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || matched.constant[id] || matched.producers[id] < 0 || matched.is_output[id]) continue;
      const auto producer = static_cast<std::uint32_t>(matched.producers[id]);
      if (!counted[producer].may_group || counted[producer].grouped) continue;
      const auto users = matched.users(id);
      if (!std::all_of(users.begin(), users.end(), [&](std::int32_t user) {
            return std::find(members.begin(), members.end(), static_cast<std::uint32_t>(user)) != members.end();
          }))
        continue;
      counted[producer].grouped = true;
      members.push_back(producer);
      open.push_back(producer);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

bool CostModel::strided(const OperatorTraits& traits, std::size_t operand) const {
  if (strided_reads_ == StridedReads::kNone || operand >= traits.axes.size()) return false;
  const bool multiplied = traits.contraction && traits.reduced[operand];
  if (strided_reads_ == StridedReads::kWindows) return multiplied || traits.pointwise || !traits.axes[operand];
  return traits.axes[operand] && (multiplied || traits.pointwise);
}

// Of nodes that are known not to be computed from constants, the users' first.
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
      // Elementwise operators compute it for themselves, if nothing else wants it.
      if (!reads || (strided_reads_ == StridedReads::kProducts && traits.pointwise && users.size() > 1 && !traits.moves))
        return false;
    }
  }
  return true;
}

template <class Visit>
void CostModel::visit(const MatchedGraph& matched, const Visit& visit) {
  const Graph& graph = *matched.graph;
  std::vector<Counted> counted(graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    bool all_constant = !node.outputs.empty();
    for (const ValueId id : node.outputs)
      if (id != kNoValue && !matched.constant[id]) all_constant = false;
    if (all_constant) continue;
    Signature& signature = *signatures_[signature_of(matched, graph.nodes()[n])];
    bool fused = false, reads_more = false;
    if (signature.traits.pointwise) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || !signature.traits.aligned[i] || matched.constant[id]) continue;
        const std::int32_t producer = matched.producers[id];
        const bool joins = !fused && producer >= 0 && counted[static_cast<std::size_t>(producer)].in_contraction &&
                           matched.users(id).size() == 1 && !matched.is_output[id];
        if (joins)
          fused = true;
        else
          reads_more = true;
      }
    }
    counted[n].signature = &signature;
    counted[n].share = !fused ? 1.0 : reads_more ? kFusedShare : 0.0;
    counted[n].in_contraction = fused || signature.traits.contraction;
    const bool moves = strided_reads_ != StridedReads::kNone && signature.traits.moves;
    counted[n].may_group = !fused && signature.traits.pointwise && !signature.traits.free && !moves && !signature.opaque &&
                           node.outputs.size() == 1 && signature.traits.bytes >= kGroupedBytes;
  }
  for (std::size_t n = graph.nodes().size(); n > 0; --n) {
    Counted& last = counted[n - 1];
    if (!last.signature || last.grouped) continue;
    const OperatorTraits& traits = last.signature->traits;
    if (strided_reads_ != StridedReads::kNone && !last.signature->opaque && (traits.free || traits.moves)) {
      last.passed = passes(matched, *graph.nodes()[n - 1], counted);
      if (last.passed) last.share = 0;
    }
    if (last.may_group) {
      const std::vector<std::uint32_t> members = group_of(matched, static_cast<std::uint32_t>(n - 1), counted);
      const bool activation = std::any_of(members.begin(), members.end(),
                                          [&](std::uint32_t member) { return counted[member].signature->traits.applies; });
      if (members.size() > 1) {
        if (Signature* group = activation ? group_signature(matched, members) : nullptr) {
          visit(*group, 1.0, std::span<const std::uint32_t>(members));
          continue;
        }
        for (const std::uint32_t member : members) counted[member].grouped = counted[member].may_group = false;
      }
    }
    const auto position = static_cast<std::uint32_t>(n - 1);
    visit(*last.signature, last.share, std::span(&position, 1));
  }
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

double CostModel::estimate(const Signature& signature) const {
  const OperatorTraits& traits = signature.traits;
  return roofline_.call_seconds +
         std::max(traits.operations / roofline_.operations_per_second, traits.bytes / roofline_.bytes_per_second);
}

double CostModel::seconds(const Signature& signature) const {
  if (signature.time->measured) {
    const double known = *signature.time->measured, reading = cold_ ? signature.weights / roofline_.bytes_per_second : 0;
    return std::max(known, reading) + kNotOverlapped * std::min(known, reading);
  }
  return signature.time->failed ? kFailurePenalty * estimate(signature) : estimate(signature);
}

void CostModel::prepare(std::span<const MatchedGraph* const> graphs) {
  if (!device_ || !options_.measure) return;
  std::vector<Signature*> missing;
  for (const MatchedGraph* graph : graphs) {
    visit(*graph, [&](Signature& signature, double share, std::span<const std::uint32_t>) {
      if (share == 0 || signature.time->asked || signature.opaque || signature.traits.free) return;
      signature.time->asked = true;
      const auto known = database_ ? database_->find(identity_, signature.text) : std::nullopt;
      if (known)
        take(signature, *known);
      else
        missing.push_back(&signature);
    });
  }
  for (std::size_t first = 0; first < missing.size(); first += kBatch) {
    const std::span<Signature* const> batch = std::span(missing).subspan(first, std::min(kBatch, missing.size() - first));
    const bool may_measure = !is_fork_ && std::chrono::steady_clock::now() <= deadline_ && !options_.cancel.stop_requested();
    if (may_measure || !device_->measures()) {
      measure(batch);
      continue;
    }
    for (Signature* signature : batch) signature->time->asked = false;
    incomplete_ = true;
  }
}

void CostModel::take(Signature& signature, std::optional<double> seconds) {
  signature.time->measured = seconds;
  signature.time->failed = !seconds;
}

void CostModel::measure(std::span<Signature* const> batch) {
  std::vector<NodeSample> samples;
  for (const Signature* signature : batch) samples.push_back({signature->sample(), signature->text, signature->size});
  const std::vector<std::optional<double>> times = device_->time_nodes(samples);
  std::vector<CostDatabase::Entry> entries;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    take(*batch[i], times.at(i));
    entries.push_back({batch[i]->text, times[i]});
  }
  measured_ += batch.size();
  if (database_) database_->store(identity_, entries);
}

std::vector<ProfiledOperator> CostModel::operators() const {
  std::vector<ProfiledOperator> found;
  std::unordered_set<std::string> seen;
  for (const auto& signature : signatures_)
    if ((signature->time->measured || signature->time->failed) && seen.insert(signature->text).second)
      found.push_back({signature->text, signature->time->measured, signature->size});
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

std::vector<double> CostModel::live_bytes(const MatchedGraph& matched) {
  const Graph& graph = *matched.graph;
  const auto bytes_of = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (!value.shape_known) return 0.0;
    return rewright::bytes_of({value.type.type, substitute(value.type.shape, options_.sizes)});
  };
  // What is fused is computed in the place of what it is fused into, what is free is not computed at all, and what stays within
  // a group has no place.
  std::vector<ValueId> place(graph.value_count());
  for (ValueId id = 0; id < place.size(); ++id) place[id] = id;
  std::vector<bool> computed(graph.nodes().size()), inner(graph.value_count());
  visit(matched, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    for (const std::uint32_t n : nodes) computed[n] = true;
    for (const std::uint32_t n : nodes.first(nodes.size() - 1))
      for (const ValueId id : graph.nodes()[n]->outputs)
        if (id != kNoValue) inner[id] = true;
    const Node& node = *graph.nodes()[nodes.back()];
    if ((share >= 1 && !signature.traits.free) || node.outputs.empty() || node.outputs[0] == kNoValue) return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || matched.constant[id] || bytes_of(id) != bytes_of(node.outputs[0])) continue;
      if (!signature.traits.free && (!signature.traits.aligned[i] || matched.users(id).size() != 1)) continue;
      place[node.outputs[0]] = id;
      break;
    }
  });
  const auto place_of = [&](ValueId id) {
    while (place[id] != id) id = place[id];
    return id;
  };
  double always = 0;  // inputs and weights
  std::vector<bool> counted(graph.value_count());
  for (const ValueId id : graph.inputs()) {
    counted[id] = true;
    always += bytes_of(id);
  }
  const std::size_t end = graph.nodes().size();
  std::vector<std::size_t> last(graph.value_count());
  for (std::size_t n = 0; n < end; ++n) {
    if (!computed[n]) continue;
    for (const ValueId id : graph.nodes()[n]->inputs) {
      if (id == kNoValue) continue;
      last[place_of(id)] = n;
      if (!matched.constant[id] || counted[id]) continue;
      counted[id] = true;
      always += bytes_of(id);
    }
  }
  for (const GraphOutput& output : graph.outputs()) last[place_of(output.value)] = end;
  std::vector<std::vector<ValueId>> ends(end + 1);
  double live = 0;
  std::vector<double> held{always};
  for (std::size_t n = 0; n < end; ++n) {
    held.push_back(always + live);
    if (!computed[n]) continue;
    for (const ValueId id : graph.nodes()[n]->outputs) {
      if (id == kNoValue || inner[id] || place[id] != id) continue;
      live += bytes_of(id);
      ends[std::max(last[id], n)].push_back(id);
    }
    held.back() = always + live;
    for (const ValueId id : ends[n]) live -= bytes_of(id);
  }
  return held;
}

double CostModel::peak_bytes(const MatchedGraph& matched) {
  const std::vector<double> held = live_bytes(matched);
  return *std::max_element(held.begin(), held.end());
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

// A little for every node, so that of two graphs that cost the same the smaller one is preferred.
double CostModel::least() const { return 0.02 * roofline_.call_seconds; }

double CostModel::fused_share() { return kFusedShare; }

std::vector<NodeCost> CostModel::alone(const MatchedGraph& graph) {
  std::vector<Signature*> found;
  double measured = 0, estimated = 0;
  for (const auto& node : graph.graph->nodes()) {
    Signature& signature = *signatures_[signature_of(graph, node)];
    found.push_back(&signature);
    if (signature.opaque || signature.traits.free) continue;
    if (!signature.time->asked && device_ && options_.measure) {
      const auto known = database_ ? database_->find(identity_, signature.text) : std::nullopt;
      if (known)
        take(signature, *known);
      else if (Signature* const missing = &signature; !device_->measures())
        measure({&missing, 1});
      signature.time->asked = known || !device_->measures();
    }
    if (!signature.time->measured) continue;
    measured += *signature.time->measured;
    estimated += estimate(signature);
  }
  // The roofline is a lower bound: what was not measured is taken to miss it as much as what was.
  const double miss = estimated > 0 && measured > 0 ? measured / estimated : 1;
  std::vector<NodeCost> costs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Signature& signature = *found[i];
    NodeCost cost;
    if (!signature.opaque && !signature.traits.free)
      cost.executed = options_.objective != Objective::kLatency
                          ? price(signature)
                          : seconds(signature) * (signature.time->measured || signature.time->failed ? 1 : miss);
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

}  // namespace rewright
