#include "generator/pruning/numeric.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "generator/enumeration/candidates.h"
#include "operators/readings/interpreter.h"

namespace rewright::generator {

namespace {

constexpr double kTolerance = 1e-11;  // relative to the largest element
constexpr std::size_t kTrials = 2;    // random tensors

Substitution sizes_of(const Configuration& configuration) {
  return [&configuration](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    for (const Configuration::Symbol& s : configuration.symbols)
      if (s.name == atom.name) return Index(s.sizes[0]);
    return std::nullopt;
  };
}

class Evaluator {
 public:
  Evaluator(const Enumeration& enumeration, std::size_t trial)
      : enumeration_(enumeration),
        sizes_(sizes_of(enumeration.forms().configuration())),
        random_(enumeration.key() * 31 + trial),
        trial_(trial) {
    const std::size_t count = std::min(kMostNumericValues, enumeration.classes().size());
    for (ClassId c = 0; c < count; ++c) values_.push_back(value(c));
  }

  // Elements in double; empty if they are not known or not finite.
  const std::vector<double>& operator[](ClassId c) const { return reals_[c]; }

 private:
  Tensor value(ClassId id) {
    const Class& c = enumeration_.classes()[id];
    const Forms& forms = enumeration_.forms();
    const std::vector<Leaf>& leaves = forms.configuration().leaves;
    Tensor result;
    try {
      result = c.leaf < leaves.size() ? leaf(leaves[c.leaf]) : application(enumeration_.members()[c.best]);
    } catch (const Error&) {  // no value for these sizes
    }
    reals_.push_back(result ? result.reals() : std::vector<double>());
    if (std::any_of(reals_.back().begin(), reals_.back().end(),
                    [](double x) { return !std::isfinite(x) || std::fabs(x) > 1e6; }))
      reals_.back().clear(), result = {};
    return result;
  }

  Tensor leaf(const Leaf& leaf) {
    if (!leaf.constant()) {
      Sizes sizes;
      for (const Index& i : leaf.type.shape) sizes.push_back(substitute(i, sizes_).value());
      std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
      std::uniform_real_distribution<double> uniform(-1.5, 1.5);
      for (double& e : elements) e = uniform(random_);
      // Tensors of one element alternate in sign: |s x| = s |x| holds only for positive s.
      if (elements.size() == 1) elements[0] = std::copysign(elements[0], trial_ % 2 ? -1.0 : 1.0);
      return Tensor::from_reals(DataType::kDouble, sizes, elements);
    }
    Attributes attributes = substitute(leaf.attributes, sizes_);
    for (AttributeValue& a : attributes)
      if (std::holds_alternative<DataType>(a)) a = DataType::kDouble;
    const Tensor whole = interpret(*leaf.op, attributes, {}).at(0);
    std::vector<double> elements = whole.reals();
    for (double& e : elements) e /= static_cast<double>(leaf.divisor);
    return Tensor::from_reals(DataType::kDouble, whole.sizes(), elements);
  }

  Tensor application(const Member& m) {
    const Form& form = enumeration_.forms().form(m.form);
    const Choice& choice = enumeration_.forms().configuration().choices[form.choice];
    std::vector<Tensor> operands;
    for (std::size_t k = 0; k < form.operands.size(); ++k) {
      operands.push_back(values_[m.operands[k]]);
      if (!operands.back()) return {};
    }
    for (const std::uint32_t p : choice.parameters) {
      const auto [at, fresh] = parameters_.try_emplace(p);
      if (fresh) at->second = leaf(enumeration_.forms().configuration().leaves[p]);
      operands.push_back(at->second);
    }
    std::vector<Tensor> results = interpret(*choice.op, substitute(form.attributes, sizes_), operands);
    for (const FurtherStep& step : form.further) results = interpret(*step.op, substitute(step.attributes, sizes_), results);
    Tensor result = results.at(m.output);
    if (choice.activation) result = interpret(*choice.activation, choice.activation->defaults(), std::span(&result, 1)).at(0);
    return result;
  }

  const Enumeration& enumeration_;
  Substitution sizes_;
  std::mt19937_64 random_;
  std::size_t trial_;
  std::vector<Tensor> values_;
  std::map<std::uint32_t, Tensor> parameters_;  // by leaf
  std::vector<std::vector<double>> reals_;
};

bool equal(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || a.size() != b.size()) return false;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  return difference <= kTolerance * largest;
}

}  // namespace

std::vector<Equation> numeric_equations(const Enumeration& enumeration) {
  const std::vector<Class>& classes = enumeration.classes();
  std::vector<Evaluator> trials;
  for (std::size_t t = 0; t < kTrials; ++t) trials.emplace_back(enumeration, t);
  // Sorts by sum: equal values are neighbours up to rounding.
  std::vector<std::tuple<TypeId, double, ClassId>> order;
  for (ClassId c = 0; c < std::min(kMostNumericValues, classes.size()); ++c) {
    const std::vector<double>& x = trials[0][c];
    if (x.empty() || classes[c].zero || std::all_of(x.begin(), x.end(), [](double e) { return e == 0; })) continue;
    order.emplace_back(classes[c].fingerprint.type, std::accumulate(x.begin(), x.end(), 0.0), c);
  }
  std::sort(order.begin(), order.end());
  std::vector<Equation> result;
  std::vector<bool> done(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (done[i]) continue;
    std::vector<ClassId> same{std::get<2>(order[i])};
    for (std::size_t j = i + 1; j < order.size() && std::get<0>(order[j]) == std::get<0>(order[i]); ++j) {
      if (std::get<1>(order[j]) - std::get<1>(order[i]) > 1e-9 * (1 + std::fabs(std::get<1>(order[i])))) break;
      const ClassId c = std::get<2>(order[j]);
      if (done[j] || !std::all_of(trials.begin(), trials.end(), [&](const Evaluator& t) { return equal(t[same[0]], t[c]); }))
        continue;
      done[j] = true;
      same.push_back(c);
    }
    if (same.size() == 1) continue;
    std::sort(same.begin(), same.end(), [&](ClassId a, ClassId b) {
      return std::tuple(classes[a].operators, classes[a].cost, a) < std::tuple(classes[b].operators, classes[b].cost, b);
    });
    for (std::size_t k = 1; k < same.size(); ++k) {
      Candidate candidate;
      candidate.left = {Graphlet::kNoForm, 0, {same[k], kNoClass, kNoClass}};
      candidate.right[0] = {Graphlet::kNoForm, 0, {same[0], kNoClass, kNoClass}};
      result.push_back(equation_of(candidate, enumeration).tidied());
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const Equation& a, const Equation& b) {
    return a.operators(a.left) + a.operators(a.right) < b.operators(b.left) + b.operators(b.right);
  });
  return result;
}

}  // namespace rewright::generator
