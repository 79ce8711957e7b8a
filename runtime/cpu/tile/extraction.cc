#include "runtime/cpu/tile/extraction.h"

#include <algorithm>

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

constexpr std::int64_t kWorthRepeats = 8;
// Work other than statistics is worth a stage from so many operations and so many elements on.
constexpr int kWorthWork = 12, kMostWork = 1000;
constexpr std::int64_t kWorthStageElements = 2048;
constexpr int kSlow = 4, kLookUp = 12;

const Index& numbered_variable(Indices& known, const char* kind, std::size_t number) {
  while (known.size() <= number) known.push_back(Index::fresh(kind + std::to_string(known.size())));
  return known[number];
}

template <class F>
Element with_arguments(const Element& e, F change) {
  ElementNode node = *e;
  bool changed = false;
  for (Element& a : node.arguments) {
    Element other = change(a);
    changed = changed || other != a;
    a = std::move(other);
  }
  return changed ? std::make_shared<const ElementNode>(std::move(node)) : e;
}

bool is_slow(const ElementNode& e) { return e.kind == Kind::kDivide || e.kind == Kind::kApply; }

// Operations of the node alone, by their time.
int own_work(const ElementNode& e) {
  if (is_slow(e)) return kSlow;
  return e.arguments.empty() || e.kind == Kind::kConvert ? 0 : 1;
}

// Finds what may be stored, with the work of each.
class StorableFinder {
 public:
  StorableFinder(const Element& e, const Indices& position, const Sizes& sizes) : numbering_(e), sizes_(sizes) {
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = position[a].as_atom()) axis_of_[atom->id] = a;
    visit(e, false);
  }
  std::vector<Storable> found;

 private:
  static bool guards(const ElementNode& e) {
    return e.kind == Kind::kChoose || (e.kind == Kind::kReduce && !e.conditions.empty());
  }

  // The work of an element, counting the steps of reductions.
  int visit(const Element& e, bool guarded) {
    if (const auto known = work_.find({e.get(), guarded}); known != work_.end()) return known->second;
    const bool inside = guarded || guards(*e);
    std::int64_t work = own_work(*e);
    for (const Element& argument : e->arguments) work += visit(argument, inside);
    for_each_looked_up(*e, [&](const Element& looked_up) { work += kLookUp + visit(looked_up, guarded); });
    if (e->kind == Kind::kReduce && e->bound.is_constant()) work *= std::max<std::int64_t>(1, e->bound.value());
    const int result = static_cast<int>(std::min<std::int64_t>(work, kMostWork));
    work_[{e.get(), guarded}] = result;
    if (!guarded && result > 0 && e->scalar != Scalar::kBoolean) add(e, result);
    return result;
  }

  void add(const Element& e, int work) {
    std::set<std::size_t> axes;
    for (const std::uint64_t id : free_.of(*e)) {
      const auto axis = axis_of_.find(id);
      if (axis == axis_of_.end()) return;
      axes.insert(axis->second);
    }
    std::int64_t repeats = 1;
    for (std::size_t a = 0; a < sizes_.size(); ++a)
      if (!axes.contains(a)) repeats *= sizes_[a];
    found.push_back({numbering_.of(e), repeats, work});
  }

  Numbering numbering_;
  const Sizes& sizes_;
  std::map<std::uint64_t, std::size_t> axis_of_;
  FreeVariables free_;
  std::map<std::pair<const ElementNode*, bool>, int> work_;  // of a node, behind a guard or not
};

}  // namespace

void for_each_looked_up(const ElementNode& node, const std::function<void(const Element&)>& visit) {
  for (const Index& index : node.position)
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kLoad) visit(atom.element);
    });
}

void Numbering::add(const Element& e) {
  if (numbers_.contains(e.get())) return;
  for (const Element& argument : e->arguments) add(argument);
  for_each_looked_up(*e, [&](const Element& looked_up) { add(looked_up); });
  numbers_.emplace(e.get(), static_cast<int>(numbers_.size()));
}

std::vector<Storable> storable(const Element& e, const Indices& position, const Sizes& sizes) {
  return StorableFinder(e, position, sizes).found;
}

namespace {

// Counts operations, and a look up as more than any stage needs. Gives up behind so many nodes.
class ShortLook {
 public:
  bool finds_little_work(const Element& e) {
    visit(e);
    return nodes_ <= kMostNodes && work_ < kWorthWork;
  }

 private:
  static constexpr int kMostNodes = 40;
  void visit(const Element& e) {
    if (++nodes_ > kMostNodes) return;
    work_ += e->kind == Kind::kReduce ? kWorthWork : own_work(*e);
    for_each_looked_up(*e, [&](const Element&) { work_ += kWorthWork; });
    for (const Element& argument : e->arguments) visit(argument);
  }
  int nodes_ = 0, work_ = 0;
};

}  // namespace

bool has_no_stages(const Element& e) { return ShortLook().finds_little_work(e); }

Element NormalForms::of(const Element& e, const Indices& position) {
  names_.clear();
  left_ = most_nodes_;
  for (std::size_t a = 0; a < position.size(); ++a)
    if (const Atom* atom = position[a].as_atom()) names_[atom->id] = numbered_variable(axes_, "axis", a);
  return renamed(e, 0);
}

Element NormalForms::renamed(const Element& e, std::size_t depth) {
  if (--left_ < 0) return nullptr;
  ElementNode node = *e;
  std::size_t inner = depth;
  if (e->kind == Kind::kReduce) {
    const Atom* const atom = e->index.as_atom();
    if (atom == nullptr) return nullptr;
    names_[atom->id] = numbered_variable(bound_, "bound", depth);
    node.index = numbered_variable(bound_, "bound", depth);
    ++inner;
  }
  const auto rename = [&](Index& index) {
    index = substitute(index, [&](const Atom& atom) -> std::optional<Index> {
      const auto found = names_.find(atom.id);
      if (atom.kind != Atom::Kind::kBound || found == names_.end()) return std::nullopt;
      return found->second;
    });
  };
  for (Index& index : node.position) rename(index);
  if (e->kind == Kind::kFromIndex) rename(node.index);
  if (e->kind == Kind::kReduce) rename(node.bound);
  for (Condition& c : node.conditions) {
    rename(c.left);
    rename(c.right);
  }
  for (Element& argument : node.arguments) {
    argument = renamed(argument, inner);
    if (argument == nullptr) return nullptr;
  }
  return std::make_shared<const ElementNode>(std::move(node));
}

Element Extraction::take(const Element& e, const Indices& position, const Sizes& sizes, const std::set<int>* chosen) {
  position_ = position;
  sizes_ = sizes;
  axis_of_.clear();
  for (std::size_t a = 0; a < position.size(); ++a)
    if (const Atom* atom = position[a].as_atom()) axis_of_[atom->id] = a;
  taken_.clear();
  hoisted_.clear();
  origin_.clear();
  kept_.push_back(e);
  numbering_.emplace(e);
  before_ = stages.size();
  reused.clear();
  return chosen != nullptr ? take_chosen(e, *chosen) : hoist(take_reductions(e));
}

int Extraction::number_of(const Element& e) const {
  const auto found = origin_.find(e);
  return found != origin_.end() ? found->second : numbering_->of(e);
}

Element Extraction::take_reductions(const Element& e) {
  if (const auto found = taken_.find(e); found != taken_.end()) return found->second;
  Element result = with_arguments(e, [&](const Element& a) { return take_reductions(a); });
  if (result != e) origin_.try_emplace(result, numbering_->of(e));
  if (e->kind == Kind::kReduce) result = take_out(result, 2, numbering_->of(e));
  taken_[e] = result;
  return result;
}

Element Extraction::hoist(const Element& e) {
  if (const auto found = hoisted_.find(e); found != hoisted_.end()) return found->second;
  Element result = e;
  const Contents& contents = contents_of(e);
  const bool follows = e->scalar == Scalar::kReal && contents.stages && contents.expensive;
  const bool is_work = e->scalar != Scalar::kBoolean && contents.reads && contents.work >= kWorthWork;
  if (follows || (is_work && element_count(sizes_) >= kWorthStageElements)) result = take_out(e, kWorthRepeats, number_of(e));
  // An element that a guard protects stays behind it.
  const auto change = [&](const Element& a) { return hoist(a); };
  if (result == e && e->kind != Kind::kChoose && e->kind != Kind::kReduce)
    result = with_positions(with_arguments(e, change), change);
  hoisted_[e] = result;
  return result;
}

Element Extraction::take_chosen(const Element& e, const std::set<int>& chosen) {
  if (const auto found = taken_.find(e); found != taken_.end()) return found->second;
  const auto change = [&](const Element& a) { return take_chosen(a, chosen); };
  Element result = with_positions(with_arguments(e, change), change);
  if (const int number = numbering_->of(e); chosen.contains(number)) result = take_out(result, 1, number);
  taken_[e] = result;
  return result;
}

template <class Change>
Element Extraction::with_positions(const Element& e, const Change& change) {
  if (e->kind != Kind::kRead) return e;
  bool changes = false;
  for_each_looked_up(*e, [&](const Element& looked_up) {
    kept_.push_back(looked_up);
    changes = changes || change(looked_up) != looked_up;
  });
  if (!changes) return e;
  ElementNode node = *e;
  for (Index& index : node.position)
    index = substitute(index, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kLoad) return std::nullopt;
      return Index::load(change(atom.element));
    });
  return std::make_shared<const ElementNode>(std::move(node));
}

const Extraction::Contents& Extraction::contents_of(const Element& e) {
  const auto [entry, is_new] = contents_.try_emplace(e);
  if (!is_new) return entry->second;
  Contents result{e->kind == Kind::kRead && e->operand >= values_, is_slow(*e) || e->kind == Kind::kSelect,
                  e->kind == Kind::kRead, own_work(*e)};
  const auto add = [&](const Element& a) {
    const Contents& inner = contents_of(a);
    result.stages = result.stages || inner.stages;
    result.expensive = result.expensive || inner.expensive;
    result.reads = result.reads || inner.reads;
    result.work = std::min(kMostWork, result.work + inner.work);
  };
  for (const Element& a : e->arguments) add(a);
  if (e->kind == Kind::kRead)
    for_each_looked_up(*e, [&](const Element& looked_up) {
      result.work += kLookUp;
      add(looked_up);
    });
  return contents_[e] = result;
}

Element Extraction::take_out(const Element& e, std::int64_t least_repeats, int expression) {
  std::set<std::size_t> axes;
  for (const std::uint64_t id : free_.of(*e)) {
    const auto axis = axis_of_.find(id);
    if (axis == axis_of_.end()) return e;  // depends on an enclosing reduction
    axes.insert(axis->second);
  }
  kept_.push_back(e);
  Element normal = shares_ ? normal_forms_.of(e, position_) : nullptr;
  if (const int found = find(normal, axes); found >= 0) {
    shared = shared || static_cast<std::size_t>(found) < before_;
    reused.push_back(expression);
    return read(found);
  }
  std::int64_t repeats = 1;
  for (std::size_t a = 0; a < sizes_.size(); ++a)
    if (!axes.contains(a)) repeats *= sizes_[a];
  if (repeats < least_repeats) return e;
  // The result keeps the axes, with size 1 where it does not depend on them.
  Stage stage{e, position_, {}, axes, std::move(normal), expression};
  for (std::size_t a = 0; a < sizes_.size(); ++a) stage.output.sizes.push_back(axes.contains(a) ? sizes_[a] : 1);
  const bool in_double =
      std::any_of(operands_.begin(), operands_.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
  stage.output.type = e->scalar == Scalar::kReal ? (in_double ? DataType::kDouble : DataType::kFloat) : DataType::kInt64;
  operands_.push_back(stage.output);
  stages.push_back(std::move(stage));
  return read(static_cast<int>(stages.size()) - 1);
}

int Extraction::find(const Element& normal, const std::set<std::size_t>& axes) const {
  for (std::size_t s = 0; s < stages.size() && normal != nullptr; ++s) {
    const Stage& stage = stages[s];
    if (stage.normal == nullptr || stage.axes != axes || compare(stage.normal, normal) != 0) continue;
    if (std::all_of(axes.begin(), axes.end(), [&](std::size_t a) { return stage.output.sizes[a] == sizes_[a]; }))
      return static_cast<int>(s);
  }
  return -1;
}

Element Extraction::read(int number) const {
  const Stage& stage = stages[static_cast<std::size_t>(number)];
  const Operand operand(given_ + number, {stage.output.type, to_indices(stage.output.sizes)});
  Indices at;
  for (std::size_t a = 0; a < stage.output.sizes.size(); ++a) at.push_back(stage.axes.contains(a) ? position_[a] : Index(0));
  return operand(at);
}

}  // namespace rewright::cpu
