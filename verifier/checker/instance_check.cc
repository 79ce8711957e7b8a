#include "verifier/checker/instance_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "rules/instance.h"
#include "verifier/checker/questions.h"

namespace rewright::proof {

namespace {

struct TooLarge {};
constexpr std::size_t kMostSteps = 3000000;  // of one sum
constexpr double kLargestInteger = 1e15;     // that is surely exact

// Evaluates index expressions, guards and sums for known values of all symbols.
class Evaluation {
 public:
  std::map<std::string, std::int64_t, std::less<>> symbols;
  std::map<std::string, double, std::less<>> reals;
  std::vector<std::vector<double>> inputs;
  std::vector<Sizes> sizes;

  // Sets the position of the element, and what the symbols stand for that are computed from contents there.
  void set_position(const std::vector<std::int64_t>& position, const Contents& contents) {
    for (std::size_t n = 0; n < position.size(); ++n) symbols["o!" + std::to_string(n)] = position[n];
    for (const Content& c : contents) symbols.erase(c.name);
    contents_ = &contents;
  }

  std::int64_t at(const Index& index) {
    std::int64_t sum = index.constant_term();
    if (index.polynomial())
      for (const Monomial& m : index.polynomial()->monomials) {
        std::int64_t product = m.coefficient;
        for (const AtomPointer& f : m.factors) product *= at(*f);
        sum += product;
      }
    return sum;
  }

  bool holds(const Guard& g) {
    switch (g.kind) {
      case Guard::Kind::kNonNegative:
        return at(g.value) >= 0;
      case Guard::Kind::kZero:
        return at(g.value) == 0;
      case Guard::Kind::kNonZero:
        return at(g.value) != 0;
      case Guard::Kind::kAll:
        return std::all_of(g.parts.begin(), g.parts.end(), [&](const Guard& p) { return holds(p); });
      case Guard::Kind::kAny:
        break;
    }
    return std::any_of(g.parts.begin(), g.parts.end(), [&](const Guard& p) { return holds(p); });
  }

  double at(const Sum& sum) {
    double result = 0;
    for (const Term& t : sum)
      for_each(t.bound, t.guards, [&] {
        double product = static_cast<double>(t.coefficient.numerator()) / static_cast<double>(t.coefficient.denominator());
        for (const Factor& f : t.factors) product *= at(f);
        result += product;
      });
    return result;
  }

 private:
  std::int64_t at(const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol) {
      const auto known = symbols.find(a.name);
      return known == symbols.end() ? content(a.name) : known->second;
    }
    if (a.kind == Atom::Kind::kBound) {
      const auto known = bound_.find(a.id);
      require(known != bound_.end(), "a variable is used outside of its sum");
      return known->second;
    }
    const std::int64_t x = at(a.arguments[0]), y = at(a.arguments[1]);
    if (a.kind == Atom::Kind::kMin) return std::min(x, y);
    if (a.kind == Atom::Kind::kMax) return std::max(x, y);
    if (y < 1) return 0;  // undefined, but under guards that do not hold
    const std::int64_t quotient = floor_div(Index(x), Index(y)).value();
    return a.kind == Atom::Kind::kFloorDiv ? quotient : x - quotient * y;
  }

  // Computed when it is needed: where guards do not hold, its value may be none.
  std::int64_t content(const std::string& name) {
    const auto is_named = [&](const Content& c) { return c.name == name; };
    const auto known = contents_ ? std::find_if(contents_->begin(), contents_->end(), is_named) : Contents::const_iterator();
    if (!contents_ || known == contents_->end()) throw Refusal{"the size " + name + " is in no hypothesis"};
    const double value = at(known->value);
    require(std::fabs(value) < kLargestInteger && std::trunc(value) == value, "a position is no integer");
    auto result = static_cast<std::int64_t>(value);
    if (known->size && result < 0) result += at(*known->size);
    symbols[name] = result;
    return result;
  }

  double at(const Factor& f) {
    switch (f.kind) {
      case Factor::Kind::kAccess: {
        std::int64_t offset = 0;
        for (std::size_t n = 0; n < f.position.size(); ++n) {
          const std::int64_t p = at(f.position[n]), size = sizes.at(f.input).at(n);
          require(p >= 0 && p < size, "a normal form reads outside of an input");
          offset = offset * size + p;
        }
        return inputs.at(f.input).at(static_cast<std::size_t>(offset));
      }
      case Factor::Kind::kIndex:
        return static_cast<double>(at(f.index));
      case Factor::Kind::kReciprocalIndex:
        return 1 / static_cast<double>(at(f.index));
      case Factor::Kind::kUnknown:
        if (f.name.starts_with("bits ")) return std::bit_cast<double>(std::uint64_t{std::stoull(f.name.substr(5))});
        require(reals.count(f.name) > 0, "a normal form has an unknown number");
        return reals.at(f.name);
      case Factor::Kind::kMaximum: {
        double result = -std::numeric_limits<double>::infinity();
        for (const MaximumElement& e : f.elements)
          for_each(e.bound, e.guards, [&] {
            const double value = at(e.value);
            if (std::isnan(value) || value > result) result = value;
          });
        return result;
      }
      case Factor::Kind::kFunction:
        break;
    }
    double x[4] = {};
    require(f.arguments.size() <= 4, "a function has too many arguments");
    for (std::size_t i = 0; i < f.arguments.size(); ++i) x[i] = at(f.arguments[i]);
    return apply(f.name, x, f.arguments.size());
  }

  static double apply(const std::string& name, const double* x, std::size_t count) {
    std::int64_t integers[4];
    for (std::size_t i = 0; i < count; ++i)
      integers[i] = std::fabs(x[i]) < kLargestInteger ? static_cast<std::int64_t>(x[i]) : 0;
    if (count == 1 && name == "reciprocal") return 1 / x[0];
    if (count == 3 && name == "select") return x[0] != 0 ? x[1] : x[2];
    if (count == 2 && name == "integer quotient") return static_cast<double>(functions::integer_divide.integer(integers));
    if (count == 1 && name.starts_with("convert "))
      return name.ends_with(" to boolean")   ? x[0] != 0
             : name.ends_with(" to integer") ? static_cast<double>(integers[0])
                                             : x[0];
    const std::string suffix = " of integers";
    const bool of_integers = name.ends_with(suffix);
    const Function* f = find_function(of_integers ? name.substr(0, name.size() - suffix.size()) : name);
    require(f && f->arity == static_cast<int>(count) && (of_integers ? f->integer != nullptr : f->real != nullptr),
            "a function has no meaning");
    return of_integers ? static_cast<double>(f->integer(integers)) : f->real(x);
  }

  // Assigns bound variables one by one, starting with those whose bounds are known.
  void for_each(const Indices& variables, const Guards& guards, const std::function<void()>& visit) {
    if (++steps_ > kMostSteps) throw TooLarge{};
    if (variables.empty()) {
      if (std::all_of(guards.begin(), guards.end(), [&](const Guard& g) { return holds(g); })) visit();
      return;
    }
    std::size_t best = 0;
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < variables.size(); ++i) {
      std::int64_t below = -60, above = 60;  // where no guard says more
      bool has_below = false, has_above = false;
      for (const Guard& g : guards) {
        const int c = g.kind == Guard::Kind::kNonNegative ? unit_coefficient(g.value, variables[i]) : 0;
        const auto open = [&](const Index& v) { return !(v == variables[i]) && occurs(v, g); };
        if (c == 0 || std::any_of(variables.begin(), variables.end(), open)) continue;
        const std::int64_t value = at(solved_for(g.value, variables[i]));
        if (c > 0)
          below = std::exchange(has_below, true) ? std::max(below, value) : value;
        else
          above = std::exchange(has_above, true) ? std::min(above, value) : value;
      }
      if (above - below < high - low) best = i, low = below, high = above;
    }
    Indices rest = variables;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best));
    for (std::int64_t v = low; v <= high; ++v) {
      bound_[variables[best].as_atom()->id] = v;
      for_each(rest, guards, visit);
    }
  }

  const Contents* contents_ = nullptr;
  std::unordered_map<std::uint64_t, std::int64_t> bound_;
  std::size_t steps_ = 0;
};

using Random = std::mt19937_64;

void collect_symbols(const Index& index, std::vector<std::string>& names) {
  if (index.is_constant()) return;
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol && std::find(names.begin(), names.end(), a.name) == names.end()) names.push_back(a.name);
  });
}

void collect_symbols(const Guard& guard, std::vector<std::string>& names) {
  collect_symbols(guard.value, names);
  for (const Guard& part : guard.parts) collect_symbols(part, names);
}

constexpr std::int64_t kLargestDrawn = 4096;
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;  // of one input

// The numbers that stand in a guard: an equation may hold for these alone.
void collect_numbers(const Guard& g, std::vector<std::int64_t>& numbers) {
  const auto add = [&](std::int64_t n) {
    if (n < -kLargestDrawn || n > kLargestDrawn) return;
    n = n < 0 ? -n : n;
    if (n > 1 && std::find(numbers.begin(), numbers.end(), n) == numbers.end()) numbers.push_back(n);
  };
  add(g.value.constant_term());
  if (g.value.polynomial())
    for (const Monomial& m : g.value.polynomial()->monomials) add(m.coefficient);
  for (const Guard& part : g.parts) collect_numbers(part, numbers);
}

// Are the inputs of these sizes small enough to compute with?
bool is_small(const SymbolicCase& c, Evaluation& e) {
  for (const TensorType& type : c.inputs) {
    std::int64_t count = 1;
    for (const Index& size : type.shape)
      if (const std::int64_t n = e.at(size); n < 0 || n > kMostElements || (count *= n) > kMostElements) return false;
  }
  return true;
}

// Searches small values of all symbols that satisfy the hypotheses, at last those that stand in them: repeatedly changes a
// symbol of a guard that does not hold.
bool find_sizes(const SymbolicCase& c, Random& random, Evaluation& e) {
  std::vector<std::string> names;
  for (const TensorType& type : c.inputs)
    for (const Index& size : type.shape) collect_symbols(size, names);
  for (const auto& [name, value] : c.bindings.values()) {
    if (const auto* index = std::get_if<Index>(&value)) collect_symbols(*index, names);
    if (const auto* list = std::get_if<Indices>(&value))
      for (const Index& i : *list) collect_symbols(i, names);
    if (const auto* real = std::get_if<Real>(&value); real && !real->symbol.empty())
      e.reals[real->symbol] = static_cast<double>(random() % 1000 + 1) / 512;
  }
  for (const Guard& g : c.hypotheses) collect_symbols(g, names);
  for (const std::string& name : names) e.symbols[name] = static_cast<std::int64_t>(random() % 4);
  std::vector<std::int64_t> numbers;
  for (const Guard& g : c.hypotheses) collect_numbers(g, numbers);
  const int steps = numbers.empty() ? 3000 : 6000;
  for (int step = 0; step < steps; ++step) {
    std::vector<const Guard*> broken;
    for (const Guard& g : c.hypotheses)
      if (!e.holds(g)) broken.push_back(&g);
    if (broken.empty()) return is_small(c, e);
    std::vector<std::string> candidates;
    collect_symbols(*broken[random() % broken.size()], candidates);
    if (candidates.empty()) return false;
    std::int64_t number = static_cast<std::int64_t>(random() % (step < 1000 ? 5 : 9));
    if (step >= 2000 && step < 3000) number -= 4;
    if (step >= 3000 && random() % 2 == 0)
      number = numbers[random() % numbers.size()] + static_cast<std::int64_t>(random() % 3) - 1;
    e.symbols[candidates[random() % candidates.size()]] = number;
  }
  return false;
}

// The rule's bindings with numbers in place of symbols.
Bindings known_bindings(const SymbolicCase& c, Evaluation& e, const std::vector<TensorType>& types) {
  Bindings result(c.bindings.rule());
  for (const auto& [name, value] : c.bindings.values()) {
    AttributeValue known = value;
    if (const auto* index = std::get_if<Index>(&value)) known = Index(e.at(*index));
    if (auto* list = std::get_if<Indices>(&known))
      for (Index& i : *list) i = e.at(i);
    if (const auto* real = std::get_if<Real>(&value); real && !real->symbol.empty()) known = Real(e.reals.at(real->symbol));
    result.bind(name, known);
  }
  for (std::size_t i = 0; i < types.size(); ++i) result.bind_input(i, types[i]);
  return result;
}

// Integers are between -3 and 3, or below `few`, so that they are positions on small axes.
Tensor sampled_input(const TensorType& type, Random& random, std::uint64_t few) {
  const Sizes sizes = values(type.shape);
  std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
  for (double& x : elements)
    x = is_real(type.type)              ? static_cast<double>(random() % 4001) / 1000 - 2
        : type.type == DataType::kBool  ? static_cast<double>(random() % 2)
        : few > 0                       ? static_cast<double>(random() % few)
        : type.type == DataType::kUint8 ? static_cast<double>(random() % 4)
                                        : static_cast<double>(random() % 7) - 3;
  return Tensor::from_reals(type.type, sizes, elements);
}

bool agree(DataType type, double expected, double found) {
  if (type == DataType::kUint8) return std::fmod(expected - found, 256) == 0;
  return std::fabs(expected - found) <= 1e-7 * (1 + std::fabs(expected));
}

std::size_t compare(const Tensor& tensor, const TensorType& type, const Sum& sum, const Contents& contents, Evaluation& e,
                    Random& random) {
  std::size_t compared = 0;
  // For some sizes, normalization may give other attributes: then it is not an instance of this case.
  if (tensor.sizes().size() != type.rank()) return 0;
  for (std::size_t n = 0; n < type.rank(); ++n)
    if (tensor.sizes()[n] != e.at(type.shape[n])) return 0;
  const std::vector<double> expected = tensor.reals();
  for (int sample = 0; sample < 3 && !expected.empty(); ++sample) {
    std::size_t at = random() % expected.size(), rest = at;
    std::vector<std::int64_t> position(tensor.sizes().size());
    for (std::size_t n = position.size(); n-- > 0;) {
      const auto size = static_cast<std::size_t>(tensor.sizes()[n]);
      position[n] = static_cast<std::int64_t>(rest % size);
      rest /= size;
    }
    e.set_position(position, contents);
    if (!std::isfinite(expected[at])) continue;
    const double found = e.at(sum);
    // The maximum of no integers is their type's least value; in normal forms it is minus infinity.
    if (!is_real(tensor.type()) && std::isinf(found)) continue;
    require(agree(tensor.type(), expected[at], found), "a normal form is not what the operators compute");
    ++compared;
  }
  return compared;
}

// Both sides, interpreted; nullopt if the source has no result on these inputs, whose elements may be positions outside of a
// tensor. Throws Error(kBadInput) if the target alone has none.
std::optional<std::vector<std::vector<Tensor>>> interpreted(const Rule& rule, const std::vector<TensorType>& types,
                                                            const Bindings& bindings, const std::vector<Tensor>& inputs,
                                                            bool must_have_results) {
  const Graph source = instantiate(rule, rule.source, types, bindings),
              target = instantiate(rule, rule.target, types, bindings);
  std::vector<Tensor> first;
  try {
    first = interpret(source, inputs);
  } catch (const Error& e) {
    if (must_have_results || e.code() != ErrorCode::kBadInput) throw;
    return std::nullopt;
  }
  return std::vector{std::move(first), interpret(target, inputs)};
}

}  // namespace

std::size_t check_instances(const SymbolicCase& symbolic, const CaseProof& proof, std::uint64_t seed) {
  Random random(seed);
  std::size_t compared = 0;
  const bool has_contents =
      std::any_of(proof.outputs.begin(), proof.outputs.end(), [](const OutputProof& o) { return !o.contents.empty(); });
  for (int sample = 0; sample < 2; ++sample) {
    Evaluation e;
    if (!find_sizes(symbolic, random, e)) continue;
    std::vector<TensorType> types = symbolic.inputs;
    for (TensorType& type : types)
      for (Index& size : type.shape) size = e.at(size);
    const Rule& rule = symbolic.bindings.rule();
    const Bindings bindings = known_bindings(symbolic, e, types);
    std::vector<Tensor> inputs;
    std::optional<std::vector<std::vector<Tensor>>> sides;
    for (const std::uint64_t few : {0, 3, 2, 1}) {
      inputs.clear();
      for (const TensorType& type : types) inputs.push_back(sampled_input(type, random, few));
      sides = interpreted(rule, types, bindings, inputs, few == 1 && !has_contents);
      if (sides) break;
    }
    if (!sides) continue;
    for (const Tensor& input : inputs) {
      e.inputs.push_back(input.reals());
      e.sizes.push_back(input.sizes());
    }
    for (const bool source : {true, false}) {
      const std::vector<Tensor>& outputs = sides->at(source ? 0 : 1);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        const TensorType& type = type_of(symbolic.source, rule.source.outputs.at(k));
        const OutputProof& output = proof.outputs.at(k);
        try {
          compared += compare(outputs[k], type, source ? output.source : output.target, output.contents, e, random);
        } catch (const TooLarge&) {  // sums with too many terms are not tested
        }
      }
    }
  }
  return compared;
}

}  // namespace rewright::proof
