#include "distribution/agreement.h"

#include <vector>

#include "base/error.h"

namespace rewright::distribution {

namespace {

// Names and values in turn, each preceded by its length and a colon.
std::string packed(const std::map<std::string, std::string>& facts) {
  std::string bytes;
  for (const auto& [name, value] : facts)
    for (const std::string* text : {&name, &value}) bytes += std::to_string(text->size()) + ":" + *text;
  return bytes;
}

std::map<std::string, std::string> unpacked(const std::string& bytes) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t colon = bytes.find(':', at);
    if (colon == std::string::npos) break;
    const std::size_t length = std::strtoull(bytes.c_str() + at, nullptr, 10);
    texts.push_back(bytes.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  std::map<std::string, std::string> facts;
  for (std::size_t n = 0; n + 1 < texts.size(); n += 2) facts[texts[n]] = texts[n + 1];
  return facts;
}

}  // namespace

void require_agreement(Communicator& processes, const std::map<std::string, std::string>& facts) {
  const std::vector<std::string> all = processes.all_gather(packed(facts));
  const std::map<std::string, std::string> first = unpacked(all[0]);
  for (std::size_t p = 1; p < all.size(); ++p) {
    std::map<std::string, std::string> other = unpacked(all[p]);
    for (const auto& [name, value] : first) {
      const auto at = other.find(name);
      if (at != other.end() && at->second == value) continue;
      throw Error(ErrorCode::kUsage, "process " + std::to_string(p) + " was started with another " + name +
                                         " than process 0: " + (at == other.end() ? "none" : at->second) + ", not " + value);
    }
  }
}

}  // namespace rewright::distribution
