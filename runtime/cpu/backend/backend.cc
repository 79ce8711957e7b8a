#include "runtime/cpu/backend/backend.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "graph/onnx/import/specialize.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/cpu/backend/growing_cache.h"
#include "runtime/cpu/backend/kernel_check.h"
#include "runtime/cpu/backend/sized_plans.h"
#include "runtime/cpu/base/tile_registers.h"
#include "runtime/cpu/kernels/product/recurrent.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/passes.h"
#include "runtime/cpu/planning/precision.h"
#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/endable_run.h"
#include "runtime/opaque_kernels.h"
#include "runtime/planning/graph_facts.h"

namespace rewright::cpu {

namespace {

using cpu::PlanOptions;
using cpu::PlanRunner;

bool sizes_known(const Graph& graph) {
  return std::all_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId i) { return graph.value(i).shape_known && all_constant(graph.value(i).type.shape); });
}

// Turns failures of libraries into ours.
template <class F>
auto translated(F f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw Error(ErrorCode::kMissing, "out of memory");
    throw Error(ErrorCode::kUnsupported, std::string("oneDNN: ") + e.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kMissing, "out of memory");
  }
}

// A graph with only the inputs of this one.
Graph inputs_of(const Graph& graph) {
  Graph result;
  for (const ValueId i : graph.inputs()) result.add_input(graph.value(i).name, graph.value(i).type);
  return result;
}

// The graph without the nodes that no plan has.
OpenGraph planned(Graph graph) {
  graph = with_constants_handed_on(std::move(graph));
  graph.drop_unused_values();  // rewriting leaves many, and planning looks at all
  const std::vector<bool> nodes = planning::planned_nodes(graph);
  return OpenGraph(std::move(graph), nodes);
}

// Do the tensors have the types and sizes of a plan's inputs, so that nothing is left to bind?
bool same_types(std::span<const Tensor> tensors, const std::vector<TensorType>& types) {
  if (tensors.size() != types.size()) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Sizes& sizes = tensors[i].sizes();
    if (tensors[i].type() != types[i].type || sizes.size() != types[i].shape.size()) return false;
    for (std::size_t a = 0; a < sizes.size(); ++a)
      if (types[i].shape[a] != Index(sizes[a])) return false;
  }
  return true;
}

class CpuSession final : public Session, public StreamingSession, public ChecksKernels {
 public:
  CpuSession(Graph graph, const SessionOptions& options)
      : options_(options), outputs_(graph.outputs().begin(), graph.outputs().end()) {
    const bool by_definition = options.precision_double || options.check_kernels;  // operator by operator
    graph_ = options.precision_double ? cpu::in_double(graph) : std::move(graph);
    plan_options_.isa = cpu::usable_isa(options.max_isa);
    plan_options_.threads = usable_threads(options.threads);
    plan_options_.transformed_convolutions = options.transformed_convolutions;
    plan_options_.replacements = options.replacements;
    plan_options_.open_sizes = options.resources != nullptr || !sizes_known(graph_);  // parts of a model have any
    cpu::set_dnnl_limit(options.max_isa);
    choices_ = cpu_choices(options);
    plan_options_.searches_loops = options.kernels == KernelChoice::kSearched;
    resources_ = std::dynamic_pointer_cast<CpuResources>(options.resources);
    is_open_ = !sizes_known(graph_) || options.check_kernels;
    if (!is_open_) {
      for (const ValueId i : graph_.inputs()) fixed_types_.push_back(graph_.value(i).type);
      Graph inputs = inputs_of(graph_);
      if (!by_definition) graph_ = with_whole_operators(graph_);
      fixed_ = prepare({std::move(graph_)});
      graph_ = std::move(inputs);  // the plan has the constants in its own form
    } else {
      if (!resources_) resources_ = std::make_shared<CpuResources>(1);
      plans_.share_bytes({resources_, &resources_->plan_bytes});
      open_ = std::make_unique<const OpenGraph>(by_definition ? OpenGraph(graph_) : planned(with_whole_operators(graph_)));
      if (!by_definition) grow();
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> given) override {
    if (options_.precision_double) {
      std::vector<Tensor> inputs;
      for (const Tensor& t : given) inputs.push_back(cpu::widened(t));
      std::vector<Tensor> outputs = run_plan(inputs);
      for (std::size_t o = 0; o < outputs.size(); ++o) outputs[o] = cpu::narrowed(outputs[o], outputs_[o].type.type);
      return outputs;
    }
    return run_plan(given);
  }

  bool stream(TensorStream& tensors) override {
    if (!fixed_ || options_.precision_double) return false;
    translated([&] { fixed_->stream(tensors); });
    return true;
  }

  std::vector<Tensor> advance(std::vector<Tensor> inputs) override {
    if (options_.precision_double || options_.check_kernels || options_.replacements.empty()) return run(inputs);
    if (std::optional<Grown> grown = with_growing_cache(inputs))
      return translated([&] { return grown->runner->advance(std::move(inputs), &grown->lengths); });
    const std::shared_ptr<PlanRunner> runner = fixed_ && same_types(inputs, fixed_types_) ? fixed_ : runner_for(inputs);
    return translated([&] { return runner->advance(std::move(inputs)); });
  }

  std::vector<StepProfile> profile() const override {
    const std::shared_ptr<const PlanRunner> runner = last();
    std::vector<StepProfile> result;
    if (!runner) return result;
    const std::vector<double> seconds = runner->seconds();
    const int runs = runner->runs();
    for (std::size_t n = 0; n < runner->plan().steps.size(); ++n) {
      const cpu::Step& step = runner->plan().steps[n];
      result.push_back({step.node, step.operators, seconds[n], runs, step.flops, step.bytes, step.kernel->loops()});
    }
    return result;
  }
  std::vector<std::string> warnings() const override {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  CheckedKernels checked_kernels() const override {
    const std::lock_guard lock(mutex_);
    return checked_;
  }
  std::size_t peak_bytes() const override {
    const std::shared_ptr<const PlanRunner> runner = last();
    return !runner ? 0 : runner->plan().arena_bytes;
  }

 private:
  std::vector<Tensor> run_plan(std::span<const Tensor> inputs) {
    if (options_.check_kernels) {
      if (std::optional<std::vector<Tensor>> first = run_and_check(inputs)) return std::move(*first);
    }
    if (growing_) {
      std::vector<Tensor> all(inputs.begin(), inputs.end());
      if (std::optional<Grown> grown = with_growing_cache(all))
        return translated([&] { return grown->runner->run(all, &grown->lengths); });
    }
    const std::shared_ptr<PlanRunner> runner = fixed_ && same_types(inputs, fixed_types_) ? fixed_ : runner_for(inputs);
    return translated([&] { return runner->run(inputs); });
  }

  // ---- One plan for all lengths of a cache
  struct Growing {
    GrowingCache parts;
    std::unique_ptr<CpuSession> before;
    std::unique_ptr<const OpenGraph> rest;
    SizedPlans plans;
  };
  struct Grown {
    std::shared_ptr<PlanRunner> runner;
    CacheLengths lengths;
  };

  void grow() {
    std::optional<GrowingCache> parts = find_growing_cache(open_->graph());
    if (!parts) return;
    growing_ = std::make_unique<Growing>();
    growing_->plans.share_bytes({resources_, &resources_->plan_bytes});
    SessionOptions options = options_;
    options.threads = 1, options.plan_cache.clear(), options.replacements.clear(), options.resources = resources_;
    growing_->before = std::make_unique<CpuSession>(parts->before, options);
    growing_->rest = std::make_unique<const OpenGraph>(planned(parts->rest));
    growing_->parts = std::move(*parts);
  }

  // Appends the further inputs of the plan for all lengths. nullopt if the call is none of those that it serves.
  std::optional<Grown> with_growing_cache(std::vector<Tensor>& inputs) {
    if (!growing_) return std::nullopt;
    const Substitution sizes = bind_sizes(open_->graph(), inputs);
    if (!growing_->parts.serves(sizes)) return std::nullopt;
    Grown grown;
    grown.lengths = growing_->parts.lengths(sizes);
    const auto make = [&] { return prepare({growing_->rest->with_sizes(sizes), growing_->rest.get()}); };
    try {
      grown.runner = growing_->plans.get(growing_->parts.key(inputs, grown.lengths), make);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadInput) throw;
      return std::nullopt;  // sizes for which the model is read again, or that do not fit
    }
    if (!grown.runner->serves_any_lengths()) return std::nullopt;
    for (Tensor& t : growing_->before->run(inputs)) inputs.push_back(std::move(t));
    return grown;
  }

  std::shared_ptr<PlanRunner> runner_for(std::span<const Tensor> inputs) {
    if (fixed_) {
      bind_sizes(graph_, inputs);  // compares sizes
      return fixed_;
    }
    const std::vector<Sizes> sizes = sizes_of(inputs);
    return plans_.get(sizes, [&] { return prepare(sized_graph(inputs), instead_of(sizes)); });
  }

  // The replacements of kernels that failed their check at these sizes.
  InsteadOf instead_of(const std::vector<Sizes>& sizes) const {
    const std::lock_guard lock(mutex_);
    const auto found = instead_.find(sizes);
    return found == instead_.end() ? InsteadOf() : found->second;
  }

  // The first run with these sizes, with checked kernels; nullopt if it is not the first.
  std::optional<std::vector<Tensor>> run_and_check(std::span<const Tensor> inputs) {
    const std::lock_guard lock(mutex_);
    const auto entry = instead_.try_emplace(sizes_of(inputs));
    if (!entry.second) return std::nullopt;
    try {
      return translated([&] { return check_kernels(sized_graph(inputs).graph, inputs, entry.first->second); });
    } catch (...) {
      instead_.erase(entry.first);
      throw;
    }
  }

  std::vector<Tensor> check_kernels(const Graph& graph, std::span<const Tensor> inputs, InsteadOf& instead) {
    PlanOptions options = plan_options_;
    options.choices = choices_.get();
    options.replacements.clear();
    options.checked = true;
    if (resources_) options.constants = {resources_, &resources_->constants};
    const auto observed = [&](std::uint64_t seed) {
      options.instead = instead;
      PlanRunner runner(cpu::make_plan(graph, options));
      cpu::KernelCheck check(runner.plan(), *options_.check_kernels, seed);
      std::vector<Tensor> outputs = runner.run_observed(inputs, [&](std::size_t step, std::span<std::byte* const> addresses) {
        run_checkpoint();
        check.after(step, addresses);
      });
      return ObservedRun{std::move(outputs), check.faults(), check.counts()};
    };
    std::vector<Tensor> outputs = run_until_right(observed, instead, checked_, warnings_);
    if (choices_) choices_->save();
    return outputs;
  }

  struct SizedGraph {
    Graph graph;
    const OpenGraph* of = nullptr;  // whose sizes these are; null: none, or the model was read again for them
  };

  SizedGraph sized_graph(std::span<const Tensor> inputs) const {
    if (options_.precision_double) return {open_->with_sizes(bind_sizes(graph_, inputs))};
    if (options_.check_kernels) return {specialized(*open_, inputs)};
    if (only_caches_are_empty(open_->graph(), inputs)) return {open_->with_sizes(bind_sizes(graph_, inputs)), open_.get()};
    SizedGraph sized;
    sized.of = open_.get();
    const auto form = [&](const Graph& again) {
      sized.of = nullptr;
      return with_whole_operators(again);
    };
    sized.graph = specialized(*open_, graph_, form, inputs);
    return sized;
  }

  static std::vector<Sizes> sizes_of(std::span<const Tensor> inputs) {
    std::vector<Sizes> result;
    for (const Tensor& t : inputs) result.push_back(t.sizes());
    return result;
  }

  std::shared_ptr<const PlanRunner> last() const {
    if (fixed_) return fixed_;
    const std::shared_ptr<const PlanRunner> grown = growing_ ? growing_->plans.last() : nullptr;
    return grown ? grown : plans_.last();
  }

  std::unique_ptr<PlanRunner> prepare(SizedGraph sized, InsteadOf instead = {}) {
    const std::lock_guard one_at_a_time(preparing_);
    PlanOptions options = plan_options_;
    options.instead = std::move(instead);
    const bool is_first = !cache_ && !options_.plan_cache.empty() && !options_.precision_double && options.instead.empty();
    if (is_first) cache_.emplace(options_.plan_cache, configuration(sized.graph));
    if (cache_) options.cache = &*cache_;
    if (resources_) {
      options.constants = {resources_, &resources_->constants};
      options.recognitions = {resources_, &resources_->recognitions};
      options.counts_operations = options_.profile;
    }
    options.choices = choices_.get();
    if (sized.of != nullptr) {
      options.open_values = &sized.of->open_values(sized.graph);
      options.open_graph = &sized.of->graph_of(sized.graph);
    }
    std::shared_ptr<ArenaPool> arenas;
    std::shared_ptr<TensorPool> outputs;
    if (resources_) {
      arenas = {resources_, &resources_->arenas};
      outputs = {resources_, &resources_->outputs};
    } else {
      outputs = std::make_shared<TensorPool>();
    }
    auto runner = translated(
        [&] { return std::make_unique<PlanRunner>(cpu::make_plan(std::move(sized.graph), options), arenas, outputs); });
    if (choices_) choices_->save();
    runner->measure(options_.profile);
    if (is_first) save_cache();
    return runner;
  }

  // Saves the first plan's constants; later plans only read the file.
  void save_cache() {
    const std::lock_guard lock(mutex_);
    if (!cache_->problem().empty()) warnings_.push_back(options_.plan_cache + ": " + cache_->problem());
    try {
      if (cache_->changed()) cache_->save();
    } catch (const Error& error) {  // the plan works without the cache
      warnings_.push_back(error.what());
    }
    if (is_open_)
      cache_->close();
    else
      cache_.reset();
  }

  // Everything that a plan depends on.
  std::string configuration(const Graph& graph) const {
    return std::to_string(graph.hash()) + "\n" + std::string(cpu::name(plan_options_.isa)) +
           (plan_options_.isa == Isa::kAvx512 && cpu::has_tile_registers() ? "\ntile registers\n" : "\n") +
           std::to_string(plan_options_.threads) + " threads" +
           (plan_options_.transformed_convolutions ? "" : ", no transformed convolutions") + "\nkernels " +
           std::to_string(cpu_kernel_generation()) + "\n" + cpu_library_versions();
  }

  Graph graph_;
  SessionOptions options_;
  std::vector<GraphOutput> outputs_;
  PlanOptions plan_options_;
  std::unique_ptr<cpu::MeasuredChoices> choices_;
  std::vector<TensorType> fixed_types_;      // input types, if all sizes are known in advance ...
  std::shared_ptr<PlanRunner> fixed_;        // ... and then the only plan
  std::shared_ptr<CpuResources> resources_;  // null: used by the only plan alone
  bool is_open_ = false;                     // there may be several plans
  std::unique_ptr<const OpenGraph> open_;    // for them
  SizedPlans plans_;
  std::unique_ptr<Growing> growing_;  // null: no cache grows
  std::optional<cpu::PlanCache> cache_;
  std::mutex preparing_;                             // plans share the cache and choices
  mutable std::mutex mutex_;                         // guards the members below
  std::map<std::vector<Sizes>, InsteadOf> instead_;  // replacements of kernels that failed their check
  std::vector<std::string> warnings_;
  CheckedKernels checked_;
};

class CpuBackend final : public Backend, public OpaqueKernels {
 public:
  std::string name() const override { return "cpu"; }
  std::shared_ptr<SharedResources> share_resources(int graphs) const override { return std::make_shared<CpuResources>(graphs); }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return prepare_on_cpu(graph, options);
  }
  std::unique_ptr<Executable> prepare_node(const Graph& graph, const Node& node, const SessionOptions& options) const override {
    const bool by_definition = options.precision_double || options.check_kernels;
    return by_definition ? nullptr : prepare_recurrent(graph, node, options);
  }
};

}  // namespace

std::unique_ptr<Session> prepare_on_cpu(Graph graph, const SessionOptions& options) {
  return std::make_unique<CpuSession>(std::move(graph), options);
}

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace rewright::cpu
