#include "runtime/cpu/tile/loop_space.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/hash_mix.h"
#include "runtime/cpu/tile/arrangement.h"
#include "runtime/planning/traits.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;
using LoopPass = LoopProgram::Pass;
using Stored = LoopProgram::Stored;

constexpr std::int64_t kTileSizes[] = {256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr std::int64_t kBands[] = {1, 4, 16, 64};
constexpr int kWorthStoring = 4;         // operations
constexpr int kMostNamedNodes = 100000;  // of a group's name

// Operations of an element: each node once, as often as the reductions around it have steps.
double operations_of(const Element& e, std::map<const ElementNode*, double>& known) {
  if (const auto found = known.find(e.get()); found != known.end()) return 0;
  known[e.get()] = 0;
  double count = e->arguments.empty() ? 0 : 1;
  for (const Element& argument : e->arguments) count += operations_of(argument, known);
  for_each_looked_up(*e, [&](const Element& looked_up) { count += operations_of(looked_up, known); });
  if (e->kind == Kind::kReduce && e->bound.is_constant())
    count *= static_cast<double>(std::max<std::int64_t>(1, e->bound.value()));
  return count;
}

// Bytes of each operand that a tensor certainly reads: as many elements as its positions have combinations of variables that
// stand alone along an axis. Reads that a guard may keep from being done count as none.
class LeastReads {
 public:
  explicit LeastReads(const GroupTensor& t) {
    for (std::size_t a = 0; a < t.position.size(); ++a) add_variable(t.position[a], t.output.sizes[a]);
    visit(t.element);
  }
  // By operand: elements.
  std::map<int, double> elements;

 private:
  void add_variable(const Index& variable, std::int64_t extent) {
    if (const Atom* const atom = variable.as_atom()) extents_[atom->id] = static_cast<double>(extent);
  }

  void visit(const Element& e) {
    if (!seen_.insert(e.get()).second || e->kind == Kind::kChoose) return;
    if (e->kind == Kind::kReduce) {
      if (!e->conditions.empty() || !e->bound.is_constant()) return;
      add_variable(e->index, e->bound.value());
    }
    if (e->kind == Kind::kRead && !e->zero_outside) {
      double count = 1;
      std::set<std::uint64_t> alone;
      for (const Index& index : e->position) {
        const Atom* const atom = index.as_atom();
        const auto extent = atom != nullptr ? extents_.find(atom->id) : extents_.end();
        if (extent != extents_.end() && alone.insert(atom->id).second) count *= extent->second;
      }
      double& most = elements[e->operand];
      most = std::max(most, count);
    }
    for (const Element& argument : e->arguments) visit(argument);
  }

  std::map<std::uint64_t, double> extents_;
  std::set<const ElementNode*> seen_;
};

// Makes the neighbours of a program.
class NeighbourMaker {
 public:
  NeighbourMaker(const LoopProblem& problem, const LoopProgram& program) : problem_(problem), program_(program) {}

  std::vector<LoopProgram> make() {
    for (std::size_t p = 0; p < program_.passes.size(); ++p) {
      change_tensors(p);
      change_bands(p);
      divide(p);
      join(p);
    }
    store_more();
    store_less();
    std::vector<LoopProgram> distinct;
    std::set<std::string> texts{to_string(program_)};
    for (LoopProgram& made : made_)
      if (texts.insert(to_string(made)).second) distinct.push_back(std::move(made));
    return distinct;
  }

 private:
  template <class Change>
  void add(const Change& change) {
    LoopProgram other = program_;
    change(other);
    std::erase_if(other.passes, [](const LoopPass& pass) { return pass.stored.empty(); });
    made_.push_back(std::move(other));
  }

  void change_tensors(std::size_t p) {
    for (std::size_t s = 0; s < program_.passes[p].stored.size(); ++s) {
      const auto with = [&](const auto& change) { add([&](LoopProgram& other) { change(other.passes[p].stored[s].loops); }); };
      for (const std::int64_t tile : kTileSizes) with([&](TileLoops& loops) { loops.tile = tile; });
      for (const auto rows : {TileLoops::Rows::kLast, TileLoops::Rows::kBefore})
        with([&](TileLoops& loops) { loops.rows = rows; });
      if (!reduces(program_.passes[p].stored[s])) continue;
      for (const auto reduce : {TileLoops::Reduce::kAlong, TileLoops::Reduce::kAround})
        with([&](TileLoops& loops) { loops.reduce = reduce; });
    }
  }

  bool reduces(const Stored& stored) const {
    return planning::has_reduction(problem_.values[static_cast<std::size_t>(stored.value)].element);
  }

  std::size_t rank_of(const LoopPass& pass) const {
    std::size_t rank = 0;
    for (const Stored& s : pass.stored)
      rank = std::max(rank, problem_.values[static_cast<std::size_t>(s.value)].position.size());
    return rank;
  }

  // Positions of the axis that is cut, in the tensor that has most.
  std::int64_t extent_of(const LoopPass& pass) const {
    std::int64_t extent = 1;
    for (const Stored& s : pass.stored) {
      const Sizes& sizes = problem_.values[static_cast<std::size_t>(s.value)].output.sizes;
      if (static_cast<std::size_t>(pass.axis) < sizes.size())
        extent = std::max(extent, sizes[static_cast<std::size_t>(pass.axis)]);
    }
    return extent;
  }

  void change_bands(std::size_t p) {
    const LoopPass& pass = program_.passes[p];
    if (pass.axis < 0) return;
    const std::int64_t extent = extent_of(pass);
    for (const std::int64_t more : {2, 4})
      if (pass.band < extent) add([&](LoopProgram& other) { other.passes[p].band *= more; });
    for (const std::int64_t fewer : {2, 4})
      if (pass.band >= fewer) add([&](LoopProgram& other) { other.passes[p].band /= fewer; });
    for (int axis = 0; axis < static_cast<int>(rank_of(pass)); ++axis)
      for (const std::int64_t band : kBands)
        if (axis != pass.axis)
          add([&](LoopProgram& other) {
            other.passes[p].axis = axis;
            other.passes[p].band = band;
          });
  }

  static void append(std::vector<LoopPass>& passes, std::span<const Stored> stored, int axis, std::int64_t band) {
    if (axis >= 0 && stored.size() > 1) {
      passes.push_back({axis, band, {stored.begin(), stored.end()}});
      return;
    }
    for (const Stored& s : stored) passes.push_back({-1, 0, {s}});
  }

  void divide(std::size_t p) {
    const LoopPass pass = program_.passes[p];
    if (pass.axis < 0) return;
    const std::span<const Stored> all = pass.stored;
    const auto replace = [&](const auto& make_passes) {
      add([&](LoopProgram& other) {
        std::vector<LoopPass> passes;
        make_passes(passes);
        other.passes.erase(other.passes.begin() + static_cast<std::ptrdiff_t>(p));
        other.passes.insert(other.passes.begin() + static_cast<std::ptrdiff_t>(p), passes.begin(), passes.end());
      });
    };
    replace([&](std::vector<LoopPass>& passes) { append(passes, all, -1, 0); });
    for (std::size_t at = 1; at < all.size(); ++at)
      replace([&](std::vector<LoopPass>& passes) {
        append(passes, all.first(at), pass.axis, pass.band);
        append(passes, all.subspan(at), pass.axis, pass.band);
      });
  }

  void join(std::size_t p) {
    if (p + 1 == program_.passes.size()) return;
    const LoopPass &first = program_.passes[p], &second = program_.passes[p + 1];
    LoopPass both = first;
    both.stored.insert(both.stored.end(), second.stored.begin(), second.stored.end());
    const auto replace = [&](int axis, std::int64_t band, std::size_t count) {
      add([&](LoopProgram& other) {
        LoopPass joined = both;
        for (std::size_t more = p + 2; more < p + count; ++more)
          joined.stored.insert(joined.stored.end(), program_.passes[more].stored.begin(), program_.passes[more].stored.end());
        joined.axis = axis;
        joined.band = band;
        const auto at = other.passes.begin() + static_cast<std::ptrdiff_t>(p);
        other.passes.erase(at, at + static_cast<std::ptrdiff_t>(count));
        other.passes.insert(other.passes.begin() + static_cast<std::ptrdiff_t>(p), std::move(joined));
      });
    };
    const std::size_t all = program_.passes.size() - p;
    for (const LoopPass* pass : {&first, &second})
      if (pass->axis >= 0) replace(pass->axis, pass->band, 2);
    if (first.axis >= 0 || second.axis >= 0) return;
    for (int axis = 0; axis < static_cast<int>(rank_of(both)); ++axis)
      for (const std::int64_t band : kBands) {
        replace(axis, band, 2);
        if (all > 2) replace(axis, band, all);
      }
  }

  // The pass that stores a value, and the position in it.
  std::optional<std::pair<std::size_t, std::size_t>> place_of(int value, int expression) const {
    for (std::size_t p = 0; p < program_.passes.size(); ++p)
      for (std::size_t s = 0; s < program_.passes[p].stored.size(); ++s) {
        const Stored& stored = program_.passes[p].stored[s];
        if (stored.value == value && stored.expression == expression) return std::pair(p, s);
      }
    return std::nullopt;
  }

  void store_more() {
    const auto parts = storable_parts(problem_.values, problem_.operands, program_);
    for (std::size_t v = 0; v < parts.size(); ++v) {
      const auto at = place_of(static_cast<int>(v), LoopProgram::kWhole);
      if (!at) {
        store_value(static_cast<int>(v));
        continue;
      }
      for (const Storable& part : parts[v]) {
        if (part.work < kWorthStoring || part.repeats < 2 || place_of(static_cast<int>(v), part.expression)) continue;
        const Stored stored{static_cast<int>(v), part.expression, {}};
        add([&](LoopProgram& other) {  // in the same pass
          LoopPass& pass = other.passes[at->first];
          if (pass.axis < 0)
            other.passes.insert(other.passes.begin() + static_cast<std::ptrdiff_t>(at->first), LoopPass{-1, 0, {stored}});
          else
            pass.stored.insert(pass.stored.begin() + static_cast<std::ptrdiff_t>(first_of(pass, stored.value)), stored);
        });
        if (program_.passes[at->first].axis < 0) continue;
        add([&](LoopProgram& other) {  // before it
          other.passes.insert(other.passes.begin() + static_cast<std::ptrdiff_t>(at->first), LoopPass{-1, 0, {stored}});
        });
      }
    }
  }

  static std::size_t first_of(const LoopPass& pass, int value) {
    return static_cast<std::size_t>(
        std::find_if(pass.stored.begin(), pass.stored.end(), [&](const Stored& s) { return s.value == value; }) -
        pass.stored.begin());
  }

  // Numbers of sub-expressions depend on what is inlined, so those of later values go.
  static void forget_parts_from(LoopProgram& program, int value) {
    for (LoopPass& pass : program.passes)
      std::erase_if(pass.stored, [&](const Stored& s) { return s.value >= value && s.expression != LoopProgram::kWhole; });
  }

  void store_value(int value) {
    add([&](LoopProgram& other) {
      forget_parts_from(other, value);
      for (LoopPass& pass : other.passes)
        for (std::size_t s = 0; s < pass.stored.size(); ++s)
          if (pass.stored[s].value > value) {
            if (pass.axis >= 0) {
              pass.stored.insert(pass.stored.begin() + static_cast<std::ptrdiff_t>(s), Stored{value, LoopProgram::kWhole, {}});
            } else {
              const auto at = other.passes.begin() + (&pass - other.passes.data());
              other.passes.insert(at, LoopPass{-1, 0, {Stored{value, LoopProgram::kWhole, {}}}});
            }
            return;
          }
    });
  }

  void store_less() {
    for (std::size_t p = 0; p < program_.passes.size(); ++p)
      for (std::size_t s = 0; s < program_.passes[p].stored.size(); ++s) {
        const Stored stored = program_.passes[p].stored[s];
        if (stored.expression == LoopProgram::kWhole && problem_.values[static_cast<std::size_t>(stored.value)].is_result)
          continue;
        add([&](LoopProgram& other) {
          LoopPass& pass = other.passes[p];
          pass.stored.erase(pass.stored.begin() + static_cast<std::ptrdiff_t>(s));
          if (pass.axis >= 0 && pass.stored.size() == 1) pass = {-1, 0, pass.stored};
          if (stored.expression == LoopProgram::kWhole) forget_parts_from(other, stored.value);
        });
      }
  }

  const LoopProblem& problem_;
  const LoopProgram& program_;
  std::vector<LoopProgram> made_;
};

// Adds up what a program's passes do.
class CostSum {
 public:
  CostSum(const LoopProblem& problem, const GroupTensors& group, const LoopRates& rates)
      : problem_(problem), group_(group), rates_(rates) {}

  LoopCost of(const LoopProgram& program) {
    for (const LoopPass& pass : program.passes) add(pass);
    for (const auto& [operand, bytes] : outside_read_) outside_ += bytes;
    const double threads = std::max(1, problem_.options.threads);
    LoopCost cost;
    const double computing = operations_ / rates_.operations;
    cost.nanoseconds = kSlower * computing / threads + cache_ / rates_.cache_bytes / threads + memory_ / rates_.memory_bytes +
                       calls_ * kCall / threads + passes_ * kPass;
    const double rate = outside_ > kCache ? rates_.memory_bytes : rates_.cache_bytes * threads;
    cost.least = std::max(computing / threads, outside_ / rate);
    return cost;
  }

 private:
  static constexpr double kCache = 512 << 10;        // bytes that are still in the caches when they are read
  static constexpr double kCall = 400, kPass = 500;  // nanoseconds to begin a tensor's part of a band, and a pass
  static constexpr double kSlower = 4;               // loops load and store each operand

  const GroupTensor* tensor(const Stored& stored) const {
    for (const GroupTensor& t : group_.tensors)
      if (t.stored.value == stored.value && t.stored.expression == stored.expression) return &t;
    return nullptr;
  }

  double operand_bytes(int operand) const {
    return static_cast<double>(bytes_of(group_.operands[static_cast<std::size_t>(operand)]));
  }
  void move(double bytes, bool near) { (near || bytes <= kCache ? cache_ : memory_) += bytes; }

  void add(const LoopPass& pass) {
    std::set<int> here;  // numbers of what the pass has touched
    for (const Stored& stored : pass.stored) {
      const GroupTensor* const t = tensor(stored);
      if (t == nullptr) continue;
      const double elements = static_cast<double>(element_count(t->output.sizes));
      std::map<const ElementNode*, double> known;
      operations_ += elements * operations_of(t->element, known);
      for_each_read(t->element, [&](const ElementNode& read) {
        move(operand_bytes(read.operand), pass.axis >= 0 && here.contains(read.operand));
        here.insert(read.operand);
      });
      for (const auto& [operand, count] : LeastReads(*t).elements) {
        if (operand >= group_.given) continue;
        double& most = outside_read_[operand];
        const double bytes = count * static_cast<double>(byte_size(group_.operands[static_cast<std::size_t>(operand)].type));
        most = std::max(most, std::min(bytes, operand_bytes(operand)));
      }
      const auto bytes = static_cast<double>(bytes_of(t->output));
      move(bytes, pass.axis >= 0 && !t->is_result);
      if (t->is_result) outside_ += bytes;
      here.insert(t->number);
      if (pass.axis < 0) continue;
      double bands = 1;
      for (int a = 0; a < pass.axis && a < static_cast<int>(t->output.sizes.size()); ++a)
        bands *= static_cast<double>(t->output.sizes[static_cast<std::size_t>(a)]);
      if (pass.axis < static_cast<int>(t->output.sizes.size()))
        bands *= std::max(
            1.0, static_cast<double>(t->output.sizes[static_cast<std::size_t>(pass.axis)]) / static_cast<double>(pass.band));
      calls_ += bands;
    }
    passes_ += 1;
  }

  const LoopProblem& problem_;
  const GroupTensors& group_;
  const LoopRates& rates_;
  double operations_ = 0, cache_ = 0, memory_ = 0, outside_ = 0, calls_ = 0, passes_ = 0;
  std::map<int, double> outside_read_;  // bytes by operand
};

}  // namespace

std::string LoopProblem::name() const {
  std::vector<std::string> names;
  std::string text;
  const auto add = [&](const TileOperand& o) {
    text += "; " + std::to_string(static_cast<int>(o.type)) + " " + to_string(to_indices(o.sizes)) + " " +
            std::to_string(o.layout.channels);
  };
  const int known = static_cast<int>(operands.size() + values.size());
  for (const char* kind : {"x", "zero outside of x"})
    for (int n = 0; n < known; ++n) names.push_back(kind + std::to_string(n));
  NormalForms normal_forms(kMostNamedNodes);
  const auto named = [&](const GroupValue& v) {
    const Element marked = rewrite(v.element,
                                   [&](const ElementNode& read) -> Element {
                                     if (!read.zero_outside) return nullptr;
                                     ElementNode other = read;
                                     other.operand += known;
                                     return std::make_shared<const ElementNode>(std::move(other));
                                   },
                                   {});
    const Element normal = normal_forms.of(marked, v.position);
    return to_string(normal != nullptr ? normal : marked, names);
  };
  for (const TileOperand& o : operands) add(o);
  for (const GroupValue& v : values) {
    add(v.output);
    text += (v.is_result ? " = " : " : ") + named(v);
  }
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash_text(text)));
  return "loops of " + std::to_string(values.size()) + (values.size() == 1 ? " value " : " values ") +
         to_string(to_indices(values.back().output.sizes)) + " " + hash;
}

LoopProgram each_value_whole(const LoopProblem& problem) {
  LoopProgram loops;
  for (std::size_t v = 0; v < problem.values.size(); ++v)
    loops.passes.push_back({-1, 0, {{static_cast<int>(v), LoopProgram::kWhole, {}}}});
  return loops;
}

std::vector<LoopProgram> neighbours(const LoopProblem& problem, const LoopProgram& program) {
  return NeighbourMaker(problem, program).make();
}

std::optional<LoopCost> cost_of(const LoopProblem& problem, const LoopProgram& program, const LoopRates& rates) {
  const auto group = tensors_of(problem.values, problem.operands, program);
  if (!group) return std::nullopt;
  return CostSum(problem, *group, rates).of(program);
}

}  // namespace rewright::cpu
