#include "runtime/training/asynchronous/sandblaster.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/training/asynchronous/letters.h"
#include "runtime/training/asynchronous/line_search.h"
#include "runtime/training/asynchronous/step_list.h"

namespace rewright::training {

namespace {

// Vectors by number: the weights, the gradient there, the direction, both before the step, then pairs of differences.
enum Vector : std::int64_t { kX, kG, kD, kX0, kG0, kPairs };
constexpr std::int64_t kHistory = 10;  // pairs

enum Operation : std::int64_t {
  kBegin,  // an evaluation with this number: the gradient is 0
  kCopy,   // a = b
  kScale,  // a = s a
  kAdd,    // a = a + s b
  kDot,    // the result is a . b
};

// Shards of all vectors.
class VectorShards {
 public:
  explicit VectorShards(std::span<const float> weights) : count_(weights.size()) {
    of(kX).assign(weights.begin(), weights.end());
  }

  std::vector<float>& of(std::int64_t number) {
    std::vector<float>& v = vectors_[number];
    v.resize(count_);
    return v;
  }

  double operate(Operation operation, std::int64_t a_number, std::int64_t b_number, double s) {
    std::vector<float>& a = of(operation == kBegin ? std::int64_t{kG} : a_number);
    const std::vector<float>& b = of(operation == kBegin ? std::int64_t{kG} : b_number);
    double sum = 0;
    switch (operation) {
      case kBegin:
        evaluation_ = a_number;
        added_.clear();
        std::ranges::fill(a, 0.0f);
        break;
      case kCopy:
        a = b;
        break;
      case kScale:
        for (float& v : a) v = static_cast<float>(s * v);
        break;
      case kAdd:
        for (std::size_t n = 0; n < count_; ++n) a[n] = static_cast<float>(a[n] + s * b[n]);
        break;
      case kDot:
        for (std::size_t n = 0; n < count_; ++n) sum += static_cast<double>(a[n]) * b[n];
        break;
    }
    return sum;
  }

  // A worker's letter; returns whether it was one for a shard.
  bool handle(const Letter& letter, Mail& mail) {
    if (letter.kind == kFetch) {
      mail.send(letter.from, kWeights, {}, std::as_bytes(std::span<const float>(of(kX))));
    } else if (letter.kind == kPartGradient) {
      if (letter.numbers.at(0) == evaluation_ && added_.insert(letter.numbers.at(1)).second)
        for (std::size_t n = 0; n < count_; ++n) of(kG)[n] += letter.floats()[n];
      mail.send(letter.from, kPartAdded, {});
    } else {
      return false;
    }
    return true;
  }

 private:
  std::size_t count_;
  std::map<std::int64_t, std::vector<float>> vectors_;
  std::int64_t evaluation_ = -1;
  std::set<std::int64_t> added_;  // parts
};

std::vector<FlatRange> shards_of(const AsynchronousRun& run) { return run.layout().shards(run.asynchronous().servers, true); }

struct Stopped {};

class LbfgsCoordinator {
 public:
  LbfgsCoordinator(AsynchronousRun& run, Mail& mail, const std::stop_token& stop, const AsynchronousListener& listener)
      : run_(run),
        mail_(mail),
        stop_(stop),
        listener_(listener),
        shards_(shards_of(run)),
        vectors_(shards_[0].of(std::span<const float>(run.weights()))) {
    for (std::size_t w = run.asynchronous().servers; w < mail.size(); ++w) idle_.insert(w);
    facts_.workers = idle_.size();
  }

  AsynchronousFacts work() {
    facts_.complete = true;
    try {
      descend();
    } catch (const Stopped&) {
      facts_.complete = evaluations_ >= run_.options().epochs;
    }
    facts_.seconds = seconds();
    facts_.steps = evaluations_ * run_.steps_per_epoch();
    gather();
    return facts_;
  }

 private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  // Limited-memory BFGS (Nocedal and Wright, Numerical Optimization, algorithm 7.5).
  void descend() {
    double value = evaluate();
    std::deque<std::int64_t> pairs;  // from the oldest
    for (std::int64_t iteration = 0;; ++iteration) {
      set_direction(pairs);
      double slope = dot(kG, kD);
      if (!(slope < 0)) {
        pairs.clear();
        set_direction(pairs);
        slope = dot(kG, kD);
      }
      if (!(slope < 0)) return;  // the gradient is 0
      operate(kCopy, kX0, kX), operate(kCopy, kG0, kG);
      const double first = pairs.empty() ? std::min(1.0, 1 / std::sqrt(-slope)) : 1;
      double found = value;
      const auto at = [&](double step) {
        operate(kCopy, kX, kX0), operate(kAdd, kX, kD, step);
        found = evaluate();
        return OnLine{found, dot(kG, kD)};
      };
      double step = 0;
      try {
        step = search_line({value, slope}, first, at);
      } catch (const Stopped&) {
        if (!(found < value)) operate(kCopy, kX, kX0);
        throw;
      }
      if (step == 0) {
        operate(kCopy, kX, kX0), operate(kCopy, kG, kG0);
        if (pairs.empty()) return;  // no descent within the precision of the loss
        pairs.clear();
        continue;
      }
      value = found;
      facts_.staleness.add(0);
      const std::int64_t slot = iteration % kHistory, s = kPairs + 2 * slot, y = s + 1;
      std::erase(pairs, slot);
      operate(kCopy, s, kX), operate(kAdd, s, kX0, -1);
      operate(kCopy, y, kG), operate(kAdd, y, kG0, -1);
      curvature_[slot] = dot(s, y);
      if (curvature_[slot] > 1e-10 * dot(y, y)) pairs.push_back(slot);
    }
  }

  void set_direction(const std::deque<std::int64_t>& pairs) {
    operate(kCopy, kD, kG);
    std::map<std::int64_t, double> alpha;
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      const std::int64_t s = kPairs + 2 * *pair, y = s + 1;
      alpha[*pair] = dot(s, kD) / curvature_[*pair];
      operate(kAdd, kD, y, -alpha[*pair]);
    }
    if (!pairs.empty()) {
      const std::int64_t y = kPairs + 2 * pairs.back() + 1;
      operate(kScale, kD, kD, curvature_[pairs.back()] / dot(y, y));
    }
    for (const std::int64_t pair : pairs) {
      const std::int64_t s = kPairs + 2 * pair, y = s + 1;
      operate(kAdd, kD, s, alpha[pair] - dot(y, kD) / curvature_[pair]);
    }
    operate(kScale, kD, kD, -1);
  }

  double dot(std::int64_t a, std::int64_t b) { return operate(kDot, a, b); }

  double operate(Operation operation, std::int64_t a, std::int64_t b = 0, double s = 0) {
    std::set<std::size_t> missing;
    for (std::size_t p = 1; p < shards_.size(); ++p) {
      mail_.send(p, kOperate, {operation, a, b, std::bit_cast<std::int64_t>(s)});
      missing.insert(p);
    }
    std::vector<double> results(shards_.size());
    results[0] = vectors_.operate(operation, a, b, s);
    while (!missing.empty()) {
      const Letter letter = *mail_.receive(-1);
      if (letter.kind == kOperated && missing.erase(letter.from))
        results[letter.from] = std::bit_cast<double>(letter.numbers.at(0));
      else
        handle(letter);
    }
    return std::accumulate(results.begin(), results.end(), 0.0);  // in the order of the shards
  }

  // The mean loss at kX, and its gradient in kG.
  double evaluate() {
    if (stop_.stop_requested() || evaluations_ >= run_.options().epochs) throw Stopped();
    const std::int64_t parts = run_.steps_per_epoch();
    operate(kBegin, ++evaluation_);
    list_.emplace(parts);
    loss_ = 0;
    while (!list_->complete()) {
      if (stop_.stop_requested()) throw Stopped();
      give_parts();
      if (const std::optional<Letter> letter = mail_.receive(0.1)) handle(*letter);
    }
    facts_.steps_again += list_->again();
    ++evaluations_;
    operate(kScale, kG, kG, 1 / static_cast<double>(parts));
    const double loss = loss_ / static_cast<double>(parts);
    if (listener_.step) listener_.step(run_.report(evaluations_ * parts, loss, seconds()));
    return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
  }

  void give_parts() {
    for (auto worker = idle_.begin(); worker != idle_.end();) {
      std::optional<std::int64_t> part = list_->next(*worker);
      if (!part) part = list_->late(*worker);
      if (!part) return;
      mail_.send(*worker, kPart, {evaluation_, *part});
      worker = idle_.erase(worker);
    }
  }

  void handle(const Letter& letter) {
    if (vectors_.handle(letter, mail_)) return;
    if (letter.kind == Mail::kLost) return lose(letter.from);
    if (letter.kind == kFailed)
      throw Error(static_cast<ErrorCode>(letter.numbers.at(0)),
                  std::string(reinterpret_cast<const char*>(letter.bytes.data()), letter.bytes.size()));
    if (letter.kind != kPartDone) return;
    idle_.insert(letter.from);
    const std::int64_t part = letter.numbers.at(1);
    if (letter.numbers.at(0) == evaluation_ && list_->finish({&part, 1})) loss_ += std::bit_cast<double>(letter.numbers.at(2));
  }

  void lose(std::size_t process) {
    const std::string name = "process " + std::to_string(process) + " of " + std::to_string(mail_.size());
    if (process < shards_.size())
      throw Error(ErrorCode::kMissing, name + ", a server, has ended with its shard of the weights");
    idle_.erase(process);
    if (list_) list_->lose(process);
    if (listener_.note) listener_.note(name + " has ended: others compute its steps\n");
    if (++facts_.workers_lost == facts_.workers) throw Error(ErrorCode::kMissing, "all workers have ended");
  }

  void gather() {
    for (std::size_t p = 1; p < mail_.size(); ++p) mail_.send(p, kEnd, {});
    std::ranges::copy(vectors_.of(kX), shards_[0].of(std::span(run_.weights())).begin());
    std::set<std::size_t> missing;
    for (std::size_t p = 1; p < shards_.size(); ++p) missing.insert(p);
    while (!missing.empty()) {
      const Letter letter = *mail_.receive(-1);
      if (!missing.contains(letter.from)) continue;
      if (letter.kind == Mail::kLost) lose(letter.from);
      if (letter.kind != kEnd) continue;
      std::ranges::copy(letter.floats(), shards_[letter.from].of(std::span(run_.weights())).begin());
      missing.erase(letter.from);
    }
  }

  AsynchronousRun& run_;
  Mail& mail_;
  const std::stop_token stop_;
  const AsynchronousListener& listener_;
  const std::vector<FlatRange> shards_;
  VectorShards vectors_;
  std::set<std::size_t> idle_;  // workers
  std::optional<StepList> list_;
  std::int64_t evaluation_ = 0, evaluations_ = 0;  // the number of the present one, and how many are done
  double loss_ = 0;
  std::map<std::int64_t, double> curvature_;  // s . y of each pair
  AsynchronousFacts facts_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

AsynchronousFacts coordinate_sandblaster(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                                         const AsynchronousListener& listener) {
  return LbfgsCoordinator(run, mail, stop, listener).work();
}

void serve_sandblaster(AsynchronousRun& run, Mail& mail) {
  VectorShards vectors(shards_of(run)[mail.rank()].of(std::span<const float>(run.weights())));
  while (true) {
    const Letter letter = *mail.receive(-1);
    if (letter.from == 0 && letter.kind == Mail::kLost) throw Error(ErrorCode::kCancelled, "the coordinator has ended");
    if (letter.kind == kEnd) break;
    if (letter.kind == kOperate) {
      const auto& n = letter.numbers;
      const double result = vectors.operate(static_cast<Operation>(n.at(0)), n.at(1), n.at(2), std::bit_cast<double>(n.at(3)));
      mail.send(0, kOperated, {std::bit_cast<std::int64_t>(result)});
    } else {
      vectors.handle(letter, mail);
    }
  }
  mail.send(0, kEnd, {}, std::as_bytes(std::span<const float>(vectors.of(kX))));
}

void work_for_sandblaster(AsynchronousRun& run, Mail& mail) {
  Replica replica = run.replica(run.options().threads);
  const std::vector<FlatRange> shards = shards_of(run);
  std::vector<float> weights = run.weights(), gradient(weights.size());
  std::int64_t fetched = -1;  // the evaluation that the weights are of
  // One answer of each server. False: the run is over. Other servers may have ended before the coordinator's kEnd is here.
  const auto answers = [&](std::uint32_t kind) {
    for (std::size_t missing = shards.size(); missing > 0;) {
      const Letter letter = *mail.receive(-1);
      if (letter.kind == kEnd) return false;
      if (letter.kind == Mail::kLost && letter.from == 0) throw Error(ErrorCode::kCancelled, "the coordinator has ended");
      if (letter.kind != kind) continue;
      if (kind == kWeights) std::ranges::copy(letter.floats(), shards[letter.from].of(std::span(weights)).begin());
      --missing;
    }
    return true;
  };
  while (true) {
    const Letter letter = *mail.receive(-1);
    if (letter.kind == kEnd) return;
    if (letter.kind == Mail::kLost && letter.from == 0) throw Error(ErrorCode::kCancelled, "the coordinator has ended");
    if (letter.kind != kPart) continue;
    const std::int64_t evaluation = letter.numbers.at(0), part = letter.numbers.at(1);
    if (std::exchange(fetched, evaluation) != evaluation) {
      for (std::size_t s = 0; s < shards.size(); ++s) mail.send(s, kFetch, {});
      if (!answers(kWeights)) return;
    }
    const double loss = replica.gradient(run.batch(part), weights, gradient);
    for (std::size_t s = 0; s < shards.size() && std::isfinite(loss); ++s)
      mail.send(s, kPartGradient, {evaluation, part}, std::as_bytes(shards[s].of(std::span<const float>(gradient))));
    if (std::isfinite(loss) && !answers(kPartAdded)) return;
    mail.send(0, kPartDone, {evaluation, part, std::bit_cast<std::int64_t>(loss)});
  }
}

}  // namespace rewright::training
