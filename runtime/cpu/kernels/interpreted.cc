// Executes nodes with the interpreter: those without a kernel, and those whose kernels failed a check.
#include <algorithm>

#include "operators/readings/interpreter.h"
#include "runtime/cpu/planning/kernels.h"

namespace rewright::cpu {

namespace {

class InterpretedKernel final : public Kernel {
 public:
  InterpretedKernel(std::shared_ptr<const Node> node, std::vector<TensorType> inputs)
      : node_(std::move(node)), types_(std::move(inputs)) {}
  void run(const Call& call) const override {
    std::vector<Tensor> inputs(node_->inputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node_->inputs[i] == kNoValue) continue;
      inputs[i] = Tensor(types_[next].type, values(types_[next].shape), nullptr, call.inputs[next]);
      ++next;
    }
    const std::vector<Tensor> outputs = interpret(*node_->op, node_->attributes, inputs);
    next = 0;
    for (std::size_t o = 0; o < node_->outputs.size(); ++o) {
      if (node_->outputs[o] == kNoValue) continue;
      const auto bytes = outputs.at(o).bytes();
      std::copy(bytes.begin(), bytes.end(), call.outputs[next++]);
    }
  }
  std::string source() const override { return "the interpreter"; }

 private:
  std::shared_ptr<const Node> node_;
  std::vector<TensorType> types_;  // of the inputs that are present
};

}  // namespace

std::unique_ptr<Kernel> make_interpreted(std::shared_ptr<const Node> node, std::vector<TensorType> inputs) {
  return std::make_unique<InterpretedKernel>(std::move(node), std::move(inputs));
}

}  // namespace rewright::cpu
