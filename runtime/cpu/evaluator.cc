#include "runtime/cpu/evaluator.h"

#include "runtime/cpu/backend.h"
#include "runtime/mixed.h"

namespace rewright {

namespace {

class CpuEvaluator final : public Evaluator {
 public:
  explicit CpuEvaluator(int threads) { options_.threads = threads; }
  std::vector<Tensor> evaluate(const Graph& graph, bool in_double) override {
    SessionOptions options = options_;
    options.precision_double = in_double;
    return prepare_session(cpu_backend(), graph, options)->run({});
  }

 private:
  SessionOptions options_;
};

}  // namespace

std::unique_ptr<Evaluator> make_cpu_evaluator(int threads) { return std::make_unique<CpuEvaluator>(threads); }

}  // namespace rewright
