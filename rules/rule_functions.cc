#include "rules/rule_functions.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "base/error.h"

namespace rewright::rules {

namespace {

using Arguments = RuleArguments;
using Value = std::optional<AttributeValue>;

// The longest allowed list (of axes), so that a rule cannot request much memory.
constexpr std::int64_t kMaximumLength = 1000;

template <class T>
Value lift(std::optional<T> value) {
  if (!value) return std::nullopt;
  return AttributeValue(std::move(*value));
}

// A known number from 0 to `end` - 1, else nullopt.
std::optional<std::int64_t> position_below(std::int64_t end, const Index& position) {
  const auto i = position.constant();
  return i && *i >= 0 && *i < end ? i : std::nullopt;
}

// The list's element at a known position; nullopt if the position is outside.
std::optional<Index> element(const Indices& list, const Index& position) {
  const auto i = position_below(std::ssize(list), position);
  return i ? std::optional(list[static_cast<std::size_t>(*i)]) : std::nullopt;
}

Value position(const Arguments& a) {
  const Indices& list = *a.lists[0];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto found = equal(list[i], a.indices[0]).decided();
    if (!found) return std::nullopt;
    if (*found) return AttributeValue(Index(i));
  }
  return std::nullopt;
}

Value compose(const Arguments& a) {
  Indices result;
  for (const Index& i : *a.lists[1]) {
    const auto e = element(*a.lists[0], i);
    if (!e) return std::nullopt;
    result.push_back(*e);
  }
  return AttributeValue(std::move(result));
}

// A list whose length is the last argument.
template <class Entry>
Value entries(const Arguments& a, const Entry& entry) {
  const auto count = position_below(kMaximumLength + 1, a.indices.back());
  if (!count) return std::nullopt;
  Indices result;
  for (std::int64_t i = 0; i < *count; ++i) result.push_back(entry(i));
  return AttributeValue(std::move(result));
}

Value join(const Arguments& a) {
  Indices result = *a.lists[0];
  result.insert(result.end(), a.lists[1]->begin(), a.lists[1]->end());
  return AttributeValue(std::move(result));
}

template <class Operation>
Value elementwise(const Arguments& a, const Operation& operation) {
  const Indices &x = *a.lists[0], &y = *a.lists[1];
  if (x.size() != y.size()) return std::nullopt;
  Indices result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(operation(x[i], y[i]));
  return AttributeValue(std::move(result));
}

Value with(const Arguments& a) {
  Indices list = *a.lists[0];
  const auto at = position_below(std::ssize(list), a.indices[0]);
  if (!at) return std::nullopt;
  list[static_cast<std::size_t>(*at)] = a.indices[1];
  return AttributeValue(std::move(list));
}

Value insert(const Arguments& a) {
  Indices list = *a.lists[0];
  const auto at = position_below(std::ssize(list) + 1, a.indices[0]);
  if (!at) return std::nullopt;
  list.insert(list.begin() + *at, a.indices[1]);
  return AttributeValue(std::move(list));
}

Value remove(const Arguments& a) {
  Indices list = *a.lists[0];
  const auto at = position_below(std::ssize(list), a.indices[0]);
  if (!at) return std::nullopt;
  list.erase(list.begin() + *at);
  return AttributeValue(std::move(list));
}

Value slice(const Arguments& a) {
  const Indices& list = *a.lists[0];
  const auto begin = position_below(std::ssize(list) + 1, a.indices[0]),
             end = position_below(std::ssize(list) + 1, a.indices[1]);
  if (!begin || !end || *begin > *end) return std::nullopt;
  return AttributeValue(Indices(list.begin() + *begin, list.begin() + *end));
}

// Applies an operation to numbers; nullopt for unknowns.
template <class Operation>
Value of_numbers(const Arguments& a, const Operation& operation) {
  for (const Real& r : a.reals)
    if (!r.symbol.empty()) return std::nullopt;
  return AttributeValue(Real(operation(a.reals)));
}

struct Defined {
  RuleFunction function;
  Value (*evaluate)(const Arguments& a);
};

using R = RuleFunction::Result;
using Numbers = const std::vector<Real>&;
constexpr Defined kDefined[] = {
    {{"rank", "x", R::kIndex}, [](const Arguments& a) { return Value(Index(a.input->rank())); }},
    {{"size", "xi", R::kIndex}, [](const Arguments& a) { return lift(element(a.input->shape, a.indices[0])); }},
    {{"length", "l", R::kIndex}, [](const Arguments& a) { return Value(Index(a.lists[0]->size())); }},
    {{"at", "li", R::kIndex}, [](const Arguments& a) { return lift(element(*a.lists[0], a.indices[0])); }},
    {{"product", "l", R::kIndex}, [](const Arguments& a) { return Value(product(*a.lists[0])); }},
    {{"position", "li", R::kIndex}, position},
    {{"shape", "x", R::kIndices}, [](const Arguments& a) { return Value(a.input->shape); }},
    {{"compose", "ll", R::kIndices}, compose},
    {{"inverse", "l", R::kIndices}, [](const Arguments& a) { return lift(inverse(*a.lists[0])); }},
    {{"identity", "i", R::kIndices}, [](const Arguments& a) { return entries(a, [](std::int64_t i) { return Index(i); }); }},
    {{"repeat", "ii", R::kIndices}, [](const Arguments& a) { return entries(a, [&](std::int64_t) { return a.indices[0]; }); }},
    {{"join", "ll", R::kIndices}, join},
    {{"add", "ll", R::kIndices}, [](const Arguments& a) { return elementwise(a, std::plus<Index>()); }},
    {{"subtract", "ll", R::kIndices}, [](const Arguments& a) { return elementwise(a, std::minus<Index>()); }},
    {{"multiply", "ll", R::kIndices}, [](const Arguments& a) { return elementwise(a, std::multiplies<Index>()); }},
    {{"with", "lii", R::kIndices}, with},
    {{"insert", "lii", R::kIndices}, insert},
    {{"remove", "li", R::kIndices}, remove},
    {{"slice", "lii", R::kIndices}, slice},
    {{"plus", "rr", R::kReal},
     [](const Arguments& a) { return of_numbers(a, [](Numbers r) { return r[0].value + r[1].value; }); }},
    {{"times", "rr", R::kReal},
     [](const Arguments& a) { return of_numbers(a, [](Numbers r) { return r[0].value * r[1].value; }); }},
    {{"negative", "r", R::kReal}, [](const Arguments& a) { return of_numbers(a, [](Numbers r) { return -r[0].value; }); }},
};

}  // namespace

std::span<const RuleFunction> rule_functions() {
  static const std::vector<RuleFunction> all = [] {
    std::vector<RuleFunction> functions;
    for (const Defined& defined : kDefined) functions.push_back(defined.function);
    return functions;
  }();
  return all;
}

const RuleFunction* find_rule_function(std::string_view name) {
  for (const RuleFunction& f : rule_functions())
    if (f.name == name) return &f;
  return nullptr;
}

std::optional<AttributeValue> value_of(const RuleFunction& function, const RuleArguments& arguments) {
  try {
    return kDefined[&function - rule_functions().data()].evaluate(arguments);
  } catch (const Error&) {  // overflow
    return std::nullopt;
  }
}

std::optional<Indices> inverse(const Indices& p) {
  Indices result(p.size(), Index(-1));
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!element(p, p[i])) return std::nullopt;
    result[static_cast<std::size_t>(p[i].value())] = Index(i);
  }
  if (std::find(result.begin(), result.end(), Index(-1)) != result.end()) return std::nullopt;
  return result;
}

}  // namespace rewright::rules
