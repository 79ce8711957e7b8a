// Typings of equations: as general as possible, and never more general than that.
#include "generator/writing/typing.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>

#include "generator/testing.h"

using namespace rewright;
using namespace rewright::generator;
using generator::testing::Found;

namespace {

using Kind = generator::Expression::Kind;
using Windows = SizeOptions::Windows;
using Known = std::map<std::string, Index>;

Substitution by(const Known& known) {
  return [&known](const Atom& atom) -> std::optional<Index> {
    const auto at = known.find(atom.name);
    return atom.kind != Atom::Kind::kSymbol || at == known.end() ? std::nullopt : std::optional(at->second);
  };
}

void collect(const Index& index, std::vector<std::string>& names) {
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol) names.push_back(a.name);
  });
}

// The symbols of a typing that consists of sizes alone.
std::vector<std::string> symbols(const Typing& typing) {
  std::vector<std::string> names;
  for (const ShapePattern& shape : typing.inputs)
    for (const Index& size : shape.front) collect(size, names);
  for (const auto& attributes : typing.attributes)
    for (const rules::Expression& e : attributes) {
      if (const Index* i = std::get_if<Index>(&e.value)) collect(*i, names);
      if (const Indices* l = std::get_if<Indices>(&e.value))
        for (const Index& i : *l) collect(i, names);
    }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The type of each expression for these values of the symbols; nullopt if it is ill-typed.
std::vector<std::optional<TensorType>> types(const Equation& q, Found& found, const Typing& typing, const Known& known) {
  std::vector<std::optional<TensorType>> result;
  const auto defined = [](const Operator& op, const Attributes& attributes, std::span<const TensorType> operands) {
    const Definition d = op.define(attributes, Inputs::of(operands).types_only());
    for (const Requirement& r : d.requirements())
      if (r.condition.relation != Condition::Relation::kEqual || r.condition.decided() == false) {
        if (r.condition.decided() == false) throw Error(ErrorCode::kBadInput, r.message);
      }
    std::vector<TensorType> outputs;
    for (const Output& o : d.outputs()) outputs.push_back(o.type);
    return outputs;
  };
  for (std::size_t at = 0; at < q.expressions.size(); ++at) {
    const generator::Expression& e = q.expressions[at];
    result.emplace_back();
    if (e.kind == Kind::kVariable) {
      result.back() = TensorType{DataType::kFloat, substitute(typing.inputs[e.number].front, by(known))};
      continue;
    }
    Attributes attributes;
    for (const rules::Expression& said : typing.attributes[at])
      attributes.push_back(said.kind == rules::Expression::Kind::kValue ? said.value : AttributeValue(DataType::kFloat));
    attributes = generator::substitute(attributes, by(known));
    std::vector<TensorType> operands;
    bool typed = true;
    for (const std::uint32_t a : e.arguments)
      if (a != generator::Expression::kNone) {
        typed = typed && result[a];
        if (typed) operands.push_back(*result[a]);
      }
    if (!typed) continue;
    try {
      std::vector<TensorType> outputs = defined(*operator_of(e, found.configuration), attributes, operands);
      const Operator* activation = e.kind == Kind::kOperator ? found.configuration.choices[e.number].activation : nullptr;
      if (activation) outputs = defined(*activation, activation->defaults(), outputs);
      result.back() = outputs.at(e.output);
    } catch (const Error&) {
    }
  }
  return result;
}

bool typed(const std::vector<std::optional<TensorType>>& types, const std::vector<bool>& used) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (used[i] && !types[i]) return false;
  return true;
}

// Finds values of the symbols for which a general size equals the one found.
bool match(const Index& general, const Index& found, Known& known) {
  if (const auto& atom = general.as_atom(); atom && atom->kind == Atom::Kind::kSymbol)
    return known.try_emplace(atom->name, found).first->second == found;
  return true;  // computed sizes are compared afterwards
}

const SizeOptions kSizeOptions[] = {{},
                                    {.numbers = false},
                                    {.groups = true},
                                    {.windows = Windows::kFree},
                                    {.windows = Windows::kFound},
                                    {.groups = true, .windows = Windows::kFree}};

}  // namespace

TEST_CASE("sizes are equal where typing asks for it, and nowhere else", "[typing]") {
  Found products("matmul");
  const auto shapes = [](const Typing& t) {
    std::vector<Indices> all;
    for (const ShapePattern& shape : t.inputs) {
      CHECK(!shape.open);
      all.push_back(shape.front);
    }
    return all;
  };
  {  // (x y) z = x (y z), found with square matrices
    const Equation q =
        products.equation("x[M, K], y[K, K], z[K, K] MatMul(MatMul(x, y), z) => MatMul(x, MatMul(y, z)) reassociates");
    const auto typing = sized_typing(q, products.forms, {});
    REQUIRE(typing);
    const std::vector<Indices> s = shapes(*typing);
    CHECK(s[0][1] == s[1][0]);
    CHECK(s[1][1] == s[2][0]);
    CHECK(symbols(*typing).size() == 4);
  }
  Found joined("concat(axis=0|1),Add,Transpose(perm=[1,0])");
  {
    const Equation q =
        joined.equation("x[M, K], y[M, K] Concat(x + x, y + y; axis=1) => Concat(x, y; axis=1) + Concat(x, y; axis=1) exact");
    const auto typing = sized_typing(q, joined.forms, {});
    REQUIRE(typing);
    const std::vector<Indices> s = shapes(*typing);
    CHECK(s[0][0] == s[1][0]);
    CHECK(symbols(*typing).size() == 3);
  }
  {
    const Equation q = joined.equation(
        "x[M, K], y[M, K] Transpose(x + y; perm=[1, 0]) => Transpose(y; perm=[1, 0]) + Transpose(x; perm=[1, 0]) exact");
    const auto typing = sized_typing(q, joined.forms, {});
    REQUIRE(typing);
    const std::vector<Indices> s = shapes(*typing);
    CHECK(s[0] == s[1]);
    CHECK(symbols(*typing).size() == 2);
  }
}

TEST_CASE("kernels, pads and groups are symbols where that is asked for", "[typing]") {
  Found found("conv2d(kernel=3),Add");
  const Equation q = found.equation(
      "x[N, C, H, W], y[C, C, 3, 3], z[C, C, 3, 3] Conv(x, y; pads_begin=[1, 1], pads_end=[1, 1]) + Conv(x, z; pads_begin=[1, "
      "1], "
      "pads_end=[1, 1]) => Conv(x, y + z; pads_begin=[1, 1], pads_end=[1, 1]) reassociates");
  const auto names = [&](const SizeOptions& options) {
    const auto typing = sized_typing(q, found.forms, options);
    REQUIRE(typing);
    return symbols(*typing);
  };
  // N, C, H, W; K; and the kernel's sizes; a kernel of a group has its share of the channels.
  CHECK(names({.numbers = false}).size() == 5);
  CHECK(names({}).size() == 7);
  CHECK(names({.groups = true}).size() == 8);
  CHECK(names({.windows = Windows::kFree}).size() == 11);
  const auto typing = sized_typing(q, found.forms, {.groups = true});
  const Index group = Index::symbol("group");
  CHECK(typing->inputs[0].front[1] == typing->inputs[1].front[1] * group);
}

TEST_CASE("what is said of sizes is well-typed for others, and was found for its own", "[typing]") {
  std::mt19937_64 random(5);
  for (const auto& [operators, least] :
       {std::pair<const char*, std::size_t>("taso", 300), std::pair<const char*, std::size_t>("transformer", 300),
        std::pair<const char*, std::size_t>("Gemm(transB=false|true),matmul,Add", 100)}) {
    Found found(operators);
    const std::vector<Equation> all = found.kept(2, {.derivable = false, .numeric = false});
    std::size_t compared = 0, general = 0;
    for (std::size_t n = 0; n < all.size(); n += 1 + all.size() / 150) {
      const Equation& q = all[n];
      INFO(to_string(q, found.configuration));
      const std::vector<bool> left = q.reachable(q.left), right = q.reachable(q.right);
      const Typing concrete = concrete_typing(q, found.forms);
      const auto as_found = types(q, found, concrete, {});
      for (std::size_t i = 0; i < as_found.size(); ++i) {
        REQUIRE(as_found[i]);
        CHECK(*as_found[i] == found.forms.type(q.expressions[i].type).type);
      }
      for (const SizeOptions& options : kSizeOptions) {
        const auto typing = sized_typing(q, found.forms, options);
        if (!typing) continue;
        ++general;
        // The sizes that were found are an instance.
        Known back;
        for (std::size_t v = 0; v < typing->inputs.size(); ++v) {
          REQUIRE(typing->inputs[v].front.size() == concrete.inputs[v].front.size());
          for (std::size_t a = 0; a < typing->inputs[v].front.size(); ++a)
            CHECK(match(typing->inputs[v].front[a], concrete.inputs[v].front[a], back));
        }
        for (std::size_t at = 0; at < q.expressions.size(); ++at)
          for (std::size_t f = 0; f < typing->attributes[at].size(); ++f) {
            const AttributeValue &value = typing->attributes[at][f].value, &own = concrete.attributes[at][f].value;
            if (const Index* i = std::get_if<Index>(&value)) CHECK(match(*i, std::get<Index>(own), back));
            if (const Indices* l = std::get_if<Indices>(&value))
              for (std::size_t i = 0; i < l->size(); ++i) CHECK(match((*l)[i], std::get<Indices>(own)[i], back));
          }
        CHECK(types(q, found, *typing, back) == as_found);
        // In other instances, if the left side is well-typed, so is the right side, with a result of the same type.
        const std::vector<std::string> names = symbols(*typing);
        for (int trial = 0; trial < 6; ++trial) {
          Known known;
          for (const std::string& name : names) known.emplace(name, static_cast<std::int64_t>(1 + random() % 6));
          const bool holds = std::all_of(typing->conditions.begin(), typing->conditions.end(), [&](const Condition& c) {
            return Condition{substitute(c.left, by(known)), c.relation, substitute(c.right, by(known))}.decided() == true;
          });
          const auto now = types(q, found, *typing, known);
          if (!holds || !typed(now, left) || !typed(now, right)) continue;
          ++compared;
          for (std::size_t i = 0; i < q.left.size(); ++i) CHECK(*now[q.left[i]] == *now[q.right[i]]);
        }
      }
    }
    INFO(operators << ": " << general << " typings, " << compared << " compared");
    CHECK(compared >= least);
  }
}

TEST_CASE("what cannot be typed is refused", "[typing]") {
  Found found("enlarge(kernel=3),conv2d(kernel=3|1x3),Add,Transpose(perm=[1,0])");
  const auto type = [&](const char* shape) {
    return found.forms.intern(
        {DataType::kFloat, parse_algebra(std::string("rule r: \"\" x") + shape + " Relu(x) => Relu(Relu(x)) exact", "test")
                               .at(0)
                               .inputs[0]
                               .shape.front});
  };
  const auto equal = [&](const char* left, const char* right) {
    Equation q;
    q.left = {q.add({.type = type(left)})};
    q.right = {q.add({.number = 1, .type = type(right)})};
    return q;
  };
  // Symbols with sizes of their own may become equal; numbers and ranks may not.
  CHECK(sized_typing(equal("[M, K]", "[K, M]"), found.forms, {}));
  CHECK(sized_typing(equal("[C, C, 3, 3]", "[C, C, 1, 3]"), found.forms, {}));
  CHECK(!sized_typing(equal("[C, C, 3, 3]", "[C, C, 1, 3]"), found.forms, {.numbers = false}));
  CHECK(!sized_typing(equal("[M, K]", "[M, K, K]"), found.forms, {}));

  Equation q = found.equation("x[M, K] Transpose(Transpose(x; perm=[1, 0]); perm=[1, 0]) => x exact");
  for (generator::Expression& e : q.expressions) {
    if (e.kind == Kind::kVariable) {
      CHECK(form_of(q, e, found.forms) == nullptr);
      CHECK(operator_of(e, found.configuration) == nullptr);
      continue;
    }
    REQUIRE(form_of(q, e, found.forms));
    CHECK(operator_of(e, found.configuration)->name() == "Transpose");
    ++e.variant;  // attributes that there are none of
    CHECK(form_of(q, e, found.forms) == nullptr);
    CHECK(!sized_typing(q, found.forms, {}));
    --e.variant;
  }
  // An image has no transpose of two axes.
  q.expressions[0].type = type("[N, C, H, W]");
  CHECK(!sized_typing(q, found.forms, {}));
}
