#include "generator/run/rule_selection.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "generator/enumeration/enumeration.h"
#include "rules/io.h"

namespace rewright::generator {

namespace {

// Equations processed in parallel; each is compared with the rules known before the batch.
constexpr std::size_t kRulesAtOnce = 32;

std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return "generated_" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

// The rules of one equation: both directions.
struct Group {
  std::vector<Rule> rules;
  std::vector<std::size_t> numbers;  // in the theory
};

// The result for an equation: the bytes of its rules, or one of these words.
constexpr std::string_view kInstance = "instance of a rule", kNotGeneral = "not general";

class RuleSelector {
 public:
  RuleSelector(const std::vector<Equation>& equations, const RuleSelectionOptions& options, Workers& workers, Journal& journal)
      : equations_(equations), options_(options), workers_(workers), journal_(journal) {}

  RuleSelection run() {
    for (std::size_t begin = 0; begin < equations_.size(); begin += kRulesAtOnce) {
      const std::size_t end = std::min(equations_.size(), begin + kRulesAtOnce);
      std::vector<std::string> found;
      if (const std::optional<std::string> known = journal_.next()) {
        found = unpacked(*known);
        if (found.size() != end - begin) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
      } else {
        found = workers_.map(end - begin, [&](Forms& forms, std::size_t i) { return look_at(begin + i, forms); });
        const std::size_t before = groups_.size();
        for (std::size_t i = 0; i < found.size(); ++i) settle(begin + i, found[i], before);
        journal_.add(packed(found));
        require_memory(options_.memory, "the rules that are written take");
        if (options_.progress) options_.progress(static_cast<double>(end) / static_cast<double>(equations_.size()), count_);
        continue;
      }
      for (std::size_t i = 0; i < found.size(); ++i) settle(begin + i, found[i], groups_.size());
    }
    if (options_.derivable && !journal_.stopped()) minimize();
    for (Group& group : groups_)
      for (Rule& rule : group.rules) result_.rules.push_back(std::move(rule));
    return std::move(result_);
  }

 private:
  static std::string packed(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += std::to_string(part.size()) + ":" + part;
    return text;
  }
  static std::vector<std::string> unpacked(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
      std::size_t size = 0, at = 0;
      while (at < text.size() && at < 12 && text[at] >= '0' && text[at] <= '9')
        size = size * 10 + static_cast<std::size_t>(text[at++] - '0');
      if (at == text.size() || text[at] != ':' || text.size() - at - 1 < size)
        throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
      parts.emplace_back(text.substr(at + 1, size));
      text.remove_prefix(at + 1 + size);
    }
    return parts;
  }

  // One writer for each thread's forms, since it caches what it finds out about them.
  RuleWriter& writer(Forms& forms) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<RuleWriter>& writer = writers_[&forms];
    if (!writer) writer = std::make_unique<RuleWriter>(forms, options_.writer);
    return *writer;
  }

  bool follows(const Rule& rule) const { return theory_.derives(rule, options_.limits); }
  bool is_instance(std::size_t number, Forms& forms) {
    if (!options_.derivable) return false;
    const auto found = writer(forms).as_found(equations_[number]);
    return found && follows(*found);
  }

  std::string look_at(std::size_t number, Forms& forms) {
    if (is_instance(number, forms)) return std::string(kInstance);
    const std::vector<Rule> rules = journal_.stopped() ? writer(forms).write_as_found(equations_[number], numbered(number + 1))
                                                       : writer(forms).write(equations_[number], numbered(number + 1));
    return rules.empty() ? std::string(kNotGeneral) : write_rules(rules, RuleFormat::kBinary);
  }

  // Records the result for an equation. It was not yet compared with groups from `before` on.
  void settle(std::size_t number, std::string& found, std::size_t before) {
    if (found != kInstance && found != kNotGeneral) {
      Group group;
      if (groups_.size() > before && is_instance(number, workers_.forms())) {
        found = kInstance;
      } else {
        for (Rule& rule : read_rules(found, "rules that were found"))
          if (known_.insert(contents(rule)).second) group.rules.push_back(std::move(rule));
        if (group.rules.empty()) found = kInstance;
      }
      for (const Rule& rule : group.rules) group.numbers.push_back(theory_.add(rule));
      count_ += group.rules.size();
      if (!group.rules.empty()) groups_.push_back(std::move(group));
    }
    if (found == kInstance || found == kNotGeneral) ++result_.pruned[found];
  }

  bool follows(const Group& group) const {
    return std::all_of(group.rules.begin(), group.rules.end(),
                       [&](const Rule& r) { return theory_.derives(r, options_.limits, group.numbers); });
  }
  void set_active(const Group& group, bool active) {
    for (const std::size_t number : group.numbers) theory_.set_active(number, active);
  }

  // More general rules may have been found later.
  void minimize() {
    std::string found;
    if (const std::optional<std::string> known = journal_.next()) {
      found = *known;
      if (found.size() != groups_.size()) throw Error(ErrorCode::kBadInput, "the journal of decisions is damaged");
    } else {
      for (const std::string& f :
           workers_.map(groups_.size(), [&](Forms&, std::size_t g) { return std::string(follows(groups_[g]) ? "1" : "0"); }))
        found += f;
      // Without groups already dropped, the last ones first.
      for (std::size_t g = groups_.size(); g-- > 0;) {
        if (found[g] == '1' && !follows(groups_[g])) found[g] = '0';
        set_active(groups_[g], found[g] == '0');
      }
      // Derivations may now need more steps than the limits allow.
      for (std::size_t g = 0; g < groups_.size(); ++g)
        if (found[g] == '1' && !follows(groups_[g])) {
          found[g] = '0';
          set_active(groups_[g], true);
        }
      journal_.add(found);
    }
    std::vector<Group> kept;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (found[g] == '0') kept.push_back(std::move(groups_[g]));
    if (kept.size() < groups_.size()) result_.pruned[std::string(kInstance)] += groups_.size() - kept.size();
    groups_ = std::move(kept);
  }

  const std::vector<Equation>& equations_;
  const RuleSelectionOptions& options_;
  Workers& workers_;
  Journal& journal_;
  std::mutex mutex_;
  std::map<const Forms*, std::unique_ptr<RuleWriter>> writers_;
  RuleTheory theory_;
  std::vector<Group> groups_;
  std::set<std::string> known_;
  std::size_t count_ = 0;
  RuleSelection result_;
};

}  // namespace

RuleSelection select_rules(const std::vector<Equation>& equations, const RuleSelectionOptions& options, Workers& workers,
                           Journal& journal) {
  return RuleSelector(equations, options, workers, journal).run();
}

}  // namespace rewright::generator
