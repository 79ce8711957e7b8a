// The applications of a level: each operator on operands whose smallest graphs have, together, one operator less than the
// level.
#include <algorithm>
#include <bit>
#include <map>

#include "generator/enumeration/enumeration.h"

namespace rewright::generator {

void Enumeration::applications() {
  const auto& choices = forms_.configuration().choices;
  const bool pairs = std::any_of(choices.begin(), choices.end(), [](const Choice& c) { return c.arity == 2; });
  const Pairs sharing = pairs && level_ > 1 ? sharing_pairs() : Pairs{};
  for (std::uint32_t choice = 0; choice < choices.size() && !ended_; ++choice) {
    if (choices[choice].arity == 1) unary(choice);
    if (choices[choice].arity == 2) binary(choice, sharing);
    if (choices[choice].arity == 3) ternary(choice);
  }
  flush();
}

// True if of the interchangeable variables the first ones are used. Other graphs follow by renaming.
bool Enumeration::canonical(std::uint32_t support) const {
  for (const std::uint32_t group : groups_) {
    const std::uint32_t used = (support & group) >> std::countr_zero(group);
    if (used & (used + 1)) return false;
  }
  return true;
}

double Enumeration::renamings(const Application& application) const {
  const std::uint32_t support = support_of(application);
  double count = 1;
  for (const std::uint32_t group : groups_) {
    const int all = std::popcount(group), used = std::popcount(support & group);
    for (int i = 0; i < used; ++i) count = count * (all - i) / (i + 1);
  }
  return count;
}

bool Enumeration::admissible(std::uint32_t choice, std::span<const ClassId> operands) const {
  const Choice& c = forms_.configuration().choices[choice];
  const auto leaf = [&](ClassId id) -> const Leaf* {
    const std::uint32_t number = classes_[id].leaf;
    return number < forms_.configuration().leaves.size() ? &forms_.configuration().leaves[number] : nullptr;
  };
  if (c.weights_only && !preparing_) return false;
  if (c.data_first && (weights_only(classes_[operands[0]].support) || (leaf(operands[0]) && leaf(operands[0])->weight)))
    return false;
  if (c.distinct && operands.size() > 1 && operands[0] == operands[1]) return false;
  for (const ClassId o : operands)
    if (c.no_arrays && leaf(o) && leaf(o)->constant() && leaf(o)->type.rank() > 0) return false;
  return true;
}

std::uint32_t Enumeration::support_of(std::uint32_t choice, std::span<const ClassId> operands) const {
  std::uint32_t support = 0;
  for (const std::uint32_t leaf : forms_.configuration().choices[choice].parameters) support |= leaf_bits_[leaf];
  for (const ClassId o : operands) support |= classes_[o].support;
  return support;
}

// The number of operators in the smallest graph that computes both classes.
std::size_t Enumeration::smallest_union(ClassId a, ClassId b) const {
  std::size_t smallest = classes_[a].operators + classes_[b].operators;
  if (classes_[a].operators == 0 || classes_[b].operators == 0) return smallest;
  for (const Tokens& s : tokens_[a])
    for (const Tokens& t : tokens_[b]) {
      std::size_t shared = 0;
      for (const std::uint32_t token : s) shared += static_cast<std::size_t>(std::count(t.begin(), t.end(), token));
      smallest = std::min(smallest, s.size() + t.size() - shared);
    }
  return smallest;
}

void Enumeration::unary(std::uint32_t choice) {
  const auto& types = by_level_[level_ - 1];
  for (TypeId type = 0; type < types.size(); ++type) {
    if (types[type].empty()) continue;
    const std::vector<FormId>& forms = forms_.find(choice, {&type, 1});
    for (const ClassId a : types[type]) apply(choice, {a, kNoClass, kNoClass}, 1, forms);
  }
}

// Ordered pairs of operands whose graphs share operators and together have one operator less than the level. Sorted.
Enumeration::Pairs Enumeration::sharing_pairs() const {
  const std::size_t both = level_ - 1;
  const bool last = is_last_level();
  Pairs pairs;
  const auto add = [&](ClassId a, ClassId b) {
    if (last && !canonical(classes_[a].support | classes_[b].support)) return;
    pairs.emplace_back(a, b);
    if (a != b) pairs.emplace_back(b, a);
  };
  // First case: one operand has all of the operators, the other a subset.
  std::map<Tokens, std::vector<ClassId>> known;
  for (std::size_t l = 1; l <= both; ++l)
    for (const auto& list : by_level_[l])
      for (const ClassId v : list)
        for (const Tokens& tokens : tokens_[v]) known[tokens].push_back(v);
  for (const auto& list : by_level_[both])
    for (const ClassId a : list)
      for (const Tokens& tokens : tokens_[a])
        for (unsigned some = 1; some < 1u << tokens.size(); ++some) {
          Tokens subset;
          for (std::size_t i = 0; i < tokens.size(); ++i)
            if (some >> i & 1) subset.push_back(tokens[i]);
          const auto found = known.find(subset);
          if (found == known.end()) continue;
          for (const ClassId b : found->second) add(a, b);
        }
  // Second case: both have fewer.
  std::vector<std::vector<ClassId>> users(next_token_);  // the classes whose graphs may contain each application
  for (std::size_t l = 2; l < both; ++l)
    for (const auto& list : by_level_[l])
      for (const ClassId v : list)
        for (const Tokens& tokens : tokens_[v])
          for (const std::uint32_t token : tokens)
            if (users[token].empty() || users[token].back() != v) users[token].push_back(v);
  for (const std::vector<ClassId>& sharing : users)
    for (std::size_t i = 0; i < sharing.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const ClassId a = sharing[i], b = sharing[j];
        if (classes_[a].operators + classes_[b].operators > both && smallest_union(a, b) == both) add(a, b);
      }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

void Enumeration::binary(std::uint32_t choice, const Pairs& sharing) {
  const bool commutative = forms_.configuration().choices[choice].op->commutative();
  const std::size_t both = level_ - 1;
  for (std::size_t la = 0; la <= both; ++la) {
    const std::size_t lb = both - la;
    for (TypeId ta = 0; ta < by_level_[la].size(); ++ta) {
      if (by_level_[la][ta].empty()) continue;
      for (TypeId tb = 0; tb < by_level_[lb].size(); ++tb) {
        if (by_level_[lb][tb].empty()) continue;
        const TypeId types[] = {ta, tb};
        const std::vector<FormId>& forms = forms_.find(choice, types);
        if (forms.empty()) continue;
        for (const ClassId a : by_level_[la][ta])
          for (const ClassId b : by_level_[lb][tb])
            if ((!commutative || a <= b) && (la == 0 || lb == 0 || smallest_union(a, b) == both))
              apply(choice, {a, b, kNoClass}, 2, forms);
      }
    }
  }
  for (const auto& [a, b] : sharing) {
    if (commutative && a > b) continue;
    const TypeId types[] = {classes_[a].fingerprint.type, classes_[b].fingerprint.type};
    apply(choice, {a, b, kNoClass}, 2, forms_.find(choice, types));
  }
}

// The graphs of three operands share nothing.
void Enumeration::ternary(std::uint32_t choice) {
  const bool commutative = forms_.configuration().choices[choice].op->commutative();
  for (std::size_t la = 0; la < level_; ++la)
    for (std::size_t lb = 0; la + lb < level_; ++lb) {
      const std::size_t lc = level_ - 1 - la - lb;
      for (TypeId ta = 0; ta < by_level_[la].size(); ++ta)
        for (TypeId tb = 0; tb < by_level_[lb].size(); ++tb)
          for (TypeId tc = 0; tc < by_level_[lc].size(); ++tc) {
            if (by_level_[la][ta].empty() || by_level_[lb][tb].empty() || by_level_[lc][tc].empty()) continue;
            const TypeId types[] = {ta, tb, tc};
            const std::vector<FormId>& forms = forms_.find(choice, types);
            if (forms.empty()) continue;
            for (const ClassId a : by_level_[la][ta])
              for (const ClassId b : by_level_[lb][tb])
                for (const ClassId c : by_level_[lc][tc])
                  if (!commutative || a <= b) apply(choice, {a, b, c}, 3, forms);
          }
    }
}

void Enumeration::apply(std::uint32_t choice, const std::array<ClassId, 3>& operands, std::size_t arity,
                        const std::vector<FormId>& forms) {
  if (ended_ || forms.empty()) return;
  const std::uint32_t support = support_of(choice, {operands.data(), arity});
  if ((support & ~scalars_) == 0 || (is_last_level() && !canonical(support))) return;
  if (!preparing_ && weights_only(support)) return;
  if (!admissible(choice, {operands.data(), arity})) return;
  for (const FormId form : forms) {
    block_.pending.push_back({form, operands});
    block_.results += forms_.form(form).results;
  }
  // Blocks of the last level have a fixed number of applications, since their elements are not kept.
  if (block_.pending.size() >= kBlock || (!take_ && block_.results >= kBlockElements)) flush();
}

}  // namespace rewright::generator
