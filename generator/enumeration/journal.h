// Decisions step by step, which a continued run takes over.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "generator/enumeration/state.h"

namespace rewright::generator {

class Journal {
 public:
  // `phase` is what the state says from here on, and `counters` what was counted before, in all processes together.
  Journal(State& state, Communicator& communicator, std::string phase, const Counters& counters);

  // The earlier decision at this point; nullopt if it is to be made now, and then recorded with add().
  std::optional<std::string> next();
  // In all processes; process 0 writes it down.
  void add(std::string_view decided);
  // It was asked to stop: nothing more should be decided, and what is decided all the same is not written down.
  bool stopped() const { return stopped_; }

 private:
  State& state_;
  Communicator& communicator_;
  std::string phase_;
  Counters counters_;
  std::shared_ptr<AppendFile> file_;
  std::deque<std::string> known_;
  bool stopped_ = false;
};

}  // namespace rewright::generator
