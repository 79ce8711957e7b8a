#include "runtime/cpu/backend.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <new>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/precision.h"

namespace rewright {

namespace {

using cpu::PlanOptions;
using cpu::PlanRunner;

bool sizes_known(const Graph& graph) {
  return std::all_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId i) { return graph.value(i).shape_known && all_constant(graph.value(i).type.shape); });
}

// Failures of libraries as ours.
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

class CpuSession final : public Session {
 public:
  CpuSession(const Graph& graph, const SessionOptions& options)
      : graph_(options.precision_double ? cpu::in_double(graph) : graph),
        options_(options),
        outputs_(graph.outputs().begin(), graph.outputs().end()) {
    plan_options_.isa = cpu::usable_isa(options.max_isa);
    plan_options_.threads = usable_threads(options.threads);
    cpu::set_dnnl_limit(options.max_isa);
    if (sizes_known(graph_)) {
      use_threads();
      prepare({}, graph_);
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> given) override {
    std::vector<Tensor> inputs(given.begin(), given.end());
    if (options_.precision_double)
      for (Tensor& t : inputs) t = cpu::widened(t);
    const Substitution sizes = bind_sizes(graph_, inputs);
    use_threads();
    std::vector<Sizes> key;
    for (const Tensor& t : inputs) key.push_back(t.sizes());
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      // Where all sizes were known beforehand, that plan fits: bind_sizes has compared them.
      found = plans_.find({});
      if (found == plans_.end()) found = prepare(key, with_sizes(graph_, sizes));
    }
    last_ = &*found->second;
    std::vector<Tensor> outputs = translated([&] { return last_->run(inputs); });
    if (options_.precision_double)
      for (std::size_t o = 0; o < outputs.size(); ++o) outputs[o] = cpu::narrowed(outputs[o], outputs_[o].type.type);
    return outputs;
  }

  std::vector<StepProfile> profile() const override {
    std::vector<StepProfile> result;
    if (last_ == nullptr) return result;
    for (std::size_t n = 0; n < last_->plan().steps.size(); ++n) {
      const cpu::Step& step = last_->plan().steps[n];
      result.push_back({step.node, step.operators, last_->seconds()[n], last_->runs(), step.flops, step.bytes});
    }
    return result;
  }
  std::size_t peak_bytes() const override { return last_ == nullptr ? 0 : last_->plan().arena_bytes; }

 private:
  using Plans = std::map<std::vector<Sizes>, std::unique_ptr<PlanRunner>>;

  void use_threads() const { omp_set_num_threads(plan_options_.threads); }

  Plans::iterator prepare(std::vector<Sizes> key, const Graph& graph) {
    auto runner = translated([&] { return std::make_unique<PlanRunner>(cpu::make_plan(graph, plan_options_)); });
    runner->measure(options_.profile);
    return plans_.emplace(std::move(key), std::move(runner)).first;
  }

  Graph graph_;
  SessionOptions options_;
  std::vector<GraphOutput> outputs_;
  PlanOptions plan_options_;
  Plans plans_;
  PlanRunner* last_ = nullptr;
};

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return std::make_unique<CpuSession>(graph, options);
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace rewright
