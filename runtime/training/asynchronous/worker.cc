#include "runtime/training/asynchronous/worker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/training/asynchronous/letters.h"

namespace rewright::training {

namespace {

struct RunIsOver {};

class Worker {
 public:
  Worker(AsynchronousRun& run, Mail& mail)
      : run_(run),
        mail_(mail),
        how_(run.asynchronous()),
        shards_(run.layout().shards(how_.servers, updates_by_elements(run.options().graph.update.method))),
        replica_(run.replica(run.options().threads)),
        weights_(run.weights()),
        gradient_(weights_.size()) {
    // Downpour's gradients need an optimizer here only for steps between two reads.
    if (how_.mode != Mode::kDownpour || how_.fetch > 1) own_.emplace(run.owned(run.layout().whole(), run.options().threads));
    if (how_.mode == Mode::kDownpour) accrued_.resize(weights_.size());
  }

  void work() {
    while (true) {
      mail_.send(0, kNextStep, {!unsent_.empty() || reading_});
      const std::int64_t step = wait(kNextStep, 0).numbers.at(0);
      if (step == kSendFirst) {
        if (!unsent_.empty()) push(false);
        give_up_read();
        continue;
      }
      if (!reading_ || (since_fetch_ >= how_.fetch && how_.mode != Mode::kElastic)) fetch();
      const double loss = replica_.gradient(run_.batch(step), weights_, gradient_);
      run_.require_finite(loss, step);
      mail_.send(0, kLoss, {step, std::bit_cast<std::int64_t>(loss)});
      ++since_fetch_;
      if (!std::isfinite(loss)) continue;
      take(step);
      if (static_cast<std::int64_t>(unsent_.size()) >= how_.push)
        push(how_.mode == Mode::kElastic || since_fetch_ < how_.fetch);
    }
  }

 private:
  void take(std::int64_t step) {
    unsent_.push_back(step);
    if (how_.mode == Mode::kDownpour)
      for (std::size_t n = 0; n < accrued_.size(); ++n) accrued_[n] += gradient_[n];
    if (!own_) return;
    own_->update(gradient_, run_.rate(step), ++own_steps_);
    own_->copy_to(weights_);
  }

  // With a bound of staleness one shard after the other, in the same order in all workers, so that none waits for another that
  // waits for it.
  void fetch() {
    const bool one_by_one = how_.max_staleness.has_value();
    std::vector<float> fetched(weights_.size());
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      mail_.send(s, kFetch, {!unsent_.empty()});
      if (one_by_one) receive_shard(s, fetched);
    }
    for (std::size_t s = 0; s < shards_.size() && !one_by_one; ++s) receive_shard(s, fetched);
    reading_ = true;
    since_fetch_ = 0;
    if (how_.mode == Mode::kElastic && std::exchange(has_weights_, true)) return;  // its weights are its own
    if (how_.mode == Mode::kAdamDifferences) {                                     // with what it has not sent yet
      if (!unsent_.empty())
        for (std::size_t n = 0; n < fetched.size(); ++n) weights_[n] = fetched[n] + (weights_[n] - base_[n]);
      base_ = fetched;
      if (unsent_.empty()) weights_ = std::move(fetched);
    } else {
      weights_ = std::move(fetched);
    }
    if (own_) own_->set(weights_);
  }

  void receive_shard(std::size_t s, std::span<float> whole) {
    const Letter letter = wait(kWeights, s);
    std::ranges::copy(letter.floats(), shards_[s].of(whole).begin());
  }

  void push(bool reads_on) {
    const bool elastic = how_.mode == Mode::kElastic, answered = elastic || reads_on;
    std::span<const float> sent = weights_;
    std::vector<float> change;
    if (how_.mode == Mode::kDownpour) sent = accrued_;
    if (how_.mode == Mode::kAdamDifferences) {
      change.resize(weights_.size());
      for (std::size_t n = 0; n < change.size(); ++n) change[n] = weights_[n] - base_[n];
      sent = change;
    }
    std::vector<std::int64_t> numbers{reads_on, answered};
    numbers.insert(numbers.end(), unsent_.begin(), unsent_.end());
    for (std::size_t s = 0; s < shards_.size(); ++s) mail_.send(s, kPush, numbers, std::as_bytes(shards_[s].of(sent)));
    unsent_.clear();
    std::ranges::fill(accrued_, 0.0f);
    if (how_.mode == Mode::kAdamDifferences) base_ = weights_;
    bool all_go_on = reads_on;
    for (std::size_t s = 0; s < shards_.size() && answered; ++s) {
      const Letter letter = wait(kApplied, s);
      all_go_on = all_go_on && letter.numbers.at(0) != 0;
      if (!elastic) continue;
      const std::span<float> mine = shards_[s].of(std::span(weights_));
      for (std::size_t n = 0; n < mine.size(); ++n) mine[n] -= letter.floats()[n];
    }
    if (elastic) own_->set(weights_);
    if (all_go_on) return;
    if (reads_on)
      give_up_read();  // of those servers that let it go on
    else
      reading_ = false;
  }

  void give_up_read() {
    for (std::size_t s = 0; s < shards_.size() && reading_; ++s) mail_.send(s, kGiveUpRead, {});
    reading_ = false;
  }

  // Other servers may have ended before the coordinator's kEnd is here; if one was lost, the coordinator ends.
  Letter wait(std::uint32_t kind, std::size_t from) {
    const auto wanted = [&](const Letter& l) { return l.kind == kind && l.from == from; };
    if (const auto early = std::ranges::find_if(early_, wanted); early != early_.end()) {
      Letter letter = std::move(*early);
      early_.erase(early);
      return letter;
    }
    while (true) {
      Letter letter = *mail_.receive(-1);
      if (letter.kind == kEnd) throw RunIsOver();
      if (letter.kind == Mail::kLost && letter.from == 0) throw Error(ErrorCode::kCancelled, "the coordinator has ended");
      if (wanted(letter)) return letter;
      if (letter.kind != Mail::kLost) early_.push_back(std::move(letter));
    }
  }

  AsynchronousRun& run_;
  Mail& mail_;
  const AsynchronousOptions& how_;
  const std::vector<FlatRange> shards_;
  Replica replica_;
  std::optional<OwnedWeights> own_;
  std::int64_t own_steps_ = 0;
  std::vector<float> weights_, gradient_;
  std::vector<float> accrued_;        // the sum of gradients since the last push
  std::vector<float> base_;           // the weights that the servers know of
  std::vector<std::int64_t> unsent_;  // steps
  std::int64_t since_fetch_ = 0;
  bool reading_ = false, has_weights_ = false;
  std::vector<Letter> early_;
};

}  // namespace

void work(AsynchronousRun& run, Mail& mail) {
  try {
    Worker(run, mail).work();
  } catch (const RunIsOver&) {
  }
}

}  // namespace rewright::training
