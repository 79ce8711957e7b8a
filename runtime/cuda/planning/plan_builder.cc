#include "runtime/cuda/planning/plan_builder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace rewright::cuda {

int PlanBuilder::add_buffer(Buffer b) {
  plan.buffers.push_back(std::move(b));
  return static_cast<int>(plan.buffers.size()) - 1;
}

int PlanBuilder::add_constant(const Tensor& tensor, Layout layout) {
  Buffer b;
  b.kind = Buffer::Kind::kConstant;
  b.constant = tensor;
  b.channels_last = layout == kChannelsLast;
  b.bytes = tensor.byte_count();
  return add_buffer(std::move(b));
}

int PlanBuilder::add_workspace(std::size_t bytes) {
  Buffer b;
  b.kind = Buffer::Kind::kWorkspace;
  b.bytes = bytes;
  b.offset = workspace;
  workspace += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  return add_buffer(std::move(b));
}

std::size_t PlanBuilder::byte_count(ValueId value) const {
  const ValueInfo& info = facts.info(value);
  const std::size_t size = byte_size(info.type);
  if (size == 0) throw Error(ErrorCode::kUnsupported, "a GPU has no tensors of type " + std::string(name(info.type)));
  return static_cast<std::size_t>(element_count(info.sizes)) * size;
}

std::size_t PlanBuilder::add_kernel(GeneratedKernel kernel) {
  plan.checks_positions = plan.checks_positions || kernel.checks_positions;
  const auto same =
      std::find_if(plan.kernels.begin(), plan.kernels.end(), [&](const GeneratedKernel& k) { return k.name == kernel.name; });
  if (same != plan.kernels.end()) return static_cast<std::size_t>(same - plan.kernels.begin());
  plan.kernels.push_back(std::move(kernel));
  return plan.kernels.size() - 1;
}

std::optional<GeneratedKernel> PlanBuilder::generate(const Element& element, const Indices& position, Placed result,
                                                     const std::vector<Placed>& operands) const {
  const auto operand = [&](const Placed& p) {
    if (p.value == kNoValue) return KernelOperand{};
    const ValueInfo& info = facts.info(p.value);
    return KernelOperand{info.type, p.layout == kRows ? info.sizes : channels_last(info.sizes)};
  };
  std::vector<KernelOperand> types;
  std::vector<bool> last;
  for (const Placed& p : operands) {
    types.push_back(operand(p));
    last.push_back(p.layout == kChannelsLast);
  }
  return generate_kernel(over_channels_last(element, last), result.layout == kRows ? position : channels_last(position),
                         operand(result), types);
}

}  // namespace rewright::cuda
