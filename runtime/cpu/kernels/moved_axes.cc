// Elements of one tensor whose position on each axis follows from that of the result on one axis: padding by reflection, edges
// or wrapping around. Some of the last axes become a list of runs of memory; it is the same wherever the others are.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "expressions/free_variables.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/cuts.h"
#include "runtime/cpu/tile/values_along.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

// Elements from + k * step for k < count.
struct Run {
  Count from, count, step;
};

// By position on the outer axes, and on the inner ones together.
struct Moves {
  std::vector<std::vector<Count>> outer;  // elements to add
  std::vector<Run> runs;
  Count inner = 1;                   // elements of the runs
  std::vector<std::int32_t> places;  // if not empty, in place of short runs: each element
};

template <class T>
void move(T* to, const T* from, const std::vector<Run>& runs) {
  constexpr Count kShort = 16;
  for (const Run& run : runs) {
    const T* const x = from + run.from;
    if (run.step == 1 && run.count > kShort)
      std::memcpy(to, x, static_cast<std::size_t>(run.count) * sizeof(T));
    else if (run.step == 0)
      std::fill_n(to, run.count, *x);
    else
      for (Count k = 0; k < run.count; ++k) to[k] = x[k * run.step];
    to += run.count;
  }
}

class MovedAxesKernel final : public Kernel {
 public:
  MovedAxesKernel(Moves moves, std::size_t width) : moves_(std::move(moves)), width_(width) {}

  void run(const Call& call) const override {
    if (width_ == 1) return run_as<std::uint8_t>(call);
    if (width_ == 2) return run_as<std::uint16_t>(call);
    if (width_ == 4) return run_as<std::uint32_t>(call);
    run_as<std::uint64_t>(call);
  }

 private:
  template <class T>
  void run_as(const Call& call) const {
    constexpr double kRuns = 0.2, kBytes = 16, kPlaces = 2;  // a nanosecond
    const auto* const x = reinterpret_cast<const T*>(call.inputs[0]);
    auto* const y = reinterpret_cast<T*>(call.outputs[0]);
    Count count = 1;
    for (const auto& axis : moves_.outer) count *= static_cast<Count>(axis.size());
    const bool has_places = !moves_.places.empty();
    const double once =
        has_places ? static_cast<double>(moves_.inner) / kPlaces
                   : static_cast<double>(moves_.runs.size()) / kRuns + static_cast<double>(moves_.inner) * sizeof(T) / kBytes;
    call.workers.for_each(count, static_cast<double>(count) * once, [&](Count n, int) {
      Count at = 0;
      for (std::size_t a = moves_.outer.size(), rest = static_cast<std::size_t>(n); a-- > 0;) {
        at += moves_.outer[a][rest % moves_.outer[a].size()];
        rest /= moves_.outer[a].size();
      }
      T* const to = y + n * moves_.inner;
      if (has_places)
        for (Count k = 0; k < moves_.inner; ++k) to[k] = x[at + moves_.places[static_cast<std::size_t>(k)]];
      else
        move(to, x + at, moves_.runs);
    });
  }

  Moves moves_;
  std::size_t width_;
};

// The axis of the result that an index depends on; -1: none. Null if there are several, or if it depends on anything else.
std::optional<int> axis_of(const Index& index, const Indices& position) {
  int found = -1;
  bool possible = true;
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kLoad || atom.kind == Atom::Kind::kPosition || atom.kind == Atom::Kind::kSymbol)
      possible = false;
    if (atom.kind != Atom::Kind::kBound) return;
    int axis = -1;
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* const here = position[a].as_atom(); here != nullptr && here->id == atom.id) axis = static_cast<int>(a);
    possible = possible && axis >= 0 && (found < 0 || found == axis);
    found = axis;
  });
  return possible ? std::optional(found) : std::nullopt;
}

// For each axis of the result, what its positions add to the element's address. Empty if the read is none of this kind.
std::vector<std::vector<Count>> addresses(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                          const Sizes& operand) {
  std::vector<std::vector<Count>> result;
  for (const std::int64_t size : sizes) result.emplace_back(static_cast<std::size_t>(size), 0);
  Count stride = 1;
  for (std::size_t a = operand.size(); a-- > 0; stride *= operand[a]) {
    const auto axis = axis_of(read.position[a], position);
    if (!axis) return {};
    const auto of_result = static_cast<std::size_t>(std::max(*axis, 0));
    const Index i = *axis < 0 ? Index::fresh("i") : position[of_result];
    const std::vector<Count> places =
        values_along<Count>(from_index(read.position[a]), i, static_cast<Count>(result[of_result].size()), DataType::kInt64);
    if (places.empty()) return {};
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k] < 0 || places[k] >= operand[a]) return {};
      result[of_result][k] += places[k] * stride;
    }
  }
  return result;
}

std::vector<Run> runs_of(const std::vector<Count>& places) {
  std::vector<Run> runs;
  for (std::size_t k = 0; k < places.size();) {
    Run run{places[k], 1, 1};
    if (k + 1 < places.size()) run.step = places[k + 1] - places[k];
    while (k + static_cast<std::size_t>(run.count) < places.size() &&
           places[k + static_cast<std::size_t>(run.count)] == run.from + run.count * run.step)
      ++run.count;
    k += static_cast<std::size_t>(run.count);
    runs.push_back(run);
  }
  return runs;
}

constexpr std::size_t kMostTogether = 1 << 14;  // elements of the runs
constexpr Count kMostPlaces = 1 << 20;          // of an axis: they are evaluated and kept

// May its positions become runs, which must at least be those of the last axis?
bool is_short(const Sizes& sizes) {
  return !sizes.empty() && sizes.back() <= static_cast<Count>(kMostTogether) &&
         std::all_of(sizes.begin(), sizes.end(), [](Count size) { return size <= kMostPlaces; });
}

Moves moves_of(std::vector<std::vector<Count>> axes) {
  constexpr Count kShortRuns = 8;
  std::vector<Count> places{0};
  while (!axes.empty() && places.size() * axes.back().size() <= kMostTogether) {
    std::vector<Count> more;
    more.reserve(places.size() * axes.back().size());
    for (const Count outer : axes.back())
      for (const Count inner : places) more.push_back(outer + inner);
    places = std::move(more);
    axes.pop_back();
  }
  Moves moves{std::move(axes), runs_of(places), static_cast<Count>(places.size()), {}};
  constexpr Count kMostPlace = std::numeric_limits<std::int32_t>::max();
  const bool fit = std::all_of(places.begin(), places.end(), [](Count place) { return place <= kMostPlace; });
  if (fit && moves.inner < kShortRuns * static_cast<Count>(moves.runs.size()))
    moves.places.assign(places.begin(), places.end());
  return moves;
}

bool is_plain(const Planner& planner, ValueId v) {
  const std::vector<Layout> layouts = planner.layouts(v);
  return layouts.empty() || std::any_of(layouts.begin(), layouts.end(), [](const Layout& l) { return l.plain(); });
}

}  // namespace

bool plan_moved_axes(Planner& planner, const Expression& e) {
  const ElementNode& read = *e.element;
  if (read.kind != ElementNode::Kind::kRead || read.zero_outside) return false;
  const ValueId operand = e.operands[static_cast<std::size_t>(read.operand)];
  const ValueInfo &x = planner.info(operand), &y = planner.info(e.result);
  if (x.type != y.type || element_count(y.sizes) == 0 || !is_short(y.sizes)) return false;
  if (const auto assigned = planner.assigned_layout(e.result); (assigned && !assigned->plain()) || !is_plain(planner, operand))
    return false;
  if (planning::read_strides(read, e.position, y.sizes, x.sizes) || splits_axes({e.element, e.position, y.sizes})) return false;
  auto axes = addresses(read, e.position, y.sizes, x.sizes);
  if (axes.empty()) return false;
  Moves moves = moves_of(std::move(axes));
  const int target = planner.add_value(e.result, kPlain);
  planner.add_step(std::make_unique<MovedAxesKernel>(std::move(moves), byte_size(y.type)), {planner.storage(operand, kPlain)},
                   {target});
  return true;
}

}  // namespace rewright::cpu
