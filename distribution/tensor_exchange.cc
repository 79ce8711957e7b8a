#include "distribution/tensor_exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "distribution/all_reduce.h"
#include "distribution/elements.h"

namespace rewright::distribution {

namespace {

// From so many processes on, parts up to so many bytes are exchanged in pairs where no plan says otherwise: a message of them
// takes about as long as its bytes on links of some GB/s.
constexpr std::size_t kManyProcesses = 8;
constexpr double kShortPart = 32 * 1024;

// Positions begin[i] <= x[i] < begin[i] + sizes[i].
struct Box {
  Sizes begin, sizes;
};

Box box_of(const Sizes& whole, const TensorParts& parts, std::size_t process) {
  Box box{Sizes(whole.size()), whole};
  if (parts.is_whole()) return box;
  const TensorParts::Rows& rows = parts.rows.at(process);
  if (parts.axis >= whole.size() || rows.begin < 0 || rows.end < rows.begin || rows.end > whole[parts.axis])
    throw Error(ErrorCode::kBadInput, "a part is not within the tensor");
  box.begin[parts.axis] = rows.begin;
  box.sizes[parts.axis] = rows.end - rows.begin;
  return box;
}

Box intersection(const Box& a, const Box& b) {
  Box result = a;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    const std::int64_t begin = std::max(a.begin[d], b.begin[d]);
    const std::int64_t end = std::min(a.begin[d] + a.sizes[d], b.begin[d] + b.sizes[d]);
    result.begin[d] = begin;
    result.sizes[d] = std::max<std::int64_t>(0, end - begin);
  }
  return result;
}

std::size_t bytes_of(const Box& box, std::size_t width) { return static_cast<std::size_t>(element_count(box.sizes)) * width; }

bool is_same(const Box& inner, const Box& outer) { return inner.begin == outer.begin && inner.sizes == outer.sizes; }

// The first byte of `box` in the memory of a box that contains it, if its elements are consecutive there.
std::optional<std::size_t> place_within(const Box& box, std::size_t width, const Box& outer) {
  if (element_count(box.sizes) == 0) return 0;
  std::size_t axis = 0;
  while (axis < box.sizes.size() && box.sizes[axis] == 1) ++axis;
  for (std::size_t d = axis + 1; d < box.sizes.size(); ++d)
    if (box.sizes[d] != outer.sizes[d]) return std::nullopt;
  auto place = std::size_t{0};
  for (std::size_t d = 0; d < box.sizes.size(); ++d)
    place = place * static_cast<std::size_t>(outer.sizes[d]) + static_cast<std::size_t>(box.begin[d] - outer.begin[d]);
  return place * width;
}

// Copies the positions of `box` between memory of two boxes that contain it.
void copy_box(const Box& box, std::size_t width, const std::byte* from, const Box& from_box, std::byte* into,
              const Box& into_box) {
  if (element_count(box.sizes) == 0) return;
  // The axes behind `inner` are whole in all three: these elements are consecutive.
  std::size_t inner = box.sizes.size();
  auto run = static_cast<std::int64_t>(width);
  while (inner > 0) {
    --inner;
    run *= box.sizes[inner];
    if (box.sizes[inner] != from_box.sizes[inner] || box.sizes[inner] != into_box.sizes[inner]) break;
  }
  std::vector<std::int64_t> from_stride(box.sizes.size() + 1), into_stride(box.sizes.size() + 1);
  from_stride.back() = into_stride.back() = static_cast<std::int64_t>(width);
  for (std::size_t d = box.sizes.size(); d-- > 0;) {
    from_stride[d] = from_stride[d + 1] * from_box.sizes[d];
    into_stride[d] = into_stride[d + 1] * into_box.sizes[d];
  }
  for (std::size_t d = 0; d < box.sizes.size(); ++d) {
    from += (box.begin[d] - from_box.begin[d]) * from_stride[d + 1];
    into += (box.begin[d] - into_box.begin[d]) * into_stride[d + 1];
  }
  Sizes at(inner);
  while (true) {
    std::memcpy(into, from, static_cast<std::size_t>(run));
    std::size_t d = inner;
    for (; d-- > 0;) {
      from += from_stride[d + 1], into += into_stride[d + 1];
      if (++at[d] < box.sizes[d]) break;
      from -= box.sizes[d] * from_stride[d + 1], into -= box.sizes[d] * into_stride[d + 1];
      at[d] = 0;
    }
    if (d == std::size_t(-1)) return;
  }
}

// A message to or from a process: the box of the tensor that it carries. Packed unless its elements are consecutive.
struct Packet {
  std::size_t process;
  Box box;
  TensorPool::Output packed = {};
};

// A tensor to be filled, and its memory.
using Room = TensorPool::Output;
std::span<std::byte> memory_of(const Room& room) { return {room.bytes, room.tensor.byte_count()}; }
// Memory that is not cleared first, as messages overwrite it.
Room room_for(std::size_t bytes, TensorPool* pool) {
  return TensorPool::take_from(pool, DataType::kUint8, {static_cast<std::int64_t>(bytes)});
}

std::size_t width_of(DataType type) {
  const std::size_t width = byte_size(type);
  if (width == 0) throw Error(ErrorCode::kUnsupported, "processes do not exchange tensors of " + std::string(name(type)));
  return width;
}

// One round: this process sends the boxes of `sent` from its tensor, and receives those of `received` into another.
void send_boxes(Communicator& processes, std::vector<Packet> sent, const Tensor& from, const Box& from_box,
                std::vector<Packet> received, const Room& into, const Box& into_box, TensorPool* pool = nullptr) {
  const std::size_t width = width_of(from ? from.type() : into.tensor.type());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (Packet& p : sent) {
    if (const auto place = place_within(p.box, width, from_box)) {
      out.push_back({p.process, from.bytes().subspan(*place, bytes_of(p.box, width))});
      continue;
    }
    p.packed = room_for(bytes_of(p.box, width), pool);
    copy_box(p.box, width, from.bytes().data(), from_box, p.packed.bytes, p.box);
    out.push_back({p.process, memory_of(p.packed)});
  }
  for (Packet& p : received) {
    if (const auto place = place_within(p.box, width, into_box)) {
      in.push_back({p.process, memory_of(into).subspan(*place, bytes_of(p.box, width))});
      continue;
    }
    p.packed = room_for(bytes_of(p.box, width), pool);
    in.push_back({p.process, memory_of(p.packed)});
  }
  processes.exchange(out, in);
  for (const Packet& p : received)
    if (p.packed.bytes) copy_box(p.box, width, p.packed.bytes, p.box, into.bytes, into_box);
}

template <Reduction kReduction, class T>
T combined(T a, T b) {
  // Integers wrap around.
  using Number = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  if constexpr (kReduction == Reduction::kSum) return static_cast<T>(static_cast<Number>(a) + static_cast<Number>(b));
  if constexpr (kReduction == Reduction::kProduct) return static_cast<T>(static_cast<Number>(a) * static_cast<Number>(b));
  if constexpr (kReduction == Reduction::kMax) return a < b || b != b ? b : a;
  return b < a || b != b ? b : a;
}

// Calls `with` with the reduction as a constant.
template <class With>
void for_reduction(Reduction reduction, const With& with) {
  switch (reduction) {
    case Reduction::kSum:
      return with(std::integral_constant<Reduction, Reduction::kSum>());
    case Reduction::kProduct:
      return with(std::integral_constant<Reduction, Reduction::kProduct>());
    case Reduction::kMax:
      return with(std::integral_constant<Reduction, Reduction::kMax>());
    case Reduction::kMin:
      return with(std::integral_constant<Reduction, Reduction::kMin>());
  }
}

constexpr std::size_t kCombinedAtOnce = 2048;  // elements, which stay in the nearest cache

// Combines memory of all processes, in their order. `into` may be one of the first two.
template <class T>
void combine_as(Reduction reduction, const std::vector<const std::byte*>& from, std::byte* into, std::size_t count) {
  for_reduction(reduction, [&](auto constant) {
    constexpr Reduction kReduction = decltype(constant)::value;
    for (std::size_t begin = 0; begin < count; begin += kCombinedAtOnce) {
      const std::size_t length = std::min(kCombinedAtOnce, count - begin);
      const auto of = [&](std::size_t p) { return std::span(reinterpret_cast<const T*>(from[p]) + begin, length); };
      const std::span<T> result(reinterpret_cast<T*>(into) + begin, length);
      if (from.size() == 1) std::ranges::copy(of(0), result.begin());
      for (std::size_t p = 1; p < from.size(); ++p) {
        const std::span<const T> before = p == 1 ? of(0) : std::span<const T>(result), next = of(p);
        for (std::size_t n = 0; n < length; ++n) result[n] = combined<kReduction>(before[n], next[n]);
      }
    }
  });
}

template <class Widen, class Narrow>
void combine_narrow(Reduction reduction, const std::vector<const std::byte*>& from, std::byte* into, std::size_t count,
                    const Widen& widened, const Narrow& narrowed) {
  auto* const result = reinterpret_cast<std::uint16_t*>(into);
  for_reduction(reduction, [&](auto constant) {
    for (std::size_t n = 0; n < count; ++n) {
      float value = widened(reinterpret_cast<const std::uint16_t*>(from[0])[n]);
      for (std::size_t p = 1; p < from.size(); ++p)
        value = combined<decltype(constant)::value>(value, widened(reinterpret_cast<const std::uint16_t*>(from[p])[n]));
      result[n] = narrowed(value);
    }
  });
}

void combine_elements(DataType type, Reduction reduction, const std::vector<const std::byte*>& from, std::byte* into,
                      std::size_t count) {
  switch (type) {
    case DataType::kFloat:
      return combine_as<float>(reduction, from, into, count);
    case DataType::kDouble:
      return combine_as<double>(reduction, from, into, count);
    case DataType::kInt64:
      return combine_as<std::int64_t>(reduction, from, into, count);
    case DataType::kInt32:
      return combine_as<std::int32_t>(reduction, from, into, count);
    case DataType::kInt16:
      return combine_as<std::int16_t>(reduction, from, into, count);
    case DataType::kInt8:
      return combine_as<std::int8_t>(reduction, from, into, count);
    case DataType::kUint64:
      return combine_as<std::uint64_t>(reduction, from, into, count);
    case DataType::kUint32:
      return combine_as<std::uint32_t>(reduction, from, into, count);
    case DataType::kUint16:
      return combine_as<std::uint16_t>(reduction, from, into, count);
    case DataType::kUint8:
      return combine_as<std::uint8_t>(reduction, from, into, count);
    case DataType::kHalf:
      return combine_narrow(reduction, from, into, count, half_to_float, float_to_half);
    case DataType::kBfloat16:
      return combine_narrow(reduction, from, into, count, bfloat16_to_float, float_to_bfloat16);
    default:
      throw Error(ErrorCode::kUnsupported, "processes do not combine tensors of " + std::string(name(type)));
  }
}

// The combination's elements [bounds[p], bounds[p + 1]) in process p, of which `mine` has all.
void reduce_elements(Communicator& processes, const Tensor& mine, Reduction reduction, const Bounds& bounds, std::byte* into,
                     TensorPool* pool) {
  const std::size_t width = width_of(mine.type()), me = processes.rank();
  const std::size_t count = bounds[me + 1] - bounds[me];
  std::vector<Room> others(processes.size());
  std::vector<const std::byte*> from(processes.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    from[p] = mine.bytes().data() + bounds[me] * width;
    if (p == me) continue;
    others[p] = room_for(count * width, pool);
    from[p] = others[p].bytes;
    out.push_back({p, mine.bytes().subspan(bounds[p] * width, (bounds[p + 1] - bounds[p]) * width)});
    in.push_back({p, memory_of(others[p])});
  }
  processes.exchange(out, in);
  combine_elements(mine.type(), reduction, from, into, count);
}

// ---- In pairs
//
// Process p meets those whose numbers differ from its own in one binary digit, to combine from the last digit on, so that
// neighbours, which often are on one machine, combine before anything goes to others. What a process keeps then are the parts
// of all whose last digits are like its own: with the parts in the order of the digits read backwards (slots), one range.

std::size_t slot_of(std::size_t process, std::size_t processes) {
  std::size_t slot = 0;
  for (std::size_t bit = 1; bit < processes; bit *= 2) slot = 2 * slot + ((process & bit) != 0 ? 1 : 0);
  return slot;
}

using Memory = std::span<std::byte>;

Memory range(Memory all, std::size_t width, const Bounds& slots, std::size_t first, std::size_t last) {
  return all.subspan(slots[first] * width, (slots[last] - slots[first]) * width);
}

void exchange_with(Communicator& processes, std::size_t other, Memory sent, Memory received) {
  const Outgoing out{other, sent};
  const Incoming in{other, received};
  processes.exchange({&out, 1}, {&in, 1});
}

// Combines what both have, the one of the lower number first, so that both get the same bits.
void combine_with(Communicator& processes, std::size_t other, DataType type, Reduction reduction, Memory sent, Memory kept,
                  TensorPool* pool) {
  const Room received = room_for(kept.size(), pool);
  exchange_with(processes, other, sent, memory_of(received));
  std::vector<const std::byte*> both{kept.data(), received.bytes};
  if (other < processes.rank()) std::swap(both[0], both[1]);
  if (!kept.empty()) combine_elements(type, reduction, both, kept.data(), kept.size() / width_of(type));
}

// This process's slot then has the combination, by recursive halving.
void combine_halves(Communicator& processes, Memory all, DataType type, Reduction reduction, const Bounds& slots,
                    TensorPool* pool) {
  const std::size_t me = processes.rank(), width = width_of(type);
  std::size_t first = 0, last = processes.size();
  for (std::size_t bit = 1; bit < processes.size(); bit *= 2) {
    const std::size_t middle = first + (last - first) / 2;
    const Memory low = range(all, width, slots, first, middle), high = range(all, width, slots, middle, last);
    const bool is_high = (me & bit) != 0;
    combine_with(processes, me ^ bit, type, reduction, is_high ? low : high, is_high ? high : low, pool);
    (is_high ? first : last) = middle;
  }
}

// Every slot then has what its process had in it, by recursive doubling in the opposite order.
void gather_halves(Communicator& processes, Memory all, std::size_t width, const Bounds& slots) {
  const std::size_t me = processes.rank(), slot = slot_of(me, processes.size());
  for (std::size_t bit = processes.size() / 2, count = 1; bit > 0; bit /= 2, count *= 2) {
    const std::size_t mine = slot / count * count, others = mine ^ count;
    exchange_with(processes, me ^ bit, range(all, width, slots, mine, mine + count),
                  range(all, width, slots, others, others + count));
  }
}

// The parts of a tensor one after the other, by slots.
struct Slots {
  std::vector<Box> boxes;
  Bounds bounds{0};

  Slots(const Sizes& whole, const TensorParts& parts, std::size_t processes) {
    for (std::size_t slot = 0; slot < processes; ++slot) {
      boxes.push_back(box_of(whole, parts, slot_of(slot, processes)));
      bounds.push_back(bounds.back() + static_cast<std::size_t>(element_count(boxes.back().sizes)));
    }
  }
};

Tensor combined_halves(Communicator& processes, const Tensor& mine, Reduction reduction, const TensorParts& to,
                       TensorPool* pool) {
  const std::size_t me = slot_of(processes.rank(), processes.size()), width = width_of(mine.type());
  const Slots slots(mine.sizes(), to, processes.size());
  const Room packed = room_for(slots.bounds.back() * width, pool);
  const Memory memory = memory_of(packed);
  const Box all = box_of(mine.sizes(), {}, 0);
  for (std::size_t s = 0; s < slots.boxes.size(); ++s)
    copy_box(slots.boxes[s], width, mine.bytes().data(), all, range(memory, width, slots.bounds, s, s + 1).data(),
             slots.boxes[s]);
  combine_halves(processes, memory, mine.type(), reduction, slots.bounds, pool);
  const Room result = TensorPool::take_from(pool, mine.type(), slots.boxes[me].sizes);
  std::ranges::copy(range(memory, width, slots.bounds, me, me + 1), memory_of(result).begin());
  return result.tensor;
}

Tensor gathered_halves(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from,
                       TensorPool* pool) {
  const std::size_t me = slot_of(processes.rank(), processes.size()), width = width_of(mine.type());
  const Slots slots(whole, from, processes.size());
  const Room packed = room_for(slots.bounds.back() * width, pool);
  const Memory memory = memory_of(packed);
  std::ranges::copy(mine.bytes(), range(memory, width, slots.bounds, me, me + 1).begin());
  gather_halves(processes, memory, width, slots.bounds);
  const Room result = TensorPool::take_from(pool, mine.type(), whole);
  const Box all = box_of(whole, {}, 0);
  for (std::size_t s = 0; s < slots.boxes.size(); ++s)
    copy_box(slots.boxes[s], width, range(memory, width, slots.bounds, s, s + 1).data(), slots.boxes[s], result.bytes, all);
  return result.tensor;
}

Tensor all_reduced_in_pairs(Communicator& processes, const Tensor& mine, Reduction reduction, ExchangeWay way,
                            TensorPool* pool) {
  const Room result = TensorPool::take_from(pool, mine.type(), mine.sizes());
  const Memory all = memory_of(result);
  std::ranges::copy(mine.bytes(), all.begin());
  if (way == ExchangeWay::kWhole) {
    for (std::size_t bit = 1; bit < processes.size(); bit *= 2)
      combine_with(processes, processes.rank() ^ bit, mine.type(), reduction, all, all, pool);
    return result.tensor;
  }
  // Parts of equal lengths, whatever the tensor's sizes are.
  const Bounds slots = even_bounds(static_cast<std::size_t>(mine.size()), processes.size());
  combine_halves(processes, all, mine.type(), reduction, slots, pool);
  gather_halves(processes, all, width_of(mine.type()), slots);
  return result.tensor;
}

Tensor all_reduced(Communicator& processes, const Tensor& mine, Reduction reduction, const PairLimits& limits,
                   TensorPool* pool) {
  const ExchangeWay way = way_of(processes.size(), static_cast<double>(mine.bytes().size()), limits);
  if (mine.size() > 0 && way != ExchangeWay::kAtOnce) return all_reduced_in_pairs(processes, mine, reduction, way, pool);
  const Room result = TensorPool::take_from(pool, mine.type(), mine.sizes());
  if (mine.size() == 0) return result.tensor;
  const std::size_t width = width_of(mine.type()), me = processes.rank();
  const Bounds bounds = even_bounds(static_cast<std::size_t>(mine.size()), processes.size());
  const std::span<std::byte> all = memory_of(result);
  const auto part = [&](std::size_t p) { return all.subspan(bounds[p] * width, (bounds[p + 1] - bounds[p]) * width); };
  reduce_elements(processes, mine, reduction, bounds, part(me).data(), pool);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (p != me) out.push_back({p, part(me)}), in.push_back({p, part(p)});
  processes.exchange(out, in);
  return result.tensor;
}

}  // namespace

PairLimits usual_limits(std::size_t processes) { return {0, static_cast<double>(processes) * kShortPart}; }

bool can_pair(std::size_t processes) { return processes >= kManyProcesses && std::has_single_bit(processes); }

ExchangeWay way_of(std::size_t processes, double bytes, const PairLimits& limits) {
  if (!can_pair(processes)) return ExchangeWay::kAtOnce;
  return bytes <= limits.whole ? ExchangeWay::kWhole : bytes <= limits.halves ? ExchangeWay::kHalves : ExchangeWay::kAtOnce;
}

Sizes part_sizes(const Sizes& whole, const TensorParts& parts, std::size_t process) {
  return box_of(whole, parts, process).sizes;
}

Tensor part_of(const Tensor& whole, const TensorParts& parts, std::size_t process) {
  const Box all = box_of(whole.sizes(), {}, process), box = box_of(whole.sizes(), parts, process);
  if (is_same(box, all)) return whole;
  Tensor result(whole.type(), box.sizes);
  if (result.size() > 0) copy_box(box, width_of(whole.type()), whole.bytes().data(), all, result.mutable_bytes().data(), box);
  return result;
}

Tensor put_together(const std::vector<Tensor>& parts, const Sizes& whole, const TensorParts& from) {
  Tensor result(parts.at(0).type(), whole);
  const Box all = box_of(whole, {}, 0);
  for (std::size_t p = 0; p < parts.size() && result.size() > 0; ++p) {
    const Box box = box_of(whole, from, p);
    if (parts[p].sizes() != box.sizes) throw Error(ErrorCode::kBadInput, "the tensor is not the process's part");
    if (parts[p].size() > 0)
      copy_box(box, width_of(result.type()), parts[p].bytes().data(), box, result.mutable_bytes().data(), all);
  }
  return result;
}

Tensor redistribute(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from,
                    const TensorParts& to, const std::optional<PairLimits>& limits, TensorPool* pool) {
  const std::size_t me = processes.rank(), width = width_of(mine.type());
  const Box have = box_of(whole, from, me), want = box_of(whole, to, me);
  if (mine.sizes() != have.sizes) throw Error(ErrorCode::kBadInput, "the tensor is not the process's part");
  if (is_same(want, have)) {
    // Others may want rows of this process all the same: only if everybody has what it wants there is nothing to send.
    bool nothing = true;
    for (std::size_t p = 0; p < processes.size(); ++p)
      nothing = nothing && is_same(box_of(whole, to, p), box_of(whole, from, p));
    if (nothing) return mine;
  }
  const double bytes = static_cast<double>(element_count(whole)) * static_cast<double>(width);
  const PairLimits own = limits.value_or(usual_limits(processes.size()));
  if (to.is_whole() && !from.is_whole() && bytes > 0 && way_of(processes.size(), bytes, own) != ExchangeWay::kAtOnce)
    return gathered_halves(processes, mine, whole, from, pool);
  const Room result = TensorPool::take_from(pool, mine.type(), want.sizes);
  std::vector<Packet> sent, received;
  for (std::size_t p = 0; p < processes.size() && !from.is_whole(); ++p) {
    if (p == me) continue;
    sent.push_back({p, intersection(have, box_of(whole, to, p)), {}});
    received.push_back({p, intersection(box_of(whole, from, p), want), {}});
  }
  copy_box(intersection(have, want), width, mine.bytes().data(), have, result.bytes, want);
  send_boxes(processes, std::move(sent), mine, have, std::move(received), result, want, pool);
  return result.tensor;
}

Tensor combine(Communicator& processes, const Tensor& mine, Reduction reduction, const TensorParts& to,
               const std::optional<PairLimits>& limits, TensorPool* pool) {
  if (processes.size() == 1) return part_of(mine, to, 0);
  const PairLimits own = limits.value_or(usual_limits(processes.size()));
  if (to.is_whole()) return all_reduced(processes, mine, reduction, own, pool);
  const std::size_t me = processes.rank(), width = width_of(mine.type());
  const double bytes = static_cast<double>(mine.size()) * static_cast<double>(width);
  if (bytes > 0 && way_of(processes.size(), bytes, own) != ExchangeWay::kAtOnce)
    return combined_halves(processes, mine, reduction, to, pool);
  const Box all = box_of(mine.sizes(), {}, me), want = box_of(mine.sizes(), to, me);
  // Everybody's contribution to this process's part, in the order of processes.
  std::vector<Room> parts(processes.size()), packed(processes.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::vector<const std::byte*> from;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    if (const auto place = place_within(want, width, all); p == me && place) {
      from.push_back(mine.bytes().subspan(*place).data());
      continue;
    }
    parts[p] = TensorPool::take_from(pool, mine.type(), want.sizes);
    from.push_back(parts[p].bytes);
    if (p == me) {
      copy_box(want, width, mine.bytes().data(), all, parts[p].bytes, want);
      continue;
    }
    const Box box = box_of(mine.sizes(), to, p);
    if (const auto place = place_within(box, width, all)) {
      out.push_back({p, mine.bytes().subspan(*place, bytes_of(box, width))});
    } else {
      packed[p] = room_for(bytes_of(box, width), pool);
      copy_box(box, width, mine.bytes().data(), all, packed[p].bytes, box);
      out.push_back({p, memory_of(packed[p])});
    }
    in.push_back({p, memory_of(parts[p])});
  }
  processes.exchange(out, in);
  const Room result = TensorPool::take_from(pool, mine.type(), want.sizes);
  combine_elements(mine.type(), reduction, from, result.bytes, static_cast<std::size_t>(result.tensor.size()));
  return result.tensor;
}

void combine_into(Tensor& total, const Tensor& other, Reduction reduction) {
  if (total.type() != other.type() || total.sizes() != other.sizes())
    throw Error(ErrorCode::kBadInput, "tensors of different sizes are combined");
  if (total.size() == 0) return;
  std::byte* const into = total.mutable_bytes().data();
  if (reduction == Reduction::kSum && (total.type() == DataType::kFloat || total.type() == DataType::kDouble))
    add_elements(total.mutable_bytes(), other.bytes(), total.type());
  else
    combine_elements(total.type(), reduction, {into, other.bytes().data()}, into, static_cast<std::size_t>(total.size()));
}

Tensor scatter(Communicator& processes, const Tensor& whole, DataType type, const Sizes& sizes, const TensorParts& to,
               std::size_t root) {
  const std::size_t me = processes.rank();
  const Box all = box_of(sizes, {}, me);
  if (me == root) {
    if (whole.type() != type || whole.sizes() != sizes) throw Error(ErrorCode::kBadInput, "the tensor has other sizes");
    const Room none = room_for(0, nullptr);
    std::vector<Packet> sent;
    for (std::size_t p = 0; p < processes.size(); ++p)
      if (p != me) sent.push_back({p, box_of(sizes, to, p), {}});
    send_boxes(processes, std::move(sent), whole, all, {}, none, Box{{0}, {0}});
    return part_of(whole, to, me);
  }
  const Box want = box_of(sizes, to, me);
  const Room result = TensorPool::take_from(nullptr, type, want.sizes);
  send_boxes(processes, {}, Tensor(), all, {{root, want, {}}}, result, want);
  return result.tensor;
}

Tensor gather(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from, std::size_t root) {
  const std::size_t me = processes.rank(), width = width_of(mine.type());
  if (from.is_whole()) return me == root ? mine : Tensor();
  const Box have = box_of(whole, from, me);
  if (me != root) {
    const Room none = room_for(0, nullptr);
    send_boxes(processes, {{root, have, {}}}, mine, have, {}, none, Box{{0}, {0}});
    return {};
  }
  const Box all = box_of(whole, {}, me);
  const Room result = TensorPool::take_from(nullptr, mine.type(), whole);
  std::vector<Packet> received;
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (p != me) received.push_back({p, box_of(whole, from, p), {}});
  copy_box(have, width, mine.bytes().data(), have, result.bytes, all);
  send_boxes(processes, {}, mine, have, std::move(received), result, all);
  return result.tensor;
}

}  // namespace rewright::distribution
