// How many graphs the classes stand for, by dynamic programming over the members.
#include <algorithm>
#include <bit>
#include <map>

#include "generator/enumeration.h"

namespace rewright::generator {

namespace {

double choose(double n, int k) { return k == 2 ? n * (n - 1) / 2 : n * (n - 1) * (n - 2) / 6; }

// Terms are graphs with one output. A term of two operators has one inner term of one operator.
class Counter {
 public:
  explicit Counter(const Enumeration& e) : e_(e), leaf_(e.classes().size()), one_(leaf_), two_(leaf_) {
    for (std::size_t c = 0; c < leaf_.size(); ++c) leaf_[c] = e.classes()[c].leaf != ~std::uint32_t{0};
  }

  double run(std::size_t operators, std::size_t last, const std::function<double(const Member&)>& renamings) {
    double single = 0, pairs = 0, triples = 0;
    const std::vector<Member>& members = e_.members();
    for (std::size_t m = 0; m < members.size(); ++m) {
      const double terms = assignments(members[m], 0) * weight(m, 1, last, renamings);
      one_[members[m].result] += terms;
      if (members[m].output == 0) single += terms;
    }
    if (operators < 2) return single;
    std::map<ClassId, double> outer;  // by the class of the inner term: how many terms around each such class
    for (std::size_t m = 0; m < members.size(); ++m) {
      const double w = weight(m, 2, last, renamings);
      if (assignments(members[m], 1) == 0) continue;
      for (const ClassId q : distinct(members[m])) {
        const double terms = inner_assignments(members[m], q) * w;
        if (terms == 0) continue;
        two_[members[m].result] += terms;
        around_[{members[m].result, q}] += terms;
        if (members[m].output == 0) pairs += terms, outer[q] += terms;
      }
    }
    double total = single + choose(single, 2) + pairs;
    if (operators < 3) return total;
    for (std::size_t m = 0; m < members.size(); ++m)
      if (members[m].output == 0) triples += assignments(members[m], 2) * weight(m, 3, last, renamings);
    total += choose(single, 3) + pairs * (single - 1) + triples;
    for (const auto& [q, terms] : outer) total += one_[q] * choose(terms / one_[q], 2);
    return total;
  }

 private:
  // Members of the last level were enumerated for one choice of exchangeable variables.
  double weight(std::size_t m, std::size_t size, std::size_t last,
                const std::function<double(const Member&)>& renamings) const {
    return size == last && m >= e_.first_member(last) ? renamings(e_.members()[m]) : 1;
  }

  std::size_t arity(const Member& m) const { return e_.forms().form(m.form).operands.size(); }
  std::vector<ClassId> distinct(const Member& m) const {
    std::vector<ClassId> result;
    for (std::size_t k = 0; k < arity(m); ++k)
      if (std::find(result.begin(), result.end(), m.operands[k]) == result.end()) result.push_back(m.operands[k]);
    return result;
  }
  bool symmetric(const Member& m) const {
    const Form& form = e_.forms().form(m.form);
    return form.operands.size() >= 2 && m.operands[0] == m.operands[1] &&
           e_.forms().configuration().choices[form.choice].op->commutative();
  }

  // Sums over which operand is a leaf (0), and which terms (1, 2) the others are; `value` counts the terms for a pattern.
  template <class Value>
  double patterns(const Member& m, int kinds, const Value& value) const {
    const std::size_t n = arity(m);
    double all = 0, diagonal = 0;
    int count = 1;
    for (std::size_t k = 0; k < n; ++k) count *= kinds;
    for (int code = 0; code < count; ++code) {
      int pattern[3] = {0, 0, 0}, rest = code;
      for (std::size_t k = 0; k < n; ++k, rest /= kinds) pattern[k] = rest % kinds;
      double leaves = 1;
      for (std::size_t k = 0; k < n; ++k)
        if (pattern[k] == 0) leaves *= leaf_[m.operands[k]];
      if (leaves == 0) continue;
      const double terms = leaves * value(pattern);
      all += terms;
      if (n >= 2 && pattern[0] == pattern[1]) diagonal += terms;
    }
    return symmetric(m) ? (all + diagonal) / 2 : all;
  }
  // The class of the operands of a kind, if they have one.
  ClassId common(const Member& m, const int* pattern, int kind) const {
    ClassId c = kNoClass;
    for (std::size_t k = 0; k < arity(m); ++k)
      if (pattern[k] == kind) {
        if (c != kNoClass && c != m.operands[k]) return kNoClass;
        c = m.operands[k];
      }
    return c;
  }
  bool has(const Member& m, const int* pattern, int kind) const {
    return std::find(pattern, pattern + arity(m), kind) != pattern + arity(m);
  }

  // The ways to choose terms for the operands that have this many operators together.
  double assignments(const Member& m, int size) const {
    if (size == 0) return patterns(m, 1, [](const int*) { return 1.0; });
    if (size == 1)
      return patterns(m, 2, [&](const int* p) {
        const ClassId q = common(m, p, 1);
        return q == kNoClass ? 0.0 : one_[q];
      });
    // A term of two operators, with or without its inner term; or two different terms of one operator.
    const double nested = patterns(m, 3, [&](const int* p) {  // 1: the inner term, 2: the outer one
      const ClassId outer = common(m, p, 2);
      if (outer == kNoClass) return 0.0;
      if (!has(m, p, 1)) return two_[outer];
      const ClassId inner = common(m, p, 1);
      if (inner == kNoClass) return 0.0;
      const auto at = around_.find({outer, inner});
      return at == around_.end() ? 0.0 : at->second;
    });
    const double separate = patterns(m, 3, [&](const int* p) {
      const ClassId a = common(m, p, 1), b = common(m, p, 2);
      if (a == kNoClass || b == kNoClass || std::find(p, p + 3, 1) > std::find(p, p + 3, 2)) return 0.0;
      return one_[a] * one_[b] - (a == b ? one_[a] : 0);
    });
    return nested + separate;
  }
  double inner_assignments(const Member& m, ClassId q) const {
    return patterns(m, 2, [&](const int* p) { return has(m, p, 1) && common(m, p, 1) == q ? one_[q] : 0.0; });
  }

  const Enumeration& e_;
  std::vector<double> leaf_, one_, two_;
  std::map<std::pair<ClassId, ClassId>, double> around_;
};

}  // namespace

double Enumeration::graph_count() const {
  const auto renamings = [this](const Member& m) {
    const std::uint32_t support = support_of({m.operands.data(), forms_.form(m.form).operands.size()});
    double count = 1;
    for (const std::uint32_t group : groups_) {
      const int all = std::popcount(group), used = std::popcount(support & group);
      for (int i = 0; i < used; ++i) count = count * (all - i) / (i + 1);
    }
    return count;
  };
  return Counter(*this).run(std::min<std::size_t>(levels_, 3), options_.operators, renamings);
}

}  // namespace rewright::generator
