#include "optimizer/profiling/measure_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "optimizer/costs/cost_model.h"

namespace rewright::optimizer {

namespace {

constexpr std::size_t kProfiledAtOnce = 16;

void measure_graphs(CostModel& costs, std::span<const Graph> wanted, const MeasureProfileOptions& options) {
  for (std::size_t first = 0; first < wanted.size(); first += kProfiledAtOnce) {
    if (options.progress) options.progress(first, wanted.size());
    std::vector<std::unique_ptr<MatchedGraph>> batch;
    std::vector<const MatchedGraph*> pointers;
    for (std::size_t i = first; i < std::min(wanted.size(), first + kProfiledAtOnce); ++i) {
      batch.push_back(std::make_unique<MatchedGraph>(wanted[i], false));
      costs.learn(*batch.back());
      pointers.push_back(batch.back().get());
    }
    costs.prepare(pointers);
    if (options.cancel.stop_requested()) throw Error(ErrorCode::kCancelled, "measuring was stopped");
  }
}

}  // namespace

DeviceProfile measure_operators(Device& device, const Roofline& rates, std::span<const Graph> graphs,
                                const MeasureProfileOptions& options) {
  CostOptions counted;
  counted.cancel = options.cancel;
  CostModel costs(&device, nullptr, counted);
  measure_graphs(costs, graphs, options);
  const std::array one{
      DeviceProfile{device.identity(), rates, costs.operators(), device.strided_reads(), device.cache_bytes()}};
  return merge_profiles(one);
}

DeviceProfile measure_profile(Device& device, CostDatabase& database, std::span<const Graph> graphs, bool known,
                              const MeasureProfileOptions& options) {
  std::vector<Graph> wanted = profile_grid();
  wanted.insert(wanted.end(), graphs.begin(), graphs.end());
  CostOptions counted;
  counted.cancel = options.cancel;
  CostModel costs(&device, &database, counted);
  measure_graphs(costs, wanted, options);
  DeviceProfile measured{device.identity(), device.roofline(), costs.operators(), device.strided_reads(), device.cache_bytes()};
  // The cost of a call is the time of the smallest operator.
  double least = std::numeric_limits<double>::infinity();
  for (const ProfiledOperator& op : measured.operators)
    if (op.seconds && *op.seconds > 0) least = std::min(least, *op.seconds);
  if (std::isfinite(least)) measured.roofline.call_seconds = least;
  DeviceProfile before{measured.device, measured.roofline, {}, measured.strided_reads, measured.cache_bytes};
  if (known)
    for (const CostDatabase::Entry& entry : database.all(device.identity()))
      before.operators.push_back({entry.signature, entry.seconds, {}});
  const std::array both{std::move(measured), std::move(before)};
  return merge_profiles(both);
}

}  // namespace rewright::optimizer
