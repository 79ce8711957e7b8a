#include "runtime/cpu/base/workers.h"

#include <immintrin.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/session.h"

namespace rewright::cpu {

namespace {

constexpr int kPiecesOfThread = 4;

// A waiting thread first spins, then yields, and finally sleeps: it mostly waits no longer than a step takes, but on a busy
// machine the thread it waits for may need this very processor.
constexpr int kSpins = 400;
constexpr auto kYielding = std::chrono::microseconds(400);

template <class Done>
bool wait_awake(const Done& done) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done()) return true;
    _mm_pause();
  }
  const auto end = std::chrono::steady_clock::now() + kYielding;
  do {
    if (done()) return true;
    sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

std::int64_t piece_count(int threads, double nanoseconds, std::int64_t units, double piece_nanoseconds) {
  if (threads <= 1 || units <= 1) return 1;
  const double worth = piece_nanoseconds > 0 ? nanoseconds / piece_nanoseconds : 1e9;
  const std::int64_t most =
      std::min({static_cast<std::int64_t>(std::min(worth, 1e9)), units, std::int64_t{threads} * kPiecesOfThread});
  if (most <= 1) return 1;
  return most > threads ? most / threads * threads : most;
}

// Helper threads that work for one execution at a time, and the step they share.
class Crew {
 public:
  // Has fewer helpers if the system cannot create more threads.
  explicit Crew(int helpers) : ranges_(static_cast<std::size_t>(helpers) + 1) {
    try {
      for (; helpers_ < helpers; ++helpers_) std::thread(&Crew::help, this, helpers_ + 1).detach();
    } catch (const std::system_error&) {
    }
  }

  int helpers() const { return helpers_; }

  // At most `threads` - 1 helpers take part.
  void share(int threads, std::int64_t pieces, const void* context, void (*function)(const void*, std::int64_t, int)) {
    function_ = function;
    context_ = context;
    count_ = static_cast<int>(std::min<std::int64_t>({pieces, threads, helpers_ + 1}));
    for (int r = 0; r < count_; ++r) {
      ranges_[static_cast<std::size_t>(r)].next.store(first_unit(pieces, r, count_), std::memory_order_relaxed);
      ranges_[static_cast<std::size_t>(r)].end = first_unit(pieces, r + 1, count_);
    }
    state_.store(kOpen, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    work(0);
    state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    wait_awake([&] { return state_.load(std::memory_order_acquire) == 0; });
    for (std::uint32_t inside; (inside = state_.load(std::memory_order_acquire)) != 0;) state_.wait(inside);
    if (!failed_.load(std::memory_order_relaxed)) return;
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  // Pieces of one thread; the others take them when they have none of their own left.
  struct alignas(64) Range {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };

  void work(int thread) {
    for (int r = 0; r < count_; ++r) {
      Range& range = ranges_[static_cast<std::size_t>((thread + r) % count_)];
      // Reads first: a counter that is only read stays in all caches.
      while (range.next.load(std::memory_order_relaxed) < range.end) {
        const std::int64_t piece = range.next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= range.end) break;
        if (failed_.load(std::memory_order_relaxed)) continue;
        try {
          function_(context_, piece, thread);
        } catch (...) {
          const std::lock_guard lock(failing_);
          if (!failed_.exchange(true)) failure_ = std::current_exception();
        }
      }
    }
  }

  void help(int thread) {
    omp_set_num_threads(1);  // for libraries that a piece may call
    for (std::uint32_t seen = 0;;) {
      wait_awake([&] { return generation_.load(std::memory_order_acquire) != seen; });
      generation_.wait(seen);
      seen = generation_.load(std::memory_order_acquire);
      if (!enter()) continue;
      if (thread < count_) work(thread);
      leave();
    }
  }

  // The step may only be read while it is open.
  bool enter() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    while ((state & kOpen) != 0)
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    return false;
  }
  void leave() {
    if (state_.fetch_sub(1, std::memory_order_release) == 1) state_.notify_one();
  }

  static constexpr std::uint32_t kOpen = std::uint32_t{1} << 31;

  int helpers_ = 0;
  // The open step.
  void (*function_)(const void*, std::int64_t, int) = nullptr;
  const void* context_ = nullptr;
  int count_ = 0;  // ranges
  std::vector<Range> ranges_;
  std::mutex failing_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;

  alignas(64) std::atomic<std::uint32_t> state_ = 0;  // kOpen, and the number of helpers inside
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;
};

namespace {

// Crews are never destroyed, only put to sleep: a helper that wakes up late still finds its data.
class Pool {
 public:
  Crew* take(int helpers) {
    const std::lock_guard lock(mutex_);
    // The smallest crew that is large enough, or the largest.
    std::size_t best = free_.size();
    const auto better = [&](int a, int b) { return a >= helpers ? b < helpers || a < b : a > b; };
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (best == free_.size() || better(free_[i]->helpers(), free_[best]->helpers())) best = i;
    const int found = best < free_.size() ? free_[best]->helpers() : 0;
    // Asking the system for the number of processors takes half a microsecond, which small models would notice.
    const int more = found < helpers ? std::max(helpers, usable_threads(0) - 1) - total_ : 0;
    if (more > found) {
      all_.push_back(std::make_unique<Crew>(std::min(helpers, more)));
      total_ += all_.back()->helpers();
      free_.reserve(all_.size());
      return all_.back().get();
    }
    if (best == free_.size()) return nullptr;
    Crew* const crew = free_[best];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    return crew;
  }

  void give_back(Crew* crew) {
    const std::lock_guard lock(mutex_);
    free_.push_back(crew);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Crew>> all_;
  std::vector<Crew*> free_;
  int total_ = 0;  // helpers
};

// There is only one, since the processors are the machine's, and programs may load the library several times. It outlives all
// static objects, whose destructors may run sessions; its threads end with the process.
Pool& pool() {
  static Pool& pool = *new Pool;
  return pool;
}

}  // namespace

Workers::Workers(int threads, double piece_nanoseconds)
    : threads_(std::max(threads, 1)), piece_nanoseconds_(piece_nanoseconds) {
  if (threads_ > 1) crew_ = pool().take(threads_ - 1);
}

Workers::~Workers() {
  if (crew_ != nullptr) pool().give_back(crew_);
}

void Workers::share(std::int64_t pieces, const void* context, Function function) const {
  crew_->share(threads_, pieces, context, function);
}

}  // namespace rewright::cpu
