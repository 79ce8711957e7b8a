// The results of a run so far, on disk: written whole every minute, so that the run can continue after any interruption.
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
  std::filesystem::path temporary{};  // for files that are not kept
  double interval = 60;               // seconds from one time to the next
  std::string identity{};             // what the result depends on: only a run of the same may go on
  std::stop_token stop{};
};

// Counters, of which each process counts a part.
struct Counters {
  enum Name { kGraphs, kFingerprints, kCandidates, kZeros, kRenamings, kCount };
  std::array<double, kCount> values{};
  double& operator[](Name name) { return values[name]; }
};

class State {
 public:
  // Throws Error: kUsage if the folder is that of other options or another number of processes, or of something else;
  // kBadInput if it is damaged or was made by another program; kMissing if another run uses it, or it cannot be written.
  State(StateOptions options, Communicator& communicator);

  // Where the run that is continued stood.
  const std::string& phase() const { return phase_; }  // empty at the beginning
  std::uint64_t position() const { return position_; }
  const Counters& counters() const { return counters_; }  // of process 0; the others count from nothing

  // A file of this process, and its length when the state was written.
  std::shared_ptr<AppendFile> open(const std::string& name);
  std::uint64_t length(const std::string& name) const;
  // It is not needed from the next writing on.
  void close(const std::string& name);

  // Between two pieces of work of a phase, in all processes. Writes the state if a minute has passed, or the run is to stop;
  // `flush` brings everything into the files first. True if the run is to stop.
  bool step(const std::string& phase, std::uint64_t position, const Counters& counters, const std::function<void()>& flush);
  // The same at once.
  void write(const std::string& phase, std::uint64_t position, const Counters& counters);

 private:
  std::string file_name(const std::string& name) const;
  void parse(const std::string& text, const std::string& program);

  StateOptions options_;
  Communicator& communicator_;
  std::string program_, phase_;
  std::uint64_t position_ = 0;
  Counters counters_;
  std::map<std::string, std::uint64_t> lengths_;  // by file name, of all processes
  std::map<std::string, std::shared_ptr<AppendFile>> files_;
  std::vector<std::string> unneeded_;
  std::chrono::steady_clock::time_point written_;
  std::shared_ptr<void> lock_;  // while it lives no other run uses the folder
};

}  // namespace rewright::generator
