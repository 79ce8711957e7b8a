// When messages were on a link: finds those that are on it at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/namespaces.h"

namespace rewright::plans {

// A message is on the link from `begin` on, and before `end`.
struct Passage {
  double begin = 0, end = 0;
  std::uint32_t task = 0;
  friend bool operator==(const Passage&, const Passage&) = default;
};

class LinkLog {
 public:
  // Takes passages out, and puts others in.
  void change(std::vector<Passage> removed, std::vector<Passage> added);

  template <class F>
  void for_each_at(double time, const F& use) const {
    for (std::size_t n = first_after(time); n > 0; --n) {
      const Passage& p = passages_[n - 1];
      if (p.begin < time - longest_) break;
      if (p.end > time) use(p.task);
    }
  }
  // The first passage that begins after this time and is of such a task; infinity: none.
  template <class F>
  double next_begin(double time, const F& of_task) const {
    for (std::size_t n = first_after(time); n < passages_.size(); ++n)
      if (of_task(passages_[n].task)) return passages_[n].begin;
    return std::numeric_limits<double>::infinity();
  }

  std::span<const Passage> passages() const { return passages_; }  // by their beginnings

 private:
  std::size_t first_after(double time) const;

  std::vector<Passage> passages_;
  double longest_ = 0;  // no passage is longer
};

}  // namespace rewright::plans
