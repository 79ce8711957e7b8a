#include "runtime/cuda/planning/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cuda/source/attention_kernel.h"
#include "runtime/planning/composer.h"
#include "runtime/planning/row_functions.h"
#include "runtime/planning/strided_read.h"
#include "runtime/planning/value_uses.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;
using Distances = std::vector<std::int64_t>;

// Scores masked with a value this low get no weight.
constexpr double kMasked = -1e4;

Distances packed(const Sizes& sizes) {
  Distances result(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) result[a - 1] = result[a] * sizes[a];
  return result;
}

// Extends a list by axis to the axes batch, head, row and column, with `missing` for absent ones. Lists of five axes are left:
// their second and third ones are heads.
template <class T>
std::vector<T> four(std::vector<T> list, T missing) {
  if (list.size() > 4) return list;
  const std::size_t front = list.size() == 3 ? 1 : 0;  // with three axes the first is the batch
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(front), 4 - list.size(), missing);
  return list;
}

// Joins the two axes of heads that five axes have. False if the heads do not lie at one distance from each other.
bool join_heads(Distances& distances, const Sizes& sizes) {
  if (distances.size() < 5) return true;
  if (sizes[1] != 1 && sizes[2] != 1 && distances[1] != distances[2] * sizes[2]) return false;
  distances.erase(distances.begin() + (sizes[2] == 1 ? 2 : 1));
  return true;
}

// Sets the strides of a batch or head axis of size 1 to the extent of all other axes, as packed tensors have it.
void set_outer(Distances& distances, const Sizes& sizes) {
  for (const std::size_t axis : {1, 0})
    if (sizes[axis] == 1) {
      std::int64_t extent = 1;
      for (std::size_t a = 0; a < sizes.size(); ++a)
        if (a != axis) extent = std::max(extent, distances[a] * sizes[a]);
      distances[axis] = extent;
    }
}

bool reads(const Element& e, int operand) {
  if (e->kind == Kind::kRead && e->operand == operand) return true;
  return std::any_of(e->arguments.begin(), e->arguments.end(), [&](const Element& a) { return reads(a, operand); });
}

std::optional<double> number(const Element& e) {
  if (e->kind != Kind::kConstant || e->scalar != Scalar::kReal || !e->real.symbol.empty()) return std::nullopt;
  return e->real.value;
}

// Matches scale * s + mask, where s is an operand.
class Scores {
 public:
  Scores(int operand, const Indices& position, const Sizes& sizes) : operand_(operand), position_(position), sizes_(sizes) {}
  double scale = 1;
  Element mask;  // null: none

  bool match(const Element& e) {
    const auto first = [&](std::size_t n) { return reads(e->arguments[n], operand_); };
    switch (e->kind) {
      case Kind::kRead: {
        const auto strides = read_strides(*e, position_, sizes_, sizes_);
        if (e->operand != operand_ || e->zero_outside || !strides || strides->constant != 0) return false;
        const Distances plain = packed(sizes_);
        for (std::size_t a = 0; a < sizes_.size(); ++a)
          if (sizes_[a] != 1 && strides->coefficient(a) != plain[a]) return false;
        return true;
      }
      case Kind::kMultiply:
      case Kind::kDivide: {
        const std::size_t side = first(0) ? 0 : 1;
        const auto factor = number(e->arguments[1 - side]);
        if (!factor || (e->kind == Kind::kDivide && side == 1)) return false;
        if (!match(e->arguments[side]) || mask) return false;
        scale = e->kind == Kind::kMultiply ? scale * *factor : scale / *factor;
        return true;
      }
      case Kind::kAdd: {
        const std::size_t side = first(0) ? 0 : 1;
        return !reads(e->arguments[1 - side], operand_) && match(e->arguments[side]) && add(e->arguments[1 - side]);
      }
      case Kind::kSelect:
      case Kind::kChoose: {
        const std::size_t then = e->kind == Kind::kSelect ? 1 : 0, side = first(then) ? then : then + 1;
        const auto low = number(e->arguments[then + then + 1 - side]);
        if (!low || !(*low <= kMasked) || (then == 1 && first(0)) || !match(e->arguments[side])) return false;
        // Adding the lowest float gives the lowest float, like the selection.
        const Element none = real(0), all = real(std::isinf(*low) ? *low : -double{std::numeric_limits<float>::max()});
        const Element kept = side == then ? none : all, other = side == then ? all : none;
        return add(e->kind == Kind::kSelect ? select(e->arguments[0], kept, other) : choose(e->conditions, kept, other));
      }
      default:
        return false;
    }
  }

 private:
  bool add(const Element& e) {
    mask = mask ? mask + e : e;
    return true;
  }
  const int operand_;
  const Indices& position_;
  const Sizes& sizes_;
};

class Joining {
 public:
  Joining(GraphFacts& facts, std::vector<Group>& groups)
      : facts_(facts),
        graph_(facts.graph()),
        producers_(graph_.producers()),
        uses_(graph_, [&](std::size_t n) { return facts.needed(n); }),
        group_of_(graph_.nodes().size(), -1),
        groups_(groups) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const int n : groups[g].nodes) group_of_[static_cast<std::size_t>(n)] = static_cast<int>(g);
  }

  void make() {
    std::vector<Group> joined;
    std::set<std::size_t> gone;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      parts_.clear();
      auto attention = join(g);
      if (!attention) continue;
      joined.push_back(std::move(*attention));
      gone.insert(parts_.begin(), parts_.end());
    }
    if (joined.empty()) return;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (!gone.contains(g)) joined.push_back(std::move(groups_[g]));
    groups_ = std::move(joined);
    std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.nodes.back() < b.nodes.back(); });
  }

 private:
  struct Place {
    ValueId value;
    Distances distances;
    std::int64_t offset = 0;
  };

  // The group of a value's only reader; -1 if there is none.
  int only_user(ValueId value) const {
    const int node = uses_.only_node(value);
    return node < 0 ? -1 : group_of_[static_cast<std::size_t>(node)];
  }
  // The group that computes a value; -1 if there is none.
  int group_with(ValueId value) const {
    const int p = value < producers_.size() ? producers_[value] : -1;
    const int g = p < 0 ? -1 : group_of_[static_cast<std::size_t>(p)];
    return g >= 0 && groups_[static_cast<std::size_t>(g)].result == value ? g : -1;
  }

  // The library product that a group consists of, with at most a bias after it; else null.
  const ProductShape* product_in(const Group& group) const {
    const auto* p = group.library ? std::get_if<ProductShape>(&group.library->shape) : nullptr;
    const bool plain = p != nullptr && p->activation == Activation::kNone && !p->a_transposed;
    return plain ? p : nullptr;
  }

  // Forms a group of attention around a softmax and two products, if there is one. `parts_` are then the joined groups.
  std::optional<Group> join(std::size_t g) {
    const Group& softmax = groups_[g];
    if (softmax.library || !softmax.element || softmax.nodes.empty()) return std::nullopt;
    const Node& node = *graph_.nodes()[static_cast<std::size_t>(softmax.nodes.back())];
    if (node.op == nullptr || node.inputs.size() != 1 || node.outputs[0] != softmax.result) return std::nullopt;
    const ValueInfo& scores = facts_.info(node.inputs[0]);
    const bool served = scores.type == DataType::kHalf || scores.type == DataType::kBfloat16 || scores.type == DataType::kFloat;
    if (!served || scores.sizes.size() < 2 || scores.sizes.size() > 5) return std::nullopt;
    if (!planning::is_row_softmax(node, std::vector<ValueInfo>{scores})) return std::nullopt;

    const int behind = only_user(softmax.result);
    if (behind < 0) return std::nullopt;
    const Group& last = groups_[static_cast<std::size_t>(behind)];
    const ProductShape* const second = product_in(last);
    if (second == nullptr || second->bias || second->b_transposed || second->alpha != 1) return std::nullopt;
    if (last.nodes.size() != 1 || last.library->inputs[0] != softmax.result) return std::nullopt;

    // The scores are computed by the group's other nodes.
    Chain chain;
    const std::vector<int> before(softmax.nodes.begin(), softmax.nodes.end() - 1);
    if (before.empty()) {
      chain.set_expression([&](const Chain&) {
        Chain::Expression e;
        for (std::size_t a = 0; a < scores.sizes.size(); ++a) e.position.push_back(Index::fresh("i"));
        e.operands = {node.inputs[0]};
        e.element = Operand(0, {scores.type, to_indices(scores.sizes)})(e.position);
        return e;
      });
    } else {
      if (producers_[node.inputs[0]] != before.back()) return std::nullopt;
      chain = planning::compose(facts_, producers_, before, kNoValue, false);
    }
    for (std::size_t o = 0; o < chain.operands().size(); ++o) {
      const int first = group_with(chain.operands()[o]);
      if (first < 0 || product_in(groups_[static_cast<std::size_t>(first)]) == nullptr) continue;
      const auto users = uses_.nodes(chain.operands()[o]);
      const bool alone = !uses_.is_output(chain.operands()[o]) && std::all_of(users.begin(), users.end(), [&](int u) {
        return group_of_[static_cast<std::size_t>(u)] == static_cast<int>(g);
      });
      Scores found(static_cast<int>(o), chain.position(), scores.sizes);
      if (!alone || facts_.info(chain.operands()[o]).sizes != scores.sizes || !found.match(chain.element())) continue;
      parts_ = {static_cast<std::size_t>(first), g, static_cast<std::size_t>(behind)};
      return joined(groups_[static_cast<std::size_t>(first)], chain, found, last);
    }
    return std::nullopt;
  }

  std::optional<Group> joined(const Group& first, const Chain& chain, const Scores& scores, const Group& last) {
    const auto& p = std::get<ProductShape>(first.library->shape);
    const ValueId q = first.library->inputs[0], k = first.library->inputs[1], v = last.library->inputs[1];
    const ValueInfo& s = facts_.info(first.result);
    const Sizes sizes = four(s.sizes, std::int64_t{1});
    const auto of = [&](ValueId v) { return four(facts_.info(v).sizes, std::int64_t{1}); };
    const Sizes of_q = of(q), of_k = of(k), of_v = of(v);
    const auto has_axes = [&](const Sizes& operand, std::size_t shared) {
      bool same = operand.size() == sizes.size();
      for (std::size_t axis = 0; same && axis + 2 < sizes.size(); ++axis)
        same = operand[axis] == sizes[axis] || (axis == shared && operand[axis] == 1);
      return same;
    };
    constexpr std::size_t kNone = 5;
    const std::size_t shared = sizes.size() == 5 ? 2 : kNone;  // of five axes, the third may be heads that share keys
    if (!has_axes(of_q, kNone) || !has_axes(of_k, shared) || !has_axes(of_v, shared)) return std::nullopt;
    if (shared != kNone && of_k[2] != of_v[2]) return std::nullopt;
    AttentionShape a;
    a.type = s.type;
    a.batch = sizes[0], a.heads = element_count(Sizes(sizes.begin() + 1, sizes.end() - 2));
    a.queries = sizes[sizes.size() - 2], a.keys = sizes.back();
    if (shared != kNone && of_k[2] != sizes[2]) a.shared = sizes[2];
    a.depth = p.k;
    a.width = of_v.back();
    a.scale = p.alpha * scores.scale;
    Place at_q = place(q), at_k = place(k), at_v = place(v);
    if (p.b_transposed) std::swap(at_k.distances[sizes.size() - 2], at_k.distances[sizes.size() - 1]);
    ValueId result = last.result;
    a.q = at_q.distances, a.k = at_k.distances, a.v = at_v.distances;
    a.y = moved_behind(result);
    Sizes of_y = sizes;
    of_y.back() = a.width;
    if (!join_heads(a.q, of_q) || !join_heads(a.k, of_k) || !join_heads(a.v, of_v) || !join_heads(a.y, of_y))
      return std::nullopt;
    set_outer(a.q, {a.batch, a.heads, a.queries, a.depth});
    set_outer(a.k, {a.batch, a.heads / a.shared, a.depth, a.keys});
    set_outer(a.v, {a.batch, a.heads / a.shared, a.keys, a.width});
    set_outer(a.y, {a.batch, a.heads, a.queries, a.width});
    if (a.q[3] != 1 || a.k[2] != 1 || a.v[3] != 1 || a.y[3] != 1) return std::nullopt;

    Group fused;
    fused.result = result;
    fused.library.emplace();
    fused.library->inputs = {at_q.value, at_k.value, at_v.value};
    std::vector<Group> alternative;  // a kernel of the mask, if it needs one, and the fused kernel
    if (p.bias) {
      if (scores.scale != 1 || scores.mask || sizes.size() == 5) return std::nullopt;
      a.mask = four(facts_.info(first.library->inputs[2]).sizes, std::int64_t{1});
      a.mask_type = s.type;
      fused.library->inputs.push_back(first.library->inputs[2]);
    } else if (scores.mask && is_causal(scores.mask, chain, s.sizes, a)) {
      a.causal = true;
    } else if (scores.mask) {
      fused.library->inputs.push_back(mask(scores.mask, chain, first.result, a, alternative));
      if (a.mask.size() == 5 && a.mask[1] != a.mask[2] && sizes[1] != 1 && sizes[2] != 1) return std::nullopt;  // of some heads
      if (a.mask.size() == 5) a.mask = {a.mask[0], a.mask[1] * a.mask[2], a.mask[3], a.mask[4]};
    }
    if (at_q.offset != 0 || at_k.offset != 0 || at_v.offset != 0) {
      fused.library->starts = {{{at_q.offset, at_k.offset, at_v.offset}, 0}};
      fused.library->starts[0].inputs.resize(fused.library->inputs.size());
    }
    fused.library->shape = a;

    Group group;
    group.result = result;
    std::sort(parts_.begin(), parts_.end(),
              [&](std::size_t x, std::size_t y) { return groups_[x].nodes.back() < groups_[y].nodes.back(); });
    std::vector<Group> apart;
    for (const std::size_t part : parts_) {
      apart.push_back(groups_[part]);
      group.nodes.insert(group.nodes.end(), groups_[part].nodes.begin(), groups_[part].nodes.end());
    }
    std::sort(group.nodes.begin(), group.nodes.end());
    fused.nodes = group.nodes;
    const auto add = [&](const Group& way) {
      group.alternatives.push_back(alternative);
      group.alternatives.back().push_back(way);
    };
    if (a.type != DataType::kFloat && a.shared == 1) add(fused);  // cuDNN has none for float
    if (auto kernel = attention_kernel(a, {at_q.offset, at_k.offset, at_v.offset})) {
      fused.operands = fused.library->inputs;
      fused.library.reset();
      fused.kernel = std::move(kernel);
      add(fused);
    }
    if (group.alternatives.empty()) return std::nullopt;
    group.alternatives.push_back(std::move(apart));
    return group;
  }

  // Does a group only move elements of one value of the same type?
  bool moves(const Group& group) const {
    if (group.library || group.view || !group.element || !group.alternatives.empty()) return false;
    const ElementNode& e = *group.element;
    if (e.kind != Kind::kRead || e.zero_outside || group.operands.size() != 1) return false;
    return facts_.info(group.operands[0]).type == facts_.info(group.result).type;
  }

  // The place to read an operand from: if it was moved for this group alone, where it was before.
  Place place(ValueId value) {
    const Sizes& sizes = facts_.info(value).sizes;
    const int g = facts_.constant(value) ? -1 : group_with(value);
    if (g >= 0 && uses_.only_node(value) >= 0) {
      const Group& group = groups_[static_cast<std::size_t>(g)];
      const auto strides = moves(group)
                               ? read_strides(*group.element, group.position, sizes, facts_.info(group.operands[0]).sizes)
                               : std::nullopt;
      if (strides) {
        Distances distances;
        for (std::size_t a = 0; a < sizes.size(); ++a) distances.push_back(strides->coefficient(a));
        parts_.push_back(static_cast<std::size_t>(g));
        return {group.operands[0], four(distances, std::int64_t{0}), strides->constant};
      }
    }
    return {value, four(packed(sizes), std::int64_t{0})};
  }

  // The strides of the result's axes. If the result is only read by a group that moves it, the strides in the moved tensor, and
  // `result` becomes that tensor. Found by trying all orders of the axes that keep the last one.
  Distances moved_behind(ValueId& result) {
    const Sizes& from = facts_.info(result).sizes;
    const int g = only_user(result);
    if (g >= 0 && moves(groups_[static_cast<std::size_t>(g)]) && groups_[static_cast<std::size_t>(g)].operands[0] == result) {
      const Group& group = groups_[static_cast<std::size_t>(g)];
      std::vector<std::size_t> order(from.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      do {
        Distances distances(from.size());
        std::int64_t distance = 1;
        for (std::size_t n = order.size(); n-- > 0; distance *= from[order[n]]) distances[order[n]] = distance;
        if (!leads_to(group, from, distances)) continue;
        parts_.push_back(static_cast<std::size_t>(g));
        result = group.result;
        return four(distances, std::int64_t{0});
      } while (std::next_permutation(order.begin(), order.end() - 1));
    }
    return four(packed(from), std::int64_t{0});
  }

  // Does a group move elements to the addresses given by these strides? Compares random positions and the last one.
  bool leads_to(const Group& group, const Sizes& from, const Distances& distances) const {
    const Sizes& to = facts_.info(group.result).sizes;
    if (element_count(to) != element_count(from)) return false;
    std::minstd_rand random;
    for (int sample = 0; sample < 64; ++sample) {
      std::int64_t source = 0, target = 0;
      const Distances plain = packed(from);
      for (std::size_t a = 0; a < from.size(); ++a) {
        const std::int64_t i = sample == 0 ? from[a] - 1 : static_cast<std::int64_t>(random()) % from[a];
        source += i * plain[a];
        target += i * distances[a];
      }
      std::map<std::uint64_t, std::int64_t> at;
      for (std::size_t a = to.size(); a-- > 0; target /= to[a]) at[group.position[a].as_atom()->id] = target % to[a];
      std::int64_t read = 0;
      for (std::size_t a = 0; a < from.size(); ++a) {
        const Index p = substitute(group.element->position[a], [&](const Atom& atom) -> std::optional<Index> {
          const auto found = atom.kind == Atom::Kind::kBound ? at.find(atom.id) : at.end();
          return found == at.end() ? std::nullopt : std::optional<Index>(found->second);
        });
        if (!p.is_constant()) return false;
        read += p.constant_term() * plain[a];
      }
      if (read != source) return false;
    }
    return true;
  }

  // Does a constant mask let each query see the keys up to its own number, and no others?
  bool is_causal(const Element& mask, const Chain& chain, const Sizes& scores, const AttentionShape& a) const {
    const bool chooses = mask->kind == Kind::kSelect;
    const ElementNode& read = chooses ? *mask->arguments[0] : *mask;
    if (read.kind != Kind::kRead || read.zero_outside || a.queries != a.keys || a.queries == 1) return false;
    const ValueId value = chain.operands()[static_cast<std::size_t>(read.operand)];
    const Tensor& known = facts_.constant(value);
    if (!known || known.size() != a.queries * a.keys) return false;
    const auto strides = read_strides(read, chain.position(), scores, known.sizes());
    const std::size_t rank = chain.position().size();
    if (!strides || strides->coefficient(rank - 2) != a.keys || strides->coefficient(rank - 1) != 1) return false;
    const std::vector<double> elements = known.reals();
    const auto seen = [&](double x) -> std::optional<bool> {
      if (chooses) return number((x != 0) ? mask->arguments[1] : mask->arguments[2]) == 0.0;
      return x == 0 ? std::optional(true) : x <= kMasked ? std::optional(false) : std::nullopt;
    };
    for (std::int64_t row = 0; row < a.queries; ++row)
      for (std::int64_t column = 0; column < a.keys; ++column)
        if (seen(elements[static_cast<std::size_t>(row * a.keys + column)]) != (column <= row)) return false;
    return true;
  }

  // The tensor to add to the scores: an existing one, or the result of a kernel, which is appended to `before`.
  ValueId mask(const Element& e, const Chain& chain, ValueId without, AttentionShape& a, std::vector<Group>& before) {
    const Sizes& scores = facts_.info(without).sizes;
    const auto set_sizes = [&](const std::vector<bool>& axes) {
      Sizes sizes;
      for (std::size_t axis = 0; axis < scores.size(); ++axis) sizes.push_back(axes[axis] ? scores[axis] : 1);
      a.mask = four(sizes, std::int64_t{1});
      return sizes;
    };
    if (e->kind == Kind::kRead && !e->zero_outside) {
      const ValueId value = chain.operands()[static_cast<std::size_t>(e->operand)];
      const ValueInfo& info = facts_.info(value);
      const auto strides = read_strides(*e, chain.position(), scores, info.sizes);
      std::vector<bool> axes;
      for (std::size_t axis = 0; axis < scores.size(); ++axis)
        axes.push_back(strides && scores[axis] != 1 && strides->coefficient(axis) != 0);
      const Sizes sizes = set_sizes(axes);
      const Distances plain = packed(sizes);
      bool as_it_lies =
          strides && strides->constant == 0 && info.type == a.type && element_count(info.sizes) == element_count(sizes);
      for (std::size_t axis = 0; axis < scores.size(); ++axis)
        as_it_lies = as_it_lies && (!axes[axis] || strides->coefficient(axis) == plain[axis]);
      a.mask_type = info.type;
      if (as_it_lies) return value;
    }
    FreeVariables free;
    const auto& variables = free.of(*e);
    std::vector<bool> axes;
    Group group;
    for (const Index& p : chain.position()) axes.push_back(variables.contains(p.as_atom()->id));
    const Sizes sizes = set_sizes(axes);
    a.mask_type = DataType::kFloat;
    group.element = e;
    group.position = chain.position();
    group.operands = chain.operands();
    std::replace(group.operands.begin(), group.operands.end(), without, kNoValue);
    group.result = facts_.add_value({DataType::kFloat, sizes});
    before.push_back(group);
    return group.result;
  }

  GraphFacts& facts_;
  const Graph& graph_;
  const std::vector<std::int32_t> producers_;
  ValueUses uses_;
  std::vector<int> group_of_;  // by node
  std::vector<Group>& groups_;
  std::vector<std::size_t> parts_;
};

}  // namespace

void join_attention(GraphFacts& facts, std::vector<Group>& groups) { Joining(facts, groups).make(); }

}  // namespace rewright::cuda
