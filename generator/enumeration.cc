#include "generator/enumeration.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <set>
#include <thread>

#include "operators/number_system.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kBlock = 1 << 15;

std::span<const ClassId> present(const std::array<ClassId, 3>& operands, std::size_t arity) { return {operands.data(), arity}; }

}  // namespace

Fingerprint fingerprint(TypeId type, std::span<const Residue> elements) {
  std::uint64_t a = 0x243f6a8885a308d3ULL, b = 0x13198a2e03707344ULL;
  for (const Residue e : elements) {
    a = (a ^ e) * 0x9e3779b97f4a7c15ULL;
    a ^= a >> 32;
    b = (b + e) * 0xc2b2ae3d27d4eb4fULL;
    b = std::rotl(b, 29) ^ (b >> 31);
  }
  return {type, FieldArithmetic::mix(a, type), FieldArithmetic::mix(b, ~std::uint64_t{type})};
}

Enumeration::Enumeration(Forms& forms, EnumerationOptions options) : forms_(forms), options_(std::move(options)) {
  options_.key = sound_key(options_.key);
  table_.assign(1 << 16, kNoClass);
}

ClassId* Enumeration::slot(const Fingerprint& f) {
  for (std::size_t i = f.first & (table_.size() - 1);; i = (i + 1) & (table_.size() - 1))
    if (table_[i] == kNoClass || classes_[table_[i]].fingerprint == f) return &table_[i];
}

void Enumeration::grow() {
  if (classes_.size() * 2 < table_.size()) return;
  table_.assign(table_.size() * 2, kNoClass);
  for (ClassId c = 0; c < classes_.size(); ++c) *slot(classes_[c].fingerprint) = c;
}

void Enumeration::add_leaves() {
  by_level_.resize(options_.operators + 1);
  std::uint32_t bit = 0;
  for (std::uint32_t l = 0; l < forms_.configuration().leaves.size(); ++l) {
    const Leaf& leaf = forms_.configuration().leaves[l];
    const TypeId type = forms_.intern(leaf.type);
    Class c;
    elements_.push_back(forms_.leaf_elements(leaf, l, options_.key));
    c.fingerprint = fingerprint(type, elements_.back());
    c.leaf = l;
    if (!leaf.constant()) {
      if (bit == 32) throw Error(ErrorCode::kUsage, "the operators need more than 32 variables", "--operators");
      groups_.resize(std::max<std::size_t>(groups_.size(), static_cast<std::size_t>(leaf.group) + 1));
      groups_[static_cast<std::size_t>(leaf.group)] |= c.support = 1u << bit++;
      if (leaf.type.rank() == 0) scalars_ |= c.support;
    }
    const ClassId id = static_cast<ClassId>(classes_.size());
    classes_.push_back(c);
    *slot(c.fingerprint) = id;
    tokens_.push_back({Tokens{}});
    by_level_[0].resize(std::max<std::size_t>(by_level_[0].size(), type + 1));
    by_level_[0][type].push_back(id);
  }
}

void Enumeration::run() {
  add_leaves();
  first_members_ = {0};
  for (level_ = 1; level_ <= options_.operators && complete_; ++level_) {
    first_members_.push_back(members_.size());
    level(level_);
    if (complete_) levels_ = level_;
  }
  // Of a level that was not finished nothing is said.
  if (!complete_) members_.resize(first_members_[levels_ + 1]);
}

void Enumeration::level(std::size_t operators) {
  const ClassId first = static_cast<ClassId>(classes_.size());
  for (std::uint32_t choice = 0; choice < forms_.configuration().choices.size() && complete_; ++choice) {
    switch (forms_.configuration().choices[choice].arity) {
      case 1:
        unary(choice, operators);
        break;
      case 2:
        binary(choice, operators);
        break;
      case 3:
        ternary(choice, operators);
        break;
      default:
        break;
    }
  }
  flush();
  for (ClassId c = first; c < classes_.size(); ++c) {
    if (classes_[c].zero) continue;
    auto& types = by_level_[operators];
    types.resize(std::max<std::size_t>(types.size(), classes_[c].fingerprint.type + 1));
    types[classes_[c].fingerprint.type].push_back(c);
  }
}

// Of variables that may be exchanged, the first ones: what graphs of others compute follows by renaming.
bool Enumeration::canonical(std::uint32_t support) const {
  for (const std::uint32_t group : groups_) {
    const std::uint32_t used = (support & group) >> std::countr_zero(group);
    if (used & (used + 1)) return false;
  }
  return true;
}

bool Enumeration::admissible(std::uint32_t choice, std::span<const ClassId> operands) const {
  const Choice& c = forms_.configuration().choices[choice];
  const auto leaf = [&](ClassId id) -> const Leaf* {
    const std::uint32_t number = classes_[id].leaf;
    return number < forms_.configuration().leaves.size() ? &forms_.configuration().leaves[number] : nullptr;
  };
  if (c.data_first && leaf(operands[0]) && leaf(operands[0])->weight) return false;
  if (c.distinct && operands.size() > 1 && operands[0] == operands[1]) return false;
  for (const ClassId o : operands)
    if (c.no_arrays && leaf(o) && leaf(o)->constant() && leaf(o)->type.rank() > 0) return false;
  return true;
}

std::uint32_t Enumeration::support_of(std::span<const ClassId> operands) const {
  std::uint32_t support = 0;
  for (const ClassId o : operands) support |= classes_[o].support;
  return support;
}

void Enumeration::unary(std::uint32_t choice, std::size_t operators) {
  for (const auto& list : by_level_[operators - 1])
    for (const ClassId a : list) apply(choice, {a, kNoClass, kNoClass}, 1);
}

// The number of operators in the smallest graph that computes both.
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

void Enumeration::binary(std::uint32_t choice, std::size_t operators) {
  const Choice& c = forms_.configuration().choices[choice];
  const bool commutative = c.op->commutative();
  const std::size_t both = operators - 1;
  for (std::size_t la = 0; la <= both; ++la)
    for (std::size_t lb = 0; lb <= both; ++lb) {
      if (la + lb < both) continue;
      for (TypeId ta = 0; ta < by_level_[la].size(); ++ta) {
        if (by_level_[la][ta].empty()) continue;
        for (TypeId tb = 0; tb < by_level_[lb].size(); ++tb) {
          if (by_level_[lb][tb].empty()) continue;
          if (la + lb > both) continue;
          const TypeId types[] = {ta, tb};
          if (forms_.find(choice, types).empty()) continue;
          for (const ClassId a : by_level_[la][ta]) {
            for (const ClassId b : by_level_[lb][tb])
              if ((!commutative || a <= b) && (la == 0 || lb == 0 || smallest_union(a, b) == both))
                apply(choice, {a, b, kNoClass}, 2);
          }
        }
      }
    }
  if (both == 0) return;
  // Operands whose graphs share operators: found through what the larger one consists of.
  std::set<std::pair<ClassId, ClassId>> pairs;
  const auto consider = [&](ClassId a, ClassId b) {
    if (classes_[a].operators + classes_[b].operators > both && smallest_union(a, b) == both) {
      pairs.emplace(a, b);
      pairs.emplace(b, a);
    }
  };
  std::vector<std::vector<ClassId>> users(next_token_);  // the classes below this level that may contain an application
  for (std::size_t l = 1; l <= both; ++l)
    for (const auto& list : by_level_[l])
      for (const ClassId v : list)
        for (const Tokens& tokens : tokens_[v])
          for (const std::uint32_t token : tokens)
            if (users[token].empty() || users[token].back() != v) users[token].push_back(v);
  for (const auto& list : by_level_[both])
    for (const ClassId v : list) consider(v, v);
  for (const std::vector<ClassId>& sharing : users)
    for (std::size_t i = 0; i < sharing.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) consider(sharing[i], sharing[j]);
  for (const auto& [a, b] : pairs)
    if (!commutative || a <= b) apply(choice, {a, b, kNoClass}, 2);
}

// Three operands are taken from graphs that share nothing.
void Enumeration::ternary(std::uint32_t choice, std::size_t operators) {
  const bool commutative = forms_.configuration().choices[choice].op->commutative();
  for (std::size_t la = 0; la < operators; ++la)
    for (std::size_t lb = 0; la + lb < operators; ++lb) {
      const std::size_t lc = operators - 1 - la - lb;
      for (TypeId ta = 0; ta < by_level_[la].size(); ++ta)
        for (TypeId tb = 0; tb < by_level_[lb].size(); ++tb)
          for (TypeId tc = 0; tc < by_level_[lc].size(); ++tc) {
            if (by_level_[la][ta].empty() || by_level_[lb][tb].empty() || by_level_[lc][tc].empty()) continue;
            const TypeId types[] = {ta, tb, tc};
            if (forms_.find(choice, types).empty()) continue;
            for (const ClassId a : by_level_[la][ta])
              for (const ClassId b : by_level_[lb][tb])
                for (const ClassId c : by_level_[lc][tc])
                  if (!commutative || a <= b) apply(choice, {a, b, c}, 3);
          }
    }
}

void Enumeration::apply(std::uint32_t choice, std::array<ClassId, 3> operands, std::size_t arity) {
  if (!complete_) return;
  const std::uint32_t support = support_of(present(operands, arity));
  if ((support & ~scalars_) == 0 || (level_ == options_.operators && !canonical(support))) return;
  if (!admissible(choice, present(operands, arity))) return;
  TypeId types[3];
  for (std::size_t k = 0; k < arity; ++k) types[k] = classes_[operands[k]].fingerprint.type;
  for (const FormId form : forms_.find(choice, {types, arity})) {
    block_.pending.push_back({form, operands});
    block_elements_ += forms_.form(form).results;
  }
  if (block_.pending.size() >= kBlock) flush();
}

void Enumeration::flush() {
  const std::size_t count = block_.pending.size();
  if (count == 0) return;
  std::vector<std::size_t> first(count), outputs(count);
  std::size_t elements = 0, results = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Form& form = forms_.form(block_.pending[i].form);
    first[i] = elements, outputs[i] = results;
    elements += form.results, results += form.outputs.size();
  }
  block_.elements.resize(elements);
  block_.fingerprints.resize(results);
  block_.valid.assign(count, 0);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Forms::Scratch scratch;
    constexpr std::size_t kChunk = 256;
    for (std::size_t begin = next.fetch_add(kChunk); begin < count; begin = next.fetch_add(kChunk))
      for (std::size_t i = begin; i < std::min(count, begin + kChunk); ++i) {
        const Form& form = forms_.form(block_.pending[i].form);
        const Residue* operands[3];
        for (std::size_t k = 0; k < form.operands.size(); ++k) operands[k] = elements_[block_.pending[i].operands[k]].data();
        Residue* result = block_.elements.data() + first[i];
        block_.valid[i] = forms_.evaluate(form, {operands, form.operands.size()}, options_.key, scratch, result);
        for (std::size_t o = 0; o < form.outputs.size(); ++o)
          block_.fingerprints[outputs[i] + o] =
              fingerprint(form.outputs[o], {result + form.output_offsets[o], forms_.type(form.outputs[o]).elements});
      }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t < options_.threads; ++t) threads.emplace_back(work);
    work();
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!block_.valid[i]) continue;
    const Pending& pending = block_.pending[i];
    const Form& form = forms_.form(pending.form);
    const std::uint32_t support = support_of(present(pending.operands, form.operands.size()));
    const std::uint32_t token = next_token_++;
    for (std::uint32_t o = 0; o < form.outputs.size(); ++o)
      insert(pending, o, block_.fingerprints[outputs[i] + o], block_.elements.data() + first[i] + form.output_offsets[o], token,
             support);
  }
  block_.pending.clear();
  block_elements_ = 0;
  check_memory();
  if (options_.progress) options_.progress(level_, members_.size());
  if (options_.stop.stop_requested()) complete_ = false;
}

double Enumeration::cost_of(const Form& form, std::span<const ClassId> operands) const {
  double cost = form.cost;
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(k), operands[k]) ==
        operands.begin() + static_cast<std::ptrdiff_t>(k))
      cost += classes_[operands[k]].cost;
  return cost;
}

void Enumeration::insert(const Pending& pending, std::uint32_t output, const Fingerprint& f, const Residue* elements,
                         std::uint32_t token, std::uint32_t support) {
  ClassId* place = slot(f);
  const bool fresh = *place == kNoClass, stored = level_ < options_.operators;
  const Form& form = forms_.form(pending.form);
  const double cost = cost_of(form, present(pending.operands, form.operands.size()));
  if (fresh) {
    *place = static_cast<ClassId>(classes_.size());
    classes_.push_back(
        {.fingerprint = f,
         .operators = static_cast<std::uint8_t>(level_),
         .support = support,
         .best = static_cast<std::uint32_t>(members_.size()),
         .cost = cost,
         .zero = std::all_of(elements, elements + forms_.type(f.type).elements, [](Residue e) { return e == 0; })});
    if (stored) {
      const std::size_t count = forms_.type(f.type).elements;
      elements_.emplace_back(elements, elements + count);
      element_bytes_ += count * sizeof(Residue);
      tokens_.emplace_back();
    }
  }
  const ClassId result = *place;
  if (!fresh && stored && !std::equal(elements_[result].begin(), elements_[result].end(), elements))
    throw Error(ErrorCode::kUnsupported, "two values have one fingerprint", {}, "choose another seed");
  Class& c = classes_[result];
  if (!fresh && c.operators == level_ && cost < c.cost) {
    c.best = static_cast<std::uint32_t>(members_.size());
    c.cost = cost;
  }
  members_.push_back({pending.form, output, pending.operands, result});
  if (stored && c.operators == level_) add_token(result, pending, token);
  if (fresh) grow();
}

// The graphs of a member: one of each operand, with this application.
void Enumeration::add_token(ClassId result, const Pending& pending, std::uint32_t token) {
  std::vector<Tokens> graphs{{token}};
  for (const ClassId operand : present(pending.operands, forms_.form(pending.form).operands.size())) {
    std::vector<Tokens> next;
    for (const Tokens& graph : graphs)
      for (const Tokens& part : tokens_[operand]) {
        Tokens joined = graph;
        joined.insert(joined.end(), part.begin(), part.end());
        std::sort(joined.begin(), joined.end());
        joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
        if (joined.size() <= level_) next.push_back(std::move(joined));
      }
    graphs = std::move(next);
  }
  for (Tokens& graph : graphs)
    if (std::find(tokens_[result].begin(), tokens_[result].end(), graph) == tokens_[result].end())
      tokens_[result].push_back(std::move(graph));
}

void Enumeration::check_memory() const {
  const std::size_t bytes = element_bytes_ + classes_.capacity() * sizeof(Class) + members_.capacity() * sizeof(Member) +
                            table_.size() * sizeof(ClassId) + block_.elements.capacity() * sizeof(Residue);
  if (bytes > options_.memory)
    throw Error(ErrorCode::kMissing,
                "the values of " + std::to_string(level_) + " operators need more than " +
                    std::to_string(options_.memory >> 20) + " MiB",
                {}, "allow more with --memory, or enumerate fewer operators");
}

}  // namespace rewright::generator
