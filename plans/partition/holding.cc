#include "plans/partition/holding.h"

#include <algorithm>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::plans {

std::int64_t Holding::first_row(std::int64_t process, std::int64_t processes, std::int64_t rows) const {
  return process >= processes ? rows : unit * (process * units / processes);
}

std::string to_string(const Holding& h) {
  switch (h.kind) {
    case Holding::Kind::kWhole:
      return "whole";
    case Holding::Kind::kPartial:
      return h.reduction == Reduction::kSum ? "partial sums" : "partial values";
    case Holding::Kind::kCut:
      break;
  }
  return "cut along axis " + std::to_string(h.axis);
}

double held_bytes(const TensorType& type, const Holding& holding, std::int64_t processes) {
  return bytes_of(type) / (holding.kind == Holding::Kind::kCut ? static_cast<double>(processes) : 1.0);
}

Holding whole() { return {}; }

Holding partial(Reduction reduction) {
  Holding h{Holding::Kind::kPartial};
  h.reduction = reduction;
  return h;
}

Holding cut_along(std::size_t axis, std::int64_t unit, std::int64_t units, std::int64_t processes, std::int64_t rows) {
  Holding h{Holding::Kind::kCut, axis, unit, units};
  // Rows behind the last unit make the last part longer, however the units are divided.
  if (units % processes == 0 && rows == unit * units) h.unit = rows / processes, h.units = processes;
  return h;
}

TensorParts parts_of(const Need& need, const Sizes& whole, std::int64_t processes) {
  TensorParts parts;
  const Holding& h = need.holding;
  if (h.kind != Holding::Kind::kCut) return parts;
  parts.axis = h.axis;
  const std::int64_t rows = whole.at(h.axis);
  for (std::int64_t p = 0; p < processes; ++p)
    parts.rows.push_back({p == 0 ? 0 : h.first_row(p, processes, rows) - need.before,
                          p + 1 == processes ? rows : h.first_row(p + 1, processes, rows) + need.after});
  return parts;
}

double exchanged_bytes(Exchange exchange, const TensorType& type, const Holding& from, const Need& to, std::int64_t processes) {
  if (exchange != Exchange::kAllToAll && exchange != Exchange::kHalo) return bytes_of(type);
  Sizes sizes;
  for (const Index& size : type.shape) sizes.push_back(size.value());
  if (exchange == Exchange::kHalo)
    return bytes_of(type) / static_cast<double>(sizes[to.holding.axis]) * static_cast<double>(to.before + to.after);
  if (processes < 2) return 0;
  const TensorParts held = parts_of({from}, sizes, processes), needed = parts_of(to, sizes, processes);
  using Rows = TensorParts::Rows;
  const auto count = [](const Rows& r) { return static_cast<double>(std::max(r.begin, r.end) - r.begin); };
  const bool is_one_axis = held.axis == needed.axis;
  // All that is needed, but what a process has itself; of another axis each needs its part of all rows.
  double rows = 0;
  for (std::size_t p = 0; p < held.rows.size(); ++p) {
    const Rows &has = held.rows[p], &wants = needed.rows[p];
    rows += is_one_axis ? count(wants) - count({std::max(has.begin, wants.begin), std::min(has.end, wants.end)})
                        : count(wants) * (static_cast<double>(sizes[held.axis]) - count(has));
  }
  const double all = static_cast<double>(sizes[held.axis]) * (is_one_axis ? 1 : static_cast<double>(sizes[needed.axis]));
  const auto n = static_cast<double>(processes);
  return rows * bytes_of(type) / all * n / (n - 1);
}

std::string_view name(Exchange exchange) {
  constexpr std::string_view kNames[] = {"none", "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "halo"};
  return kNames[static_cast<std::size_t>(exchange)];
}

Exchange exchange_for(const Holding& from, const Need& to) {
  using Kind = Holding::Kind;
  const Holding& h = to.holding;
  if (h.kind == Kind::kPartial && !(from == h))
    throw Error(ErrorCode::kUnsupported, "a value that is held " + to_string(from) + " cannot become " + to_string(h));
  if (from == h) return to.before > 0 || to.after > 0 ? Exchange::kHalo : Exchange::kNone;
  switch (from.kind) {
    case Kind::kWhole:
      return Exchange::kNone;
    case Kind::kPartial:
      return h.kind == Kind::kWhole ? Exchange::kAllReduce : Exchange::kReduceScatter;
    case Kind::kCut:
      break;
  }
  return h.kind == Kind::kWhole ? Exchange::kAllGather : Exchange::kAllToAll;
}

}  // namespace rewright::plans
