#include "runtime/cpu/planning/measured_choices.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rewright::cpu {

namespace {

std::string entry_name(const std::string& problem, const std::string& way) { return problem + ", " + way; }

}  // namespace

MeasuredChoices::MeasuredChoices(const std::filesystem::path& file, std::string device, bool measure)
    : database_(file), device_(std::move(device)), measure_(measure) {
  for (const CostDatabase::Entry& entry : database_.all(device_))
    if (entry.seconds && std::isfinite(*entry.seconds) && *entry.seconds > 0) seconds_[entry.signature] = *entry.seconds;
}

std::size_t MeasuredChoices::choose(const std::string& problem, std::span<const std::string> ways, std::size_t estimated,
                                    const std::function<std::vector<double>()>& time) {
  const auto is_known = [&](const std::string& way) { return seconds_.contains(entry_name(problem, way)); };
  if (!std::all_of(ways.begin(), ways.end(), is_known)) {
    if (!measure_) return estimated;
    std::vector<double> measured;
    try {
      measured = time();
    } catch (const Error&) {
      return estimated;
    }
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const std::string name = entry_name(problem, ways[w]);
      seconds_[name] = measured.at(w);
      fresh_.push_back({name, measured[w]});
    }
  }
  std::size_t best = estimated;
  double least = kClearlyFaster * seconds_.at(entry_name(problem, ways[estimated]));
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const double seconds = seconds_.at(entry_name(problem, ways[w]));
    if (w == estimated || seconds >= least) continue;
    best = w;
    least = seconds;
  }
  return best;
}

std::optional<std::string> MeasuredChoices::found(const std::string& problem) {
  const auto [entry, is_new] = found_.try_emplace(problem);
  if (is_new) entry->second = database_.find_choice(device_, problem);
  return entry->second;
}

void MeasuredChoices::keep_found(const std::string& problem, const std::string& alternative) {
  found_[problem] = alternative;
  database_.store_choice(device_, problem, alternative);
}

void MeasuredChoices::save() {
  database_.store(device_, fresh_);
  fresh_.clear();
}

}  // namespace rewright::cpu
