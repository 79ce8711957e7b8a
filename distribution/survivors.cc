#include "distribution/survivors.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <utility>

namespace rewright::distribution {

namespace {

// kData: the number of lost processes that the sender knows of, which tells groups apart, and the bytes.
// kGroup: the sender's number for regroup(), then the processes that it knows as lost. kAbort: the status to end with. kPart:
// as kData, without bytes.
enum SurvivorsKind : std::uint32_t { kData, kGroup, kAbort, kPart };

[[noreturn]] void end_after_another(int status) {
  std::this_thread::sleep_for(std::chrono::seconds(2));  // mpirun ends all when the first one ends
  std::cout.flush();
  std::_Exit(status);
}

}  // namespace

Survivors::Survivors(Mail mail) : mail_(std::move(mail)), data_(mail_.size()), groups_(mail_.size()) { become({}); }

void Survivors::become(const std::set<std::size_t>& lost) {
  lost_ = lost;
  parted_.clear();
  members_.clear();
  for (std::size_t p = 0; p < mail_.size(); ++p)
    if (!lost.contains(p)) members_.push_back(p);
  rank_ = static_cast<std::size_t>(std::ranges::find(members_, mail_.rank()) - members_.begin());
}

void Survivors::fail(int status) {
  for (const std::size_t p : members_)
    if (p != mail_.rank()) mail_.send(p, kAbort, {status});
  mail_.flush(1);
}

void Survivors::take() {
  Letter letter = *mail_.receive(-1);
  switch (letter.kind) {
    case Mail::kLost:
      // The group may have been formed without a process before the news of its end is read.
      if (missing(letter.from) && !lost_.contains(letter.from)) throw ProcessLost();
      return;
    case kPart:
      if (letter.numbers.at(0) == static_cast<std::int64_t>(lost_.size())) parted_.insert(letter.from);
      return;
    case kAbort:
      end_after_another(static_cast<int>(letter.numbers.at(0)));
    case kGroup:
      groups_[letter.from].push_back(std::move(letter));
      return;
    default:
      data_[letter.from].push_back(std::move(letter));
  }
}

void Survivors::transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) {
  const auto group = static_cast<std::int64_t>(lost_.size());
  for (const Outgoing& o : sent) mail_.send(members_[o.to], kData, {group}, o.bytes);
  for (const Incoming& i : received) {
    const std::size_t from = members_[i.from];
    while (data_[from].empty()) {
      // Another member's end may have been read while this process was busy elsewhere.
      if (std::ranges::any_of(members_, [&](std::size_t p) { return missing(p); })) throw ProcessLost();
      take();
      while (!data_[from].empty() && data_[from].front().numbers.at(0) < group) data_[from].pop_front();
    }
    const Letter letter = std::move(data_[from].front());
    data_[from].pop_front();
    if (letter.bytes.size() != i.bytes.size()) throw Error(ErrorCode::kBadInput, "a message has another length");
    std::ranges::copy(letter.bytes, i.bytes.begin());
  }
}

void Survivors::part() {
  const auto group = static_cast<std::int64_t>(lost_.size());
  for (const std::size_t p : members_)
    if (p != mail_.rank()) mail_.send(p, kPart, {group});
  while (std::ranges::any_of(members_, [&](std::size_t p) { return p != mail_.rank() && !parted_.contains(p); })) {
    if (std::ranges::any_of(members_, [&](std::size_t p) { return missing(p); })) throw ProcessLost();
    take();
  }
}

// Every process tells all others whom it knows as lost, again whenever it learns of another one, and is done when all that are
// left know the same. Ends come from the sockets of the lost themselves, so that all learn of them.
std::vector<std::int64_t> Survivors::regroup(std::int64_t number) {
  std::set<std::size_t> lost, told;
  bool spoke = false;
  while (true) {
    for (std::size_t p = 0; p < mail_.size(); ++p)
      if (mail_.is_lost(p)) lost.insert(p);
    if (!spoke || lost != told) {
      std::vector<std::int64_t> numbers{number};
      numbers.insert(numbers.end(), lost.begin(), lost.end());
      for (std::size_t p = 0; p < mail_.size(); ++p)
        if (p != mail_.rank() && !lost.contains(p)) mail_.send(p, kGroup, numbers);
      told = lost, spoke = true;
    }
    std::vector<std::int64_t> numbers;
    for (std::size_t p = 0; p < mail_.size(); ++p) {
      if (lost.contains(p)) continue;
      if (p == mail_.rank()) {
        numbers.push_back(number);
        continue;
      }
      for (const Letter& letter : groups_[p])
        if (std::set<std::size_t>(letter.numbers.begin() + 1, letter.numbers.end()) == lost) {
          numbers.push_back(letter.numbers[0]);
          break;
        }
    }
    if (numbers.size() + lost.size() == mail_.size()) {
      become(lost);
      const auto group = static_cast<std::int64_t>(lost.size());
      for (auto& letters : data_) std::erase_if(letters, [&](const Letter& l) { return l.numbers.at(0) < group; });
      for (auto& letters : groups_)
        std::erase_if(letters, [&](const Letter& l) { return l.numbers.size() - 1 <= lost.size(); });
      return numbers;
    }
    try {
      take();
    } catch (const ProcessLost&) {
    }
  }
}

}  // namespace rewright::distribution
