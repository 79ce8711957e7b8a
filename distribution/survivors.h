// A communicator whose processes may die: the others learn of it, agree on who is left, and go on as a smaller group.
//
//   Survivors group(introduce(*processes));
//   while (!done) try { done = work(group); group.part(); } catch (const ProcessLost&) {
//   resume_from(group.regroup(steps_done)); }
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "base/error.h"
#include "distribution/communicator.h"
#include "distribution/mail.h"

namespace rewright::distribution {

// exchange() throws this in every process of the group when one of them has ended.
class ProcessLost : public Error {
 public:
  ProcessLost() : Error(ErrorCode::kCancelled, "a process has ended") {}
};

class Survivors final : public Communicator {
 public:
  explicit Survivors(Mail mail);

  std::size_t rank() const override { return rank_; }  // among the members of the group
  std::size_t size() const override { return members_.size(); }
  // Tells the others that this process fails: they end with this status, without a word, after leaving it the time to report.
  void fail(int status);

  // All that are left call it after ProcessLost, with a number each (steps done). The group then consists of those that
  // are left, in the order of their ranks; the result has their numbers.
  std::vector<std::int64_t> regroup(std::int64_t number);
  // Called at the end by all that are left: waits until all of them have called it, and what then ends is not lost. Throws
  // ProcessLost if one ends without. Who has nothing to do waits here, too.
  void part();
  // The ranks that the members had at the start, and those that were lost since.
  const std::vector<std::size_t>& members() const { return members_; }
  const std::set<std::size_t>& lost() const { return lost_; }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override;

 private:
  // Waits for a letter and puts it where it belongs. Throws ProcessLost if it is the last one of a process.
  void take();
  void become(const std::set<std::size_t>& lost);
  bool missing(std::size_t process) const { return mail_.is_lost(process) && !parted_.contains(process); }

  Mail mail_;
  std::size_t rank_ = 0;
  std::vector<std::size_t> members_;
  std::set<std::size_t> lost_, parted_;
  // Letters that were not asked for yet, by sender. Those of another group than ours wait (if we are to join it) or are
  // dropped.
  std::vector<std::deque<Letter>> data_;
  std::vector<std::deque<Letter>> groups_;
};

}  // namespace rewright::distribution
