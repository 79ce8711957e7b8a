#include "plans/partition/labels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

namespace rewright::plans {

namespace {

constexpr double kCannotBe = 1e9;         // in place of infinity, so that fewer of them are better
constexpr std::size_t kMostChanges = 64;  // of other variables beside one
constexpr double kLeastGain = 1e-9;       // of a change, in seconds
constexpr std::size_t kNone = std::size_t(-1);

class LabelSearch {
 public:
  LabelSearch(const LabelProgram& program, double seconds)
      : program_(program),
        labels_(program.variables.size(), kNone),
        terms_of_(program.variables.size()),
        end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                    std::chrono::duration<double>(std::min(seconds, 1e6)))) {
    for (std::size_t t = 0; t < program.terms.size(); ++t) {
      std::vector<std::size_t> of{program.terms[t].source.variable};
      for (const LabelProgram::Side& reader : program.terms[t].readers) of.push_back(reader.variable);
      std::sort(of.begin(), of.end());
      of.erase(std::unique(of.begin(), of.end()), of.end());
      for (const std::size_t v : of) terms_of_[v].push_back(t);
    }
  }

  std::vector<std::size_t> run() {
    for (std::size_t v = 0; v < labels_.size(); ++v) choose(v);
    for (bool changed = true; changed && has_time();) {
      changed = false;
      for (std::size_t v = 0; v < labels_.size() && has_time(); ++v) changed |= choose(v);
      for (std::size_t v = 0; v < labels_.size() && has_time(); ++v)
        for (std::size_t label = 0; label < ways(v) && has_time(); ++label) changed |= with_others(v, label);
    }
    return cost_of(program_, labels_) < kCannotBe ? labels_ : std::vector<std::size_t>();
  }

 private:
  bool has_time() const { return std::chrono::steady_clock::now() < end_; }
  std::size_t ways(std::size_t v) const { return program_.variables[v].costs.size(); }
  double own_cost(std::size_t v, std::size_t label) const { return program_.variables[v].costs[label]; }
  double own_bytes(std::size_t v, std::size_t label) const {
    const std::vector<double>& bytes = program_.variables[v].bytes;
    return bytes.empty() || label == kNone ? 0 : bytes[label];
  }

  // Only of variables that have a label.
  double term_cost(const LabelProgram::Term& term) const {
    const auto form_of = [&](const LabelProgram::Side& side) {
      const std::size_t label = labels_[side.variable];
      return label == kNone ? kNone : side.forms[label];
    };
    const std::size_t from = form_of(term.source);
    if (from == kNone) return 0;
    std::vector<std::size_t>& seen = forms_;
    seen.clear();
    double cost = 0;
    for (const LabelProgram::Side& reader : term.readers) {
      const std::size_t to = form_of(reader);
      if (to == kNone || std::find(seen.begin(), seen.end(), to) != seen.end()) continue;
      seen.push_back(to);
      cost += std::min(term.costs[from][to], kCannotBe);
    }
    return cost;
  }

  // All that depends on a variable.
  double around(std::size_t v) const {
    double cost = labels_[v] == kNone ? 0 : own_cost(v, labels_[v]);
    for (const std::size_t t : terms_of_[v]) cost += term_cost(program_.terms[t]);
    return cost;
  }

  void set(std::size_t v, std::size_t label) {
    bytes_ += own_bytes(v, label) - own_bytes(v, labels_[v]);
    labels_[v] = label;
  }

  // Takes the best label beside all others as they are. Was it another one?
  bool choose(std::size_t v) {
    const std::size_t before = labels_[v];
    std::size_t best = before;
    double least = before == kNone ? std::numeric_limits<double>::infinity() : around(v) - kLeastGain;
    for (std::size_t label = 0; label < ways(v); ++label) {
      if (label == before) continue;
      set(v, label);
      // Only what takes less memory where there is too little.
      const bool has_room = bytes_ <= program_.most_bytes || (before != kNone && own_bytes(v, label) < own_bytes(v, before));
      const double cost = around(v);
      if (cost < least && (has_room || (before == kNone && best == kNone))) least = cost, best = label;
    }
    set(v, best);
    return best != before;
  }

  // A label that others follow, if all together cost less.
  bool with_others(std::size_t v, std::size_t label) {
    if (label == labels_[v] || labels_[v] == kNone) return false;
    std::vector<std::pair<std::size_t, std::size_t>> undo;
    double change = -around(v);
    undo.emplace_back(v, labels_[v]);
    set(v, label);
    change += around(v);
    std::deque<std::size_t> next = beside(v);
    while (!next.empty() && undo.size() <= kMostChanges) {
      const std::size_t other = next.front();
      next.pop_front();
      if (other == v || labels_[other] == kNone) continue;
      const std::size_t was = labels_[other];
      const double before = around(other);
      if (!choose(other)) continue;
      undo.emplace_back(other, was);
      change += around(other) - before;
      for (const std::size_t more : beside(other)) next.push_back(more);
    }
    if (change < -kLeastGain && bytes_ <= program_.most_bytes) return true;
    for (; !undo.empty(); undo.pop_back()) set(undo.back().first, undo.back().second);
    return false;
  }

  std::deque<std::size_t> beside(std::size_t v) const {
    std::deque<std::size_t> result;
    for (const std::size_t t : terms_of_[v]) {
      const LabelProgram::Term& term = program_.terms[t];
      result.push_back(term.source.variable);
      for (const LabelProgram::Side& reader : term.readers) result.push_back(reader.variable);
    }
    return result;
  }

  const LabelProgram& program_;
  std::vector<std::size_t> labels_;
  std::vector<std::vector<std::size_t>> terms_of_;
  const std::chrono::steady_clock::time_point end_;
  double bytes_ = 0;
  mutable std::vector<std::size_t> forms_;
};

}  // namespace

double cost_of(const LabelProgram& program, const std::vector<std::size_t>& labels) {
  double cost = 0, bytes = 0;
  for (std::size_t v = 0; v < labels.size(); ++v) {
    cost += program.variables[v].costs[labels[v]];
    if (!program.variables[v].bytes.empty()) bytes += program.variables[v].bytes[labels[v]];
  }
  for (const LabelProgram::Term& term : program.terms) {
    std::vector<bool> there(term.costs.empty() ? 0 : term.costs[0].size());
    for (const LabelProgram::Side& reader : term.readers) there[reader.forms[labels[reader.variable]]] = true;
    for (std::size_t to = 0; to < there.size(); ++to)
      if (there[to]) cost += term.costs[term.source.forms[labels[term.source.variable]]][to];
  }
  return bytes <= program.most_bytes ? cost : std::numeric_limits<double>::infinity();
}

std::vector<std::size_t> good_labels(const LabelProgram& program, double seconds) {
  return LabelSearch(program, seconds).run();
}

}  // namespace rewright::plans
