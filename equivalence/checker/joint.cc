#include "equivalence/checker/joint.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/hash_mix.h"
#include "equivalence/checker/constants.h"
#include "equivalence/checker/equation.h"
#include "equivalence/checker/one_form.h"
#include "expressions/attributes.h"
#include "graph/onnx/opaque_meaning.h"
#include "graph/print.h"
#include "graph/sizes.h"

namespace rewright::equivalence {

namespace {

constexpr std::int64_t kSecond = std::int64_t{1} << 40;     // the rank of the second model's first node; terms stand before it
constexpr std::int64_t kExplained = std::int64_t{1} << 60;  // of a constant that a term defines
constexpr std::size_t kMostPlain = 16;                      // values of a number without constants

const std::string& mapped(const NameMap& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

[[noreturn]] void differs(const std::string& what) { throw Error(ErrorCode::kBadInput, "the models do not match: " + what); }

std::string type_of(const Value& value) { return type_text(value.type, value.shape_known); }

// Different for attributes that differ in any bit; Attributes print numbers in full.
std::string text_of(const Attributes& attributes) {
  std::string text;
  for (const AttributeValue& value : attributes) {
    text += " | " + std::to_string(value.index()) + ":";
    if (const Real* real = std::get_if<Real>(&value)) {
      std::uint64_t bits = 0;
      static_assert(sizeof bits == sizeof real->value);
      std::copy_n(reinterpret_cast<const char*>(&real->value), sizeof bits, reinterpret_cast<char*>(&bits));
      text += std::to_string(bits) + real->symbol;
    } else if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      text.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(double));
    } else if (const Tensor* tensor = std::get_if<Tensor>(&value)) {
      text += rewright::to_string(to_indices(tensor->sizes())) + std::string(name(tensor->type()));
      text.append(reinterpret_cast<const char*>(tensor->bytes().data()), tensor->byte_count());
    } else {
      text += to_string(value);
    }
  }
  return text;
}

// Integers whose elements are known for all inputs are constants: the size of an axis, read from a shape.
Graph with_known_integers(Graph graph) {
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.constant || graph.is_input(id) || !value.contents || !value.shape_known || !is_integer(value.type.type) ||
        !all_constant(*value.contents) || !all_constant(value.type.shape))
      continue;
    Value known = value;
    known.constant = Tensor::from_integers(value.type.type, values(value.type.shape), values(*value.contents));
    graph.set_value(id, std::move(known));
  }
  return graph;
}

bool has_exact_elements(const Value& value) {
  return value.shape_known && (is_integer(value.type.type) || value.type.type == DataType::kBool);
}

constexpr std::int64_t kMostComputed = std::int64_t{1} << 22;  // elements of a value

// Operators on constants of integers and truth values make constants, too: their elements are exact.
Graph with_computed_integers(Graph graph) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  for (const auto& node : nodes) {
    if (!node->op || node->op->random() || node->op->is_fill()) continue;
    const bool is_exact = std::all_of(node->inputs.begin(), node->inputs.end(), [&](ValueId id) {
      return id == kNoValue || (graph.is_constant(id) && has_exact_elements(graph.value(id)));
    });
    for (const ValueId id : node->outputs) {
      if (!is_exact || id == kNoValue || graph.is_constant(id) || !has_exact_elements(graph.value(id))) continue;
      try {
        const Indices& shape = graph.value(id).type.shape;
        if (!all_constant(shape) || element_count(values(shape)) > kMostComputed || is_partial(graph, *node)) continue;
        Value known = graph.value(id);
        known.constant = evaluate_constant(graph, id);
        graph.set_value(id, std::move(known));
      } catch (const Error&) {  // an operator that is not defined there
      }
    }
  }
  return graph;
}

}  // namespace

Joint::Joint(const Graph& a, const Graph& b, const NameMap& names)
    : graph_(with_computed_integers(with_known_integers(with_one_form(a)))) {
  first_values_ = graph_.value_count();
  first_nodes_ = graph_.nodes().size();
  const std::set<std::string> known = [&] {
    std::set<std::string> result;
    for (const auto* list : {&a, &b})
      for (const ValueId id : list->inputs()) result.insert(list->value(id).name);
    for (const auto* list : {&a, &b})
      for (const GraphOutput& o : list->outputs()) result.insert(o.name);
    return result;
  }();
  for (const auto& [from, to] : names)
    for (const std::string& name : {from, to})
      if (!known.count(name)) throw Error(ErrorCode::kUsage, "no input or output is called \"" + name + "\"", "--map");
  const Graph second = in_sizes_of_first(with_computed_integers(with_known_integers(with_one_form(b))), names);
  take_second(second, names);
  match_outputs(b, names);
  number_nodes(second);
  merge_known_values();
  merge_undone_blocks();
  close();
}

// The second model over the sizes of the first one's inputs. Its other named sizes get names of their own.
Graph Joint::in_sizes_of_first(const Graph& b, const NameMap& names) const {
  std::map<std::string, ValueId> inputs;
  for (const ValueId id : graph_.inputs()) inputs.emplace(graph_.value(id).name, id);
  if (b.inputs().size() != graph_.inputs().size()) {
    std::map<std::string, ValueId> others;
    for (const ValueId id : b.inputs()) others.emplace(b.value(id).name, id);
    for (const auto& [name, id] : inputs)
      if (!others.count(mapped(names, name))) differs("the second one has no input \"" + mapped(names, name) + "\"");
  }
  std::map<std::string, std::string> first_name;
  for (const auto& [name, id] : inputs) first_name.emplace(mapped(names, name), name);
  std::map<std::string, Index> sizes;
  for (const ValueId id : b.inputs()) {
    const Value& value = b.value(id);
    const auto name = first_name.find(value.name);
    if (name == first_name.end()) differs("the first one has no input \"" + value.name + "\"");
    const Value& other = graph_.value(inputs.at(name->second));
    const std::string text = "input \"" + name->second + "\" is " + type_of(other) + " in the first one, and " +
                             type_of(value) + " in the second one";
    if (value.type.type != other.type.type || value.shape_known != other.shape_known) differs(text);
    if (!value.shape_known) continue;
    if (value.type.rank() != other.type.rank()) differs(text);
    for (std::size_t k = 0; k < value.type.rank(); ++k) {
      const Index &size = other.type.shape[k], &mine = value.type.shape[k];
      const Atom* atom = mine.as_atom();
      if (atom && atom->kind == Atom::Kind::kSymbol) {
        if (!(sizes.try_emplace(atom->name, size).first->second == size))
          differs("the second one demands that sizes called \"" + atom->name + "\" are equal; " + text);
      } else if (!(mine == size)) {
        differs(text);
      }
    }
  }
  return with_sizes(b, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind != Atom::Kind::kSymbol) return std::nullopt;
    const auto known = sizes.find(a.name);
    return known != sizes.end() ? known->second : Index::symbol(a.name + "'");
  });
}

void Joint::take_second(const Graph& b, const NameMap& names) {
  std::map<std::string, ValueId> inputs;
  for (const ValueId id : graph_.inputs()) inputs.emplace(mapped(names, graph_.value(id).name), id);
  of_second_.assign(b.value_count(), kNoValue);
  for (const ValueId id : b.inputs()) of_second_[id] = inputs.at(b.value(id).name);
  for (ValueId id = 0; id < b.value_count(); ++id)
    if (of_second_[id] == kNoValue) of_second_[id] = graph_.add_value(b.value(id));
  second_values_ = graph_.value_count();
  const auto take = [&](ValueId& id) {
    if (id != kNoValue) id = of_second_[id];
  };
  for (const auto& node : b.nodes()) {
    Node copy = *node;
    for (ValueId& id : copy.inputs) take(id);
    for (ValueId& id : copy.outputs) take(id);
    copy.parameters.clear();
    graph_.add_raw(std::move(copy));
  }
  second_nodes_ = graph_.nodes().size() - first_nodes_;
}

void Joint::match_outputs(const Graph& b, const NameMap& names) {
  for (const GraphOutput& o : graph_.outputs()) {
    const std::string& name = mapped(names, o.name);
    const auto other =
        std::find_if(b.outputs().begin(), b.outputs().end(), [&](const GraphOutput& p) { return p.name == name; });
    if (other == b.outputs().end()) differs("the second one has no output \"" + name + "\"");
    if (o.type.type != other->type.type)
      differs("output \"" + o.name + "\" is " + type_text(o.type, o.shape_known) + " in the first one, and " +
              type_text(other->type, other->shape_known) + " in the second one");
    outputs_.emplace_back(o.value, of_second_[other->value]);
  }
  for (const GraphOutput& p : b.outputs())
    if (std::none_of(graph_.outputs().begin(), graph_.outputs().end(),
                     [&](const GraphOutput& o) { return mapped(names, o.name) == p.name; }))
      differs("the first one has no output \"" + p.name + "\"");
}

std::uint32_t Joint::kind_of(const Node& node, const std::string& meaning) {
  std::string text = node.op ? node.op->name() + text_of(node.attributes) : "opaque " + meaning;
  text += " -> " + std::to_string(node.outputs.size());
  return kind_numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(kind_numbers_.size())).first->second;
}

void Joint::number_nodes(const Graph& b) {
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    classes_.add();
    defined_by_.push_back(id);
    in_first_.push_back(is_of_first(id));
  }
  explained_.assign(graph_.value_count(), false);
  of_numbers_.assign(graph_.value_count(), false);
  kept_.assign(graph_.value_count(), false);
  producers_ = graph_.producers();
  for (ValueId id = 0; id < graph_.value_count(); ++id)
    if (graph_.is_constant(id)) producers_[id] = -1;
  users_.resize(graph_.value_count());
  std::map<std::pair<bool, std::uint32_t>, int> drawn;  // random nodes of a kind, in each model
  for (std::uint32_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = *graph_.nodes()[n];
    const bool is_second = n >= first_nodes_;
    const std::string meaning = node.op ? std::string() : opaque_meaning(is_second ? b : graph_, node);
    std::uint32_t kind = kind_of(node, meaning);
    // Each draws numbers of its own, which one node of the other model may have as well.
    if (node.op ? node.op->random() : is_random(node)) {
      const int number = drawn[{is_second, kind}]++;
      kind = kind_of(node, meaning + " random " + std::to_string(kind) + " " + std::to_string(number));
      if (node.op)
        kind = kind_numbers_
                   .try_emplace("random " + std::to_string(kind) + " " + std::to_string(number),
                                static_cast<std::uint32_t>(kind_numbers_.size()))
                   .first->second;
    }
    kinds_.push_back(kind);
    if (node.op && node.op->name() == "Reshape") undone_.push_back(n);
    for (const ValueId id : node.inputs)
      if (id != kNoValue) users_[id].push_back(n);
    pending_.push_back(n);
  }
}

// Equal constants, and integers whose elements are known for all sizes.
void Joint::merge_known_values() {
  std::multimap<std::uint64_t, ValueId> constants;
  std::map<std::string, ValueId> contents;
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(id);
    if (value.constant) {
      const auto [from, to] = constants.equal_range(value.constant_hash());
      const auto same =
          std::find_if(from, to, [&](const auto& c) { return graph_.value(c.second).constant == value.constant; });
      if (same != to)
        merge(same->second, id);
      else
        constants.emplace(value.constant_hash(), id);
    }
    if (!value.contents || !value.shape_known) continue;
    const std::string key = to_string(value.type) + to_string(*value.contents);
    const auto [known, is_new] = contents.try_emplace(key, id);
    if (!is_new) merge(known->second, id);
  }
}

// Channels put into blocks and taken out again: Reshape, Transpose, Reshape, and the same backwards. A Reshape keeps the order
// of elements, so that two of them in the middle are none if the sizes are the same, and then the permutations cancel.
bool Joint::merge_undone_blocks() {
  const std::size_t perm = registry().get("Transpose").field("perm").value();
  const auto shape = [&](ValueId id) -> const Indices& { return graph_.value(id).type.shape; };
  const Maker made_by = [&](ValueId id, std::string_view op) -> const Node* {
    const std::int32_t position = producers_[defined_by(id)];
    const Node* node = position < 0 ? nullptr : graph_.nodes()[static_cast<std::size_t>(position)].get();
    return node && node->op && node->op->name() == op ? node : nullptr;
  };
  return std::erase_if(undone_, [&](std::uint32_t position) {
           const Node& last = *graph_.nodes()[position];
           const Node* out = made_by(last.inputs[0], "Transpose");
           const Node* apart = out ? made_by(out->inputs[0], "Reshape") : nullptr;
           const Node* joined = apart ? made_by(apart->inputs[0], "Reshape") : nullptr;
           const Node* in = joined ? made_by(joined->inputs[0], "Transpose") : nullptr;
           const Node* first = in ? made_by(in->inputs[0], "Reshape") : nullptr;
           if (first && shape(apart->outputs[0]) == shape(in->outputs[0]) &&
               shape(last.outputs[0]) == shape(first->inputs[0]) &&
               is_inverse(std::get<Indices>(in->attributes[perm]), std::get<Indices>(out->attributes[perm])))
             return merge(first->inputs[0], last.outputs[0]);
           const auto parts = joined_channels(graph_, made_by, last);
           const ValueId whole = parts ? concat_of(*parts) : kNoValue;
           return whole != kNoValue && merge(whole, last.outputs[0]);
         }) > 0;
}

// A Concat along axis 1 of these values; kNoValue if none is there.
ValueId Joint::concat_of(const std::vector<ValueId>& parts) const {
  const Operator& concat = registry().get("Concat");
  const std::size_t axis = concat.field("axis").value();
  for (const std::uint32_t position : users_[find(parts.at(0))]) {
    const Node& node = *graph_.nodes()[position];
    if (node.op == &concat && std::get<Index>(node.attributes[axis]) == Index(1) &&
        std::equal(node.inputs.begin(), node.inputs.end(), parts.begin(), parts.end(),
                   [&](ValueId x, ValueId y) { return equal(x, y); }))
      return node.outputs[0];
  }
  return kNoValue;
}

std::int64_t Joint::rank(ValueId id) const {
  if (explained_[id]) return kExplained;
  if (of_numbers_[id]) return -1;  // rests on nothing that may be explained, so that a number may explain any constant
  const std::int32_t position = producers_[id];
  if (position < 0) return graph_.is_constant(id) ? -1 : -2;
  const auto n = static_cast<std::size_t>(position);
  if (n < first_nodes_) return position;
  return n < first_nodes_ + second_nodes_ ? kSecond + position : position;
}

// Types are equal, or one of them is not known, or a size of one is a name that stands for it alone.
bool Joint::compatible(ValueId a, ValueId b) const {
  const Value &x = graph_.value(a), &y = graph_.value(b);
  if (x.type.type != y.type.type) return false;
  return x.shape_known == y.shape_known && (!x.shape_known || x.type.shape == y.type.shape);
}

bool Joint::merge(ValueId a, ValueId b) {
  if (equal(a, b)) return true;
  if (!compatible(a, b)) return false;
  const ValueId x = defined_by(a), y = defined_by(b);
  const ValueId best = rank(x) <= rank(y) ? x : y;
  const bool first = is_known(a) || is_known(b);
  const auto names = classes_.merge(a, b).value();
  defined_by_[names.first] = best;
  in_first_[names.first] = first;
  auto &kept = users_[names.first], &gone = users_[names.second];
  pending_.insert(pending_.end(), gone.begin(), gone.end());
  kept.insert(kept.end(), gone.begin(), gone.end());
  gone.clear();
  return true;
}

void Joint::enter(std::uint32_t position) {
  const std::shared_ptr<const Node> kept = graph_.nodes()[position];  // learning sizes replaces nodes
  const Node& node = *kept;
  const auto operands = [&](const Node& n) {
    std::vector<ValueId> ids;
    for (const ValueId id : n.inputs) ids.push_back(id == kNoValue ? id : find(id));
    while (!ids.empty() && ids.back() == kNoValue) ids.pop_back();
    if (n.op && n.op->commutative() && ids.size() >= 2 && ids[1] < ids[0]) std::swap(ids[0], ids[1]);
    return ids;
  };
  const std::vector<ValueId> ids = operands(node);
  std::uint64_t key = kinds_[position];
  for (const ValueId id : ids) key = hash_mix(key, id);
  const auto same = table_.find(key, [&](std::uint32_t other) {
    return other != position && kinds_[other] == kinds_[position] && operands(*graph_.nodes()[other]) == ids;
  });
  if (!same) {
    table_.insert(key, position);
    return;
  }
  const std::shared_ptr<const Node> kept_other = graph_.nodes()[*same];
  merge_results(node, *kept_other);
}

void Joint::merge_results(const Node& node, const Node& other) {
  for (std::size_t o = 0; o < node.outputs.size() && o < other.outputs.size(); ++o) {
    const ValueId a = other.outputs[o], b = node.outputs[o];
    if (a == kNoValue || b == kNoValue) continue;
    if (!compatible(a, b)) learn_sizes(graph_.value(a).type, graph_.value(b).type);
    merge(a, b);
  }
}

// Sizes that only execution determines have a name in each model. Equal values have equal sizes, so that one name goes.
void Joint::learn_sizes(const TensorType& a, const TensorType& b) {
  if (a.type != b.type || a.rank() != b.rank()) return;
  std::map<std::string, Index> learned;
  const auto learn = [&](const Index& size, const Index& other) {
    const Atom* atom = size.as_atom();
    if (!atom || atom->kind != Atom::Kind::kSymbol || !atom->name.ends_with("'")) return false;
    learned.try_emplace(atom->name, other);
    return true;
  };
  for (std::size_t k = 0; k < a.rank(); ++k)
    if (!(a.shape[k] == b.shape[k]) && !learn(b.shape[k], a.shape[k])) learn(a.shape[k], b.shape[k]);
  if (learned.empty()) return;
  graph_ = with_sizes(graph_, [&](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    const auto found = learned.find(atom.name);
    return found == learned.end() ? std::nullopt : std::optional(found->second);
  });
  table_.clear();
  pending_.clear();
  for (std::uint32_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = *graph_.nodes()[n];
    if (node.op && !node.op->random()) kinds_[n] = kind_of(node, {});
    pending_.push_back(n);
  }
}

void Joint::close() {
  while (!pending_.empty()) {
    std::vector<std::uint32_t> positions;
    positions.swap(pending_);
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    for (const std::uint32_t position : positions) enter(position);
  }
}

bool Joint::unite(ValueId a, ValueId b) {
  if (!merge(a, b)) return false;
  do close();
  while (merge_undone_blocks());
  return true;
}

bool Joint::unite_results(std::int32_t a, std::int32_t b) {
  const std::shared_ptr<const Node> first = graph_.nodes()[static_cast<std::size_t>(a)],
                                    second = graph_.nodes()[static_cast<std::size_t>(b)];
  merge_results(*second, *first);
  close();
  for (std::size_t o = 0; o < first->outputs.size(); ++o)
    if (first->outputs[o] != kNoValue && second->outputs[o] != kNoValue && !equal(first->outputs[o], second->outputs[o]))
      return false;
  return true;
}

ValueId Joint::add_term(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) {
  const auto position = static_cast<std::uint32_t>(graph_.nodes().size());
  const std::vector<ValueId> outputs = graph_.add_node(op, std::move(attributes), inputs);
  while (classes_.size() < graph_.value_count()) {
    defined_by_.push_back(classes_.add());
    in_first_.push_back(false);
    explained_.push_back(false);
    of_numbers_.push_back(false);
    kept_.push_back(false);
    producers_.push_back(-1);
    users_.emplace_back();
  }
  const bool of_numbers = is_of_numbers(*graph_.nodes()[position]);
  for (const ValueId id : outputs) {
    if (id == kNoValue) continue;
    producers_[id] = static_cast<std::int32_t>(position);
    of_numbers_[id] = of_numbers;
  }
  for (const ValueId id : inputs)
    if (id != kNoValue) users_[find(id)].push_back(position);
  kinds_.push_back(kind_of(*graph_.nodes()[position], {}));
  pending_.push_back(position);
  close();
  return outputs.at(0);
}

bool Joint::explain(ValueId constant, ValueId term) {
  if (!may_explain(constant, term) || !compatible(constant, term)) return false;
  for (const ValueId id : constants_of(term)) kept_[id] = true;
  for (ValueId id = 0; id < explained_.size(); ++id)
    if (graph_.is_constant(id) && equal(id, constant)) explained_[id] = true;
  return unite(constant, term);
}

bool Joint::may_explain(ValueId constant, ValueId term) const {
  if (!graph_.is_constant(constant) || explained_[constant] || equal(constant, term)) return false;
  for (ValueId id = 0; id < kept_.size(); ++id)
    if (kept_[id] && equal(id, constant)) return false;
  if (!is_known(constant)) {
    const std::vector<ValueId> used = constants_of(term);
    return std::none_of(used.begin(), used.end(), [&](ValueId id) { return equal(id, constant); });
  }
  return (is_plain_number(term) || is_product(term)) && is_exact(constant, term);
}

// Is each element the nearest number of its type to that of the term, which double holds but for some roundings?
bool Joint::is_exact(ValueId constant, ValueId term) const {
  constexpr double kSome = 0x1p-48;
  const Tensor found = graph_.value(defined_by(constant)).constant, exact = evaluate_constant(graph_, term);
  if (exact.sizes() != found.sizes() || !is_real(found.type())) return false;
  const auto is_nearest = [&](double factor) {
    std::vector<double> elements = exact.reals();
    for (double& e : elements) e *= factor;
    return Tensor::from_reals(found.type(), found.sizes(), elements) == found;
  };
  const std::vector<double> elements = found.reals();
  const auto is_normal = [](double e) { return std::isnormal(e); };
  if (!std::all_of(elements.begin(), elements.end(), is_normal)) return false;
  // A product of two floats is exact in double.
  return is_product(term) ? is_nearest(1) : is_nearest(1 - kSome) && is_nearest(1 + kSome);
}

const Node* Joint::node_of_term(ValueId id, std::string_view op) const {
  if (id < second_values_ || producers_[id] < 0) return nullptr;
  const Node& node = *graph_.nodes()[static_cast<std::size_t>(producers_[id])];
  return node.op && node.op->name() == op ? &node : nullptr;
}

// Mul(s, t) of two float constants of the first model that nothing explains, perhaps in another shape.
bool Joint::is_product(ValueId term) const {
  const Node* const reshaped = node_of_term(term, "Reshape");
  const Node* const product = node_of_term(reshaped ? reshaped->inputs.at(0) : term, "Mul");
  return product && std::all_of(product->inputs.begin(), product->inputs.end(), [&](ValueId id) {
           const ValueId constant = defined_by(id);
           return graph_.is_constant(constant) && is_of_first(constant) && !explained_[constant] &&
                  graph_.value(constant).constant.type() == DataType::kFloat;
         });
}

// A number, a root, or products and quotients of numbers: without sums, of which nothing could be left but rounding.
bool Joint::is_plain_number(ValueId term) const {
  if (!of_numbers_[term]) return false;
  std::vector<ValueId> open{term};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    constexpr std::string_view kPlain[] = {"Fill", "Sqrt", "Mul", "Div", "Reciprocal"};
    const auto is_made_by = [&](std::string_view op) { return node_of_term(id, op) != nullptr; };
    if (seen.size() > kMostPlain || std::none_of(std::begin(kPlain), std::end(kPlain), is_made_by)) return false;
    for (const ValueId input : graph_.nodes()[static_cast<std::size_t>(producers_[id])]->inputs) open.push_back(input);
  }
  return true;
}

// The constants that a term, or a value that is computed from constants, rests on.
std::vector<ValueId> Joint::constants_of(ValueId term) const {
  std::vector<ValueId> found, open{term};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(find(id)).second) continue;
    const ValueId made = id < second_values_ ? defined_by(id) : id;
    if (graph_.is_constant(made)) found.push_back(made);
    if (graph_.is_constant(made) || producers_[made] < 0) continue;
    for (const ValueId input : graph_.nodes()[static_cast<std::size_t>(producers_[made])]->inputs)
      if (input != kNoValue) open.push_back(input);
  }
  return found;
}

bool Joint::is_of_numbers(const Node& node) const {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id == kNoValue || of_numbers_[id]; });
}

void Joint::set_attribute(std::int32_t position, std::size_t field, double number) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph_.nodes().begin(), graph_.nodes().end());
  const auto n = static_cast<std::size_t>(position);
  graph_.drop_nodes_from(n);
  Node changed = *nodes[n];
  changed.attributes.at(field) = Real(number);
  graph_.add_raw(std::move(changed));
  for (std::size_t k = n + 1; k < nodes.size(); ++k) graph_.add_shared(nodes[k]);
  kinds_[n] = kind_of(*graph_.nodes()[n], {});
  pending_.push_back(static_cast<std::uint32_t>(position));
  close();
}

bool Joint::outputs_are_equal() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [&](const auto& pair) { return equal(pair.first, pair.second); });
}

}  // namespace rewright::equivalence
