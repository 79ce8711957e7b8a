// The threads that share the steps of an execution.
//
// A step is cut into pieces that do not depend on who computes them, and whoever is free takes the next: a thread that another
// process keeps off its processor holds up nothing but the piece it is in, and results are those of the cutting alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rewright::cpu {

class Crew;

// Into how many pieces to cut what can be cut into `units` and takes `nanoseconds` on one thread: several for each thread and
// as many for one as for another, but none that takes less than `piece_nanoseconds`.
std::int64_t piece_count(int threads, double nanoseconds, std::int64_t units, double piece_nanoseconds);

// A piece has the units from its first up to the first of the next.
inline std::int64_t first_unit(std::int64_t units, std::int64_t piece, std::int64_t pieces) { return units * piece / pieces; }

// The calling thread and, while this lives, helpers out of the process's pool: as many as are free, none if all work for
// others. The pool has no more threads than the machine has processors, or than the largest number asked for. No call is made
// from within a piece.
class Workers {
 public:
  // Pieces are no smaller than this; 0 to cut everything, in tests.
  static constexpr double kPieceNanoseconds = 4000;  // handing one out takes about a hundredth of this
  explicit Workers(int threads, double piece_nanoseconds = kPieceNanoseconds);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The number asked for, which steps are cut for.
  int threads() const { return threads_; }

  // Calls f(piece, thread) for each of the pieces, on several threads at once; 0 <= thread < threads() is another one for each
  // of those that run at the same time. Neighbouring pieces mostly go to the same thread, as those of the step before. What f
  // throws first is thrown when all that had been begun is done.
  template <class F>
  void share(std::int64_t pieces, const F& f) const {
    if (crew_ != nullptr && pieces > 1)
      return share(pieces, &f, [](const void* context, std::int64_t piece, int thread) {
        (*static_cast<const F*>(context))(piece, thread);
      });
    for (std::int64_t piece = 0; piece < pieces; ++piece) f(piece, 0);
  }

  // As piece_count.
  std::int64_t pieces(double nanoseconds, std::int64_t units) const {
    return piece_count(threads_, nanoseconds, units, piece_nanoseconds_);
  }

  // Calls f(unit, thread) for each of the units, cut into such pieces; `nanoseconds` are those of all.
  template <class F>
  void for_each(std::int64_t units, double nanoseconds, const F& f) const {
    const std::int64_t count = pieces(nanoseconds, units);
    share(count, [&](std::int64_t piece, int thread) {
      for (std::int64_t u = first_unit(units, piece, count); u < first_unit(units, piece + 1, count); ++u) f(u, thread);
    });
  }

 private:
  using Function = void (*)(const void* context, std::int64_t piece, int thread);
  void share(std::int64_t pieces, const void* context, Function function) const;

  int threads_;
  double piece_nanoseconds_;
  Crew* crew_ = nullptr;  // null: nobody helps
};

}  // namespace rewright::cpu
