// Random instances of rules.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "rules/instance.h"

namespace rewright::rules {

namespace {

constexpr std::int64_t kMaximumElements = 2000;  // of one input
constexpr std::int64_t kMaximumConstant = 12;    // largest number near which sizes and attributes are chosen

void for_each_symbol(const Index& index, const std::function<void(const std::string&)>& visit) {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kSymbol) visit(atom.name);
  });
}

Index replace(const Index& index, const std::map<std::string, Index>& values) {
  return substitute(index, [&](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    const auto found = values.find(atom.name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

// Solves expression = 0 for a variable that occurs once, alone, with coefficient 1 or -1.
std::optional<std::pair<std::string, Index>> isolate(const Index& expression) {
  if (!expression.polynomial()) return std::nullopt;
  for (const Monomial& m : expression.polynomial()->monomials) {
    if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol || (m.coefficient != 1 && m.coefficient != -1))
      continue;
    const std::string& name = m.factors[0]->name;
    const Index rest = expression - Index(m.coefficient) * Index::symbol(name);
    bool elsewhere = false;
    for_each_symbol(rest, [&](const std::string& n) { elsewhere |= n == name; });
    if (!elsewhere) return std::pair(name, m.coefficient == 1 ? -rest : rest);
  }
  return std::nullopt;
}

// Types to sample, one of each kind. Reals come first and most often. Small unsigned types would overflow.
std::vector<DataType> types_of(const TypePattern& pattern) {
  switch (pattern.kind) {
    case TypePattern::Kind::kReal:
      return {DataType::kDouble};
    case TypePattern::Kind::kInteger:
      return {DataType::kInt64};
    case TypePattern::Kind::kAny:
      return {DataType::kDouble, DataType::kDouble, DataType::kInt64, DataType::kBool};
    case TypePattern::Kind::kFixed:
      return {pattern.fixed};
  }
  return {DataType::kDouble};
}

std::string element_name(const std::string& list, std::size_t i) { return list + "_" + std::to_string(i); }

}  // namespace

InstanceSampler::InstanceSampler(const Rule& rule, std::uint64_t seed, Spread spread)
    : rule_(rule), random_(seed), spread_(spread) {
  find_variables();
}

std::int64_t InstanceSampler::pick(std::initializer_list<std::int64_t> values) {
  return values.begin()[random_() % values.size()];
}

// Occasionally a number at or next to one of the rule's constants.
std::int64_t InstanceSampler::pick_near_constant(std::int64_t otherwise) {
  if (constants_.empty() || !chance(0.2)) return otherwise;
  return constants_[random_() % constants_.size()] + pick({-1, 0, 1});
}

bool InstanceSampler::chance(double probability) { return static_cast<double>(random_() % 10000) < probability * 10000; }

void InstanceSampler::find_variables() {
  const auto constant = [&](const Index& i) {
    if (const std::int64_t c = std::abs(i.constant_term()); c >= 2 && c < kMaximumConstant) constants_.push_back(c);
    if (i.polynomial())
      for (const Monomial& m : i.polynomial()->monomials)
        if (const std::int64_t c = std::abs(m.coefficient); c >= 2 && c < kMaximumConstant) constants_.push_back(c);
  };
  const auto index = [&](const Index& i, bool in_shape) {
    constant(i);
    for_each_symbol(i, [&](const std::string& name) {
      variables_.try_emplace(name, Variable{Sort::kIndex, in_shape, false, Index(0), {}});
    });
  };
  const auto list = [&](const std::string& name, bool in_shape) {
    variables_.try_emplace(name, Variable{Sort::kList, in_shape, false, Indices{}, {}});
  };
  for (const PatternInput& input : rule_.inputs) {
    for (const Index& i : input.shape.front) index(i, true);
    for (const Index& i : input.shape.back) index(i, true);
    if (!input.shape.middle.empty()) list(input.shape.middle, true);
    if (!input.type.variable.empty()) {
      const std::vector<DataType> types = types_of(input.type);
      auto [found, inserted] =
          variables_.try_emplace(input.type.variable, Variable{Sort::kType, false, false, types.front(), types});
      if (!inserted)
        std::erase_if(found->second.types, [&](DataType t) { return std::find(types.begin(), types.end(), t) == types.end(); });
    }
  }
  const std::function<void(const Expression&, const AttributeValue&)> expression = [&](const Expression& e,
                                                                                       const AttributeValue& field) {
    if (e.kind == Expression::Kind::kCall) {
      const RuleFunction* f = find_rule_function(e.name);
      for (std::size_t i = 0; i < e.arguments.size(); ++i) {
        const char sort = f->arguments[i];
        if (sort == 'x') continue;
        expression(e.arguments[i], sort == 'i'   ? AttributeValue(Index(0))
                                   : sort == 'l' ? AttributeValue(Indices{})
                                                 : AttributeValue(Real(0)));
      }
    } else if (e.kind == Expression::Kind::kVariable) {
      if (std::holds_alternative<Indices>(field)) list(e.name, false);
      if (std::holds_alternative<bool>(field)) variables_.try_emplace(e.name, Variable{Sort::kBool, false, false, field, {}});
      if (std::holds_alternative<std::string>(field))
        variables_.try_emplace(e.name, Variable{Sort::kText, false, false, field, {}});
      if (std::holds_alternative<DataType>(field))
        variables_.try_emplace(e.name, Variable{Sort::kType, false, false, DataType::kDouble, {}});
    } else if (const auto* i = std::get_if<Index>(&e.value)) {
      index(*i, false);
    } else if (const auto* elements = std::get_if<Indices>(&e.value)) {
      for (const Index& i : *elements) index(i, false);
    } else if (const auto* real = std::get_if<Real>(&e.value); real && !real->symbol.empty()) {
      variables_.try_emplace(real->symbol, Variable{Sort::kReal, false, false, *real, {}});
    }
  };
  for (const PatternNode& node : rule_.source.nodes)
    for (std::size_t i = 0; i < node.attributes.size(); ++i) expression(node.attributes[i], node.op->fields()[i].default_value);
  for (const PatternNode& node : rule_.target.nodes)
    for (const Expression& e : node.attributes) {
      if (const auto* i = std::get_if<Index>(&e.value)) constant(*i);
      if (const auto* elements = std::get_if<Indices>(&e.value)) std::for_each(elements->begin(), elements->end(), constant);
    }
  for (const Condition& c : rule_.conditions) constant(c.left - c.right);
  std::sort(constants_.begin(), constants_.end());
  constants_.erase(std::unique(constants_.begin(), constants_.end()), constants_.end());
  for (const Quantity& q : rule_.quantities) variables_.erase(q.name);
  for (const Predicate& p : rule_.predicates)
    if (p.kind == Predicate::Kind::kPermutation && p.arguments[0].kind == Expression::Kind::kVariable)
      if (const auto found = variables_.find(p.arguments[0].name); found != variables_.end()) found->second.permutation = true;
}

InstanceSampler::Ranks InstanceSampler::sample_ranks(std::size_t spatial) {
  Ranks ranks;
  ranks.spatial = spatial;
  const double alike = spread_ == Spread::kWide ? 0.5 : 0.75;
  const auto near = [&] { return chance(alike) ? spatial : static_cast<std::size_t>(pick({0, 1, 2, 3, 4, 5})); };
  for (const auto& [name, variable] : variables_)
    if (variable.sort == Sort::kList && variable.in_shape) ranks.lists[name] = near();
  std::vector<std::size_t> totals;
  for (const PatternInput& input : rule_.inputs) {
    ranks.open.push_back(near());
    const std::vector<DataType> types = types_of(input.type);
    ranks.types.push_back(types[random_() % types.size()]);
    const std::size_t middle = !input.shape.open            ? 0
                               : input.shape.middle.empty() ? ranks.open.back()
                                                            : ranks.lists[input.shape.middle];
    totals.push_back(input.shape.front.size() + middle + input.shape.back.size());
  }
  for (const auto& [name, variable] : variables_) {
    if (variable.sort != Sort::kList || variable.in_shape) continue;
    const double r = static_cast<double>(random_() % 100) / 100;
    const std::size_t total = totals.empty() ? spatial : totals[random_() % totals.size()];
    if (variable.permutation ? r < 0.9 : r < 0.25)
      ranks.lists[name] = total;
    else
      ranks.lists[name] = r < 0.85 ? spatial : static_cast<std::size_t>(pick({0, 1, 2, 3, 4}));
  }
  return ranks;
}

// A list of integers of one kind: strides, pads, axes, or a permutation.
Indices InstanceSampler::sample_list(std::size_t length) {
  Indices list;
  switch (random_() % 6) {
    case 0:
      list.assign(length, Index(0));
      break;
    case 1:
      list.assign(length, Index(1));
      break;
    case 2:
      for (std::size_t i = 0; i < length; ++i) list.emplace_back(pick({1, 2, 3}));
      break;
    case 3:
      for (std::size_t i = 0; i < length; ++i) list.emplace_back(pick({0, 1, 2}));
      break;
    case 4: {  // axes
      std::vector<std::int64_t> axes(length + 2);
      std::iota(axes.begin(), axes.end(), 0);
      std::shuffle(axes.begin(), axes.end(), random_);
      axes.resize(length);
      std::sort(axes.begin(), axes.end());
      list.assign(axes.begin(), axes.end());
      break;
    }
    default:
      for (std::size_t i = 0; i < length; ++i) list.emplace_back(pick_near_constant(pick({1, 2, 3, 4, 5, 6})));
  }
  return list;
}

AttributeValue InstanceSampler::sample_value(const std::string& name, const Variable& variable, const Ranks& ranks,
                                             bool symbolic) {
  switch (variable.sort) {
    case Sort::kIndex:
      if (variable.in_shape) return chance(known_) ? Index(pick_near_constant(pick({1, 1, 1, 2, 3, 4}))) : Index::symbol(name);
      return symbolic && chance(0.5) ? Index::symbol(name) : Index(pick_near_constant(pick({0, 0, 1, 1, 2, 2, 3, 4})));
    case Sort::kList: {
      const std::size_t length = ranks.lists.at(name);
      Indices list;
      if (variable.permutation) {
        std::vector<std::int64_t> p(length);
        std::iota(p.begin(), p.end(), 0);
        std::shuffle(p.begin(), p.end(), random_);
        list.assign(p.begin(), p.end());
      } else if (variable.in_shape || symbolic) {
        for (std::size_t i = 0; i < length; ++i)
          list.push_back(variable.in_shape && chance(known_) ? Index(pick_near_constant(pick({1, 1, 1, 2, 3, 4})))
                                                             : Index::symbol(element_name(name, i)));
      } else {
        list = sample_list(length);
      }
      return list;
    }
    case Sort::kReal: {
      static constexpr double kReals[] = {0.5, 1, 2, -1.5, 0.125, 0, 3};
      return Real(kReals[random_() % std::size(kReals)]);
    }
    case Sort::kBool:
      return chance(0.5);
    case Sort::kText:
      return variable.example;
    case Sort::kType:
      return variable.types.empty() ? variable.example : AttributeValue(variable.types[random_() % variable.types.size()]);
  }
  return {};
}

std::vector<TensorType> InstanceSampler::input_types(const Bindings& bindings, const Ranks& ranks) const {
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
    const PatternInput& input = rule_.inputs[i];
    TensorType type;
    type.type = input.type.variable.empty() ? ranks.types[i] : std::get<DataType>(bindings.values().at(input.type.variable));
    for (const Index& size : input.shape.front) type.shape.push_back(bindings.evaluate(size));
    if (input.shape.open && !input.shape.middle.empty()) {
      const auto& middle = std::get<Indices>(bindings.values().at(input.shape.middle));
      type.shape.insert(type.shape.end(), middle.begin(), middle.end());
    } else if (input.shape.open) {
      for (std::size_t a = 0; a < ranks.open[i]; ++a)
        type.shape.push_back(Index::symbol(element_name("_" + std::to_string(i), a)));
    }
    for (const Index& size : input.shape.back) type.shape.push_back(bindings.evaluate(size));
    types.push_back(std::move(type));
  }
  return types;
}

// Uses equations among the conditions to express variables by others. False: there is no solution.
bool InstanceSampler::solve(std::vector<Condition>& conditions, std::map<std::string, Index>& values) {
  for (bool progress = true; progress;) {
    progress = false;
    std::shuffle(conditions.begin(), conditions.end(), random_);
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      if (const auto decided = conditions[i].decided()) {
        if (!*decided) return false;
        continue;
      }
      if (conditions[i].relation != Condition::Relation::kEqual) continue;
      const auto solved = isolate(conditions[i].left - conditions[i].right);
      if (!solved) continue;
      const std::map<std::string, Index> step{{solved->first, solved->second}};
      for (auto& [name, value] : values) value = replace(value, step);
      values[solved->first] = solved->second;
      for (Condition& c : conditions) c = {replace(c.left, step), c.relation, replace(c.right, step)};
      progress = true;
    }
  }
  return true;
}

// Chooses values for the remaining variables one by one; a value that violates a condition is replaced by another.
bool InstanceSampler::choose(std::vector<Condition> conditions, std::map<std::string, Index>& values) {
  std::set<std::string> free;
  const auto collect = [&](const Index& index) { for_each_symbol(index, [&](const std::string& n) { free.insert(n); }); };
  for (const Condition& c : conditions) collect(c.left), collect(c.right);
  for (const auto& [name, value] : values) collect(value);
  for (const auto& [name, value] : values) free.erase(name);
  std::vector<std::string> order(free.begin(), free.end());
  std::shuffle(order.begin(), order.end(), random_);
  for (const std::string& name : order) {
    bool found = false;
    for (int trial = 0; trial < 20 && !found; ++trial) {
      const std::map<std::string, Index> step{
          {name, Index(trial < 5 ? pick_near_constant(pick({0, 1, 1, 1, 2, 2, 3, 4, 5, -1})) : trial - 5)}};
      std::vector<Condition> next;
      found = true;
      for (const Condition& c : conditions) {
        Condition replaced{replace(c.left, step), c.relation, replace(c.right, step)};
        const auto decided = replaced.decided();
        if (decided == false) found = false;
        if (!found) break;
        if (!decided) next.push_back(std::move(replaced));
      }
      if (!found) continue;
      conditions = std::move(next);
      for (auto& [n, value] : values) value = replace(value, step);
      values[name] = step.at(name);
    }
    if (!found) return false;
  }
  return conditions.empty();
}

// For symbolic sizes broadcasting requires equal ones. Occasionally sets one of the two to 1 instead; if the equation did not
// come from broadcasting, the instance then fails.
void InstanceSampler::broadcast_some(std::vector<Condition>& conditions) {
  for (Condition& c : conditions) {
    if (c.relation != Condition::Relation::kEqual || c.left.is_constant() || c.right.is_constant() || !chance(0.25)) continue;
    c = equal(chance(0.5) ? c.left : c.right, 1);
  }
}

// Changes the length of one list or open part.
InstanceSampler::Ranks InstanceSampler::varied(Ranks ranks) {
  const std::size_t choices = ranks.lists.size() + ranks.open.size();
  if (choices == 0) return ranks;
  std::size_t chosen = random_() % choices;
  for (auto& [name, length] : ranks.lists) {
    if (chosen-- != 0) continue;
    length = static_cast<std::size_t>(pick({0, 1, 2, 3, 4, 5}));
    return ranks;
  }
  ranks.open[chosen] = static_cast<std::size_t>(pick({0, 1, 2, 3, 4, 5}));
  return ranks;
}

void InstanceSampler::remember(const Ranks& ranks) {
  std::vector<Ranks>& good = good_[ranks.spatial];
  if (good.size() >= 32) return;
  if (spread_ == Spread::kWide && std::find(good.begin(), good.end(), ranks) != good.end()) return;
  good.push_back(ranks);
}

std::optional<RuleInstance> InstanceSampler::attempt(const Ranks& ranks) {
  const bool symbolic = chance(0.5);
  // Symbolic sizes are found by solving equations; of known ones, some may broadcast.
  static constexpr double kKnown[] = {0, 0.15, 0.15, 0.5, 0.9};
  known_ = kKnown[random_() % std::size(kKnown)];
  Bindings open(rule_);
  for (const auto& [name, variable] : variables_) open.bind(name, sample_value(name, variable, ranks, symbolic));
  std::vector<TensorType> types = input_types(open, ranks);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!open.bind_input(i, types[i])) return std::nullopt;
  for (const Quantity& q : rule_.quantities) {
    const auto value = open.try_evaluate(q.value);
    if (!value || !open.bind(q.name, *value)) return std::nullopt;
  }

  std::vector<Condition> conditions = infer_side(rule_, rule_.source, types, open).conditions;
  if (spread_ == Spread::kWide) broadcast_some(conditions);
  for (const Condition& c : rule_.conditions) conditions.push_back({open.evaluate(c.left), c.relation, open.evaluate(c.right)});
  for (const Predicate& p : rule_.predicates) {
    const auto first = open.try_evaluate(p.arguments[0]);
    const auto second = p.arguments.size() > 1 ? open.try_evaluate(p.arguments[1]) : std::nullopt;
    const auto* a = first ? std::get_if<Indices>(&*first) : nullptr;
    const auto* b = second ? std::get_if<Indices>(&*second) : nullptr;
    if (a && b && p.kind == Predicate::Kind::kEqual) {
      if (a->size() != b->size()) return std::nullopt;
      for (std::size_t i = 0; i < a->size(); ++i) conditions.push_back(equal((*a)[i], (*b)[i]));
    } else if (a && (p.kind == Predicate::Kind::kPositive || p.kind == Predicate::Kind::kNonNegative)) {
      for (const Index& i : *a) conditions.push_back(less_equal(p.kind == Predicate::Kind::kPositive ? 1 : 0, i));
    }
  }
  for (const TensorType& type : types)
    for (const Index& size : type.shape) conditions.push_back(less_equal(1, size));
  std::map<std::string, Index> values;
  if (!solve(conditions, values) || !choose(conditions, values)) return std::nullopt;

  // The instance with numbers, bound as a matcher does it.
  for (TensorType& type : types) {
    std::int64_t count = 1;
    for (Index& size : type.shape) {
      size = replace(size, values);
      if (!size.is_constant()) size = pick({1, 2, 3});
      if (size.value() > kMaximumElements || (count *= size.value()) > kMaximumElements) return std::nullopt;
    }
  }
  Bindings known(rule_);
  for (const auto& [name, value] : open.values()) {
    if (!variables_.count(name)) continue;
    if (const auto* index = std::get_if<Index>(&value)) {
      const Index number = replace(*index, values);
      if (!number.is_constant()) return std::nullopt;
      known.bind(name, number);
    } else if (const auto* list = std::get_if<Indices>(&value)) {
      Indices numbers;
      for (const Index& i : *list) numbers.push_back(replace(i, values));
      if (!all_constant(numbers)) return std::nullopt;
      known.bind(name, numbers);
    } else {
      known.bind(name, value);
    }
  }
  std::map<std::string, AttributeValue> variables(known.values().begin(), known.values().end());
  return make_instance(rule_, std::move(types), variables);
}

std::optional<RuleInstance> InstanceSampler::sample(int attempts) {
  // Cycles through ranks, so that those easy to satisfy do not displace the others; in the end accepts any.
  static constexpr std::size_t kSpatial[] = {2, 1, 2, 3, 1, 2, 0, 1};
  const std::size_t wanted = kSpatial[next_++ % std::size(kSpatial)];
  for (int i = 0; i < attempts; ++i) {
    const std::size_t spatial = i < attempts / 4 ? wanted : kSpatial[random_() % std::size(kSpatial)];
    const std::vector<Ranks>& good = good_[spatial];
    Ranks ranks = !good.empty() && chance(0.7) ? good[random_() % good.size()] : sample_ranks(spatial);
    if (spread_ == Spread::kWide && chance(0.4)) ranks = varied(std::move(ranks));
    try {
      if (auto instance = attempt(ranks)) {
        remember(ranks);
        return instance;
      }
    } catch (const Error&) {  // ill-typed, or an operator that requires a value that is symbolic here
    }
  }
  return std::nullopt;
}

}  // namespace rewright::rules
