#include "optimizer/measuring/time_in_turn.h"

#include <chrono>
#include <utility>

#include "base/error.h"

namespace rewright::optimizer {

std::vector<std::vector<double>> time_in_turn(std::span<const std::function<void()>> works,
                                              const std::function<double()>& clock, const TimingOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> seconds(works.size());
  const auto now = [&] { return options.now ? options.now() : Clock::now(); };
  auto start = now();
  double round_began = 0;
  for (int round = -options.warmup;; ++round) {
    if (round == 0) start = now();
    const double passed = std::chrono::duration<double>(now() - start).count();
    const double last = passed - std::exchange(round_began, passed);
    if (round > 0 && (passed + last > options.max_seconds || (passed > options.min_seconds && round >= options.min_rounds)))
      break;
    if (options.cancel.stop_requested()) throw Error(ErrorCode::kCancelled, "measuring was stopped");
    for (std::size_t i = 0; i < works.size(); ++i) {
      const std::size_t w = round % 2 == 0 ? i : works.size() - 1 - i;
      const double begin = clock();
      works[w]();
      if (round >= 0) seconds[w].push_back(clock() - begin);
    }
  }
  return seconds;
}

}  // namespace rewright::optimizer
