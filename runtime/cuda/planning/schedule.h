// Determines which steps of a plan may run concurrently.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::cuda {

// Steps in streams: ordered within a stream, and across streams by waits.
class Schedule {
 public:
  // `needs`: for each step, the earlier steps whose results it reads. Uses `most_streams` at most.
  Schedule(const std::vector<std::vector<int>>& needs, int most_streams);

  int streams() const { return streams_; }
  int stream(int step) const { return stream_[static_cast<std::size_t>(step)]; }
  // The steps of other streams that a step must wait for, without those that are implied by another wait or by its own stream.
  const std::vector<int>& waits(int step) const { return waits_[static_cast<std::size_t>(step)]; }
  // Is `first` always done when `second` begins?
  bool before(int first, int second) const;

 private:
  using Bits = std::vector<std::uint64_t>;
  int choose_stream(const Bits& before, const std::vector<int>& needs, int most_streams) const;

  int streams_ = 1;
  std::vector<int> stream_;
  std::vector<std::vector<int>> waits_;
  std::vector<Bits> before_;  // by step
  std::vector<int> last_;     // step of each stream
};

}  // namespace rewright::cuda
