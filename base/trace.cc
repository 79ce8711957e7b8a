#include "base/trace.h"

#include <nlohmann/json.hpp>

namespace rewright {

struct Trace::Events {
  nlohmann::json list = nlohmann::json::array();
  std::size_t arrows = 0;
};

Trace::Trace() : events_(std::make_unique<Events>()) {}
Trace::~Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;

void Trace::name_process(std::uint32_t process, const std::string& name) {
  events_->list.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}});
  events_->list.push_back({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", process}, {"args", {{"sort_index", process}}}});
}

void Trace::name_thread(std::uint32_t process, std::uint32_t thread, const std::string& name) {
  events_->list.push_back(
      {{"name", "thread_name"}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
}

void Trace::add(const TraceEvent& event) {
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : event.facts) std::visit([&, key = name](const auto& v) { facts[key] = v; }, value);
  events_->list.push_back({{"name", event.name},
                           {"cat", event.category},
                           {"ph", "X"},
                           {"ts", event.start * 1e6},
                           {"dur", event.seconds * 1e6},
                           {"pid", event.process},
                           {"tid", event.thread},
                           {"args", std::move(facts)}});
}

void Trace::arrow(const TraceEvent& from, const TraceEvent& to) {
  const std::size_t number = ++events_->arrows;
  const auto end = [&](const char* phase, double seconds, const TraceEvent& event) {
    return nlohmann::json{{"name", "waits"},     {"cat", "waits"},       {"ph", phase},        {"id", number},
                          {"ts", seconds * 1e6}, {"pid", event.process}, {"tid", event.thread}};
  };
  events_->list.push_back(end("s", from.start + from.seconds, from));
  events_->list.push_back(end("f", to.start, to));
  events_->list.back()["bp"] = "e";  // the event that encloses this time, not the next one
}

std::string Trace::text() const {
  const nlohmann::json trace = {{"traceEvents", events_->list}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rewright
