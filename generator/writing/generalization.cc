#include "generator/writing/generalization.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;
using Said = rules::Expression;  // an attribute's value in terms of variables

Said size_of(const std::string& input, Said axis) { return Said::call("size", {Said::variable(input), std::move(axis)}); }
Said literal(std::int64_t value) { return Said::literal(Index(value)); }
Said symbol(const std::string& name) { return Said::literal(Index::symbol(name)); }

bool mentions_symbols(const Said& e) {
  bool found = false;
  const auto look = [&](const Index& i) { for_each_atom(i, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol; }); };
  if (const Index* i = std::get_if<Index>(&e.value)) look(*i);
  if (const Indices* l = std::get_if<Indices>(&e.value)) std::for_each(l->begin(), l->end(), look);
  return found;
}

// A field of an expression's operator.
struct Place {
  std::uint32_t at;
  std::size_t field;
};

class Generalizer {
 public:
  Generalizer(const Equation& equation, Forms& forms)
      : q_(equation), forms_(forms), left_(equation.reachable(equation.left)), right_(equation.reachable(equation.right)) {
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
      const Expression& e = q_.expressions[at];
      const Operator* op = operator_of(e, forms_.configuration());
      if (!op) {
        most_ = std::max(most_, forms_.type(e.type).type.rank());
        continue;
      }
      names_.insert(op->name());
      for (std::size_t f = 0; f < op->fields().size(); ++f) fields_[role(op->fields()[f].name)].push_back({at, f});
    }
  }

  std::vector<Family> run() {
    std::vector<Family> result;
    if (auto typing = open_typing(false)) add(result, std::move(*typing), true);
    if (auto typing = open_typing(true)) add(result, std::move(*typing), true);
    if (auto typing = shared_typing()) add(result, std::move(*typing), true);
    if (auto typing = along_an_axis()) add(result, std::move(*typing), true);
    if (most_ == 4)
      for (const bool groups : {true, false})
        if (auto sized = sized_typing(q_, forms_, {.numbers = true, .groups = groups && has_group()}))
          if (auto typing = listed(*sized)) add(result, std::move(*typing), true);
    using Windows = SizeOptions::Windows;
    if (most_ == 4)
      for (const Windows windows : {Windows::kFree, Windows::kFound})
        for (const bool groups : {true, false})
          if (auto sized = sized_typing(q_, forms_, {.numbers = true, .groups = groups && has_group(), .windows = windows}))
            add(result, std::move(*sized), true), result.back().windows = true;
    if (most_ == 2)
      for (const bool numbers : {true, false})
        if (auto sized = sized_typing(q_, forms_, {.numbers = numbers}); sized && (numbers || has_ones())) {
          for (const bool all : {false, true})
            if (auto typing = batched(*sized, all)) add(result, std::move(*typing), all);
        }
    for (const bool numbers : {true, false})
      if (auto sized = sized_typing(q_, forms_, {.numbers = numbers})) add(result, std::move(*sized), true);
    add(result, concrete_typing(q_, forms_), true);
    return result;
  }

 private:
  bool has_group() const { return fields_.count("group") != 0; }

  // Is a variable one element long along an axis?
  bool has_ones() const {
    return std::any_of(q_.expressions.begin(), q_.expressions.end(), [&](const Expression& e) {
      if (e.kind != Kind::kVariable) return false;
      const Indices& shape = forms_.type(e.type).type.shape;
      return std::find(shape.begin(), shape.end(), Index(1)) != shape.end();
    });
  }

  // Fields with the same meaning have one role.
  static std::string role(const std::string& field) {
    return field == "centre" ? "pads_begin" : field.ends_with("_axis") ? "axis" : field;
  }

  // Roles of numbers that no step above speaks of.
  std::vector<std::string> other_numbers() const {
    std::vector<std::string> roles;
    for (const auto& [role, places] : fields_)
      if (role != "axis" && role != "group" && std::holds_alternative<Index>(field(places[0]).default_value))
        roles.push_back(role);
    return roles;
  }

  void add(std::vector<Family>& result, Typing base, bool last) {
    Family family{std::move(base), {}, last};
    int subject = 0;
    const auto step = [&](std::function<bool(Typing&)> take) { family.steps.push_back({std::move(take), subject}); };
    const std::vector<std::string> windows = {"kernel", "strides", "dilations", "pads_begin", "pads_end"};
    step([=, this](Typing& t) { return vary(t, windows); });
    step([=, this](Typing& t) { return vary(t, {"strides", "dilations", "pads_begin", "pads_end"}); });
    for (const char* role : {"strides", "dilations", "pads_begin", "pads_end"})
      step([=, this](Typing& t) { return vary(t, {role}); });
    for (const char* role : {"group", "count_include_pad", "ceil_mode", "alpha", "epsilon", "value", "mode"}) {
      ++subject;
      step([=, this](Typing& t) { return vary(t, {role}); });
    }
    subject = 20;
    for (const char* function : {"at", "position"})
      for (const bool left : {true, false}) step([=, this](Typing& t) { return permute(t, function, left); });
    step([this](Typing& t) { return undo(t); });
    ++subject;
    step([this](Typing& t) { return vary(t, {"axis", "axes"}); });
    for (const char* role : {"axis", "axes"}) step([=, this](Typing& t) { return vary(t, {role}); });
    step([this](Typing& t) { return vary_different_axes(t); });
    for (const std::string& role : other_numbers()) {
      ++subject;
      step([=, this](Typing& t) { return vary(t, {role}); });
    }
    result.push_back(std::move(family));
  }

  const Field& field(const Place& p) const {
    return operator_of(q_.expressions[p.at], forms_.configuration())->fields()[p.field];
  }

  // Equal numbers in fields of these roles become one variable.
  bool vary(Typing& t, const std::vector<std::string>& roles) const {
    bool changed = false;
    for (const std::string& role : roles) {
      const auto places = fields_.find(role);
      if (places == fields_.end()) continue;
      std::vector<Said> known;
      for (const Place& p : places->second) {
        Said& e = t.attributes[p.at][p.field];
        if (e.kind != Said::Kind::kValue || mentions_symbols(e)) continue;
        if (std::holds_alternative<Tensor>(e.value) || std::holds_alternative<DataType>(e.value)) continue;
        // Constants that the equation is about keep their value.
        if (q_.expressions[p.at].kind == Kind::kConstant && role == "value") continue;
        std::size_t n = 0;
        while (n < known.size() && !(known[n] == e)) ++n;
        if (n == known.size()) known.push_back(e);
        const std::string name = role + (n ? "_" + std::to_string(n + 1) : "");
        if (std::holds_alternative<Index>(e.value)) {
          if (role == "axis") replace_axis(t, e, name);
          e = symbol(name);
        } else if (const Real* real = std::get_if<Real>(&e.value)) {
          if (!real->symbol.empty()) continue;
          Real unknown;
          unknown.symbol = name;
          e = Said::literal(unknown);
        } else {
          e = Said::variable(name);
        }
        changed = true;
      }
    }
    return changed;
  }

  // Axes become variables that differ where the numbers do.
  bool vary_different_axes(Typing& t) const {
    Typing varied = t;
    if (!vary(varied, {"axis"})) return false;
    std::set<std::string> names;
    for (const Place& p : fields_.at("axis")) {
      const Said& e = varied.attributes[p.at][p.field];
      if (const Index* axis = std::get_if<Index>(&e.value); axis && axis->as_atom()) names.insert(axis->as_atom()->name);
    }
    if (names.size() < 2) return false;
    for (auto a = names.begin(); a != names.end(); ++a)
      for (auto b = std::next(a); b != names.end(); ++b)
        varied.conditions.push_back(not_equal(Index::symbol(*a), Index::symbol(*b)));
    t = std::move(varied);
    return true;
  }

  // Sizes along this axis refer to the variable instead.
  static void replace_axis(Typing& t, const Said& axis, const std::string& name) {
    for (Quantity& quantity : t.quantities)
      if (quantity.value.name == "size" && quantity.value.arguments[1] == axis) quantity.value.arguments[1] = symbol(name);
  }

  // Transposes by one permutation: the axes of one side are the permuted axes of the other.
  bool permute(Typing& t, const char* function, bool from_left) const {
    const auto places = fields_.find("perm");
    if (places == fields_.end()) return false;
    const Said first = t.attributes[places->second[0].at][places->second[0].field];
    for (const Place& p : places->second) {
      Said& e = t.attributes[p.at][p.field];
      if (e.kind != Said::Kind::kValue || !(e == first)) return false;
      e = Said::variable("perm");
    }
    t.predicates.push_back({Predicate::Kind::kPermutation, {Said::variable("perm")}});
    const auto axes = fields_.find("axis");
    if (axes == fields_.end()) return true;
    // The axes that occur only on the left, and only on the right.
    std::optional<Said> left, right;
    for (const Place& p : axes->second) {
      const Said& e = t.attributes[p.at][p.field];
      std::optional<Said>& side = left_[p.at] ? left : right;
      if ((left_[p.at] && right_[p.at]) || (side && !(*side == e))) return false;
      side = e;
    }
    if (!left || !right) return false;
    for (const Place& p : axes->second)
      t.attributes[p.at][p.field] =
          left_[p.at] == from_left ? symbol("axis") : Said::call(function, {Said::variable("perm"), symbol("axis")});
    return true;
  }

  // Two transposes of which one is the inverse of the other.
  bool undo(Typing& t) const {
    const auto places = fields_.find("perm");
    if (places == fields_.end() || places->second.size() != 2) return false;
    for (std::size_t i = 0; i < 2; ++i)
      t.attributes[places->second[i].at][places->second[i].field] = Said::variable(i ? "perm_2" : "perm");
    for (const char* name : {"perm", "perm_2"}) t.predicates.push_back({Predicate::Kind::kPermutation, {Said::variable(name)}});
    t.predicates.push_back(
        {Predicate::Kind::kEqual, {Said::variable("perm_2"), Said::call("inverse", {Said::variable("perm")})}});
    return true;
  }

  // Inputs of any rank, except scalars. Sizes in attributes are taken from the inputs by quantities.
  std::optional<Typing> open_typing(bool scalars) const {
    Typing typing = concrete_typing(q_, forms_);
    bool closed = false, speaks = false;
    for (const std::vector<Said>& attributes : typing.attributes)
      speaks |= std::any_of(attributes.begin(), attributes.end(), mentions_symbols);
    if (speaks) {
      auto sized = sized_typing(q_, forms_, {.groups = has_group()});
      if (!sized) return std::nullopt;
      std::set<std::string> wanted;
      for (const std::vector<Said>& attributes : sized->attributes)
        for (const Said& e : attributes) collect(e, wanted);
      wanted.erase("group");
      for (const std::string& name : wanted) {
        bool found = false;
        for (std::uint32_t v = 0; v < q_.variables && !found; ++v)
          for (std::size_t a = 0; a < sized->inputs[v].front.size() && !found; ++a)
            if (sized->inputs[v].front[a] == Index::symbol(name)) {
              sized->quantities.push_back({name, size_of(input_name(v), literal(static_cast<std::int64_t>(a)))});
              found = true;
            }
        if (!found) return std::nullopt;
      }
      // With sizes along fixed axes, the rank is hardly arbitrary: other families state this better.
      if (!wanted.empty()) vary(*sized, {"axis"});
      for (const Quantity& quantity : sized->quantities)
        if (!mentions_symbols(quantity.value.arguments[1])) return std::nullopt;
      typing = std::move(*sized);
    }
    for (ShapePattern& shape : typing.inputs) {
      if (scalars && shape.front.empty() && !shape.open)
        closed = true;
      else
        shape = {};
    }
    return scalars && !closed ? std::nullopt : std::optional(std::move(typing));
  }
  static void collect(const Said& e, std::set<std::string>& names) {
    const auto look = [&](const Index& i) {
      for_each_atom(i, [&](const Atom& a) {
        if (a.kind == Atom::Kind::kSymbol) names.insert(a.name);
      });
    };
    if (const Index* i = std::get_if<Index>(&e.value)) look(*i);
    if (const Indices* l = std::get_if<Indices>(&e.value)) std::for_each(l->begin(), l->end(), look);
  }

  // Inputs of any rank, of one shape only where required: x[X...], y[X...], z[Z...].
  std::optional<Typing> shared_typing() const {
    if (fields_.count("strides") != 0) return std::nullopt;
    auto typing = sized_typing(q_, forms_, {});
    if (!typing) return std::nullopt;
    for (const std::vector<Said>& attributes : typing->attributes)
      if (std::any_of(attributes.begin(), attributes.end(), mentions_symbols)) return std::nullopt;
    std::map<std::string, std::string> lists;
    bool shared = false;
    for (std::uint32_t v = 0; v < q_.variables; ++v) {
      ShapePattern& shape = typing->inputs[v];
      if (shape.front.empty()) continue;
      std::string name = input_name(v) + "S";
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      const auto [list, fresh] = lists.try_emplace(to_string(AttributeValue(shape.front)), name);
      shared |= !fresh;
      shape = {{}, true, list->second, {}};
    }
    return shared ? typing : std::nullopt;
  }

  // Elementwise operators and reductions along one axis, of tensors of any equal rank: x[X...], y[Y...], where y is one element
  // long along the axis if it was.
  std::optional<Typing> along_an_axis() const {
    const auto axes = fields_.find("axes");
    if (axes == fields_.end() || fields_.count("axis") || fields_.count("perm") || names_.count("MatMul")) return std::nullopt;
    auto typing = sized_typing(q_, forms_, {.numbers = false});
    if (!typing) return std::nullopt;
    std::optional<Indices> along;
    for (const Place& p : axes->second) {
      Said& e = typing->attributes[p.at][p.field];
      const Indices* list = std::get_if<Indices>(&e.value);
      if (!list || list->size() != 1 || !(*list)[0].constant() || (along && !(*along == *list))) return std::nullopt;
      along = *list;
      e = Said::literal(Indices{Index::symbol("axis")});
    }
    for (const std::vector<Said>& attributes : typing->attributes)
      for (const Said& e : attributes) {
        std::set<std::string> names;
        collect(e, names);
        names.erase("axis");
        if (!names.empty()) return std::nullopt;
      }
    const std::int64_t rank = 2, counted = (*along)[0].constant().value();
    const auto axis = static_cast<std::size_t>(counted < 0 ? counted + rank : counted);
    std::map<std::string, std::string> lists;
    std::string first;
    bool any = false;
    for (std::uint32_t v = 0; v < q_.variables; ++v) {
      ShapePattern& shape = typing->inputs[v];
      if (shape.front.empty()) continue;
      if (shape.front.size() != 2) return std::nullopt;
      std::string name = input_name(v) + "S";
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      const bool one = shape.front[axis] == Index(1);
      const auto [list, fresh] = lists.try_emplace(to_string(AttributeValue(shape.front)), name);
      shape = {{}, true, list->second, {}};
      if (!fresh) continue;
      const Said sizes = Said::variable(name);
      if (one)
        typing->predicates.push_back(
            {Predicate::Kind::kEqual, {Said::call("with", {sizes, symbol("axis"), literal(1)}), sizes}});
      any |= one;
      typing->quantities.push_back({"length_of_" + name, Said::call("length", {sizes})});
      const Index length = Index::symbol("length_of_" + name);
      if (first.empty())
        first = name;
      else
        typing->conditions.push_back(equal(length, Index::symbol("length_of_" + first)));
    }
    return any ? typing : std::nullopt;
  }

  // Spatial axes as lists of any length: x[N, C, X...]. Lists are equal where all of their sizes are.
  std::optional<Typing> listed(Typing typing) const {
    std::map<std::string, std::string> lists;
    std::set<std::string> spatial, elsewhere;
    const auto symbols_of = [](const Index& i, std::set<std::string>& names) { collect(Said::literal(i), names); };
    for (const ShapePattern& shape : typing.inputs) {
      if (shape.front.size() == 4) {
        symbols_of(shape.front[2], spatial), symbols_of(shape.front[3], spatial);
        if (!shape.front[2].as_atom() || !shape.front[3].as_atom()) return std::nullopt;
      }
      for (std::size_t a = 0; a < shape.front.size() && (a < 2 || shape.front.size() != 4); ++a)
        symbols_of(shape.front[a], elsewhere);
    }
    for (const std::vector<Said>& attributes : typing.attributes)
      for (const Said& e : attributes) collect(e, elsewhere);
    if (std::any_of(spatial.begin(), spatial.end(), [&](const std::string& s) { return elsewhere.count(s) != 0; }))
      return std::nullopt;
    for (std::uint32_t v = 0; v < q_.variables; ++v) {
      ShapePattern& shape = typing.inputs[v];
      if (shape.front.size() != 4) continue;
      std::string name = input_name(v);
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      const std::string key = shape.front[2].to_string() + "," + shape.front[3].to_string();
      shape = {{shape.front[0], shape.front[1]}, true, lists.try_emplace(key, name + "S").first->second, {}};
    }
    return typing;
  }

  // Batches of matrices: all inputs, or each one that can be batched by itself.
  std::optional<Typing> batched(Typing typing, bool all) const {
    if (!names_.count("MatMul")) return std::nullopt;
    for (ShapePattern& shape : typing.inputs)
      if (shape.front.size() == 2 && all) shape = {{}, true, "Z", shape.front};
    if (!all) {
      // The operand of a product that may be batched while the other is not: the first one, recursively.
      std::vector<bool> data(q_.expressions.size());
      const auto mark = [&](auto&& self, std::uint32_t at) -> void {
        if (data[at]) return;
        data[at] = true;
        const Expression& e = q_.expressions[at];
        const Operator* op = operator_of(e, forms_.configuration());
        for (std::size_t k = 0; k < 3 && e.arguments[k] != Expression::kNone; ++k)
          if (k == 0 || op->name() != "MatMul") self(self, e.arguments[k]);
      };
      for (const auto* side : {&q_.left, &q_.right})
        for (const std::uint32_t root : *side) mark(mark, root);
      bool any = false, rest = false;
      for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
        const Expression& e = q_.expressions[at];
        if (e.kind != Kind::kVariable || typing.inputs[e.number].front.size() != 2) continue;
        any |= data[at], rest |= !data[at];
        if (data[at]) typing.inputs[e.number] = {{}, true, "Z", typing.inputs[e.number].front};
      }
      if (!any || !rest) return std::nullopt;
    }
    // Axes count from the end; a transpose swaps the last two.
    for (const char* role : {"axis", "axes"})
      if (const auto places = fields_.find(role); places != fields_.end())
        for (const Place& p : places->second) {
          Said& e = typing.attributes[p.at][p.field];
          if (Index* axis = std::get_if<Index>(&e.value)) *axis = *axis - Index(2);
          if (Indices* axes = std::get_if<Indices>(&e.value))
            for (Index& axis : *axes) axis = axis - Index(2);
        }
    if (const auto places = fields_.find("perm"); places != fields_.end()) {
      if (!all) return std::nullopt;
      const Said n = symbol("length_of_Z");
      typing.quantities.push_back({"length_of_Z", Said::call("length", {Said::variable("Z")})});
      typing.quantities.push_back(
          {"swap", Said::call("join", {Said::call("identity", {n}), Said::literal(Indices{Index::symbol("length_of_Z") + 1,
                                                                                          Index::symbol("length_of_Z")})})});
      for (const Place& p : places->second) typing.attributes[p.at][p.field] = Said::variable("swap");
    }
    return typing;
  }

  const Equation& q_;
  Forms& forms_;
  std::vector<bool> left_, right_;
  std::size_t most_ = 0;         // rank of a variable
  std::set<std::string> names_;  // operator names
  std::map<std::string, std::vector<Place>> fields_;
};

}  // namespace

bool speaks_of_windows(const Typing& typing, const Equation& q, const Configuration& configuration) {
  for (std::uint32_t at = 0; at < q.expressions.size(); ++at) {
    const Operator* op = operator_of(q.expressions[at], configuration);
    for (std::size_t f = 0; op && f < op->fields().size(); ++f) {
      const std::string& name = op->fields()[f].name;
      const Said& e = typing.attributes[at][f];
      if (name != "kernel" && name != "centre" && name != "pads_begin" && name != "pads_end") continue;
      const Indices* list = e.kind == Said::Kind::kValue ? std::get_if<Indices>(&e.value) : nullptr;
      if (list && std::any_of(list->begin(), list->end(), [](const Index& i) { return i.is_constant() && !(i == Index(0)); }))
        return true;
    }
  }
  return false;
}

std::vector<Family> families(const Equation& equation, Forms& forms) {
  // Steps refer to the generalizer: keep it alive.
  const auto generalizer = std::make_shared<Generalizer>(equation, forms);
  std::vector<Family> result = generalizer->run();
  for (Family& family : result)
    for (Family::Step& step : family.steps)
      step.take = [generalizer, take = std::move(step.take)](Typing& typing) { return take(typing); };
  return result;
}

}  // namespace rewright::generator
