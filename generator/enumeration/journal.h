// Decisions of a run, step by step. A resumed run replays them.
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
  // `phase`: the state's phase from now on. `counters`: the totals so far, over all processes.
  Journal(State& state, Communicator& communicator, std::string phase, const Counters& counters);

  // The recorded decision for this step; nullopt if it is still to be made and recorded with add().
  std::optional<std::string> next();
  // Called in all processes; process 0 writes the decision.
  void add(std::string_view decided);
  // A stop was requested: no more decisions should be made, and further ones are not recorded.
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
