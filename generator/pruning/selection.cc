#include "generator/pruning/selection.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <unordered_set>

#include "generator/enumeration/candidates.h"
#include "generator/pruning/numeric.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

// Candidates are decided in batches of this size. Each is compared with the equations kept before the batch, then those that
// are left with each other. So the result does not depend on the number of threads and processes.
constexpr std::size_t kBatch = 256;
// Equations of the last level with at least this many operators are derived among the classes of the lower levels.
constexpr std::size_t kLarge = 4;

enum class Verdict : std::uint8_t { kCoincidence, kInstance, kDerivable, kByClasses, kKept };

struct Decision {
  Verdict verdict = Verdict::kKept;
  std::uint64_t hash = 0;  // hash of `equation`
  Equation equation;       // generalized
};

// Serialization for other processes and the journal.
void write(std::string& out, const void* from, std::size_t bytes) { out.append(static_cast<const char*>(from), bytes); }

void read(std::string_view& in, void* to, std::size_t bytes) {
  if (bytes == 0) return;  // an empty list has no address
  if (bytes > in.size()) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
  std::memcpy(to, in.data(), bytes);
  in.remove_prefix(bytes);
}

template <class T>
void write(std::string& out, const std::vector<T>& list) {
  const std::uint64_t count = list.size();
  write(out, &count, sizeof(count));
  write(out, list.data(), count * sizeof(T));
}

template <class T>
void read(std::string_view& in, std::vector<T>& list) {
  std::uint64_t count = 0;
  read(in, &count, sizeof(count));
  if (count > in.size() / sizeof(T)) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
  list.resize(count);
  read(in, list.data(), count * sizeof(T));
}

// Only the hash of a dropped equation is recorded.
void write(std::string& out, const Decision& d, bool equation) {
  write(out, &d.verdict, sizeof(d.verdict));
  write(out, &d.hash, sizeof(d.hash));
  if (!equation) return;
  write(out, d.equation.expressions);
  write(out, d.equation.left);
  write(out, d.equation.right);
  write(out, &d.equation.variables, sizeof(d.equation.variables));
}

Decision read_decision(std::string_view& in, bool always) {
  Decision d;
  read(in, &d.verdict, sizeof(d.verdict));
  read(in, &d.hash, sizeof(d.hash));
  if (!always && d.verdict != Verdict::kKept) return d;
  read(in, d.equation.expressions);
  read(in, d.equation.left);
  read(in, d.equation.right);
  read(in, &d.equation.variables, sizeof(d.equation.variables));
  return d;
}

class Selector {
 public:
  Selector(const Enumeration& enumeration, const Collection& collection, const SelectionOptions& options, Workers& workers,
           Journal& journal)
      : enumeration_(enumeration),
        candidates_(collection.candidates),
        options_(options),
        workers_(workers),
        journal_(journal),
        theory_(enumeration.forms()) {
    for (std::uint64_t n = 1; n <= 6; ++n) keys_.push_back(sound_key(enumeration.key() + n));
    Counters counters = collection.counters;
    result_.candidates = static_cast<std::size_t>(counters[Counters::kCandidates]);
    for (const auto& [reason, name] : {std::pair("zero", Counters::kZeros), std::pair("renaming", Counters::kRenamings)})
      if (counters[name] > 0) result_.pruned[reason] = static_cast<std::size_t>(counters[name]);
  }

  Selection run() {
    if (options_.derivable && std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return large(c); }))
      classes_.emplace(enumeration_, keys_);
    for (std::size_t begin = 0; begin < candidates_.size() && !journal_.stopped(); begin += kBatch) {
      const std::size_t end = std::min(candidates_.size(), begin + kBatch);
      if (const std::optional<std::string> known = journal_.next()) {
        std::string_view rest = *known;
        for (std::size_t i = begin; !rest.empty(); ++i) settle(i, read_decision(rest, false));
      } else {
        journal_.add(decide(begin, end));
      }
      require_memory();
      if (options_.progress)
        options_.progress(static_cast<double>(end) / static_cast<double>(candidates_.size()), result_.kept.size());
    }
    if (options_.derivable) minimize();
    add_numeric();
    return std::move(result_);
  }

 private:
  void require_memory() const {
    generator::require_memory(enumeration_.options().memory, "the equations that are selected take");
  }

  std::string decide(std::size_t begin, std::size_t end) {
    const std::vector<std::string> looked_at = workers_.map(end - begin, [&](Forms& forms, std::size_t i) {
      std::string out;
      write(out, look_at(candidates_[begin + i], forms), true);
      return out;
    });
    std::vector<Decision> decisions;
    std::vector<std::size_t> open;
    std::unordered_set<std::uint64_t> seen;
    for (const std::string& text : looked_at) {
      std::string_view in = text;
      Decision& d = decisions.emplace_back(read_decision(in, true));
      if (d.verdict == Verdict::kCoincidence || d.verdict == Verdict::kByClasses) continue;
      if (options_.instances && (seen_.contains(d.hash) || !seen.insert(d.hash).second))
        d.verdict = Verdict::kInstance;
      else
        open.push_back(decisions.size() - 1);
    }
    std::vector<bool> derived(decisions.size());
    if (options_.derivable) {
      const std::vector<std::string> found = workers_.map(open.size(), [&](Forms& forms, std::size_t i) {
        return std::string(follows(decisions[open[i]].equation, large(candidates_[begin + open[i]]), forms) ? "1" : "0");
      });
      for (std::size_t i = 0; i < open.size(); ++i) derived[open[i]] = found[i] == "1";
    }
    std::string journal;
    const std::size_t before = result_.kept.size();
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      Decision& d = decisions[i];
      if (d.verdict == Verdict::kKept && options_.derivable &&
          (derived[i] ||
           (result_.kept.size() > before && follows(d.equation, large(candidates_[begin + i]), enumeration_.forms()))))
        d.verdict = Verdict::kDerivable;
      write(journal, d, d.verdict == Verdict::kKept);
      settle(begin + i, std::move(d));
    }
    return journal;
  }

  // After an interruption, classes may lack members. Classes of weights are on no level.
  bool large(const Candidate& c) const {
    return enumeration_.complete() && enumeration_.forms().configuration().weight_operators == 0 &&
           enumeration_.options().operators >= kLarge && c.larger >= kLarge;
  }

  // Does it follow from the active equations, without itself if it is kept?
  bool follows(const Equation& q, bool large, Forms& forms, std::optional<std::uint32_t> without = {}) const {
    if (large && classes_->derives(q, options_.class_limits, forms, without)) return true;
    return theory_.derives(q, options_.limits, forms, without);
  }

  Decision look_at(const Candidate& candidate, Forms& forms) const {
    Decision d;
    if (classes_ && large(candidate) && classes_->derives(candidate, options_.class_limits, forms)) {
      d.verdict = Verdict::kByClasses;
      return d;
    }
    Equation q = equation_of(candidate, enumeration_).tidied();
    if (!holds_always(q, forms)) {
      d.verdict = Verdict::kCoincidence;
      return d;
    }
    d.equation = options_.instances ? generalized(std::move(q), forms) : std::move(q);
    d.hash = canonical_hash(d.equation, forms);
    return d;
  }

  void settle(std::size_t candidate, Decision d) {
    constexpr const char* kReasons[] = {"coincidence", "instance", "derivable", "derivable"};
    if (d.verdict != Verdict::kCoincidence && d.verdict != Verdict::kByClasses) seen_.insert(d.hash);
    if (d.verdict == Verdict::kDerivable) followed_.push_back(candidate);
    if (d.verdict != Verdict::kKept) {
      ++result_.pruned[kReasons[static_cast<std::size_t>(d.verdict)]];
      return;
    }
    keep(std::move(d.equation), large(candidates_[candidate]));
  }

  void keep(Equation q, bool large) {
    theory_.add(q);
    if (classes_) classes_->add(q);
    large_.push_back(large);
    result_.kept.push_back(std::move(q));
  }

  // Replaces common subexpressions of both sides by variables wherever the equation still holds.
  Equation generalized(Equation q, Forms& forms) const {
    for (bool changed = true; changed;) {
      changed = false;
      const std::vector<bool> left = q.reachable(q.left), right = q.reachable(q.right);
      for (std::size_t i = q.expressions.size(); i-- > 0 && !changed;) {
        if (q.expressions[i].kind == Kind::kVariable || !left[i] || !right[i]) continue;
        Equation general = q;
        general.expressions[i] = {Kind::kVariable,
                                  general.variables++,
                                  q.of_weights()[i] && q.expressions[i].kind != Kind::kConstant,
                                  0,
                                  {Expression::kNone, Expression::kNone, Expression::kNone},
                                  q.expressions[i].type};
        general = general.tidied();
        if (general.left == general.right || !holds_always(general, forms)) continue;
        q = std::move(general);
        changed = true;
      }
    }
    return q;
  }

  // Holds under several other keys, that is, for other random tensors. With few keys a maximum of two scalars may equal one of
  // them by chance.
  bool holds_always(const Equation& q, Forms& forms) const {
    return std::all_of(keys_.begin(), keys_.end(), [&](std::uint64_t key) { return holds(q, forms, key); });
  }

  bool follows(std::uint32_t kept, Forms& forms) const { return follows(result_.kept[kept], large_[kept], forms, kept); }

  // Which of these follow from the other active ones, each considered by itself?
  std::vector<bool> derivable(std::span<const std::uint32_t> numbers) {
    const std::vector<std::string> found = workers_.map(
        numbers.size(), [&](Forms& forms, std::size_t i) { return std::string(follows(numbers[i], forms) ? "1" : "0"); });
    std::vector<bool> result;
    for (const std::string& f : found) result.push_back(f == "1");
    return result;
  }

  // Drops kept equations that follow from the others, the most special first: general ones are larger and were found later.
  // Equations derived among the classes come before those that the classes rest on.
  void minimize() {
    std::vector<std::uint32_t> order(result_.kept.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto special = [&](std::uint32_t n) {
      const Equation& q = result_.kept[n];
      return std::tuple(!large_[n], -static_cast<std::ptrdiff_t>(constant_count(q)), q.variables);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return special(a) < special(b); });
    std::vector<bool> dropped(order.size());
    const auto set_dropped = [&](std::uint32_t n, bool drop) {
      dropped[n] = drop;
      theory_.set_active(n, !drop);
      if (classes_) classes_->set_active(n, !drop);
    };
    // An equation that follows from all others is dropped if it also follows without those just dropped.
    batches(
        order,
        [&](std::span<const std::uint32_t> batch, std::vector<bool>& found) {
          bool changed = false;
          for (std::size_t i = 0; i < batch.size(); ++i) {
            if (found[i] && changed) found[i] = follows(batch[i], enumeration_.forms());
            changed |= found[i];
            set_dropped(batch[i], found[i]);
          }
        },
        [&](std::uint32_t n, bool follows) { set_dropped(n, follows); });
    // Derivations may now need more steps than the limits allow.
    std::vector<std::uint32_t> doubtful;
    for (std::uint32_t n = 0; n < dropped.size(); ++n)
      if (dropped[n]) doubtful.push_back(n);
    batches(
        doubtful,
        [&](std::span<const std::uint32_t> batch, std::vector<bool>& found) {
          bool changed = false;
          for (std::size_t i = 0; i < batch.size(); ++i) {
            if (!found[i] && changed) found[i] = follows(batch[i], enumeration_.forms());
            changed |= !found[i];
            set_dropped(batch[i], found[i]);
          }
        },
        [&](std::uint32_t n, bool follows) { set_dropped(n, follows); });
    std::vector<Equation> kept;
    for (std::size_t n = 0; n < dropped.size(); ++n)
      if (!dropped[n]) kept.push_back(std::move(result_.kept[n]));
    if (result_.kept.size() > kept.size()) result_.pruned["derivable"] += result_.kept.size() - kept.size();
    result_.kept = std::move(kept);
    restore();
  }

  // Restores equations that only followed from equations dropped since.
  void restore() {
    for (std::size_t begin = 0; begin < followed_.size() && !journal_.stopped(); begin += kBatch) {
      const std::size_t end = std::min(followed_.size(), begin + kBatch);
      const auto general = [&](std::size_t i, Forms& forms) {
        Equation q = equation_of(candidates_[followed_[i]], enumeration_).tidied();
        return options_.instances ? generalized(std::move(q), forms) : q;
      };
      const auto is_large = [&](std::size_t i) { return large(candidates_[followed_[i]]); };
      std::string text;
      if (const std::optional<std::string> known = journal_.next()) {
        text = *known;
        if (text.size() != end - begin) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
        for (std::size_t i = begin; i < end; ++i)
          if (text[i - begin] == '0') keep_again(general(i, enumeration_.forms()), is_large(i));
        continue;
      }
      for (const std::string& f : workers_.map(end - begin, [&](Forms&forms, std::size_t i) {
             return std::string(follows(general(begin + i, forms), is_large(begin + i), forms) ? "1" : "0");
           }))
        text += f;
      const std::size_t before = result_.kept.size();
      for (std::size_t i = begin; i < end; ++i) {
        if (text[i - begin] == '1') continue;
        Equation q = general(i, enumeration_.forms());
        if (result_.kept.size() > before && follows(q, is_large(i), enumeration_.forms()))
          text[i - begin] = '1';
        else
          keep_again(std::move(q), is_large(i));
      }
      journal_.add(text);
      require_memory();
    }
  }

  // Equations that hold over the reals but not in the field. There are few.
  void add_numeric() {
    if (!options_.numeric || journal_.stopped()) return;
    for (Equation& q : numeric_equations(options_.numeric_from ? *options_.numeric_from : enumeration_)) {
      if (options_.instances && !seen_.insert(canonical_hash(q, enumeration_.forms())).second) continue;
      ++result_.candidates;
      if (options_.derivable && theory_.derives(q, options_.limits)) {
        ++result_.pruned["derivable"];
        continue;
      }
      keep(std::move(q), false);
    }
  }

  void keep_again(Equation q, bool large) {
    --result_.pruned["derivable"];
    keep(std::move(q), large);
  }

  // Decides for each equation whether it follows from those active before its batch; `settle` corrects this for changes within
  // the batch, and `replay` repeats recorded decisions.
  template <class Settle, class Replay>
  void batches(const std::vector<std::uint32_t>& numbers, const Settle& settle, const Replay& replay) {
    for (std::size_t begin = 0; begin < numbers.size() && !journal_.stopped(); begin += kBatch) {
      const std::span batch(numbers.data() + begin, std::min(kBatch, numbers.size() - begin));
      if (const std::optional<std::string> known = journal_.next()) {
        if (known->size() != batch.size()) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
        for (std::size_t i = 0; i < batch.size(); ++i) replay(batch[i], (*known)[i] == '1');
        continue;
      }
      std::vector<bool> found = derivable(batch);
      settle(batch, found);
      std::string text;
      for (const bool f : found) text += f ? '1' : '0';
      journal_.add(text);
      require_memory();
    }
  }

  const Enumeration& enumeration_;
  const std::vector<Candidate>& candidates_;
  const SelectionOptions& options_;
  Workers& workers_;
  Journal& journal_;
  Theory theory_;                       // equation n is result_.kept[n]
  std::optional<ClassTheory> classes_;  // the same; only if there are large equations
  std::vector<bool> large_;             // of the kept equations
  std::vector<std::uint64_t> keys_;
  Selection result_;
  std::vector<std::size_t> followed_;       // candidates that followed from the equations kept at the time
  std::unordered_set<std::uint64_t> seen_;  // hashes of candidates examined so far
};

}  // namespace

Selection select(const Enumeration& enumeration, const Collection& collection, const SelectionOptions& options,
                 Workers& workers, Journal& journal) {
  return Selector(enumeration, collection, options, workers, journal).run();
}

Selection select(Enumeration& enumeration, const SelectionOptions& options) {
  const auto alone = make_local_communicator();
  State state({.temporary = std::filesystem::temp_directory_path()}, *alone);
  const Collection collection = collect(enumeration, {.renamings = options.renamings, .zeros = options.zeros}, state, *alone);
  Workers workers(*alone, enumeration.options().threads, enumeration.forms());
  Journal journal(state, *alone, "candidates", collection.counters);
  return select(enumeration, collection, options, workers, journal);
}

}  // namespace rewright::generator
