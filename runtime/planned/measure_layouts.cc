#include "runtime/planned/measure_layouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expressions/attributes.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/inputs/inputs.h"
#include "plans/machines/network.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"

namespace rewright::runtime {

namespace {

using plans::LayoutFacts;

constexpr int kRuns = 5;                 // behind the first one
constexpr double kEnoughSeconds = 3;     // of a graph, in which a rate is measured well by fewer runs
constexpr std::size_t kMostBefore = 12;  // nodes that are executed before one
constexpr std::size_t kMostTried = 8;    // nodes of one operator and kind
constexpr const char* kLayoutChange = "(layout)";

// Tensors of one channel or one pixel are alike in all layouts.
bool may_have_layout(const TensorType& type) {
  if (type.type != DataType::kFloat || type.rank() < 3 || !type.shape[1].constant()) return false;
  const auto is_one = [](const Index& size) { return size.constant() && size.value() == 1; };
  return !is_one(type.shape[1]) && !std::all_of(type.shape.begin() + 2, type.shape.end(), is_one);
}
std::int64_t channels(const TensorType& type) { return type.shape[1].value(); }

std::string value_name(ValueId v) { return "value " + std::to_string(v); }

// Some nodes of a graph, in its order: operands that are no constants and of none of them are inputs, the last one's results
// outputs. The values have names of their own.
Graph part_of(const Graph& graph, const std::set<std::size_t>& nodes) {
  Graph result;
  std::map<ValueId, ValueId> here;
  std::vector<ValueId> results;
  for (const std::size_t n : nodes) {
    const Node& node = *graph.nodes()[n];
    std::vector<ValueId> operands;
    std::vector<std::string> names;
    for (const ValueId v : node.inputs) {
      if (v != kNoValue && !here.contains(v))
        here[v] = graph.is_constant(v) ? result.add_constant(graph.value(v).constant, value_name(v))
                                       : result.add_input(value_name(v), graph.value(v).type);
      operands.push_back(v == kNoValue ? kNoValue : here[v]);
    }
    for (const ValueId v : node.outputs) names.push_back(v == kNoValue ? "" : value_name(v));
    results = result.add_node(*node.op, node.attributes, std::move(operands), names);
    for (std::size_t o = 0; o < results.size(); ++o)
      if (node.outputs[o] != kNoValue) here[node.outputs[o]] = results[o];
  }
  const Node& last = *graph.nodes()[*nodes.rbegin()];
  for (std::size_t o = 0; o < results.size(); ++o)
    if (last.outputs[o] != kNoValue) result.add_output(value_name(last.outputs[o]), results[o]);
  return result;
}

class LayoutFinder {
 public:
  LayoutFinder(const Backend& backend, SessionOptions session, std::stop_token cancel)
      : backend_(backend), session_(std::move(session)), cancel_(std::move(cancel)) {
    session_.profile = true;
  }

  std::optional<LayoutFacts> find(std::span<const Graph> graphs) {
    for (const Graph& graph : graphs)
      for (std::size_t n = 0; n < graph.nodes().size(); ++n) find_changed(graph, n);
    facts_.bytes_per_second = seconds_ > 0 ? bytes_ / seconds_ : 0;
    facts_.least_channels = static_cast<std::size_t>(least_channels_);
    // Only what the reader of machine files takes.
    if (facts_.changed.empty() || facts_.least_channels > plans::kMostDevices) return std::nullopt;
    if (!std::isfinite(facts_.bytes_per_second) || facts_.bytes_per_second < plans::kLeastRate) return std::nullopt;
    for (const Graph& graph : graphs) find_kept(graph);
    for (const auto& [port, bytes] : found_) {
      if (bytes.kept > bytes.changed && bytes.kept >= bytes.read) facts_.kept.insert(port);
      if (bytes.read > bytes.changed && bytes.read > bytes.kept) facts_.read.insert(port);
    }
    return facts_;
  }

 private:
  // Executes the graph, and returns the names of the values whose layouts were changed; nullopt: it could not be.
  std::optional<std::set<std::string>> run(const Graph& graph, int runs) {
    std::set<std::string> changed;
    const auto start = std::chrono::steady_clock::now();
    SessionOptions options = session_;
    options.checkpoint = [outer = session_.checkpoint,
                          own = ends_after(kLongestRun, std::chrono::steady_clock::time_point::max(), cancel_)] {
      if (outer) outer();
      own();
    };
    const EndableRun endable(options.checkpoint);
    try {
      options.checkpoint();
      const std::unique_ptr<Session> session = prepare_session(backend_, graph, options);
      const std::vector<Tensor> inputs = optimizer::random_inputs(graph, {}, 0);
      for (int k = 0; k <= runs; ++k) {
        options.checkpoint();
        if (k > 1 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kEnoughSeconds) break;
        const std::vector<StepProfile> before = session->profile();
        session->run(inputs);
        const std::vector<StepProfile> after = session->profile();
        for (std::size_t s = 0; s < after.size(); ++s) {
          if (after[s].operators != kLayoutChange) continue;
          changed.insert(after[s].node);
          if (k == 0 || before.size() != after.size()) continue;  // the first one touches new memory
          seconds_ += after[s].seconds - before[s].seconds, bytes_ += after[s].bytes;
        }
      }
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kCancelled) throw;  // others: it takes no inputs at random, or too long
      return std::nullopt;
    }
    return changed;
  }

  static bool is_wide(const Graph& graph, ValueId v) { return v != kNoValue && may_have_layout(graph.value(v).type); }

  // Operators with their attributes, the channels of their values, and more.
  using Tried = std::set<std::pair<std::string, std::vector<std::int64_t>>>;

  // Is no node like this one among them? It is then.
  static bool is_new(Tried& tried, const Graph& graph, const Node& node, std::vector<std::int64_t> kind) {
    std::string key = node.op->name();
    for (const AttributeValue& value : node.attributes) key += " " + to_string(value) + " " + std::to_string(hash(value));
    for (const auto* values : {&node.inputs, &node.outputs})
      for (const ValueId v : *values) kind.push_back(is_wide(graph, v) ? channels(graph.value(v).type) : 0);
    return tried.insert({std::move(key), std::move(kind)}).second;
  }

  void find_changed(const Graph& graph, std::size_t n) {
    const Node& node = *graph.nodes()[n];
    if (!node.op || node.inputs.empty() || !is_wide(graph, node.inputs[0]) || !is_new(tried_alone_, graph, node, {})) return;
    const std::set<std::string> changed = run(part_of(graph, {n}), kRuns).value_or(std::set<std::string>());
    const auto add = [&](const char* kind, const std::vector<ValueId>& values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!is_wide(graph, values[k]) || !changed.contains(value_name(values[k]))) continue;
        facts_.changed.insert(LayoutFacts::port(kind, k, node.op->name()));
        least_channels_ = std::min(least_channels_, channels(graph.value(values[k]).type));
      }
    };
    add(LayoutFacts::kOperand, node.inputs), add(LayoutFacts::kResult, node.outputs);
  }

  // Finds operators that take operands in the kernels' layout, one node after the other: from the nodes before it is known
  // which values are in it.
  void find_kept(const Graph& graph) {
    const auto producers = graph.producers();
    std::vector<bool> own(graph.value_count());
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = *graph.nodes()[n];
      if (!node.op) continue;
      const std::string& name = node.op->name();
      std::vector<std::int64_t> there;  // operands
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v != kNoValue && own[v] && !facts_.changes(name, LayoutFacts::kOperand, k))
          there.push_back(static_cast<std::int64_t>(k));
      }
      if (!there.empty() && is_new(tried_behind_, graph, node, there) && ++tries_[{name, there}] <= kMostTried)
        try_behind(graph, n, there, own, producers);
      const bool keeps = std::ranges::any_of(there, [&](std::int64_t k) {
        const auto known = found_.find(LayoutFacts::port(LayoutFacts::kOperand, static_cast<std::size_t>(k), name));
        return known != found_.end() && known->second.kept > std::max(known->second.changed, known->second.read);
      });
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId v = node.outputs[o];
        if (is_wide(graph, v) && channels(graph.value(v).type) >= least_channels_)
          own[v] = keeps || facts_.changes(name, LayoutFacts::kResult, o);
      }
    }
  }

  // The node behind those that give its operands `there` in their own layout.
  void try_behind(const Graph& graph, std::size_t n, const std::vector<std::int64_t>& there, const std::vector<bool>& own,
                  std::span<const std::int32_t> producers) {
    std::set<std::size_t> nodes{n};
    std::vector<std::size_t> open{n};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      const Node& node = *graph.nodes()[at];
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNoValue || !own[v] || facts_.changes(node.op->name(), LayoutFacts::kOperand, k)) continue;
        const auto from = static_cast<std::size_t>(producers[v]);
        if (nodes.insert(from).second) open.push_back(from);
      }
      if (nodes.size() > kMostBefore) return;
    }
    const auto changed = run(part_of(graph, nodes), 0);
    if (!changed) return;
    const Node& node = *graph.nodes()[n];
    const bool gives =
        std::ranges::any_of(node.outputs, [&](ValueId v) { return v != kNoValue && changed->contains(value_name(v)); });
    for (const std::int64_t k : there) {
      const ValueId v = node.inputs[static_cast<std::size_t>(k)];
      Found& found = found_[LayoutFacts::port(LayoutFacts::kOperand, static_cast<std::size_t>(k), node.op->name())];
      double& bytes = changed->contains(value_name(v)) ? found.changed : gives ? found.kept : found.read;
      bytes += optimizer::bytes_of(graph.value(v).type);
    }
  }

  // Bytes of operands that were changed to be read, or not, with results in the layout or plain.
  struct Found {
    double changed = 0, kept = 0, read = 0;
  };

  const Backend& backend_;
  SessionOptions session_;
  std::stop_token cancel_;
  LayoutFacts facts_;
  Tried tried_alone_, tried_behind_;  // these with the operands that are there
  std::map<std::pair<std::string, std::vector<std::int64_t>>, std::size_t> tries_;
  std::map<std::string, Found> found_;  // by port
  std::int64_t least_channels_ = std::numeric_limits<std::int64_t>::max();
  double seconds_ = 0, bytes_ = 0;  // of changes
};

}  // namespace

std::optional<plans::LayoutFacts> measure_layouts(const Backend& backend, SessionOptions session, std::span<const Graph> graphs,
                                                  std::stop_token cancel) {
  return LayoutFinder(backend, std::move(session), std::move(cancel)).find(graphs);
}

}  // namespace rewright::runtime
