#include "runtime/cpu/backend/growing_cache.h"

#include <algorithm>
#include <utility>

#include "graph/sizes.h"
#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/planning/attributes.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kMostBefore = 64;  // nodes planned for each length

void add_symbols(const Index& index, std::set<std::string>& symbols) {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kSymbol) symbols.insert(atom.name);
  });
}

bool is_cached_attention(const Node& node) { return node.op->name() == CachedAttention::kName; }

// Separates the nodes of a graph.
class Separation {
 public:
  explicit Separation(const Graph& graph) : graph_(graph), producers_(graph.producers()), is_before_(graph.nodes().size()) {}

  // The lengths that all attentions have in common.
  bool find_lengths() {
    bool only_windows = true;  // so far
    for (const auto& node : graph_.nodes()) {
      if (node->op == nullptr) return false;
      if (!is_cached_attention(*node)) continue;
      const auto op = from_attributes<CachedAttention>(node->attributes);
      // Caches of 16 bits are converted, as a whole.
      if (node->inputs[3] == kNoValue || graph_.value(node->inputs[3]).type.type != DataType::kFloat) return false;
      const Indices &past = shape(node->inputs[3]), &q = shape(node->inputs[0]);
      Lengths found{past[2], shape(node->outputs[1])[2], op.total, q[1], floor_div(op.heads, op.shared)};
      // A window's cache is always as long as before: its kernel needs not know how long the others become.
      if (lengths && op.evicts) found.present = lengths->present;
      if (lengths && only_windows) lengths->present = found.present;
      only_windows = only_windows && op.evicts;
      if (lengths && *lengths != found) return false;
      lengths = found;
      for (const std::size_t i : {3, 4}) {
        if (!graph_.is_input(node->inputs[i])) return false;
        caches_.insert(node->inputs[i]);
      }
      for (const std::size_t o : {1, 2}) {
        if (!is_output(node->outputs[o])) return false;
        caches_.insert(node->outputs[o]);
      }
    }
    if (!lengths) return false;
    std::set<std::string> steady;
    for (const Index& index : {lengths->past, lengths->total}) add_symbols(index, symbols_);
    add_symbols(lengths->length, steady);
    for (const std::string& symbol : steady) symbols_.erase(symbol);
    return !symbols_.empty();
  }

  bool grows(const Index& index) const {
    std::set<std::string> symbols;
    add_symbols(index, symbols);
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return symbols_.contains(s); });
  }

  // The nodes whose sizes depend on the length, and those that they need. False if they are not just a few before the others.
  bool separate() {
    for (std::size_t n = 0; n < is_before_.size(); ++n) is_before_[n] = depends(*graph_.nodes()[n]);
    for (std::size_t n = is_before_.size(); n-- > 0;)
      if (is_before_[n])
        for (const ValueId v : graph_.nodes()[n]->inputs)
          if (v != kNoValue && producers_[v] >= 0) is_before_[static_cast<std::size_t>(producers_[v])] = true;
    for (std::size_t n = 0; n < is_before_.size(); ++n) {
      const Node& node = *graph_.nodes()[n];
      if (is_before_[n] && (is_cached_attention(node) || node.op->name() == BlockProduct::kName || node.op->name() == "MatMul"))
        return false;
      for (const ValueId v : node.inputs) {
        if (v == kNoValue || is_before_[n]) continue;
        if (caches_.contains(v) && !(is_cached_attention(node) && graph_.is_input(v))) return false;
        if (is_made_before(v) && std::find(cuts_.begin(), cuts_.end(), v) == cuts_.end()) cuts_.push_back(v);
      }
    }
    const auto fits = [&](ValueId v) { return graph_.value(v).shape_known && !grows_any(shape(v)); };
    return std::count(is_before_.begin(), is_before_.end(), true) <= static_cast<std::ptrdiff_t>(kMostBefore) &&
           std::all_of(cuts_.begin(), cuts_.end(), fits) &&
           std::none_of(graph_.outputs().begin(), graph_.outputs().end(),
                        [&](const GraphOutput& o) { return is_made_before(o.value) || graph_.is_input(o.value); });
  }

  Graph before() const {
    Graph result = only(true);
    std::vector<GraphOutput> outputs;
    for (const ValueId v : cuts_) outputs.push_back({"before " + std::to_string(v), v, graph_.value(v).type});
    result.set_outputs(std::move(outputs));
    return result;
  }
  Graph rest() const {
    Graph result = only(false);
    std::vector<std::pair<ValueId, ValueId>> inputs;
    for (const ValueId v : cuts_) inputs.emplace_back(v, result.add_input("before " + std::to_string(v), graph_.value(v).type));
    result.replace_uses(inputs);
    return result;
  }

  bool grows_any(const Indices& indices) const {
    return std::any_of(indices.begin(), indices.end(), [&](const Index& i) { return grows(i); });
  }

  struct Lengths {
    Index past, present, total, length, group;
    friend bool operator==(const Lengths&, const Lengths&) = default;
  };
  std::optional<Lengths> lengths;

 private:
  const Indices& shape(ValueId v) const { return graph_.value(v).type.shape; }
  bool is_output(ValueId v) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(), [&](const GraphOutput& o) { return o.value == v; });
  }
  bool is_made_before(ValueId v) const { return producers_[v] >= 0 && is_before_[static_cast<std::size_t>(producers_[v])]; }

  bool depends(const Node& node) const {
    if (is_cached_attention(node)) return false;
    const auto value_grows = [&](ValueId v) {
      if (v == kNoValue) return false;
      const Value& value = graph_.value(v);
      return !value.shape_known || grows_any(value.type.shape) || (value.contents && grows_any(*value.contents));
    };
    const std::set<std::string> named = symbols_of(node.attributes);
    return std::any_of(node.inputs.begin(), node.inputs.end(), value_grows) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), value_grows) ||
           std::any_of(named.begin(), named.end(), [&](const std::string& s) { return symbols_.contains(s); });
  }

  Graph only(bool before) const {
    Graph result = graph_;
    result.drop_nodes_from(0);
    for (std::size_t n = 0; n < is_before_.size(); ++n)
      if (is_before_[n] == before) result.add_shared(graph_.nodes()[n]);
    return result;
  }

  const Graph& graph_;
  const std::vector<std::int32_t> producers_;
  std::vector<bool> is_before_;    // by node
  std::set<std::string> symbols_;  // that grow
  std::set<ValueId> caches_;       // read or written by attention alone
  std::vector<ValueId> cuts_;
};

}  // namespace

std::optional<GrowingCache> find_growing_cache(const Graph& graph) {
  Separation parts(graph);
  if (!parts.find_lengths() || !parts.separate()) return std::nullopt;
  GrowingCache result;
  result.before = parts.before(), result.rest = parts.rest();
  result.past = parts.lengths->past, result.present = parts.lengths->present, result.total = parts.lengths->total;
  result.length_ = parts.lengths->length, result.group_ = parts.lengths->group;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Indices& shape = graph.value(graph.inputs()[i]).type.shape;
    for (std::size_t a = 0; a < shape.size(); ++a)
      if (parts.grows(shape[a])) result.growing_.emplace_back(i, a);
  }
  return result;
}

bool GrowingCache::serves(const Substitution& sizes) const {
  const Index queries = substitute(length_ * group_, sizes);
  return queries.is_constant() && queries.value() > 0 && queries.value() <= CachedAttention::kFewQueries;
}

CacheLengths GrowingCache::lengths(const Substitution& sizes) const {
  return {substitute(past, sizes).value(), substitute(present, sizes).value(), substitute(total, sizes).value()};
}

std::vector<Sizes> GrowingCache::key(std::span<const Tensor> inputs, const CacheLengths& lengths) const {
  std::vector<Sizes> result;
  for (const Tensor& t : inputs) result.push_back(t.sizes());
  for (const auto& [input, axis] : growing_) result[input][axis] = 0;
  result.push_back({lengths.past == lengths.present});  // then the present may lie in the memory of the past
  return result;
}

}  // namespace rewright::cpu
