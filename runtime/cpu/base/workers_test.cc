#include "runtime/cpu/base/workers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace rewright;
using namespace rewright::cpu;

TEST_CASE("every piece is computed once, by a thread that computes nothing else at the time") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int threads = 1 + static_cast<int>(random() % 5);
    const Workers workers(threads);
    for (int step = 0; step < 20; ++step) {
      const auto pieces = static_cast<std::int64_t>(random() % 40);
      std::vector<std::atomic<int>> computed(static_cast<std::size_t>(pieces)), busy(static_cast<std::size_t>(threads));
      std::atomic<int> wrong = 0;
      workers.share(pieces, [&](std::int64_t piece, int thread) {
        if (thread < 0 || thread >= threads || busy[static_cast<std::size_t>(thread)]++ != 0) ++wrong;
        ++computed[static_cast<std::size_t>(piece)];
        --busy[static_cast<std::size_t>(thread)];
      });
      for (const std::atomic<int>& times : computed) wrong += times != 1;
      REQUIRE(wrong == 0);
    }
  }
}

// A piece that waits for another one needs a second thread to end.
TEST_CASE("pieces run at the same time") {
  const Workers workers(2);
  std::atomic<int> inside = 0;
  workers.share(2, [&](std::int64_t, int) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  CHECK(inside == 2);
}

TEST_CASE("what a piece throws is thrown by the step, and the next step works") {
  for (const int threads : {1, 2, 4}) {
    const Workers workers(threads);
    for (int round = 0; round < 50; ++round) {
      const auto fails = static_cast<std::int64_t>(round % 16);
      CHECK_THROWS_WITH(workers.share(16,
                                      [&](std::int64_t piece, int) {
                                        if (piece >= fails) throw std::runtime_error("piece");
                                      }),
                        "piece");
      std::atomic<int> done = 0;
      workers.share(16, [&](std::int64_t, int) { ++done; });
      CHECK(done == 16);
    }
  }
}

TEST_CASE("many threads have helpers at the same time, or none") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 16; ++c)
    callers.emplace_back([&, c] {
      for (int round = 0; round < 50; ++round) {
        const Workers workers(1 + (c + round) % 4);
        std::vector<int> result(100, -1);
        for (int step = 0; step < 5; ++step) {
          workers.for_each(100, 1e6, [&](std::int64_t unit, int) { result[static_cast<std::size_t>(unit)] = c * step; });
          for (const int value : result) wrong += value != c * step;
        }
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("work is cut into as many pieces for each thread, none too small") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const int threads = 1 + static_cast<int>(random() % 9);
    const auto units = static_cast<std::int64_t>(random() % 100);
    const double nanoseconds = static_cast<double>(random() % 200000), least = 4000;
    CAPTURE(threads, units, nanoseconds);
    const std::int64_t pieces = piece_count(threads, nanoseconds, units, least);
    REQUIRE(pieces >= 1);
    if (threads == 1 || units < 2 || nanoseconds < 2 * least) {
      CHECK(pieces == 1);
      continue;
    }
    CHECK(pieces <= units);
    CHECK(static_cast<double>(pieces) * least <= nanoseconds);
    CHECK((pieces <= threads || pieces % threads == 0));
    CHECK(piece_count(threads, nanoseconds, units, 0) >= std::min<std::int64_t>(threads, units));
  }
}
