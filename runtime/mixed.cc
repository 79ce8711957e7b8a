#include "runtime/mixed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "graph/execute.h"
#include "graph/onnx/import/specialize.h"
#include "graph/operator_execution.h"
#include "graph/sizes.h"
#include "runtime/checked_kernels.h"
#include "runtime/opaque_kernels.h"
#include "runtime/parts.h"
#include "runtime/recently_used.h"
#include "runtime/text_moves.h"

namespace rewright::runtime {

namespace {

// The least elements that a compiled part's nodes read and write. For smaller parts, mostly arithmetic of shapes, calling a
// session takes as long as interpreting them, and they would have to be prepared.
constexpr double kLeastElements = 2000;
constexpr std::size_t kRememberedSizes = 16;  // sizes cached for a part: a loop with growing tensors has ever new ones

using Clock = std::chrono::steady_clock;

double elements_of(const Graph& graph) {
  double elements = 0;
  for (const auto& node : graph.nodes())
    for (const auto* list : {&node->inputs, &node->outputs})
      for (const ValueId id : *list)
        if (id != kNoValue) elements += static_cast<double>(element_count(values(graph.value(id).type.shape)));
  return elements;
}

// Combines the profiles, warnings and checks of several sessions.
struct Findings {
  std::vector<StepProfile> steps;
  std::vector<std::string> warnings;
  std::size_t peak_bytes = 0;
  CheckedKernels checked;

  // `timed`: its steps are not a part of one that is there.
  void add(const Session& session, bool timed = true) {
    if (timed)
      for (StepProfile& step : session.profile()) steps.push_back(std::move(step));
    for (std::string& warning : session.warnings()) warnings.push_back(std::move(warning));
    peak_bytes = std::max(peak_bytes, session.peak_bytes());
    const CheckedKernels more = checked_kernels(session);
    checked.steps += more.steps;
    checked.checked += more.checked;
    checked.elements += more.elements;
  }
};

// Names of sizes that are those of the graph's inputs, or of what is made of texts: calls give the same ones again, as far as
// one can tell. Other sizes are counts of what was found in elements, and ever new.
std::set<std::string> recurring_sizes(const Graph& graph) {
  std::set<std::string> names;
  const auto add = [&](ValueId id) { names.merge(symbols_of(graph.value(id).type.shape)); };
  for (const ValueId id : graph.inputs()) add(id);
  const auto is_text = [&](ValueId id) { return id != kNoValue && graph.value(id).type.type == DataType::kString; };
  for (const auto& node : graph.nodes())
    if (std::any_of(node->inputs.begin(), node->inputs.end(), is_text))
      for (const ValueId id : node->outputs)
        if (id != kNoValue) add(id);
  return names;
}

// Are all sizes of the part's inputs and attributes among these?
bool has_only_sizes(const Part& part, const std::set<std::string>& names) {
  std::set<std::string> own(part.symbols.begin(), part.symbols.end());
  for (const ValueId id : part.graph.inputs()) {
    if (!part.graph.value(id).shape_known) return false;
    own.merge(symbols_of(part.graph.value(id).type.shape));
  }
  return std::includes(names.begin(), names.end(), own.begin(), own.end());
}

// A part of the graph, prepared for each set of sizes that occurs. Types are those of the actual values, since the declared
// types of opaque nodes' results may be wrong.
class CompiledPart {
 public:
  // `sizes_recur`: the same sizes will be given often, so that a small part is prepared for them, too.
  CompiledPart(Part part, bool sizes_recur, const Backend& backend, const SessionOptions& options)
      : open_(std::move(part)), sizes_recur_(sizes_recur), backend_(backend), options_(options) {
    std::vector<TensorType> types;
    for (const ValueId id : this->part().graph.inputs()) types.push_back(this->part().graph.value(id).type);
    const bool known = std::all_of(types.begin(), types.end(), [](const TensorType& type) { return all_constant(type.shape); });
    if (known && this->part().symbols.empty()) find(types, {});
  }

  const Part& part() const { return open_.part(); }

  std::vector<Datum> run(std::span<const Datum> inputs, const BoundSizes& bound) {
    std::vector<TensorType> types;
    for (const Datum& input : inputs) types.push_back({input.tensor().type(), to_indices(input.tensor().sizes())});
    const std::shared_ptr<const Prepared> prepared = find(types, bound);
    return prepared->session ? prepared->session->execute(inputs)
                             : graph::execute(prepared->graph, inputs, options_.checkpoint);
  }

  void add_to(Findings& findings) const {
    prepared_.for_each([&](const Prepared& prepared) {
      if (prepared.session) findings.add(*prepared.session);
    });
  }

 private:
  struct Prepared {
    Graph graph;  // interpreted if there is no session
    std::unique_ptr<Session> session;
  };
  using Key = std::vector<std::int64_t>;

  std::shared_ptr<const Prepared> find(std::span<const TensorType> types, const BoundSizes& bound) {
    constexpr std::int64_t kUnknown = -1;
    Key key;
    for (const TensorType& type : types) {
      key.push_back(static_cast<std::int64_t>(type.type));
      key.push_back(static_cast<std::int64_t>(type.rank()));
      for (const Index& size : type.shape) key.push_back(size.value());
    }
    for (const std::string& symbol : part().symbols) {
      const auto known = bound.find(symbol);
      key.push_back(known == bound.end() ? kUnknown : known->second);
    }
    return prepared_.get(key, [&] {
      auto prepared = std::make_shared<Prepared>();
      Graph graph = open_.with_types(types, substitution(bound));
      if (is_definite(graph) && (sizes_recur_ || elements_of(graph) >= kLeastElements))
        prepared->session = backend_.prepare(graph, options_);
      else
        prepared->graph = std::move(graph);
      return prepared;
    });
  }

  OpenPart open_;
  bool sizes_recur_;
  const Backend& backend_;
  SessionOptions options_;
  RecentlyUsed<Key, Prepared> prepared_{kRememberedSizes};
};

// The session of a graph inside of an opaque node.
std::unique_ptr<Executable> prepare_inner(const Graph& graph, Repetition repetition, const Backend& backend,
                                          const SessionOptions& options);

class MixedSession final : public Session, public ChecksKernels {
 public:
  // `is_inner`: of a loop or a branch, whose tensors may have other sizes each time.
  MixedSession(const Graph& graph, const Backend& backend, const SessionOptions& options, bool is_inner = false)
      : graph_(graph), backend_(backend), options_(options) {
    options_.replacements.clear();  // they refer to the whole graph, not to its parts
    std::vector<Stage> stages = stages_of(graph_);
    if (!options_.resources) options_.resources = backend_.share_resources(static_cast<int>(stages.size()));
    // A plan cache serves one plan: the largest part's.
    const auto largest = std::max_element(stages.begin(), stages.end(), [](const Stage& a, const Stage& b) {
      return a.part.graph.nodes().size() < b.part.graph.nodes().size();
    });
    inner_options_ = options_;
    inner_options_.plan_cache.clear();
    const PrepareGraph prepare = [this](const Graph& inner, Repetition repetition) {
      return prepare_inner(inner, repetition, backend_, inner_options_);
    };
    const std::set<std::string> recurring = recurring_sizes(graph_);
    for (auto stage = stages.begin(); stage != stages.end(); ++stage) {
      Compiled compiled;
      if (!stage->part.graph.nodes().empty()) {
        const bool sizes_recur = !is_inner && has_only_sizes(stage->part, recurring);
        compiled.part = std::make_unique<CompiledPart>(std::move(stage->part), sizes_recur, backend_,
                                                       stage == largest ? options_ : inner_options_);
      }
      for (const std::size_t position : stage->interpreted) {
        const Node& node = *graph_.nodes()[position];
        InterpretedStep step{position, nullptr, nullptr, nullptr, {}};
        try {
          step.own = prepare_node(backend_, graph_, node, inner_options_);
          if (!step.own) step.moves = TextMoves::of(graph_, node, backend_, inner_options_);
          if (node.op == nullptr) step.opaque = std::make_unique<OpaqueExecution>(graph_, node, prepare, options_.checkpoint);
        } catch (const Error& error) {
          throw error.within(where_of(graph_, node));
        }
        step.profile.node = !node.origin || node.origin->name.empty() ? name_of_result(node) : node.origin->name;
        step.profile.operators = step.opaque ? step.opaque->operator_type() : node.op->name();
        compiled.interpreted.push_back(std::move(step));
      }
      stages_.push_back(std::move(compiled));
    }
    find_releases();
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const std::vector<Datum> data(inputs.begin(), inputs.end());
    return tensors_of(graph_, execute(data));
  }

  std::vector<Datum> execute(std::span<const Datum> inputs) override {
    BoundSizes bound = bound_sizes(graph_, tensors_or_none(inputs));
    std::vector<Datum> values(graph_.value_count());
    for (std::size_t i = 0; i < inputs.size(); ++i) values[graph_.inputs()[i]] = inputs[i];
    const auto given = [&](ValueId id) {
      return id == kNoValue ? Datum() : graph_.is_constant(id) ? Datum(graph_.value(id).constant) : values[id];
    };
    auto releases = releases_.begin();
    const auto release = [&] {
      for (const ValueId id : *releases++) values[id] = Datum();
    };
    for (Compiled& stage : stages_) {
      if (options_.checkpoint) options_.checkpoint();
      if (stage.part) {
        std::vector<Datum> operands;
        for (const ValueId id : stage.part->part().inputs) operands.push_back(given(id));
        std::vector<Datum> results = stage.part->run(operands, bound);
        for (std::size_t o = 0; o < results.size(); ++o) {
          const ValueId id = stage.part->part().outputs[o];
          bind_result(graph_, id, results[o], bound);
          values[id] = std::move(results[o]);
        }
        release();
      }
      for (InterpretedStep& step : stage.interpreted) {
        if (options_.checkpoint) options_.checkpoint();
        const Node& node = *graph_.nodes()[step.position];
        std::vector<Datum> operands, results;
        for (const ValueId id : node.inputs) operands.push_back(given(id));
        try {
          results = run_step(step, operands, bound);
          bind_results(graph_, node, results, bound);
        } catch (const Error& error) {
          throw error.within(where_of(graph_, node));
        }
        for (std::size_t k = 0; k < node.outputs.size() && k < results.size(); ++k)
          if (node.outputs[k] != kNoValue) values[node.outputs[k]] = std::move(results[k]);
        release();
      }
    }
    std::vector<Datum> results;
    for (const GraphOutput& output : graph_.outputs()) results.push_back(given(output.value));
    return results;
  }

  std::vector<StepProfile> profile() const override { return findings().steps; }
  std::vector<std::string> warnings() const override { return findings().warnings; }
  std::size_t peak_bytes() const override { return findings().peak_bytes; }
  CheckedKernels checked_kernels() const override { return findings().checked; }

 private:
  struct InterpretedStep {
    std::size_t position;
    std::unique_ptr<Executable> own;          // the backend's kernel; null: none
    std::unique_ptr<TextMoves> moves;         // null: the node is none that moves texts
    std::unique_ptr<OpaqueExecution> opaque;  // null: a known operator
    StepProfile profile;
  };

  struct Compiled {
    std::unique_ptr<CompiledPart> part;  // null: nothing to compile
    std::vector<InterpretedStep> interpreted;
  };

  // Finds the values that are no longer read after each part and interpreted step, so that they can be released. Otherwise a
  // long model would keep all values in memory.
  void find_releases() {
    std::vector<std::ptrdiff_t> last(graph_.value_count(), -1);
    std::ptrdiff_t number = 0;
    const auto note = [&](std::span<const ValueId> values) {
      for (const ValueId id : values)
        if (id != kNoValue) last[id] = number;
    };
    for (const Compiled& stage : stages_) {
      if (stage.part) {
        note(stage.part->part().inputs);
        note(stage.part->part().outputs);
        ++number;
      }
      for (const InterpretedStep& step : stage.interpreted) {
        note(graph_.nodes()[step.position]->inputs);
        note(graph_.nodes()[step.position]->outputs);
        ++number;
      }
    }
    for (const GraphOutput& output : graph_.outputs()) last[output.value] = -1;
    releases_.resize(static_cast<std::size_t>(number));
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.value_count()); ++id)
      if (last[id] >= 0) releases_[static_cast<std::size_t>(last[id])].push_back(id);
  }

  // One run at a time. A run that waits can be ended too.
  std::unique_lock<std::timed_mutex> lock_for_run() {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_, std::defer_lock);
    while (!lock.try_lock_for(kBetweenLooks))
      if (options_.checkpoint) options_.checkpoint();
    return lock;
  }

  // A node is executed by one thread at a time.
  std::vector<Datum> run_step(InterpretedStep& step, std::span<const Datum> operands, const BoundSizes& bound) {
    const std::unique_lock lock = lock_for_run();
    const Clock::time_point start = Clock::now();
    std::optional<std::vector<Datum>> moved;
    if (step.moves) moved = step.moves->run(operands);
    std::vector<Datum> results = moved         ? *std::move(moved)
                                 : step.own    ? step.own->run(operands)
                                 : step.opaque ? step.opaque->run(operands)
                                               : execute_operator(*graph_.nodes()[step.position], operands, bound);
    step.profile.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    ++step.profile.runs;
    return results;
  }

  std::string name_of_result(const Node& node) const {
    for (const ValueId id : node.outputs)
      if (id != kNoValue) return graph_.value(id).name;
    return {};
  }

  Findings findings() const {
    Findings all;
    for (const Compiled& stage : stages_) {
      if (stage.part) stage.part->add_to(all);
      const std::lock_guard lock(mutex_);
      for (const InterpretedStep& step : stage.interpreted)
        if (step.moves) step.moves->for_each_session([&](const Session& session) { all.add(session, false); });
      if (options_.profile)
        for (const InterpretedStep& step : stage.interpreted) all.steps.push_back(step.profile);
    }
    return all;
  }

  const Graph graph_;
  const Backend& backend_;
  SessionOptions options_;
  SessionOptions inner_options_;
  std::vector<Compiled> stages_;
  std::vector<std::vector<ValueId>> releases_;
  mutable std::timed_mutex mutex_;
};

class InnerSession final : public Executable {
 public:
  InnerSession(const Graph& graph, const Backend& backend, const SessionOptions& options)
      : session_(graph, backend, options, true) {}
  std::vector<Datum> run(std::span<const Datum> inputs) override { return session_.execute(inputs); }

 private:
  MixedSession session_;
};

// The session of a graph with known types that is compiled as a whole, however small.
class CompiledGraph final : public Executable {
 public:
  CompiledGraph(const Graph& graph, const Backend& backend, const SessionOptions& options)
      : session_(backend.prepare(graph, options)) {}
  std::vector<Datum> run(std::span<const Datum> inputs) override { return session_->execute(inputs); }

 private:
  std::unique_ptr<Session> session_;
};

std::unique_ptr<Executable> prepare_inner(const Graph& graph, Repetition repetition, const Backend& backend,
                                          const SessionOptions& options) {
  if (repetition == Repetition::kOften && is_compiled(graph) && is_definite(graph))
    return std::make_unique<CompiledGraph>(graph, backend, options);
  return std::make_unique<InnerSession>(graph, backend, options);
}

bool has_open_inputs(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId id) { return !graph.value(id).shape_known || !all_constant(graph.value(id).type.shape); });
}

// A session for inputs of any sizes. Sizes with different names are assumed equal where operators require it. If inputs
// contradict this (one size is 1 and broadcast), the model is imported again with their sizes, and that session is cached.
class OpenSession final : public Session {
 public:
  OpenSession(const Graph& graph, const Backend& backend, const SessionOptions& options)
      : graph_(graph),
        backend_(backend),
        options_(with_resources(options, graph, backend)),
        general_(graph, backend, options_) {
    options_.plan_cache.clear();
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const std::vector<Datum> data(inputs.begin(), inputs.end());
    return tensors_of(graph_, execute(data));
  }

  std::vector<Datum> execute(std::span<const Datum> inputs) override {
    if (const std::shared_ptr<Session> special = has_special_ ? special_.find(sizes_of(inputs)) : nullptr)
      return special->execute(inputs);
    if (is_open_and_empty(graph_, tensors_or_none(inputs)))
      if (std::optional<std::vector<Datum>> results = execute_read_again(inputs)) return *std::move(results);
    try {
      return general_.execute(inputs);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadInput) throw;
      std::optional<std::vector<Datum>> results = execute_read_again(inputs);
      if (!results) throw;
      return *std::move(results);
    }
  }

  std::vector<StepProfile> profile() const override { return general_.profile(); }
  std::vector<std::string> warnings() const override { return general_.warnings(); }
  std::size_t peak_bytes() const override { return general_.peak_bytes(); }

 private:
  static SessionOptions with_resources(SessionOptions options, const Graph& graph, const Backend& backend) {
    if (!options.resources) options.resources = backend.share_resources(static_cast<int>(stages_of(graph).size()));
    return options;
  }

  static std::vector<Sizes> sizes_of(std::span<const Datum> inputs) {
    std::vector<Sizes> sizes;
    for (const Datum& input : inputs) sizes.push_back(input.is_tensor() ? input.tensor().sizes() : Sizes());
    return sizes;
  }

  // If the model, imported again for these sizes, executes the inputs, caches its session; nullopt if that fails too: the first
  // error is reported.
  std::optional<std::vector<Datum>> execute_read_again(std::span<const Datum> inputs) {
    try {
      const std::vector<Tensor> tensors = tensors_or_none(inputs);
      bound_sizes(graph_, tensors);
      auto session = std::make_shared<MixedSession>(read_again(graph_, tensors), backend_, options_);
      std::vector<Datum> results = session->execute(inputs);
      special_.put(sizes_of(inputs), std::move(session));
      has_special_ = true;
      return results;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      return std::nullopt;
    }
  }

  const Graph graph_;
  const Backend& backend_;
  SessionOptions options_;
  MixedSession general_;
  RecentlyUsed<std::vector<Sizes>, Session> special_{kRememberedSizes};
  std::atomic<bool> has_special_ = false;
};

}  // namespace

Graph executed_form(const Backend& backend, const Graph& graph) {
  return backend.executes_opaque_nodes() || is_compiled(graph) ? graph : written_out(graph);
}

std::unique_ptr<Session> prepare_session(const Backend& backend, const Graph& graph, const SessionOptions& options) {
  if (backend.executes_opaque_nodes() || is_compiled(graph)) return backend.prepare(graph, options);
  require_executable(graph);
  if (has_open_inputs(graph)) return std::make_unique<OpenSession>(graph, backend, options);
  const Graph executed = options.replacements.empty() ? executed_form(backend, graph) : graph;
  if (is_compiled(executed)) return backend.prepare(executed, options);
  return std::make_unique<MixedSession>(executed, backend, options);
}

}  // namespace rewright::runtime
