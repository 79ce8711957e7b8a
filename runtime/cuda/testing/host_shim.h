// CUDA C++ on the host: prepended to kernels that the host's compiler compiles.
#pragma once

namespace rewright::cuda {

inline constexpr const char* kHostShim = R"(
#include <math.h>
#include <ucontext.h>
#include <memory>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(n)
namespace {
struct Position { unsigned x; };
Position blockIdx, threadIdx;

// The threads of a block are fibers: each runs until it waits for the others.
constexpr unsigned kStack = 64 << 10;
ucontext_t scheduler;
std::vector<ucontext_t> fibers;
std::vector<char> ended;
std::unique_ptr<char[]> stacks;
unsigned current;
double exchanged[2048];
void (*body)(void**);
void** body_arguments;
void enter() { body(body_arguments); ended[current] = 1; }
void wait() {
  const unsigned me = current;
  swapcontext(&fibers[me], &scheduler);
  threadIdx.x = me;
}
void run_together(unsigned threads) {
  if (fibers.size() < threads) {
    stacks.reset(new char[(size_t)threads * kStack]);
    fibers.resize(threads);
  }
  ended.assign(threads, 0);
  for (unsigned t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks.get() + (size_t)t * kStack;
    fibers[t].uc_stack.ss_size = kStack;
    fibers[t].uc_link = &scheduler;
    makecontext(&fibers[t], enter, 0);
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (ended[t]) continue;
      current = threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t]);
      alive = alive || !ended[t];
    }
  }
}
void __syncthreads() { wait(); }
int atomicExch(int* at, int value) { std::swap(*at, value); return value; }
template <class T> T __shfl_xor_sync(unsigned, T x, int other) {
  const unsigned me = threadIdx.x;
  static_assert(sizeof(T) <= sizeof(double));
  __builtin_memcpy(&exchanged[me], &x, sizeof(T));
  wait();
  __builtin_memcpy(&x, &exchanged[me ^ (unsigned)other], sizeof(T));
  wait();
  return x;
}
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) { kernel((A)arguments[I]...); }
template <class... A>
void call(void (*kernel)(A...), void** arguments) { call(kernel, arguments, std::make_index_sequence<sizeof...(A)>()); }
void launch(void (*with)(void**), void** arguments, unsigned blocks, unsigned threads, bool together) {
  body = with;
  body_arguments = arguments;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    if (together) run_together(threads);
    else for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) with(arguments);
  }
}
}  // namespace
)";

// An entry for a kernel: a function NAME_on_host(arguments, blocks, threads).
inline constexpr const char* kHostEntry = R"(
static void NAME_call(void** arguments) { call(NAME, arguments); }
extern "C" void NAME_on_host(void** arguments, unsigned blocks, unsigned threads) {
  launch(NAME_call, arguments, blocks, threads, TOGETHER);
}
)";

}  // namespace rewright::cuda
