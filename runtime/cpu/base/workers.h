// The threads that share the steps of an execution.
//
// A step is divided into pieces that do not depend on who computes them, and each free thread takes the next one. A thread that
// loses its processor delays only its own piece, and results depend only on the division.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rewright::cpu {

class Crew;

// The number of pieces for work of `units` units that takes `nanoseconds` on one thread: several for each thread, and equally
// many, but none shorter than `piece_nanoseconds`.
std::int64_t piece_count(int threads, double nanoseconds, std::int64_t units, double piece_nanoseconds);

// A piece has the units from its first up to the first of the next.
inline std::int64_t first_unit(std::int64_t units, std::int64_t piece, std::int64_t pieces) { return units * piece / pieces; }

// The calling thread and, while this object exists, helpers from the process's pool: as many as are free, possibly none. The
// pool has at most as many threads as the machine has processors, or as the largest number requested. Must not be used from
// within a piece.
class Workers {
 public:
  // The shortest pieces; 0 for as many as possible, in tests.
  static constexpr double kPieceNanoseconds = 4000;  // handing one out takes about a hundredth of this
  explicit Workers(int threads, double piece_nanoseconds = kPieceNanoseconds);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The requested number, by which steps are divided.
  int threads() const { return threads_; }

  // Calls f(piece, thread) for each piece, on several threads at once. 0 <= thread < threads() differs between concurrent
  // calls. Neighbouring pieces mostly go to the same thread, and to the same one as in the previous step. The first exception
  // of f is thrown after all started pieces have ended.
  template <class F>
  void share(std::int64_t pieces, const F& f) const {
    if (crew_ != nullptr && pieces > 1)
      return share(pieces, &f, [](const void* context, std::int64_t piece, int thread) {
        (*static_cast<const F*>(context))(piece, thread);
      });
    for (std::int64_t piece = 0; piece < pieces; ++piece) f(piece, 0);
  }

  // See piece_count.
  std::int64_t pieces(double nanoseconds, std::int64_t units) const {
    return piece_count(threads_, nanoseconds, units, piece_nanoseconds_);
  }

  // Calls f(unit, thread) for each unit, divided into such pieces. `nanoseconds`: of all units.
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
  Crew* crew_ = nullptr;  // null: no helpers
};

}  // namespace rewright::cpu
