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

// From so many processes on, parts up to so many bytes are exchanged in pairs: a message of them takes about as long as its
// bytes on links of some GB/s.
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

// A message to or from a process: the box of the tensor that it carries. Packed unless it is the sender's whole tensor.
struct Packet {
  std::size_t process;
  Box box;
  Tensor packed = {};
};

// Memory that is not cleared first, as messages overwrite it.
Tensor room_for(std::size_t bytes) { return Tensor(DataType::kUint8, {static_cast<std::int64_t>(bytes)}); }
std::span<std::byte> memory_of(Tensor& tensor) { return tensor.size() > 0 ? tensor.mutable_bytes() : std::span<std::byte>(); }

std::size_t width_of(DataType type) {
  const std::size_t width = byte_size(type);
  if (width == 0) throw Error(ErrorCode::kUnsupported, "processes do not exchange tensors of " + std::string(name(type)));
  return width;
}

// One round: this process sends the boxes of `sent` from its tensor, and receives those of `received` into another.
void send_boxes(Communicator& processes, std::vector<Packet> sent, const Tensor& from, const Box& from_box,
                std::vector<Packet> received, Tensor& into, const Box& into_box) {
  const std::size_t width = width_of(into.type());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (Packet& p : sent) {
    if (is_same(p.box, from_box)) {
      out.push_back({p.process, from.bytes()});
      continue;
    }
    p.packed = room_for(bytes_of(p.box, width));
    copy_box(p.box, width, from.bytes().data(), from_box, memory_of(p.packed).data(), p.box);
    out.push_back({p.process, p.packed.bytes()});
  }
  for (Packet& p : received) {
    p.packed = room_for(bytes_of(p.box, width));
    in.push_back({p.process, memory_of(p.packed)});
  }
  processes.exchange(out, in);
  std::byte* const memory = memory_of(into).data();
  for (const Packet& p : received) copy_box(p.box, width, p.packed.bytes().data(), p.box, memory, into_box);
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  // Integers wrap around.
  using Number = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  switch (reduction) {
    case Reduction::kSum:
      return static_cast<T>(static_cast<Number>(a) + static_cast<Number>(b));
    case Reduction::kProduct:
      return static_cast<T>(static_cast<Number>(a) * static_cast<Number>(b));
    case Reduction::kMax:
      return a < b || b != b ? b : a;
    case Reduction::kMin:
      return b < a || b != b ? b : a;
  }
  return a;
}

// Combines memory of all processes, in their order, into the first one's place of `into`.
template <class T>
void combine_as(Reduction reduction, const std::vector<const std::byte*>& from, std::byte* into, std::size_t count) {
  T* const result = reinterpret_cast<T*>(into);
  for (std::size_t n = 0; n < count; ++n) {
    T value = reinterpret_cast<const T*>(from[0])[n];
    for (std::size_t p = 1; p < from.size(); ++p) value = combined(reduction, value, reinterpret_cast<const T*>(from[p])[n]);
    result[n] = value;
  }
}

template <class Widen, class Narrow>
void combine_narrow(Reduction reduction, const std::vector<const std::byte*>& from, std::byte* into, std::size_t count,
                    const Widen& widened, const Narrow& narrowed) {
  auto* const result = reinterpret_cast<std::uint16_t*>(into);
  for (std::size_t n = 0; n < count; ++n) {
    float value = widened(reinterpret_cast<const std::uint16_t*>(from[0])[n]);
    for (std::size_t p = 1; p < from.size(); ++p)
      value = combined(reduction, value, widened(reinterpret_cast<const std::uint16_t*>(from[p])[n]));
    result[n] = narrowed(value);
  }
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
void reduce_elements(Communicator& processes, const Tensor& mine, Reduction reduction, const Bounds& bounds, std::byte* into) {
  const std::size_t width = width_of(mine.type()), me = processes.rank();
  const std::size_t count = bounds[me + 1] - bounds[me];
  std::vector<Tensor> others(processes.size());
  std::vector<const std::byte*> from(processes.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    from[p] = mine.bytes().data() + bounds[me] * width;
    if (p == me) continue;
    others[p] = room_for(count * width);
    from[p] = others[p].bytes().data();
    out.push_back({p, mine.bytes().subspan(bounds[p] * width, (bounds[p + 1] - bounds[p]) * width)});
    in.push_back({p, memory_of(others[p])});
  }
  processes.exchange(out, in);
  combine_elements(mine.type(), reduction, from, into, count);
}

// Parts that follow each other, in the order of the processes: those of neighbours are one range of rows.
bool are_in_order(const TensorParts& parts, const Sizes& whole) {
  std::int64_t at = 0;
  for (const TensorParts::Rows& rows : parts.rows) {
    if (rows.begin != at || rows.end < at) return false;
    at = rows.end;
  }
  return at == whole.at(parts.axis);
}

// The union of the parts of processes `first` to `last` - 1.
Box box_of_range(const Sizes& whole, const TensorParts& parts, std::size_t first, std::size_t last) {
  Box box{Sizes(whole.size()), whole};
  box.begin[parts.axis] = parts.rows[first].begin;
  box.sizes[parts.axis] = parts.rows[last - 1].end - parts.rows[first].begin;
  return box;
}

// Memory of a box, in a tensor of its sizes.
struct Boxed {
  Box box;
  Tensor tensor;
};

Boxed boxed(DataType type, Box box) {
  Tensor tensor(type, box.sizes);
  return {std::move(box), std::move(tensor)};
}

// A part of what is boxed.
Boxed picked(const Boxed& from, Box box) {
  if (is_same(box, from.box)) return from;
  Boxed result = boxed(from.tensor.type(), std::move(box));
  copy_box(result.box, width_of(result.tensor.type()), from.tensor.bytes().data(), from.box, memory_of(result.tensor).data(),
           result.box);
  return result;
}

void exchange_with(Communicator& processes, std::size_t other, const Tensor& sent, Tensor& received) {
  const Outgoing out{other, sent.bytes()};
  const Incoming in{other, memory_of(received)};
  processes.exchange({&out, 1}, {&in, 1});
}

// The combination's rows of this process, by recursive halving.
Boxed reduced_in_pairs(Communicator& processes, const Tensor& mine, Reduction reduction, const TensorParts& parts) {
  const std::size_t me = processes.rank();
  Boxed now{box_of(mine.sizes(), {}, me), mine};
  std::size_t first = 0, last = processes.size();
  while (last - first > 1) {
    const std::size_t middle = first + (last - first) / 2, half = middle - first;
    const Box low = box_of_range(mine.sizes(), parts, first, middle), high = box_of_range(mine.sizes(), parts, middle, last);
    const bool is_high = me >= middle;
    const std::size_t other = is_high ? me - half : me + half;
    const Boxed sent = picked(now, is_high ? low : high), kept = picked(now, is_high ? high : low);
    Boxed received = boxed(mine.type(), kept.box), result = boxed(mine.type(), kept.box);
    exchange_with(processes, other, sent.tensor, received.tensor);
    std::vector<const std::byte*> both{kept.tensor.bytes().data(), received.tensor.bytes().data()};
    if (is_high) std::swap(both[0], both[1]);  // in the order of the processes
    if (result.tensor.size() > 0)
      combine_elements(mine.type(), reduction, both, result.tensor.mutable_bytes().data(),
                       static_cast<std::size_t>(result.tensor.size()));
    now = std::move(result);
    (is_high ? first : last) = middle;
  }
  return now;
}

// The whole of everybody's rows, by recursive doubling.
Tensor gathered_in_pairs(Communicator& processes, Boxed now, const Sizes& whole, const TensorParts& parts) {
  const std::size_t me = processes.rank(), width = width_of(now.tensor.type());
  for (std::size_t bit = 1; bit < processes.size(); bit *= 2) {
    const std::size_t first = me / bit * bit, beside = first ^ bit, begin = std::min(first, beside);
    Boxed received = boxed(now.tensor.type(), box_of_range(whole, parts, beside, beside + bit)),
          both = boxed(now.tensor.type(), box_of_range(whole, parts, begin, begin + 2 * bit));
    exchange_with(processes, me ^ bit, now.tensor, received.tensor);
    for (const Boxed* part : {&now, &received})
      copy_box(part->box, width, part->tensor.bytes().data(), part->box, memory_of(both.tensor).data(), both.box);
    now = std::move(both);
  }
  return std::move(now.tensor);
}

// As if it had one axis: parts of equal lengths, whatever its sizes are.
Tensor all_reduced_in_pairs(Communicator& processes, const Tensor& mine, Reduction reduction) {
  const Bounds bounds = even_bounds(static_cast<std::size_t>(mine.size()), processes.size());
  TensorParts parts;
  for (std::size_t p = 0; p < processes.size(); ++p)
    parts.rows.push_back({static_cast<std::int64_t>(bounds[p]), static_cast<std::int64_t>(bounds[p + 1])});
  const Sizes flat{mine.size()};
  return gathered_in_pairs(processes, reduced_in_pairs(processes, mine.reshaped(flat), reduction, parts), flat, parts)
      .reshaped(mine.sizes());
}

Tensor all_reduced(Communicator& processes, const Tensor& mine, Reduction reduction) {
  if (mine.size() > 0 && in_pairs(processes.size(), static_cast<double>(mine.bytes().size())))
    return all_reduced_in_pairs(processes, mine, reduction);
  Tensor result(mine.type(), mine.sizes());
  if (result.size() == 0) return result;
  const std::size_t width = width_of(mine.type()), me = processes.rank();
  const Bounds bounds = even_bounds(static_cast<std::size_t>(mine.size()), processes.size());
  const std::span<std::byte> all = result.mutable_bytes();
  const auto part = [&](std::size_t p) { return all.subspan(bounds[p] * width, (bounds[p + 1] - bounds[p]) * width); };
  reduce_elements(processes, mine, reduction, bounds, part(me).data());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (p != me) out.push_back({p, part(me)}), in.push_back({p, part(p)});
  processes.exchange(out, in);
  return result;
}

}  // namespace

bool in_pairs(std::size_t processes, double bytes) {
  return processes >= kManyProcesses && std::has_single_bit(processes) && bytes <= static_cast<double>(processes) * kShortPart;
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
                    const TensorParts& to) {
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
  if (to.is_whole() && !from.is_whole() && in_pairs(processes.size(), bytes) && are_in_order(from, whole))
    return gathered_in_pairs(processes, {have, mine}, whole, from);
  Tensor result(mine.type(), want.sizes);
  std::vector<Packet> sent, received;
  for (std::size_t p = 0; p < processes.size() && !from.is_whole(); ++p) {
    if (p == me) continue;
    sent.push_back({p, intersection(have, box_of(whole, to, p)), {}});
    received.push_back({p, intersection(box_of(whole, from, p), want), {}});
  }
  if (result.size() > 0)
    copy_box(intersection(have, want), width, mine.bytes().data(), have, result.mutable_bytes().data(), want);
  send_boxes(processes, std::move(sent), mine, have, std::move(received), result, want);
  return result;
}

Tensor combine(Communicator& processes, const Tensor& mine, Reduction reduction, const TensorParts& to) {
  if (processes.size() == 1) return part_of(mine, to, 0);
  if (to.is_whole()) return all_reduced(processes, mine, reduction);
  const std::size_t me = processes.rank(), width = width_of(mine.type());
  const double bytes = static_cast<double>(mine.size()) * static_cast<double>(width);
  if (in_pairs(processes.size(), bytes) && are_in_order(to, mine.sizes()))
    return reduced_in_pairs(processes, mine, reduction, to).tensor;
  const Box all = box_of(mine.sizes(), {}, me), want = box_of(mine.sizes(), to, me);
  // Everybody's contribution to this process's part, in the order of processes.
  std::vector<Tensor> parts(processes.size());
  std::vector<Tensor> packed(processes.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::vector<const std::byte*> from;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    parts[p] = p == me ? part_of(mine, to, me) : Tensor(mine.type(), want.sizes);
    if (p != me) {
      const Box box = box_of(mine.sizes(), to, p);
      packed[p] = room_for(bytes_of(box, width));
      copy_box(box, width, mine.bytes().data(), all, memory_of(packed[p]).data(), box);
      out.push_back({p, packed[p].bytes()});
      if (parts[p].size() > 0) in.push_back({p, parts[p].mutable_bytes()});
    }
    from.push_back(parts[p].bytes().data());
  }
  processes.exchange(out, in);
  Tensor result(mine.type(), want.sizes);
  if (result.size() > 0)
    combine_elements(mine.type(), reduction, from, result.mutable_bytes().data(), static_cast<std::size_t>(result.size()));
  return result;
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
    Tensor none(type, {0});
    std::vector<Packet> sent;
    for (std::size_t p = 0; p < processes.size(); ++p)
      if (p != me) sent.push_back({p, box_of(sizes, to, p), {}});
    send_boxes(processes, std::move(sent), whole, all, {}, none, Box{{0}, {0}});
    return part_of(whole, to, me);
  }
  const Box want = box_of(sizes, to, me);
  Tensor result(type, want.sizes);
  send_boxes(processes, {}, Tensor(), all, {{root, want, {}}}, result, want);
  return result;
}

Tensor gather(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from, std::size_t root) {
  const std::size_t me = processes.rank(), width = width_of(mine.type());
  if (from.is_whole()) return me == root ? mine : Tensor();
  const Box have = box_of(whole, from, me);
  if (me != root) {
    Tensor none(mine.type(), {0});
    send_boxes(processes, {{root, have, {}}}, mine, have, {}, none, Box{{0}, {0}});
    return {};
  }
  const Box all = box_of(whole, {}, me);
  Tensor result(mine.type(), whole);
  std::vector<Packet> received;
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (p != me) received.push_back({p, box_of(whole, from, p), {}});
  if (mine.size() > 0) copy_box(have, width, mine.bytes().data(), have, result.mutable_bytes().data(), all);
  send_boxes(processes, {}, mine, have, std::move(received), result, all);
  return result;
}

}  // namespace rewright::distribution
