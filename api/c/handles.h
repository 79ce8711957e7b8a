// Shared by the files of the C interface: handles, and statuses for failures.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/language/language_model.h"
#include "api/optimization.h"
#include "api/planning.h"
#include "api/rewright_c.h"
#include "api/training.h"
#include "graph/graph.h"
#include "operators/procedure.h"
#include "runtime/session.h"

namespace rewright::c {

// The memory that a rewright_value points to.
struct Described {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::vector<const char*> name_pointers;
  rewright_value value{};
};
// A deque, so that elements do not move.
using AllDescribed = std::deque<Described>;
// Open sizes are -1 and have a name in `size_names`; "" for the others.
void describe(AllDescribed& all, const std::string& name, DataType type, std::vector<std::int64_t> sizes,
              std::vector<std::string> size_names);
void describe_unknown(AllDescribed& all, const std::string& name, DataType type);
void describe(AllDescribed& all, const std::string& name, const TensorType& type, bool shape_known);
rewright_status value_of(const AllDescribed* all, std::size_t i, rewright_value* value);

// In a handler of an exception: keeps the texts for rewright_error_text() and its like. Returns the status.
rewright_status keep_failure() noexcept;

// Runs `work` and returns its status; no exception leaves the library.
template <class Work>
rewright_status guarded(const Work& work) noexcept {
  try {
    work();
    return REWRIGHT_OK;
  } catch (...) {
    return keep_failure();
  }
}

template <class T>
T& required(T* pointer, const char* what) {
  if (!pointer) throw Error(ErrorCode::kUsage, std::string(what) + " is null");
  return *pointer;
}

}  // namespace rewright::c

struct rewright_operators {
  rewright::operators::Procedures procedures;
};

struct rewright_model {
  rewright_model(rewright::graph::Graph graph, std::string name, bool is_rewritten);
  rewright::graph::Graph graph;
  std::string name;
  bool is_rewritten;  // by an optimization: written as the command line writes it
  rewright::c::AllDescribed inputs, outputs;
};

struct rewright_options {
  rewright::api::OptimizationRequest request;
  bool page = false;
  rewright_progress progress = nullptr;
  void* user = nullptr;
};

struct rewright_result {
  rewright_model model;
  double speedup;
  std::string report, certificate, page;
};

struct rewright_training {
  rewright::api::TrainingRequest request;
  rewright_step_told told = nullptr;
  void* user = nullptr;
};

struct rewright_planning {
  rewright::api::PlanRequest request;
};

struct rewright_plan {
  std::string text, report;
};

struct rewright_trained {
  rewright_model model;
  double loss;
  std::string report;
};

struct rewright_session {
  std::unique_ptr<rewright::runtime::Session> session;
  std::vector<std::string> inputs, outputs;  // their names
  // Weights that callers may override, and the sessions in which these are inputs, made when they are first given.
  std::set<std::string> overridable;
  std::function<std::unique_ptr<rewright_session>(const std::set<std::string>&)> with;
  std::mutex mutex;  // guards the members below
  std::map<std::set<std::string>, std::unique_ptr<rewright_session>> with_inputs;
  std::deque<std::string> warnings;  // those returned to the caller: they stay in memory
};

struct rewright_language_model {
  rewright::api::LanguageModel model;
};

struct rewright_generation {
  rewright::api::LanguageModel model;
  rewright::api::GenerationRequest request;
  std::vector<rewright::api::Tokens> prompts;
  std::optional<rewright::api::Generation> started;
};

struct rewright_ending {
  std::atomic<bool> ended = false;
};
