#include "operators/definitions/row_preparation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/error.h"
#include "expressions/index.h"

namespace rewright::operators {

namespace {

using Part = RowPreparation::Part;

constexpr double kLargest = std::numeric_limits<double>::infinity();

// The numbers of a type by their place in its order, from minus infinity to infinity: both zeros have place 0.
template <class T>
struct Places {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static std::int64_t last() { return std::bit_cast<Bits>(std::numeric_limits<T>::infinity()); }
  static double number(std::int64_t place) {
    const T size = std::bit_cast<T>(static_cast<Bits>(place < 0 ? -place : place));
    return static_cast<double>(place < 0 ? -size : size);
  }
};

// The last place, going from `from` towards `to`, at which `holds`: it does at `from`, and once it does not, never again.
template <class Holds>
std::int64_t last_place(std::int64_t from, std::int64_t to, const Holds& holds) {
  if (holds(to)) return to;
  // The distance may be beyond 64 bits, the middle is not.
  while (from + 1 != to && from - 1 != to) {
    const std::int64_t middle = from / 2 + to / 2 + (from % 2 + to % 2) / 2;
    (holds(middle) ? from : to) = middle;
  }
  return from;
}

struct Test {
  std::int64_t feature = 0, yes = 0, no = 0;
  double split = 0;
};

template <class T>
class Unpreparer {
 public:
  Unpreparer(const Trees& trees, const Tensor& splits, const RowPreparation& preparation, std::int64_t width)
      : trees_(trees),
        splits_(splits.reals()),
        preparation_(preparation),
        prepared_(preparation, splits.type()),
        columns_(preparation.columns(width)) {
    for (const Part part : {Part::kFillings, Part::kFactors, Part::kOffsets, Part::kScales}) {
      if (!preparation.has(part)) continue;
      numbers_[part] = preparation.parts[part].reals();
      if (numbers_[part].size() != columns_.size()) throw Error(ErrorCode::kBadInput, "features and numbers for them differ");
    }
  }

  // The columns that tests ask for; nullopt if one asks for a feature that is not monotone in its column.
  std::optional<std::int64_t> columns() const {
    for (std::size_t b = 0; b < trees_.branch_count(); ++b)
      if (!is_monotone(feature(b))) return std::nullopt;
    return columns_of_tests();
  }

  std::optional<UnpreparedTests> run() const {
    if (!columns()) return std::nullopt;
    std::vector<Test> tests;
    for (std::size_t b = 0; b < trees_.branch_count(); ++b) tests.push_back(test(b, static_cast<std::int64_t>(feature(b))));
    UnpreparedTests result;
    result.roots = pass_constant_tests(tests);
    std::vector<double> splits;
    for (const Test& t : tests) {
      result.branches.insert(result.branches.end(), {t.feature, t.yes, t.no});
      splits.push_back(t.split);
    }
    result.columns = columns_of_tests();
    result.splits = Tensor::from_reals(std::is_same_v<T, float> ? DataType::kFloat : DataType::kDouble,
                                       {static_cast<std::int64_t>(splits.size())}, splits);
    return result;
  }

 private:
  std::size_t feature(std::size_t branch) const {
    const auto result = static_cast<std::size_t>(Trees::column(trees_.feature(branch)));
    if (result >= columns_.size()) throw Error(ErrorCode::kBadInput, "a tree asks for a feature that its rows do not have");
    return result;
  }
  std::int64_t columns_of_tests() const {
    std::int64_t result = 0;
    for (std::size_t b = 0; b < trees_.branch_count(); ++b) result = std::max(result, columns_[feature(b)] + 1);
    return result;
  }

  // Tests that always go one way are passed by. Returns the roots. Branches that no root reaches may form cycles, and stay as
  // they are.
  std::vector<std::int64_t> pass_constant_tests(std::vector<Test>& tests) const {
    const auto at = [&](std::int64_t branch) -> Test& { return tests[static_cast<std::size_t>(branch)]; };
    const auto target = [&](std::int64_t from) {
      std::int64_t end = from;
      while (end >= 0 && at(end).yes == at(end).no) end = at(end).yes;
      while (from != end) {  // shorter for those that come this way later
        Test& passed = at(from);
        from = passed.yes;
        passed.yes = passed.no = end;
      }
      return end;
    };
    std::vector<std::int64_t> roots, open;
    for (const std::int64_t root : trees_.roots) open.push_back(roots.emplace_back(target(root)));
    std::vector<bool> reached(tests.size());
    while (!open.empty()) {
      const std::int64_t branch = open.back();
      open.pop_back();
      if (branch < 0 || reached[static_cast<std::size_t>(branch)]) continue;
      reached[static_cast<std::size_t>(branch)] = true;
      Test& t = at(branch);
      open.push_back(t.yes = target(t.yes)), open.push_back(t.no = target(t.no));
    }
    return roots;
  }

  double number(Part part, std::size_t feature, double otherwise) const {
    return preparation_.has(part) ? numbers_[part][feature] : otherwise;
  }
  bool is_monotone(std::size_t feature) const {
    const double factor = number(Part::kFactors, feature, 1), scale = number(Part::kScales, feature, 1);
    return std::isfinite(factor) && factor != 0 && std::isfinite(scale) && scale != 0 &&
           std::isfinite(number(Part::kOffsets, feature, 0));
  }

  Test test(std::size_t branch, std::int64_t feature) const {
    const bool negates = trees_.feature(branch) < 0;
    const auto f = static_cast<std::size_t>(feature);
    const auto holds_of = [&](double x) {
      const double value = prepared_(feature, x);
      return (negates ? -value : value) <= splits_[branch];
    };
    const auto holds = [&](std::int64_t place) { return holds_of(Places<T>::number(place)); };
    const bool of_missing = preparation_.has(Part::kFillings) && holds_of(std::nan(""));
    const bool falls = (number(Part::kFactors, f, 1) < 0) != (number(Part::kScales, f, 1) < 0);
    const bool of_small = negates == falls;  // it holds up to some number, else from some number on
    const std::int64_t column = columns_[f], yes = trees_.yes(branch), no = trees_.no(branch);
    const std::int64_t last = Places<T>::last(), first = of_small ? -last : last;
    if (!holds(first)) return of_missing ? Test{column, no, yes, kLargest} : Test{column, no, no, kLargest};
    const std::int64_t place = last_place(first, -first, holds);
    if (place == -first) return of_missing ? Test{column, yes, yes, kLargest} : Test{column, yes, no, kLargest};
    // A test fails for missing numbers; where they go to `yes`, it is the opposite one.
    if (of_small)
      return of_missing ? Test{~column, no, yes, -Places<T>::number(place + 1)}
                        : Test{column, yes, no, Places<T>::number(place)};
    return of_missing ? Test{column, no, yes, Places<T>::number(place - 1)} : Test{~column, yes, no, -Places<T>::number(place)};
  }

  const Trees& trees_;
  std::vector<double> splits_;
  const RowPreparation& preparation_;
  RowPreparer prepared_;
  std::array<std::vector<double>, RowPreparation::kParts> numbers_;
  std::vector<std::int64_t> columns_;  // of features
};

}  // namespace

RowPreparation RowPreparation::of(std::span<const Tensor> inputs) {
  RowPreparation result;
  for (std::size_t part = 0; part < kParts; ++part)
    if (Trees::kInputs + part < inputs.size()) result.parts[part] = inputs[Trees::kInputs + part];
  return result;
}

bool RowPreparation::is_nothing() const {
  return std::none_of(parts.begin(), parts.end(), [](const Tensor& part) { return static_cast<bool>(part); });
}

std::vector<std::int64_t> RowPreparation::columns(std::int64_t width) const {
  std::vector<std::int64_t> result;
  if (has(kSelected)) {
    for (const std::int64_t selected : parts[kSelected].integers()) result.push_back(checked_index(selected, width));
  } else {
    result.resize(static_cast<std::size_t>(width));
    std::iota(result.begin(), result.end(), 0);
  }
  return result;
}

RowPreparer::RowPreparer(const RowPreparation& preparation, DataType type) : type_(type) {
  for (const Part part : {Part::kFillings, Part::kFactors, Part::kOffsets, Part::kScales})
    if (preparation.has(part)) numbers_[part] = preparation.parts[part].reals();
}

double RowPreparer::operator()(std::int64_t feature, double x) const {
  const auto has = [&](Part part) { return !numbers_[part].empty(); };
  if (has(Part::kFillings) && std::isnan(x)) x = at(Part::kFillings, feature);
  if (has(Part::kFactors)) {
    const volatile double product = x * at(Part::kFactors, feature);  // not fused with the sum
    x = rounded(product);
  }
  if (has(Part::kOffsets)) x = rounded(x + at(Part::kOffsets, feature));
  return has(Part::kScales) ? rounded(x * at(Part::kScales, feature)) : x;
}

std::optional<std::int64_t> columns_without_preparation(const Trees& trees, const Tensor& splits,
                                                        const RowPreparation& preparation, std::int64_t width) {
  return splits.type() == DataType::kFloat ? Unpreparer<float>(trees, splits, preparation, width).columns()
                                           : Unpreparer<double>(trees, splits, preparation, width).columns();
}

std::optional<UnpreparedTests> without_preparation(const Trees& trees, const Tensor& splits, const RowPreparation& preparation,
                                                   std::int64_t width) {
  return splits.type() == DataType::kFloat ? Unpreparer<float>(trees, splits, preparation, width).run()
                                           : Unpreparer<double>(trees, splits, preparation, width).run();
}

}  // namespace rewright::operators
