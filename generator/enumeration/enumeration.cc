#include "generator/enumeration/enumeration.h"

#include <malloc.h>

#include <algorithm>
#include <bit>

#include "base/parallel.h"
#include "base/process_memory.h"
#include "operators/readings/number_system.h"

namespace rewright::generator {

Fingerprint fingerprint(TypeId type, std::span<const Residue> elements) {
  // Two independent hashes: 128 bits, so that equal fingerprints mean equal elements. States on disk hold them.
  std::uint64_t a = 0x243f6a8885a308d3ULL, b = 0x13198a2e03707344ULL;
  for (const Residue e : elements) {
    a = (a ^ e) * 0x9e3779b97f4a7c15ULL;
    a ^= a >> 32;
    b = (b + e) * 0xc2b2ae3d27d4eb4fULL;
    b = std::rotl(b, 29) ^ (b >> 31);
  }
  return {type, FieldArithmetic::mix(a, type), FieldArithmetic::mix(b, ~std::uint64_t{type})};
}

void require_memory(std::size_t allowed, const std::string& what_takes, std::size_t more) {
  if (resident_bytes() + more <= allowed) return;
  ::malloc_trim(0);
  const std::size_t needed = resident_bytes() + more;
  if (needed <= allowed) return;
  throw Error(ErrorCode::kMissing,
              what_takes + " " + std::to_string(needed >> 20) + " MiB, more than the " + std::to_string(allowed >> 20) +
                  " MiB that are allowed",
              {}, "allow more with --memory, or enumerate fewer operators");
}

Enumeration::Enumeration(Forms& forms, EnumerationOptions options) : forms_(forms), options_(std::move(options)) {
  options_.key = sound_key(options_.key);
  table_.assign(1 << 16, kNoClass);
}

std::size_t Enumeration::slot(const Fingerprint& f) const {
  for (std::size_t i = f.first & (table_.size() - 1);; i = (i + 1) & (table_.size() - 1))
    if (table_[i] == kNoClass || classes_[table_[i]].fingerprint == f) return i;
}

ClassId Enumeration::find(const Fingerprint& f) const { return table_[slot(f)]; }

void Enumeration::grow() {
  if (classes_.size() * 2 < table_.size()) return;
  table_.assign(table_.size() * 2, kNoClass);
  for (ClassId c = 0; c < classes_.size(); ++c) table_[slot(classes_[c].fingerprint)] = c;
}

void Enumeration::add_leaves() {
  by_level_.resize(options_.operators + 1);
  std::uint32_t bit = 0;
  for (std::uint32_t l = 0; l < forms_.configuration().leaves.size(); ++l) {
    const Leaf& leaf = forms_.configuration().leaves[l];
    const TypeId type = forms_.intern(leaf.type);
    leaf_bits_.push_back(0);
    Class c;
    if (!leaf.constant()) {
      if (bit == 32) throw Error(ErrorCode::kUsage, "the operators need more than 32 variables", "--operators");
      groups_.resize(std::max<std::size_t>(groups_.size(), static_cast<std::size_t>(leaf.group) + 1));
      groups_[static_cast<std::size_t>(leaf.group)] |= leaf_bits_.back() = c.support = 1u << bit++;
      if (leaf.type.rank() == 0) scalars_ |= c.support;
      if (leaf.weight) weights_ |= c.support;
    }
    if (leaf.parameter) continue;
    elements_.push_back(forms_.leaf_elements(leaf, l, options_.key));
    c.fingerprint = fingerprint(type, elements_.back());
    c.leaf = l;
    const ClassId id = static_cast<ClassId>(classes_.size());
    classes_.push_back(c);
    table_[slot(c.fingerprint)] = id;
    tokens_.push_back({Tokens{}});
    by_level_[0].resize(std::max<std::size_t>(by_level_[0].size(), type + 1));
    by_level_[0][type].push_back(id);
  }
}

void Enumeration::run() {
  check_memory();
  add_leaves();
  first_members_ = {0};
  if (forms_.configuration().weight_operators > 0) prepare_weights();
  for (level_ = 1; level_ < options_.operators && complete_; ++level_) {
    const ClassId first = static_cast<ClassId>(classes_.size());
    if (level_ > 1) foresee_memory();
    first_members_.push_back(members_.size());
    ended_ = false;
    applications();
    if (ended_) {  // an unfinished level is not used
      members_.resize(first_members_.back());
      complete_ = false;
      break;
    }
    levels_ = level_;
    sort_by_type(first, level_);
  }
  block_ = {};
}

void Enumeration::sort_by_type(ClassId first, std::size_t level) {
  auto& types = by_level_[level];
  for (ClassId c = first; c < classes_.size(); ++c) {
    if (classes_[c].zero) continue;
    types.resize(std::max<std::size_t>(types.size(), classes_[c].fingerprint.type + 1));
    types[classes_[c].fingerprint.type].push_back(c);
  }
}

void Enumeration::prepare_weights() {
  const std::size_t most = forms_.configuration().weight_operators;
  by_level_.resize(std::max(by_level_.size(), most + 1));
  for (std::vector<ClassId>& list : by_level_[0])
    std::erase_if(list, [&](ClassId c) { return !weights_only(classes_[c].support); });
  preparing_ = true;
  for (level_ = 1; level_ <= most && !ended_; ++level_) {
    const ClassId first = static_cast<ClassId>(classes_.size());
    applications();
    sort_by_type(first, level_);
  }
  preparing_ = false;
  complete_ = !ended_;
  by_level_.assign(options_.operators + 1, {});
  for (ClassId c = 0; c < classes_.size(); ++c) {
    classes_[c].operators = 0;
    classes_[c].cost = 0;
    tokens_[c] = {Tokens{}};
  }
  sort_by_type(0, 0);
}

void Enumeration::last_level(const Take& take) {
  level_ = options_.operators;
  take_ = &take;
  ended_ = false;
  applications();
  take_ = nullptr;
  block_ = {};
}

void Enumeration::flush() {
  if (block_.pending.empty()) return;
  block_.results = 0;
  if (take_) {
    ended_ = ended_ || !(*take_)(block_.pending);
    block_.pending.clear();
    return;
  }
  evaluate_block();
  std::size_t result = 0;
  const Residue* elements = block_.elements.data();
  for (std::size_t i = 0; i < block_.pending.size(); ++i) {
    const Application& application = block_.pending[i];
    const Form& form = forms_.form(application.form);
    if (block_.valid[i]) {
      const std::uint32_t support = support_of(application), token = next_token_++;
      for (std::uint32_t o = 0; o < form.outputs.size(); ++o)
        insert(application, o, block_.fingerprints[result + o], elements + form.output_offsets[o], token, support);
    }
    elements += form.results, result += form.outputs.size();
  }
  block_.pending.clear();
  check_memory();
  if (options_.progress) options_.progress(level_, members_.size());
  if (options_.stop.stop_requested()) ended_ = true;
}

void Enumeration::evaluate_block() {
  const std::size_t count = block_.pending.size();
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
  parallel(options_.threads, count, 256, [&](std::size_t begin, std::size_t end, std::size_t) {
    Forms::Scratch scratch;
    for (std::size_t i = begin; i < end; ++i) {
      const Form& form = forms_.form(block_.pending[i].form);
      Residue* result = block_.elements.data() + first[i];
      block_.valid[i] = evaluate(block_.pending[i], scratch, result);
      for (std::size_t o = 0; o < form.outputs.size(); ++o)
        block_.fingerprints[outputs[i] + o] =
            fingerprint(form.outputs[o], {result + form.output_offsets[o], forms_.type(form.outputs[o]).elements});
    }
  });
}

bool Enumeration::evaluate(const Application& application, Forms::Scratch& scratch, Residue* results) const {
  const Form& form = forms_.form(application.form);
  const Residue* operands[3];
  for (std::size_t k = 0; k < form.operands.size(); ++k) operands[k] = elements_[application.operands[k]].data();
  return forms_.evaluate(form, {operands, form.operands.size()}, options_.key, scratch, results);
}

double Enumeration::cost_of(const Application& application) const {
  double cost = forms_.form(application.form).cost;
  const std::span<const ClassId> operands = operands_of(application);
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(k), operands[k]) ==
        operands.begin() + static_cast<std::ptrdiff_t>(k))
      cost += classes_[operands[k]].cost;
  return cost;
}

void Enumeration::insert(const Application& application, std::uint32_t output, const Fingerprint& f, const Residue* elements,
                         std::uint32_t token, std::uint32_t support) {
  ClassId& place = table_[slot(f)];
  const bool fresh = place == kNoClass;
  const double cost = cost_of(application);
  const std::size_t count = forms_.type(f.type).elements;
  if (fresh) {
    place = static_cast<ClassId>(classes_.size());
    classes_.push_back({.fingerprint = f,
                        .operators = static_cast<std::uint8_t>(level_),
                        .support = support,
                        .best = static_cast<std::uint32_t>(members_.size()),
                        .cost = cost,
                        .zero = std::all_of(elements, elements + count, [](Residue e) { return e == 0; })});
    elements_.emplace_back(elements, elements + count);
    tokens_.emplace_back();
  }
  const ClassId result = place;
  if (!fresh && !std::equal(elements_[result].begin(), elements_[result].end(), elements))
    throw Error(ErrorCode::kUnsupported, "two values have one fingerprint", {}, "choose another seed");
  Class& c = classes_[result];
  if (!fresh && c.operators == level_ && cost < c.cost) {
    c.best = static_cast<std::uint32_t>(members_.size());
    c.cost = cost;
  }
  members_.push_back({application.form, output, application.operands, result});
  if (c.operators == level_) add_token(result, application, token);
  if (fresh) grow();
}

// The graphs of a member: every combination of its operands' graphs, with this application added.
void Enumeration::add_token(ClassId result, const Application& application, std::uint32_t token) {
  std::vector<Tokens> graphs{{token}};
  for (const ClassId operand : operands_of(application)) {
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
  require_memory(options_.memory, level_ == 0 ? "the program alone takes"
                                              : "the values of graphs of " + std::to_string(level_) + " operators take");
}

void Enumeration::foresee_memory() {
  const std::size_t before = members_.size() - first_members_.back();
  const double fresh = before == 0
                           ? 0
                           : static_cast<double>(std::count_if(classes_.begin(), classes_.end(),
                                                               [&](const Class& c) { return c.operators == level_ - 1; })) /
                                 static_cast<double>(before);
  // The share of new values falls from level to level, but hardly below a third of the last one.
  constexpr double kLeast = 1.0 / 3;
  double bytes = 0;
  const Take count = [&](std::span<const Application> applications) {
    for (const Application& a : applications) {
      const Form& form = forms_.form(a.form);
      bytes += static_cast<double>(form.outputs.size() * sizeof(Member)) +
               kLeast * fresh * static_cast<double>(form.results * sizeof(Residue) + form.outputs.size() * sizeof(Class));
    }
    return !options_.stop.stop_requested();
  };
  take_ = &count;
  applications();
  take_ = nullptr;
  ended_ = false;
  require_memory(options_.memory, "graphs of " + std::to_string(level_) + " operators take by estimate",
                 static_cast<std::size_t>(bytes));
}

void Enumeration::release_elements() {
  std::vector<std::vector<Residue>>().swap(elements_);
  std::vector<std::vector<Tokens>>().swap(tokens_);
  ::malloc_trim(0);
}

}  // namespace rewright::generator
