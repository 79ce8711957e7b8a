#include "runtime/cpu/base/tile_registers.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace rewright::cpu {

namespace {

// The parts of a thread's state that the operating system saves, by number.
std::uint64_t saved_states() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

// Linux saves tiles, 8 KiB a thread, only for a process that has asked for it, and refuses where a thread's stack for signals
// is too small.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileConfiguration = 17, kTileData = 18;
  constexpr std::uint32_t kSavesStates = 1u << 27, kTiles = 1u << 24, kProductsOfBytes = 1u << 25;
  constexpr std::uint64_t kBoth = std::uint64_t{1} << kTileConfiguration | std::uint64_t{1} << kTileData;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSavesStates) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kProductsOfBytes) == 0) return false;
  if ((saved_states() & kBoth) != kBoth) return false;
  // Palette 1: in b the registers and the bytes of a row, in c the rows.
  if (__get_cpuid_count(0x1D, 1, &a, &b, &c, &d) == 0 || b >> 16 < 8 || (b & 0xFFFF) < 64 || (c & 0xFFFF) < 16) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_tile_registers() {
  static const bool has = [] {
    const char* const wanted = std::getenv("REWRIGHT_TILE_REGISTERS");
    return (wanted == nullptr || std::string_view(wanted) != "0") && __builtin_cpu_supports("avx512vnni") && may_use_tiles();
  }();
  return has;
}

}  // namespace rewright::cpu
