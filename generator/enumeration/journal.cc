#include "generator/enumeration/journal.h"

#include <cstring>

namespace rewright::generator {

Journal::Journal(State& state, Communicator& communicator, std::string phase, const Counters& counters)
    : state_(state),
      communicator_(communicator),
      phase_(std::move(phase)),
      counters_(counters),
      file_(state.open("decisions")) {
  if (communicator_.rank() != 0) counters_ = {};
  std::string all;
  const auto append = [&](std::string_view text) {
    const std::uint64_t bytes = text.size();
    all.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(text);
  };
  const std::uint64_t length = state_.phase() == phase_ ? state_.length("decisions") : 0;
  file_->restore(length, [&](std::uint32_t, std::uint64_t, std::string_view text) { append(text); });
  communicator_.broadcast(all, 0);
  for (const char* at = all.data(); at < all.data() + all.size();) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof(bytes));
    known_.emplace_back(at + sizeof(bytes), bytes);
    at += sizeof(bytes) + bytes;
  }
}

std::optional<std::string> Journal::next() {
  if (known_.empty()) return std::nullopt;
  std::string result = std::move(known_.front());
  known_.pop_front();
  return result;
}

void Journal::add(std::string_view decided) {
  if (stopped_) return;  // later decisions are not recorded: a run that resumes makes them again
  if (communicator_.rank() == 0) file_->append(0, decided);
  stopped_ = state_.step(phase_, 0, counters_, [] {});
}

}  // namespace rewright::generator
