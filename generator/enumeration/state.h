// A run's progress on disk: written as a whole every minute, so that the run can resume after any interruption.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "distribution/communicator.h"
#include "generator/enumeration/append_file.h"

namespace rewright::generator {

struct StateOptions {
  std::filesystem::path folder{};     // empty: nothing is kept
  std::filesystem::path temporary{};  // for temporary files
  double interval = 60;               // seconds between two writes
  std::string identity{};             // everything that the result depends on: only an equal run may resume
  std::stop_token stop{};
};

// Totals. Each process counts a part.
struct Counters {
  enum Name { kGraphs, kFingerprints, kCandidates, kZeros, kRenamings, kCount };
  std::array<double, kCount> values{};
  double& operator[](Name name) { return values[name]; }
};

class State {
 public:
  // Throws Error: kUsage if the folder belongs to other options, another number of processes, or something else; kBadInput if
  // it is damaged or was made by another program; kMissing if another run uses it, or it cannot be written.
  State(StateOptions options, Communicator& communicator);

  // The point from which a resumed run continues.
  const std::string& phase() const { return phase_; }  // empty at the beginning
  std::uint64_t position() const { return position_; }
  const Counters& counters() const { return counters_; }  // in process 0: the totals so far; elsewhere 0

  // Opens a file of this process, cut to its length at the last write of the state.
  std::shared_ptr<AppendFile> open(const std::string& name);
  std::uint64_t length(const std::string& name) const;
  // The file is removed when the state is written next.
  void close(const std::string& name);

  // Called between two pieces of a phase's work, in all processes. Writes the state if a minute has passed or the run is to
  // stop; `flush` first brings everything into the files. Returns true if the run is to stop.
  bool step(const std::string& phase, std::uint64_t position, const Counters& counters, const std::function<void()>& flush);
  // Writes the state at once.
  void write(const std::string& phase, std::uint64_t position, const Counters& counters);

 private:
  std::string file_name(const std::string& name) const;
  void parse(const std::string& text, const std::string& program);

  StateOptions options_;
  Communicator& communicator_;
  std::string program_, phase_;
  std::uint64_t position_ = 0;
  Counters counters_;
  std::map<std::string, std::uint64_t> lengths_;  // by file name, in all processes
  std::map<std::string, std::shared_ptr<AppendFile>> files_;
  std::vector<std::string> unneeded_;
  std::chrono::steady_clock::time_point written_;
  std::shared_ptr<void> lock_;  // excludes other runs from the folder
};

}  // namespace rewright::generator
