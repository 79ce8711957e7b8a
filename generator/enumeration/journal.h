// What was decided step by step, so that a run that is continued need not find it out again.
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

  // What was decided at this point before; nothing if it is to be decided now, and then told with add().
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
