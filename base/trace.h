// Traces in Chrome's format, which Perfetto's page shows (ui.perfetto.dev): what ran when, a row a thread.
//
//   Trace trace;
//   trace.add({.name = "Conv", .category = "step", .start = 0, .seconds = 2e-3});
//   write_file("trace.json", trace.text());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/namespaces.h"

namespace rewright {

struct TraceEvent {
  std::string name = {}, category = {};
  double start = 0, seconds = 0;  // seconds from the trace's beginning
  std::uint32_t process = 1, thread = 1;
  std::vector<std::pair<std::string, std::variant<double, std::string>>> facts = {};
};

// Events of one row may follow each other or lie within each other, and not overlap otherwise.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  void name_process(std::uint32_t process, const std::string& name);
  void name_thread(std::uint32_t process, std::uint32_t thread, const std::string& name);
  void add(const TraceEvent& event);
  // From the end of one event to the start of another.
  void arrow(const TraceEvent& from, const TraceEvent& to);

  std::string text() const;  // JSON on one line

 private:
  struct Events;
  std::unique_ptr<Events> events_;
};

}  // namespace rewright
