#include "generator/enumeration/count.h"

#include <algorithm>

namespace rewright::generator {

namespace {

// The binomial coefficient: subsets of k out of n.
double choose(double n, int k) {
  double result = 1;
  for (int i = 0; i < k; ++i) result = result * (n - i) / (i + 1);
  return result;
}

Application application_of(const Member& m) { return {m.form, m.operands}; }

}  // namespace

GraphCounter::GraphCounter(const Enumeration& e, std::size_t operators) : e_(e), operators_(operators) {
  const std::size_t classes = e.classes().size();
  leaf_.resize(classes);
  for (std::size_t c = 0; c < classes; ++c) leaf_[c] = e.classes()[c].operators == 0;
  single_.resize(classes), two_.resize(classes), inner_.resize(classes), around_.resize(classes);
  for (const Choice& choice : e.forms().configuration().choices) ternary_ |= choice.arity == 3;
  if (operators >= 1) count_single();
  if (operators >= 2) count_two();
  if (operators >= 3) count_three();
  if (operators >= 1) graphs_ = singles_;
  if (operators >= 2) graphs_ += choose(singles_, 2) + twos_;
  if (operators >= 3) {
    graphs_ += choose(singles_, 3) + twos_ * (singles_ - 1) + threes_;
    for (ClassId z = 0; z < classes; ++z) graphs_ += single_[z] * choose(around_[z], 2);
  }
  if (operators >= 4) graphs_ += graphs_of_four();
}

// Excludes graphs that count as leaves.
std::span<const Member> GraphCounter::members() const {
  return std::span(e_.members()).subspan(std::min(e_.first_member(1), e_.members().size()));
}

double GraphCounter::graphs(const Application& last) const { return terms(last, operators_ - 1) * e_.renamings(last); }

void GraphCounter::count_single() {
  for (const Member& m : members()) {
    const double n = terms(application_of(m), 0);
    single_[m.result] += n;
    if (m.output == 0) singles_ += n;
  }
}

void GraphCounter::count_two() {
  for (const Member& m : members()) {
    const Application a = application_of(m);
    for (const ClassId z : distinct(a)) {
      const double n = around_single(a, z);
      if (n == 0) continue;
      two_[m.result] += n;
      if (two_yz_.at(m.result, z) == 0) inner_[m.result].push_back(z);
      two_yz_(m.result, z) += n;
      if (m.output == 0) twos_ += n, around_[z] += n;
    }
  }
  for (ClassId z = 0; z < around_.size(); ++z)
    if (around_[z] > 0) around_[z] /= single_[z];
}

void GraphCounter::count_three() {
  const bool keep = operators_ > 3;
  if (keep)
    for (std::vector<double>* v : {&chain_, &fork_, &chain_z_, &fork_y_}) v->resize(leaf_.size());
  for (const Member& m : members()) {
    const Application a = application_of(m);
    const ClassId x = m.result;
    const std::vector<ClassId> operands = distinct(a);
    for (const ClassId y : operands)
      for (const ClassId z : inner_[y]) {
        const double n = around_two(a, y, z);
        if (n == 0) continue;
        if (m.output == 0) threes_ += n;
        if (!keep) continue;
        chain_[x] += n, chain_xy_(x, y) += n, chain_xz_(x, z) += n;
        if (ternary_) chain_xyz_[{x, y, z}] += n;
        if (m.output == 0) chains_ += n, chain_yz_(y, z) += n, chain_z_[z] += n;
      }
    for (const ClassId y : operands)
      for (const ClassId z : operands) {
        const double n = around_both(a, y, z);
        if (n == 0) continue;
        if (m.output == 0) threes_ += n;
        if (!keep) continue;
        fork_[x] += n, fork_xy_(x, y) += n, fork_xy_(x, z) += n;
        if (ternary_) fork_xyz_[{x, y, z}] += n, fork_xyz_[{x, z, y}] += n;
        if (m.output == 0) forks_ += n, fork_yz_(std::min(y, z), std::max(y, z)) += n, fork_y_[y] += n, fork_y_[z] += n;
      }
  }
}

// One summand for each shape that the dependencies of four applications can form.
double GraphCounter::graphs_of_four() const {
  double result = choose(singles_, 4) + twos_ * choose(singles_ - 1, 2) + choose(twos_, 2) + chains_ * (singles_ - 1) +
                  forks_ * (singles_ - 2);
  for (ClassId z = 0; z < around_.size(); ++z) {
    const double sharing = single_[z] * choose(around_[z], 2);
    result += sharing * (singles_ - 1) - sharing;  // and another one; pairs that share nothing are counted elsewhere
    result += single_[z] * choose(around_[z], 3);  // three around one
    result += chain_z_[z] * (around_[z] - 1);      // x(y(z)), w(z)
    result += fork_y_[z] * around_[z];             // x(y, z), w(y)
  }
  for (const auto& [key, n] : chain_yz_.values) {  // two around the same two
    const double inner = two_yz_.values.at(key);
    result += inner * choose(n / inner, 2);
  }
  for (const auto& [key, n] : fork_yz_.values) {
    const auto y = static_cast<ClassId>(key >> 32), z = static_cast<ClassId>(key);
    const double inner = y == z ? choose(single_[y], 2) : single_[y] * single_[z];
    result += inner * choose(n / inner, 2);
  }
  for (const Member& m : members())
    if (m.output == 0) result += terms(application_of(m), 3);
  return result;
}

std::vector<ClassId> GraphCounter::distinct(const Application& a) const {
  std::vector<ClassId> result;
  for (std::size_t k = 0; k < e_.forms().form(a.form).operands.size(); ++k)
    if (std::find(result.begin(), result.end(), a.operands[k]) == result.end()) result.push_back(a.operands[k]);
  return result;
}

template <class Value>
double GraphCounter::patterns(const Application& a, int kinds, const Value& value) const {
  const Form& form = e_.forms().form(a.form);
  const std::size_t n = form.operands.size();
  double all = 0, diagonal = 0;
  int count = 1;
  for (std::size_t k = 0; k < n; ++k) count *= kinds;
  for (int code = 0; code < count; ++code) {
    int pattern[3] = {0, 0, 0}, rest = code, order[4] = {3, 3, 3, 3};
    std::array<ClassId, 4> classes{kNoClass, kNoClass, kNoClass, kNoClass};
    double leaves = 1;
    for (std::size_t k = 0; k < n && leaves > 0; ++k, rest /= kinds) {
      const int kind = pattern[k] = rest % kinds;
      if (kind == 0) {
        leaves *= leaf_[a.operands[k]];
      } else {
        if (classes[kind] != kNoClass && classes[kind] != a.operands[k]) leaves = 0;  // a term belongs to one class
        classes[kind] = a.operands[k];
        order[kind] = std::min(order[kind], static_cast<int>(k));
      }
    }
    if (leaves == 0) continue;
    const double terms = leaves * value(classes, order);
    all += terms;
    if (n >= 2 && pattern[0] == pattern[1]) diagonal += terms;
  }
  const bool symmetric =
      n >= 2 && a.operands[0] == a.operands[1] && e_.forms().configuration().choices[form.choice].op->commutative();
  return symmetric ? (all + diagonal) / 2 : all;
}

double GraphCounter::terms(const Application& a, std::size_t applications) const {
  if (applications == 0) return patterns(a, 1, [](const auto&, const int*) { return 1.0; });
  if (applications == 3) return around_three(a);
  double result = 0;
  const std::vector<ClassId> operands = distinct(a);
  for (const ClassId y : operands) {
    if (applications == 1) {
      result += around_single(a, y);
      continue;
    }
    for (const ClassId z : inner_[y]) result += around_two(a, y, z);
    for (const ClassId z : operands) result += around_both(a, y, z);
  }
  return result;
}

double GraphCounter::around_single(const Application& a, ClassId inner) const {
  if (single_[inner] == 0) return 0;
  return patterns(a, 2, [&](const auto& c, const int*) { return c[1] == inner ? single_[inner] : 0.0; });
}

// A term of two applications, whose inner one may also be another operand.
double GraphCounter::around_two(const Application& a, ClassId outer, ClassId inner) const {
  return patterns(a, 3, [&](const auto& c, const int*) {
    return c[2] == outer && (c[1] == kNoClass || c[1] == inner) ? two_yz_.at(outer, inner) : 0.0;
  });
}

// Two different one-application terms.
double GraphCounter::around_both(const Application& a, ClassId first, ClassId second) const {
  if (single_[first] == 0 || single_[second] == 0) return 0;
  return patterns(a, 3, [&](const auto& c, const int* order) {
    if (c[1] != first || c[2] != second || order[1] > order[2]) return 0.0;
    return single_[first] * (single_[second] - (first == second));
  });
}

// Terms of three applications: a chain or fork x (3) with y (2) and z (1); a term of two (2, 1) and another one (3); two (2, 3)
// around a shared one (1); or three separate ones. Symmetric choices are counted in one order only.
double GraphCounter::around_three(const Application& a) const {
  return patterns(a, 4, [&](const auto& c, const int* order) {
    double result = 0;
    if (c[3] != kNoClass) {
      result += chains(c[3], c[2], c[1]);
      if (c[2] == kNoClass || (c[1] != kNoClass && order[1] < order[2])) result += forks(c[3], c[1], c[2]);
    }
    if (c[3] != kNoClass && c[2] != kNoClass) {
      result += two_and_single(c[2], c[1], c[3]);
      if (order[2] < order[3]) result += two_around_one(c[2], c[3], c[1]);
      if (c[1] != kNoClass && order[1] < order[2] && order[2] < order[3])
        result += single_[c[1]] * (single_[c[2]] - (c[1] == c[2])) * (single_[c[3]] - (c[1] == c[3]) - (c[2] == c[3]));
    }
    return result;
  });
}

double GraphCounter::chains(ClassId x, ClassId y, ClassId z) const {
  if (y == kNoClass) return z == kNoClass ? chain_[x] : chain_xz_.at(x, z);
  if (z == kNoClass) return chain_xy_.at(x, y);
  const auto found = chain_xyz_.find({x, y, z});
  return found == chain_xyz_.end() ? 0 : found->second;
}

double GraphCounter::forks(ClassId x, ClassId y, ClassId z) const {
  if (y == kNoClass) return fork_[x];
  if (z == kNoClass) return fork_xy_.at(x, y);
  const auto found = fork_xyz_.find({x, y, z});
  return found == fork_xyz_.end() ? 0 : found->second;
}

double GraphCounter::two_and_single(ClassId y, ClassId z, ClassId single) const {
  if (z == kNoClass) return two_[y] * single_[single] - two_yz_.at(y, single);
  return two_yz_.at(y, z) * (single_[single] - (z == single));
}

double GraphCounter::two_around_one(ClassId y, ClassId other, ClassId z) const {
  if (two_[other] == 0) return 0;
  double result = 0;
  for (const ClassId inner : inner_[y]) {
    if (z != kNoClass && z != inner) continue;
    const double n = two_yz_.at(y, inner), m = two_yz_.at(other, inner);
    if (m > 0) result += n * m / single_[inner] - (y == other ? n : 0);
  }
  return result;
}

}  // namespace rewright::generator
