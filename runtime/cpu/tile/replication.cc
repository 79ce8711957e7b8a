#include "runtime/cpu/tile/replication.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rewright::cpu {

namespace {

constexpr double kCopied = 8;                 // bytes per nanosecond
constexpr std::int64_t kCopiedAtOnce = 8192;  // bytes that are copied from what was just written

// Writes `count` copies of the first `bytes` bytes one after the other, the first of which are there.
void continue_copies(std::byte* at, std::int64_t bytes, std::int64_t count) {
  for (std::int64_t done = 1; done < count;) {
    const std::int64_t more = std::min({done, count - done, std::max<std::int64_t>(1, kCopiedAtOnce / bytes)});
    std::memcpy(at + done * bytes, at, static_cast<std::size_t>(more * bytes));
    done += more;
  }
}

template <class T>
void fill_with(std::byte* at, const std::byte* source, std::int64_t count) {
  constexpr std::int64_t kTogether = 64 / sizeof(T);
  T value;
  std::memcpy(&value, source, sizeof value);
  if (count < kTogether) {
    std::fill_n(reinterpret_cast<T*>(at), count, value);
    return;
  }
  std::array<T, kTogether> run;
  run.fill(value);
  for (std::int64_t n = 0; n < count; n += kTogether)  // the last run overlaps the one before it
    std::memcpy(at + std::min(n, count - kTogether) * static_cast<std::int64_t>(sizeof(T)), run.data(), sizeof run);
}

void fill_runs(std::byte* at, const std::byte* source, std::int64_t bytes, std::int64_t count) {
  switch (bytes) {
    case 1:
      return fill_with<std::uint8_t>(at, source, count);
    case 2:
      return fill_with<std::uint16_t>(at, source, count);
    case 4:
      return fill_with<std::uint32_t>(at, source, count);
    case 8:
      return fill_with<std::uint64_t>(at, source, count);
    default:
      std::memcpy(at, source, static_cast<std::size_t>(bytes));
      continue_copies(at, bytes, count);
  }
}

}  // namespace

Replication::Replication(const Sizes& sizes, const std::vector<bool>& repeated, std::size_t width) {
  std::int64_t source = static_cast<std::int64_t>(width), result = source;
  for (std::size_t a = sizes.size(); a-- > 0;) {
    if (sizes[a] == 1) continue;
    if (axes_.empty() && !repeated[a]) {
      source *= sizes[a], result *= sizes[a];
      run_ = result;
      continue;
    }
    if (axes_.empty()) run_ = result;
    if (!axes_.empty() && axes_.front().repeated == repeated[a])
      axes_.front().extent *= sizes[a];
    else
      axes_.insert(axes_.begin(), {sizes[a], repeated[a], repeated[a] ? 0 : source, result});
    if (!repeated[a]) source *= sizes[a];
    result *= sizes[a];
  }
  if (axes_.empty()) run_ = result;
}

void Replication::run(const std::byte* source, std::byte* result, const Workers& workers) const {
  if (axes_.empty()) {
    std::memcpy(result, source, static_cast<std::size_t>(run_));
    return;
  }
  const Axis& outer = axes_.front();
  const std::int64_t pieces = workers.pieces(static_cast<double>(outer.extent * outer.result) / kCopied, outer.extent);
  workers.share(pieces, [&](std::int64_t piece, int) {
    write_entries(0, first_unit(outer.extent, piece, pieces), first_unit(outer.extent, piece + 1, pieces), source, result);
  });
}

void Replication::write_entries(std::size_t axis, std::int64_t first, std::int64_t last, const std::byte* source,
                                std::byte* result) const {
  const Axis& a = axes_[axis];
  if (first >= last) return;
  if (!a.repeated) {
    for (std::int64_t i = first; i < last; ++i) write(axis + 1, source + i * a.source, result + i * a.result);
  } else if (axis + 1 == axes_.size()) {
    fill_runs(result + first * a.result, source, run_, last - first);
  } else {
    write(axis + 1, source, result + first * a.result);
    continue_copies(result + first * a.result, a.result, last - first);
  }
}

void Replication::write(std::size_t axis, const std::byte* source, std::byte* result) const {
  write_entries(axis, 0, axes_[axis].extent, source, result);
}

}  // namespace rewright::cpu
