// Shrinks counterexamples and prints them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "base/error.h"
#include "rules/tester.h"

namespace rewright::rules {

namespace {

constexpr int kInstanceBudget = 300, kInputBudget = 400;  // attempts
constexpr std::int64_t kLargest = 20;                     // largest number that shrinks together with equal ones

// The parameters of an instance.
struct Form {
  std::map<std::string, AttributeValue> variables;
  std::vector<Indices> open;  // unnamed parts of shapes
  std::vector<DataType> types;
};

class Shrinker {
 public:
  Shrinker(const Rule& rule, Counterexample example) : rule_(rule), best_(std::move(example)) { read_form(); }

  Counterexample run() {
    for (bool progress = true; progress && budget_ > 0;) {
      progress = fewer_axes();
      if (smaller_sizes()) progress = true;
      if (smaller_numbers()) progress = true;
    }
    if (best_.difference.kind == SideDifference::Kind::kValue) simpler_inputs();
    return std::move(best_);
  }

 private:
  void read_form() {
    for (const auto& [name, value] : best_.instance.bindings.values()) form_.variables.emplace(name, value);
    for (const Quantity& q : rule_.quantities) form_.variables.erase(q.name);
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      const ShapePattern& shape = rule_.inputs[i].shape;
      const Indices& whole = best_.instance.input_types[i].shape;
      form_.types.push_back(best_.instance.input_types[i].type);
      form_.open.emplace_back();
      if (shape.open && shape.middle.empty())
        form_.open.back().assign(whole.begin() + static_cast<std::ptrdiff_t>(shape.front.size()),
                                 whole.end() - static_cast<std::ptrdiff_t>(shape.back.size()));
    }
  }

  std::optional<RuleInstance> instance_of(const Form& form) const {
    Bindings bindings(rule_);
    for (const auto& [name, value] : form.variables) bindings.bind(name, value);
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      const ShapePattern& shape = rule_.inputs[i].shape;
      TensorType type{form.types[i], {}};
      for (const Index& size : shape.front) type.shape.push_back(bindings.evaluate(size));
      const Indices& middle =
          shape.open && !shape.middle.empty() ? std::get<Indices>(form.variables.at(shape.middle)) : form.open[i];
      type.shape.insert(type.shape.end(), middle.begin(), middle.end());
      for (const Index& size : shape.back) type.shape.push_back(bindings.evaluate(size));
      for (const Index& size : type.shape)
        if (size.value() < 1) return std::nullopt;
      types.push_back(std::move(type));
    }
    return make_instance(rule_, std::move(types), form.variables);
  }

  // Accepts the form if the sides differ there as well.
  bool accept(Form form) {
    if (budget_ <= 0) return false;
    --budget_;
    try {
      auto instance = instance_of(form);
      if (!instance) return false;
      for (int number = 0; number < SideDifference::kKindsOfInputs; number += 2) {
        auto difference = compare_sides(rule_, *instance, number, random_);
        if (!difference || !as_good(*difference)) continue;
        best_ = {std::move(*instance), std::move(*difference)};
        form_ = std::move(form);
        return true;
      }
    } catch (const Error&) {  // ill-typed
    }
    return false;
  }

  bool as_good(const SideDifference& difference) const {
    return difference.kind == best_.difference.kind && (difference.finite || !best_.difference.finite);
  }

  bool in_shape(const std::string& name) const {
    for (const PatternInput& input : rule_.inputs) {
      if (input.shape.middle == name) return true;
      for (const Indices& part : {input.shape.front, input.shape.back})
        for (const Index& size : part) {
          bool found = false;
          for_each_atom(size, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol && a.name == name; });
          if (found) return true;
        }
    }
    return false;
  }

  // Visits every number of the form; `size`: is it a size?
  void visit(Form& form, const std::function<void(Index&, bool size)>& f) const {
    for (auto& [name, value] : form.variables) {
      if (auto* index = std::get_if<Index>(&value)) f(*index, in_shape(name));
      if (auto* list = std::get_if<Indices>(&value))
        for (Index& i : *list) f(i, in_shape(name));
    }
    for (Indices& part : form.open)
      for (Index& i : part) f(i, true);
  }

  bool fewer_axes() {
    bool progress = false;
    for (std::size_t at = 0; at < 5; ++at)
      for (std::size_t length = 1; length < 6; ++length)
        for (const bool lower_axes : {false, true}) {
          Form form = form_;
          bool changed = false;
          const auto erase = [&](Indices& list, std::size_t place) {
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
            changed = true;
          };
          for (auto& [name, value] : form.variables) {
            if (auto* list = std::get_if<Indices>(&value); list && list->size() == length && at < length) erase(*list, at);
            if (auto* index = std::get_if<Index>(&value); index && lower_axes && !in_shape(name)) *index -= 1;
          }
          for (Indices& part : form.open)  // aligned at the last axis, as for broadcasting
            if (at < part.size() && length == 1) erase(part, part.size() - 1 - at);
          if (changed) progress |= accept(std::move(form));
        }
    return progress;
  }

  // Shrinks equal numbers together: sizes, then attributes.
  bool smaller_sizes() {
    bool progress = false;
    for (std::int64_t size = kLargest; size >= 2; --size)
      for (const std::int64_t smaller : {std::int64_t{1}, std::int64_t{2}, size - 1})
        for (const bool sizes_alone : {true, false}) {
          if (smaller >= size) continue;
          Form form = form_;
          bool changed = false;
          visit(form, [&](Index& i, bool is_size) {
            if ((is_size || !sizes_alone) && i == Index(size)) i = smaller, changed = true;
          });
          if (changed) progress |= accept(std::move(form));
        }
    return progress;
  }

  bool smaller_numbers() {
    bool progress = false;
    std::size_t count = 0;
    visit(form_, [&](Index&, bool) { ++count; });
    const auto changed = [&](std::size_t which, std::int64_t value, Form form) {
      std::size_t n = 0;
      visit(form, [&](Index& i, bool is_size) {
        if (n++ == which) i = is_size ? std::max<std::int64_t>(value, 1) : value;
      });
      return form;
    };
    const auto value_of = [&](std::size_t which) {
      std::int64_t value = 0;
      std::size_t n = 0;
      visit(form_, [&](Index& i, bool) { value = n++ == which ? i.value() : value; });
      return value;
    };
    for (std::size_t a = 0; a < count; ++a) {
      for (const std::int64_t smaller : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, value_of(a) - 1})
        if (std::abs(smaller) < std::abs(value_of(a))) progress |= accept(changed(a, smaller, form_));
      for (std::size_t b = a + 1; b < count && count <= 12; ++b)
        for (const std::int64_t divisor : {0, 2, 3}) {  // 0: one less
          const std::int64_t x = value_of(a), y = value_of(b);
          if (x <= 1 || y <= 1 || (divisor > 0 && (x % divisor != 0 || y % divisor != 0))) continue;
          progress |= accept(divisor > 0 ? changed(b, y / divisor, changed(a, x / divisor, form_))
                                         : changed(b, y - 1, changed(a, x - 1, form_)));
        }
    }
    for (auto& [name, value] : Form(form_).variables)
      if (const auto* real = std::get_if<Real>(&value); real && real->symbol.empty())
        for (const double simple : {1.0, 0.0, 2.0, -1.0}) {
          if (real->value == simple) break;
          Form form = form_;
          form.variables[name] = Real(simple);
          if (accept(std::move(form))) {
            progress = true;
            break;
          }
        }
    return progress;
  }

  // Simplifies inputs: whole numbers, then zeros, then ones, then small nonnegative numbers.
  void simpler_inputs() {
    const Graph target = instantiate(rule_, rule_.target, best_.instance.input_types, best_.instance.bindings);
    std::vector<std::vector<double>> numbers;
    for (const Tensor& t : best_.difference.inputs) numbers.push_back(t.reals());
    int budget = kInputBudget;
    const auto attempt = [&](const std::vector<std::vector<double>>& changed) {
      if (changed == numbers || --budget < 0) return;
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < changed.size(); ++i) {
        const Tensor& old = best_.difference.inputs[i];
        inputs.push_back(is_real(old.type())
                             ? Tensor::from_reals(old.type(), old.sizes(), changed[i])
                             : Tensor::from_integers(old.type(), old.sizes(),
                                                     std::vector<std::int64_t>(changed[i].begin(), changed[i].end())));
      }
      auto difference = compare_on(best_.instance.source, target, inputs);
      if (!difference || !as_good(*difference)) return;
      best_.difference = std::move(*difference);
      numbers = changed;
    };
    auto rounded = numbers;
    for (auto& input : rounded)
      for (double& x : input) x = std::round(x) + 0.0;
    attempt(rounded);
    static constexpr double (*kSimpler[])(double) = {[](double) { return 0.0; }, [](double x) { return x == 0 ? 0.0 : 1.0; },
                                                     [](double x) { return std::fabs(x); },
                                                     [](double x) { return std::trunc(x / 2); }};
    for (const auto simpler : kSimpler)
      for (std::size_t i = 0; i < numbers.size(); ++i)
        for (std::size_t chunk = numbers[i].size(); chunk >= 1; chunk /= 2)
          for (std::size_t begin = 0; begin < numbers[i].size(); begin += chunk) {
            auto changed = numbers;
            for (std::size_t e = begin; e < std::min(begin + chunk, numbers[i].size()); ++e)
              changed[i][e] = simpler(changed[i][e]);
            attempt(changed);
          }
  }

  const Rule& rule_;
  Counterexample best_;
  Form form_;
  std::mt19937_64 random_{1};
  int budget_ = kInstanceBudget;
};

constexpr std::size_t kShown = 64;  // elements of a tensor

std::string show(const Tensor& tensor) {
  const auto numbers = tensor.reals();
  std::size_t next = 0;
  const std::function<std::string(std::size_t)> part = [&](std::size_t axis) -> std::string {
    if (next >= kShown) return "...";
    if (axis == tensor.sizes().size()) return to_text(numbers[next++]);
    std::string text = "[";
    for (std::int64_t i = 0; i < tensor.sizes()[axis]; ++i) {
      text += (i ? ", " : "") + part(axis + 1);
      if (next >= kShown && i + 1 < tensor.sizes()[axis]) return text + ", ...]";
    }
    return text + "]";
  };
  return part(0);
}

}  // namespace

Counterexample shrunk(const Rule& rule, Counterexample example) { return Shrinker(rule, std::move(example)).run(); }

std::string to_string(const Rule& rule, const Counterexample& example) {
  std::string text;
  const auto is_quantity = [&](const std::string& name) {
    return std::any_of(rule.quantities.begin(), rule.quantities.end(), [&](const Quantity& q) { return q.name == name; });
  };
  for (const auto& [name, value] : example.instance.bindings.values())
    if (!is_quantity(name) && !(value == AttributeValue(DataType::kDouble)))
      text += (text.empty() ? "" : ", ") + name + " = " + to_string(value);
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    const TensorType& type = example.instance.input_types[i];
    text += (text.empty() ? "" : ", ") + rule.inputs[i].name + to_string(type.shape);
    if (type.type != DataType::kDouble) text += ": " + std::string(name(type.type));
    if (!example.difference.inputs.empty()) text += " = " + show(example.difference.inputs[i]);
  }
  return text + ": " + example.difference.what;
}

}  // namespace rewright::rules
