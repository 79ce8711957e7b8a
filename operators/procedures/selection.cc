// Selections with result sizes that depend on elements.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

Tensor int64s(Sizes sizes, const std::vector<std::int64_t>& values) {
  return Tensor::from_integers(DataType::kInt64, std::move(sizes), values);
}

// Calls f(position) for each element that is not 0. T: an unsigned number of an element's width.
template <class T, class F>
void for_each_nonzero(const Tensor& x, const F& f) {
  const auto* const bits = reinterpret_cast<const T*>(x.bytes().data());
  const bool has_zeros_of_both_signs = is_real(x.type());
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (static_cast<T>(has_zeros_of_both_signs ? bits[i] << 1 : bits[i]) != 0) f(i);
}
template <class F>
void for_each_nonzero(const Tensor& x, const F& f) {
  switch (packed_bits(x.type()) < 16 && is_real(x.type()) ? 0 : packed_bits(x.type())) {
    case 8:
      return for_each_nonzero<std::uint8_t>(x, f);
    case 16:
      return for_each_nonzero<std::uint16_t>(x, f);
    case 32:
      return for_each_nonzero<std::uint32_t>(x, f);
    case 64:
      return for_each_nonzero<std::uint64_t>(x, f);
    default: {
      const std::vector<double> values = x.reals();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != 0) f(static_cast<std::int64_t>(i));
    }
  }
}

// The positions of the elements that are not 0, one column each.
void run_nonzero(Call& call) {
  const Tensor& x = call.tensor(0);
  std::vector<std::int64_t> found;
  found.reserve(static_cast<std::size_t>(x.size()) / 2);
  for_each_nonzero(x, [&](std::int64_t i) { found.push_back(i); });
  const auto rank = static_cast<std::int64_t>(x.sizes().size()), count = static_cast<std::int64_t>(found.size());
  Tensor positions(DataType::kInt64, {rank, count});
  std::int64_t* at = positions.mutable_data<std::int64_t>().data() + rank * count;
  // From the last axis on: what is left of a position is that among the axes in front.
  for (std::int64_t axis = rank; axis-- > 0;) {
    at -= count;
    const std::int64_t size = x.sizes()[static_cast<std::size_t>(axis)];
    if (axis == 0) {
      std::copy(found.begin(), found.end(), at);
      break;
    }
    std::int64_t before = 0, first = 0;  // of the previous element: its position in front, and where its row begins
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t& i = found[static_cast<std::size_t>(n)];
      if (i - first >= size) before = i / size, first = before * size;
      at[n] = i - first;
      i = before;
    }
  }
  call.give(std::move(positions));
}

void run_compress(Call& call) {
  Tensor x = call.tensor(0);
  std::size_t axis = 0;
  if (call.has("axis"))
    axis = checked_axis(call.integer("axis", 0), x.sizes().size());
  else
    x = x.reshaped({x.size()});
  const std::vector<std::int64_t> wanted = call.integers(1);
  std::vector<std::int64_t> entries;
  for (std::size_t i = 0; i < wanted.size() && static_cast<std::int64_t>(i) < x.sizes()[axis]; ++i)
    if (wanted[i] != 0) entries.push_back(static_cast<std::int64_t>(i));
  call.give(entries_of(x, axis, entries));
}

// One size of the result depends on the condition's elements.
Procedure::KnownTypes types_of_compress(const OnnxAttributes& node, const Procedure::KnownTypes& inputs, std::size_t) {
  Procedure::KnownTypes types{inputs.at(0)};
  if (!types[0]) return types;
  Sizes& sizes = types[0]->sizes;
  if (node.has("axis"))
    sizes[checked_axis(node.integer("axis", 0), sizes.size())] = -1;
  else
    sizes = {-1};
  return types;
}

// Numbers in the order of reals: of both zeros the same, and of all that are not numbers, which come last.
std::uint64_t in_order(double value) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if (std::isnan(value)) return ~std::uint64_t{0};
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct Numbered {
  std::uint64_t key;
  std::int64_t at;
};

// Sorts by keys, and leaves those of the same key in their order: by one byte after the other, but those which are the same in
// all keys, as the last ones of a float.
void sort_by_keys(std::vector<Numbered>& entries) {
  constexpr std::size_t kFew = 128, kBytes = sizeof(std::uint64_t), kValues = 256;
  if (entries.size() < kFew) {
    std::stable_sort(entries.begin(), entries.end(), [](const Numbered& a, const Numbered& b) { return a.key < b.key; });
    return;
  }
  std::vector<std::array<std::size_t, kValues>> counts(kBytes);
  for (const Numbered& e : entries)
    for (std::size_t b = 0; b < kBytes; ++b) ++counts[b][e.key >> 8 * b & 0xFF];
  std::vector<Numbered> others(entries.size());
  for (std::size_t b = 0; b < kBytes; ++b) {
    std::array<std::size_t, kValues>& places = counts[b];
    if (places[entries[0].key >> 8 * b & 0xFF] == entries.size()) continue;
    std::exclusive_scan(places.begin(), places.end(), places.begin(), std::size_t{0});
    for (const Numbered& e : entries) others[places[e.key >> 8 * b & 0xFF]++] = e;
    entries.swap(others);
  }
}

// The entries of a tensor's first axis, compared by their elements.
class Entries {
 public:
  explicit Entries(const Tensor& x) : width_(x.sizes()[0] == 0 ? 0 : x.size() / x.sizes()[0]) {
    if (x.type() == DataType::kString) {
      texts_ = x.strings();
    } else if (is_real(x.type())) {
      for (const double value : x.reals()) keys_.push_back(in_order(value));
    } else {
      const std::uint64_t sign = x.type() == DataType::kUint64 ? 0 : std::uint64_t{1} << 63;
      for (const std::int64_t value : x.integers()) keys_.push_back(static_cast<std::uint64_t>(value) ^ sign);
    }
  }

  // The numbers of the entries in their order; equal ones in that of their numbers.
  std::vector<std::int64_t> sorted(std::int64_t count) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    if (keys_.empty() || width_ != 1) {
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return compare(a, b) < 0; });
      return order;
    }
    std::vector<Numbered> entries;
    entries.reserve(order.size());
    for (const std::int64_t i : order) entries.push_back({keys_[static_cast<std::size_t>(i)], i});
    sort_by_keys(entries);
    std::transform(entries.begin(), entries.end(), order.begin(), [](const Numbered& e) { return e.at; });
    return order;
  }
  bool are_same(std::int64_t a, std::int64_t b) const { return compare(a, b) == 0; }

 private:
  int compare(std::int64_t a, std::int64_t b) const { return texts_.empty() ? compared(keys_, a, b) : compared(texts_, a, b); }
  template <class List>
  int compared(const List& list, std::int64_t a, std::int64_t b) const {
    for (std::int64_t i = 0; i < width_; ++i) {
      const auto &x = list[static_cast<std::size_t>(a * width_ + i)], &y = list[static_cast<std::size_t>(b * width_ + i)];
      if (x < y) return -1;
      if (y < x) return 1;
    }
    return 0;
  }
  std::int64_t width_;
  std::span<const std::string> texts_;
  std::vector<std::uint64_t> keys_;
};

Tensor with_axis_in_front(const Tensor& x, std::size_t axis) {
  Sizes sizes = x.sizes();
  std::rotate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axis),
              sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  const AxisView view(x.sizes(), axis);
  if (view.before == 1 || x.size() == 0) return x.reshaped(std::move(sizes));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < view.size; ++i)
    for (std::int64_t b = 0; b < view.before; ++b)
      for (std::int64_t a = 0; a < view.after; ++a) places.push_back((b * view.size + i) * view.after + a);
  return picked(x, std::move(sizes), places);
}

// The distinct entries of an axis (without an axis: the distinct elements; what is not a number is one), the first position of
// each, for each entry the number of its distinct one, and how often each occurs.
void run_unique(Call& call) {
  const Tensor& given = call.tensor(0);
  const bool flat = !call.has("axis");
  const std::size_t axis = flat ? 0 : checked_axis(call.integer("axis", 0), given.sizes().size());
  const Tensor x = flat ? given.reshaped({given.size()}) : given;
  const std::int64_t count = x.sizes()[axis];
  constexpr std::int64_t kMostEmpty = 1 << 20;  // entries without elements
  if (x.size() == 0 && count > kMostEmpty) throw Error(ErrorCode::kMissing, "not enough memory for its empty entries");
  const Tensor in_front = with_axis_in_front(x, axis);
  const Entries entries(in_front);

  const std::vector<std::int64_t> order = entries.sorted(count);
  std::vector<std::int64_t> first, counts, inverse(order.size());
  for (const std::int64_t i : order) {
    if (first.empty() || !entries.are_same(first.back(), i)) {
      first.push_back(i);
      counts.push_back(0);
    }
    ++counts.back();
    inverse[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(first.size()) - 1;
  }
  if (call.integer("sorted", 1) == 0) {  // in the order of their first occurrence
    std::vector<std::int64_t> by_place(first.size()), rank(first.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::sort(by_place.begin(), by_place.end(),
              [&](auto a, auto b) { return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)]; });
    std::vector<std::int64_t> sorted_first, sorted_counts;
    for (std::size_t r = 0; r < by_place.size(); ++r) {
      const auto at = static_cast<std::size_t>(by_place[r]);
      rank[at] = static_cast<std::int64_t>(r);
      sorted_first.push_back(first[at]);
      sorted_counts.push_back(counts[at]);
    }
    for (std::int64_t& i : inverse) i = rank[static_cast<std::size_t>(i)];
    first = std::move(sorted_first);
    counts = std::move(sorted_counts);
  }
  const auto found = static_cast<std::int64_t>(first.size());
  call.give(entries_of(x, axis, first));
  call.give(int64s({found}, first));
  call.give(int64s({count}, inverse));
  call.give(int64s({found}, counts));
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

Box box_at(const std::vector<double>& boxes, std::size_t i, bool centered) {
  const double* b = boxes.data() + 4 * i;
  if (centered) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double shared = height * width, all = a.area() + b.area() - shared;
  return all > 0 ? shared / all : 0;
}

// Boxes of which none overlaps a better one too much.
class KeptBoxes {
 public:
  explicit KeptBoxes(double overlap_limit) : limit_(overlap_limit), bound_(overlap_limit * (1 - 1e-9)) {}
  std::size_t size() const { return boxes_.size(); }
  void clear() { boxes_.clear(), groups_.clear(); }

  // Adds the box, unless it overlaps one of the others too much. Several of these are compared at once without dividing, and
  // those that may overlap it so much once more.
  bool add(const Box& box) {
    const double area = box.area();
    const auto candidates = [&](std::size_t group) {
      const Group& g = groups_[group];
      const auto smaller = [](const Lanes& a, double b) { return b < a ? b - Lanes{} : a; };
      const auto larger = [](const Lanes& a, double b) { return b > a ? b - Lanes{} : a; };
      const Lanes height = smaller(g.bottom, box.bottom) - larger(g.top, box.top),
                  width = smaller(g.right, box.right) - larger(g.left, box.left), shared = height * width;
      return ~((height <= 0.0) | (width <= 0.0) | (shared <= bound_ * (g.area + area - shared)));
    };
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      const auto possible = candidates(n);
      for (std::size_t l = 0; l < kLanes && n * kLanes + l < boxes_.size(); ++l)
        if ((possible[l] != 0 || !(limit_ >= 0)) && overlap(boxes_[n * kLanes + l], box) > limit_) return false;
    }
    const std::size_t lane = boxes_.size() % kLanes;
    if (lane == 0) groups_.emplace_back();
    Group& g = groups_.back();
    g.top[lane] = box.top, g.left[lane] = box.left, g.bottom[lane] = box.bottom, g.right[lane] = box.right;
    g.area[lane] = area;
    boxes_.push_back(box);
    return true;
  }

 private:
  static constexpr std::size_t kLanes = 2;  // of all instruction sets
  typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double)), aligned(alignof(double))));
  struct Group {
    Lanes top{}, left{}, bottom{}, right{}, area{};
  };
  double limit_, bound_;
  std::vector<Box> boxes_;
  std::vector<Group> groups_;
};

// Sorts the entries from `first` on as far as needed: some of the least, which stand before all others then. Returns how far.
std::size_t sort_some(std::vector<std::uint64_t>& entries, std::size_t first, std::size_t some) {
  constexpr std::size_t kWorthChoosing = 2;
  const std::size_t rest = entries.size() - first;
  const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(first);
  if (rest > kWorthChoosing * some) {
    const auto end = begin + static_cast<std::ptrdiff_t>(some);
    std::nth_element(begin, end, entries.end());
    std::sort(begin, end);
    return first + some;
  }
  std::sort(begin, entries.end());
  return entries.size();
}

// Numbers in the order of falling scores, and those of equal scores in that of their positions; NaN comes last.
std::uint64_t falling(float score, std::int64_t at) {
  constexpr int kPositionBits = 32;
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  const auto bits = std::bit_cast<std::uint32_t>(score == 0 ? -0.0f : -score);
  const std::uint32_t rising = (bits & kSign) != 0 ? ~bits : bits | kSign;
  const std::uint32_t key = score != score ? ~std::uint32_t{0} : rising;  // NOLINT: asks for NaN
  return std::uint64_t{key} << kPositionBits | static_cast<std::uint64_t>(at);
}

// For each class of each batch: the boxes by falling score, without those that overlap a better one too much.
void run_non_max_suppression(Call& call) {
  const Tensor &boxes = call.tensor(0), &scores = call.tensor(1);
  const Sizes &b = boxes.sizes(), &s = scores.sizes();
  if (b.size() != 3 || s.size() != 3 || b[2] != 4 || b[0] != s[0] || b[1] != s[2])
    throw Error(ErrorCode::kBadInput, "boxes must be [batches, boxes, 4], scores [batches, classes, boxes]");
  const std::int64_t most = call.has_input(2) ? call.integer_input(2) : 0;
  const double overlap_limit = call.has_input(3) ? call.real_input(3) : 0;
  const bool has_least = call.has_input(4);
  const double least = has_least ? call.real_input(4) : 0;
  const bool centered = call.integer("center_point_box", 0) != 0;
  if (s[2] > std::int64_t{std::numeric_limits<std::uint32_t>::max()}) throw Error(ErrorCode::kUnsupported, "too many boxes");
  const std::vector<double> places = boxes.reals();
  std::vector<float> converted;
  if (scores.type() != DataType::kFloat) {
    const std::vector<double> reals = scores.reals();
    converted.assign(reals.begin(), reals.end());
  }
  const std::span<const float> values =
      scores.type() == DataType::kFloat ? scores.data<float>() : std::span<const float>(converted);
  std::vector<std::int64_t> selected;
  std::vector<std::uint64_t> order;
  // Somewhat more than are wanted are sorted first, as some overlap others.
  constexpr std::int64_t kFewSorted = 16, kMostSorted = 4096;
  const std::int64_t wanted = std::clamp<std::int64_t>(most, 0, kMostSorted);
  const auto sorted_first = static_cast<std::size_t>(std::clamp(wanted + wanted / 2, kFewSorted, kMostSorted));
  KeptBoxes kept(overlap_limit);
  for (std::int64_t batch = 0; batch < s[0]; ++batch)
    for (std::int64_t group = 0; group < s[1]; ++group) {
      call.checkpoint();
      const std::span<const float> score =
          values.subspan(static_cast<std::size_t>((batch * s[1] + group) * s[2]), static_cast<std::size_t>(s[2]));
      order.resize(score.size());
      std::size_t count = 0;
      for (std::size_t i = 0; i < score.size(); ++i) {
        order[count] = falling(score[i], static_cast<std::int64_t>(i));
        count += !has_least || static_cast<double>(score[i]) > least ? 1 : 0;
      }
      order.resize(count);
      kept.clear();
      std::size_t sorted = 0;
      for (std::size_t n = 0; n < order.size() && static_cast<std::int64_t>(kept.size()) < most; ++n) {
        if (n == sorted) sorted = sort_some(order, n, std::max(sorted_first, 3 * n));
        const auto next = static_cast<std::int64_t>(order[n] & std::numeric_limits<std::uint32_t>::max());
        if (kept.add(box_at(places, static_cast<std::size_t>(batch * b[1] + next), centered)))
          selected.insert(selected.end(), {batch, group, next});
      }
    }
  call.give(int64s({static_cast<std::int64_t>(selected.size() / 3), 3}, selected));
}

}  // namespace

void register_selection(Procedures& p) {
  p.add("NonZero", run_nonzero);
  p.add_control("Compress", {run_compress, false, {}, {}, types_of_compress});
  p.add("Unique", run_unique);
  p.add("NonMaxSuppression", run_non_max_suppression);
}

}  // namespace rewright::operators
