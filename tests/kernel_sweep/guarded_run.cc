#include "tests/kernel_sweep/guarded_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "runtime/cpu/base/libraries.h"
#include "runtime/cpu/running/runner.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kArenaAlignment = 64, kPattern = 64;
constexpr std::byte kBeside{0xa5};
// As a float this is NaN, so that unwritten elements show in results.
constexpr std::byte kUnwritten{0xff};

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

class GuardedRun::Pages {
 public:
  // The end, or the beginning, of these bytes touches a page without access; the address is a multiple of `alignment`.
  Pages(std::size_t bytes, std::size_t alignment, Side side) : bytes_(bytes) {
    const std::size_t page = page_bytes();
    inner_ = round_up(std::max(bytes, std::size_t{1}), page);
    void* const all = ::mmap(nullptr, inner_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw Error(ErrorCode::kMissing, "not enough memory for guarded pages");
    all_ = static_cast<std::byte*>(all);
    begin_ = all_ + page;
    allow(PROT_READ | PROT_WRITE);
    data_ = side == Side::kBegin ? begin_ : begin_ + (inner_ - round_up(bytes, alignment));
    std::fill(data_, data_ + bytes, kUnwritten);
    const auto before = static_cast<std::size_t>(data_ - begin_), after = inner_ - before - bytes;
    before_ = std::min(before, kPattern);
    after_ = std::min(after, kPattern);
    std::fill(data_ - before_, data_, kBeside);
    std::fill(data_ + bytes, data_ + bytes + after_, kBeside);
  }
  ~Pages() { ::munmap(all_, inner_ + 2 * page_bytes()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return data_; }
  void allow(int access) {
    if (::mprotect(begin_, inner_, access) != 0) throw Error(ErrorCode::kMissing, "cannot protect pages");
    readable_ = access != PROT_NONE;
  }
  bool pattern_is_there() const {
    const auto same = [](std::byte b) { return b == kBeside; };
    return !readable_ ||
           (std::all_of(data_ - before_, data_, same) && std::all_of(data_ + bytes_, data_ + bytes_ + after_, same));
  }

 private:
  std::byte *all_ = nullptr, *begin_ = nullptr, *data_ = nullptr;
  std::size_t bytes_ = 0, inner_ = 0, before_ = 0, after_ = 0;
  bool readable_ = true;
};

GuardedRun::GuardedRun(const Plan& plan, std::span<const Tensor> inputs, Side side)
    : plan_(plan), pages_(plan.storages.size()), addresses_(plan.storages.size()) {
  for (std::size_t s = 0; s < plan.storages.size(); ++s) {
    const Storage& storage = plan.storages[s];
    if (storage.part_of >= 0) continue;
    const std::byte* given = nullptr;
    std::size_t bytes = storage.bytes, alignment = kArenaAlignment;
    switch (storage.kind) {
      case Storage::Kind::kArena:
        break;
      case Storage::Kind::kInput: {
        const Tensor& input = inputs[static_cast<std::size_t>(storage.number)];
        given = input.bytes().data();
        bytes = input.byte_count();
        alignment = std::max<std::size_t>(1, byte_size(input.type()));  // callers' memory may have no other alignment
        break;
      }
      case Storage::Kind::kOutput: {
        const TensorType& type = plan.output_types[static_cast<std::size_t>(storage.number)];
        bytes = static_cast<std::size_t>(element_count(values(type.shape))) * byte_size(type.type);
        alignment = std::max<std::size_t>(1, byte_size(type.type));
        break;
      }
      case Storage::Kind::kConstant:
        given = storage.fixed;
        break;
    }
    pages_[s] = std::make_unique<Pages>(bytes, alignment, side);
    addresses_[s] = pages_[s]->data();
    if (given == nullptr || bytes == 0) continue;
    std::memcpy(addresses_[s], given, bytes);
    pages_[s]->allow(PROT_READ);
  }
  for (std::size_t s = 0; s < plan.storages.size(); ++s) {
    std::size_t root = s, at = 0;
    for (; plan.storages[root].part_of >= 0; root = static_cast<std::size_t>(plan.storages[root].part_of))
      at += plan.storages[root].part_at;
    if (root != s) addresses_[s] = addresses_[root] + at;
  }
}

GuardedRun::~GuardedRun() = default;

// Makes values of the arena accessible only while they live: otherwise their bytes belong to others.
void GuardedRun::make_accessible(std::size_t step) {
  const int now = static_cast<int>(step);
  for (std::size_t s = 0; s < pages_.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    if (pages_[s] == nullptr || storage.kind != Storage::Kind::kArena) continue;
    const bool lives = storage.first <= now && now <= storage.last;
    if (now == 0 || now == storage.first || now == storage.last + 1)
      pages_[s]->allow(lives ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void GuardedRun::check_patterns(std::size_t step) const {
  for (const auto& pages : pages_)
    if (pages != nullptr && !pages->pattern_is_there())
      throw std::runtime_error("step " + std::to_string(step) + " (" + plan_.steps[step].operators + ", " +
                               plan_.steps[step].kernel->source() + ") writes beside a storage");
}

void GuardedRun::execute(const Observe& observe) {
  const LibrariesOnOneThread alone;
  const Workers workers(plan_.options.threads, plan_.options.piece_nanoseconds);
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const Step& step = plan_.steps[n];
    make_accessible(n);
    inputs.clear();
    outputs.clear();
    for (const int s : step.inputs) inputs.push_back(addresses_[static_cast<std::size_t>(s)]);
    for (const int s : step.outputs) outputs.push_back(addresses_[static_cast<std::size_t>(s)]);
    std::byte* const scratch = step.scratch >= 0 ? addresses_[static_cast<std::size_t>(step.scratch)] : nullptr;
    name_guarded_step("step " + std::to_string(n) + " (" + step.operators + ", " + step.kernel->source() + ")");
    step.kernel->run({inputs, outputs, scratch, workers});
    check_patterns(n);
    if (observe) observe(n, addresses_);
  }
  name_guarded_step("");
}

namespace {

char guarded_step[512];

void tell_and_end(int signal) {
  if (guarded_step[0] != '\0') {
    static constexpr char kText[] = " touches memory outside of its storages\n";
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, guarded_step, std::strlen(guarded_step));
    written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  }
  std::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

void name_guarded_step(const std::string& text) {
  static std::once_flag installed;
  std::call_once(installed, [] { std::signal(SIGSEGV, tell_and_end); });
  const std::size_t length = std::min(text.size(), sizeof guarded_step - 1);
  std::memcpy(guarded_step, text.data(), length);
  guarded_step[length] = '\0';
}

}  // namespace rewright::cpu
