#include "runtime/training/asynchronous/parameter_server.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/training/asynchronous/letters.h"
#include "runtime/training/asynchronous/step_list.h"

namespace rewright::training {

namespace {

std::span<const std::byte> bytes_of(std::span<const float> values) { return std::as_bytes(values); }

// Elastic weights move by this over the number of workers at each exchange (the paper's beta).
constexpr double kElasticBeta = 0.9;

// One shard of the weights, and the letters that wait for the bound of staleness.
class ShardServer {
 public:
  ShardServer(AsynchronousRun& run, Mail& mail)
      : run_(run),
        mail_(mail),
        workers_(mail.size() - run.asynchronous().servers),
        weights_(run.owned(run.layout().shards(run.asynchronous().servers,
                                               updates_by_elements(run.options().graph.update.method))[mail.rank()],
                           run.options().threads)),
        staleness_(run.asynchronous().max_staleness) {}

  // Returns whether it was a letter for a shard.
  bool handle(Letter& letter) {
    switch (letter.kind) {
      case kFetch:
      case kPush:
        waiting_.push_back(std::move(letter));
        break;
      case kGiveUpRead:
        staleness_.forget(letter.from);
        break;
      case Mail::kLost:
        // Letters that it has sent still count.
        waiting_.remove_if([&](const Letter& l) { return l.from == letter.from && l.kind == kFetch; });
        if (std::ranges::none_of(waiting_, [&](const Letter& l) { return l.from == letter.from; }))
          staleness_.forget(letter.from);
        break;
      default:
        return false;
    }
    answer_waiting();
    return true;
  }

  OwnedWeights& weights() { return weights_; }
  const StalenessCounts& counts() const { return staleness_.counts(); }
  std::int64_t steps() const { return std::ssize(seen_); }  // whose results were applied here
  // Called with the sender and the steps of each result before it is applied; returns whether it counts.
  std::function<bool(std::size_t, std::span<const std::int64_t>)> counts_as = {};

 private:
  // A worker's letters are answered in their order. Each answer may let others go on.
  void answer_waiting() {
    for (bool any = true; any;) {
      any = false;
      std::set<std::size_t> held;
      for (auto letter = waiting_.begin(); letter != waiting_.end();) {
        if (held.contains(letter->from) || !answer(*letter)) {
          held.insert(letter->from);
          ++letter;
          continue;
        }
        letter = waiting_.erase(letter);
        any = true;
      }
    }
  }

  bool answer(const Letter& letter) {
    if (letter.kind == kFetch) {
      // Further parts of an earlier read are as stale as that.
      if (letter.numbers.at(0) == 0 || !staleness_.has_read(letter.from)) {
        if (!staleness_.may_read(letter.from)) return false;
        staleness_.read(letter.from);
      }
      const std::vector<float> weights = weights_.weights();
      mail_.send(letter.from, kWeights, {}, bytes_of(weights));
      return true;
    }
    if (!staleness_.may_apply(letter.from)) return false;
    apply(letter);
    return true;
  }

  void apply(const Letter& letter) {
    const bool reads_on = letter.numbers.at(0) != 0 && !mail_.is_lost(letter.from), wants_answer = letter.numbers.at(1) != 0;
    const std::span<const std::int64_t> steps = std::span(letter.numbers).subspan(2);
    std::vector<float> moved;
    if (is_new(letter.from, steps)) {
      // A read does not go on where others wait for theirs.
      const bool others_wait = std::ranges::any_of(waiting_, [&](const Letter& l) { return l.kind == kFetch; });
      const bool goes_on = staleness_.apply(letter.from, reads_on && !others_wait);
      switch (run_.asynchronous().mode) {
        case Mode::kAdamDifferences:
          weights_.add(letter.floats());
          break;
        case Mode::kElastic:
          moved = weights_.approach(letter.floats(), static_cast<float>(kElasticBeta / static_cast<double>(workers_)));
          break;
        default:
          weights_.update(letter.floats(), run_.rate(std::ranges::max(steps)), staleness_.version());
      }
      if (wants_answer) mail_.send(letter.from, kApplied, {goes_on}, bytes_of(moved));
      return;
    }
    staleness_.forget(letter.from);
    moved.resize(letter.floats().size());
    if (wants_answer) mail_.send(letter.from, kApplied, {0}, bytes_of(moved));
  }

  // A step that two workers computed counts once.
  bool is_new(std::size_t from, std::span<const std::int64_t> steps) {
    bool any = false;
    for (const std::int64_t step : steps) any = seen_.insert(step).second || any;
    return counts_as ? counts_as(from, steps) : any;
  }

  AsynchronousRun& run_;
  Mail& mail_;
  const std::size_t workers_;
  OwnedWeights weights_;
  Staleness staleness_;
  std::list<Letter> waiting_;
  std::set<std::int64_t> seen_;
};

class Coordinator {
 public:
  Coordinator(AsynchronousRun& run, Mail& mail, const AsynchronousListener& listener)
      : run_(run), mail_(mail), listener_(listener), shard_(run, mail), steps_(run.steps()) {
    facts_.workers = mail.size() - run.asynchronous().servers;
    shard_.counts_as = [this](std::size_t, std::span<const std::int64_t> steps) { return steps_.finish(steps); };
  }

  AsynchronousFacts work(const std::stop_token& stop) {
    while (!steps_.over()) {
      if (stop.stop_requested()) steps_.stop();
      if (std::optional<Letter> letter = mail_.receive(kPatience)) handle(*letter);
      give_steps();
    }
    facts_.seconds = seconds();
    gather();
    facts_.steps = steps_.done(), facts_.complete = steps_.complete(), facts_.steps_again = steps_.again();
    return facts_;
  }

 private:
  static constexpr double kPatience = 0.1;  // seconds until what cannot be seen in letters is looked at

  bool is_server(std::size_t process) const { return process < run_.asynchronous().servers; }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  void handle(Letter& letter) {
    if (letter.kind == kLoss) return report(letter.numbers.at(0), std::bit_cast<double>(letter.numbers.at(1)));
    if (letter.kind == kNextStep) return asking_.push_back({letter.from, letter.numbers.at(0) != 0});
    if (letter.kind == kFailed)
      throw Error(static_cast<ErrorCode>(letter.numbers.at(0)),
                  std::string(reinterpret_cast<const char*>(letter.bytes.data()), letter.bytes.size()));
    const std::size_t from = letter.from;
    const bool lost = letter.kind == Mail::kLost;
    shard_.handle(letter);
    if (lost) lose(from);
  }

  void report(std::int64_t step, double loss) {
    if (!reported_.insert(step).second) return;
    if (!std::isfinite(loss)) steps_.finish({&step, 1});
    if (listener_.step) listener_.step(run_.report(std::ssize(reported_), loss, seconds()));
  }

  // A worker that gets no step waits, for it may have to compute those of another one. First it sends what it has.
  void give_steps() {
    for (auto asking = asking_.begin(); asking != asking_.end() && !steps_.over();) {
      std::optional<std::int64_t> step = steps_.next(asking->worker);
      if (!step && asking->has_more) step = kSendFirst;
      if (!step) step = steps_.late(asking->worker);
      if (!step) {
        ++asking;
        continue;
      }
      mail_.send(asking->worker, kNextStep, {*step});
      asking = asking_.erase(asking);
    }
  }

  void lose(std::size_t process) {
    if (is_server(process))
      throw Error(ErrorCode::kMissing, "process " + std::to_string(process) + " of " + std::to_string(mail_.size()) +
                                           ", a server, has ended with its shard of the weights");
    std::erase_if(asking_, [&](const Asking& a) { return a.worker == process; });
    steps_.lose(process);
    ++facts_.workers_lost;
    if (listener_.note)
      listener_.note("process " + std::to_string(process) + " of " + std::to_string(mail_.size()) +
                     " has ended: others compute its steps\n");
    if (facts_.workers_lost == facts_.workers) throw Error(ErrorCode::kMissing, "all workers have ended");
  }

  void gather() {
    for (std::size_t p = 1; p < mail_.size(); ++p) mail_.send(p, kEnd, {shard_.steps()});
    const std::vector<FlatRange> shards =
        run_.layout().shards(run_.asynchronous().servers, updates_by_elements(run_.options().graph.update.method));
    shard_.weights().copy_to(shards[0].of(std::span(run_.weights())));
    facts_.staleness = shard_.counts();
    std::set<std::size_t> missing;
    for (std::size_t s = 1; s < run_.asynchronous().servers; ++s) missing.insert(s);
    while (!missing.empty()) {
      const Letter letter = *mail_.receive(-1);
      if (!missing.contains(letter.from)) continue;
      if (letter.kind == Mail::kLost) lose(letter.from);
      if (letter.kind != kEnd) continue;
      std::ranges::copy(letter.floats(), shards[letter.from].of(std::span(run_.weights())).begin());
      facts_.staleness.add({letter.numbers.at(0), letter.numbers.at(1), letter.numbers.at(2)});
      missing.erase(letter.from);
    }
  }

  struct Asking {
    std::size_t worker;
    bool has_more;  // to send
  };

  AsynchronousRun& run_;
  Mail& mail_;
  const AsynchronousListener& listener_;
  ShardServer shard_;
  StepList steps_;
  std::vector<Asking> asking_;
  std::set<std::int64_t> reported_;
  AsynchronousFacts facts_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void serve(AsynchronousRun& run, Mail& mail) {
  ShardServer shard(run, mail);
  constexpr double kPatience = 2;       // seconds, for a worker that stopped between sending to one server and to the next
  std::optional<std::int64_t> awaited;  // at the end: the steps whose results the coordinator has
  const auto is_left = [&] {
    for (std::size_t p = run.asynchronous().servers; p < mail.size(); ++p)
      if (!mail.is_lost(p)) return true;
    return false;
  };
  while (!awaited || (shard.steps() < *awaited && is_left())) {
    std::optional<Letter> letter = mail.receive(awaited ? kPatience : -1);
    if (!letter) break;
    if (letter->from == 0 && letter->kind == Mail::kLost) throw Error(ErrorCode::kCancelled, "the coordinator has ended");
    if (letter->kind == kEnd)
      awaited = letter->numbers.at(0);
    else
      shard.handle(*letter);
  }
  const StalenessCounts& counts = shard.counts();
  mail.send(0, kEnd, {counts.updates, counts.total, counts.most}, bytes_of(shard.weights().weights()));
}

AsynchronousFacts coordinate(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                             const AsynchronousListener& listener) {
  return Coordinator(run, mail, listener).work(stop);
}

}  // namespace rewright::training
