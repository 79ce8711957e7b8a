#include "base/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"

namespace rewright {

namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// The number in a file that has nothing else; nothing where there is no file, or no number ("max").
std::optional<std::size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// The number behind a key at the begin of a line.
std::optional<std::size_t> number_behind(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  return std::nullopt;
}

// A version of control groups: how lines of /proc/self/cgroup with a group's path begin after their number, and its files.
struct ControlGroups {
  std::string line, folder, limit, usage, cached;
};

// The bytes that a control group and its parents leave. Cached files count as free: the kernel drops them first.
std::size_t available_in(const ControlGroups& groups) {
  std::ifstream file("/proc/self/cgroup");
  std::optional<std::string> path;
  for (std::string line; std::getline(file, line);)
    if (const std::size_t at = line.find(groups.line); at == line.find(':')) path = line.substr(at + groups.line.size());
  if (!path) return kUnlimited;
  for (std::size_t least = kUnlimited;; path->resize(path->rfind('/'))) {
    if (*path == "/") path->clear();
    const std::string folder = groups.folder + *path;
    const std::optional<std::size_t> most = number_in(folder + groups.limit), now = number_in(folder + groups.usage);
    if (most && now) {
      const std::size_t cached = number_behind(folder + "/memory.stat", groups.cached).value_or(0);
      least = std::min(least, *most - std::min(*most, *now - std::min(*now, cached)));
    }
    if (path->find('/') == std::string::npos) return least;
  }
}

}  // namespace

std::size_t resident_bytes() {
  std::size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t peak_resident_bytes() {
  const std::string key = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  return 0;
}

std::size_t available_bytes() {
  constexpr std::size_t kUnit = 1024;
  const std::optional<std::size_t> free = number_behind("/proc/meminfo", "MemAvailable:");
  const std::size_t swap = number_behind("/proc/meminfo", "SwapFree:").value_or(0);
  std::size_t least = free ? (*free + swap) * kUnit : kUnlimited;
  for (const ControlGroups& groups : {ControlGroups{"::", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file "},
                                      ControlGroups{":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                                    "/memory.usage_in_bytes", "total_inactive_file "}})
    least = std::min(least, available_in(groups));
  return least;
}

void require_memory(std::size_t bytes) {
  constexpr std::size_t kLooked = std::size_t{128} << 20;  // less takes no longer to allocate than to look
  const std::size_t left = bytes < kLooked ? kUnlimited : available_bytes();
  if (bytes <= left) return;
  const auto megabytes = [](std::size_t number) { return std::to_string(number >> 20) + " MB"; };
  throw Error(ErrorCode::kMissing,
              "not enough memory: " + megabytes(bytes) + " are needed, " + megabytes(left) + " are available");
}

std::size_t machine_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace rewright
