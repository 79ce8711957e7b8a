#include "runtime/cuda/running/kernel_check.h"

#include <algorithm>

namespace rewright::cuda {

namespace {

// The elements of a device buffer, copied.
class CopiedElements final : public StoredElements {
 public:
  CopiedElements(std::vector<std::byte> bytes, DataType type, const Sizes& sizes, bool channels_last)
      : bytes_(std::move(bytes)) {
    elements_ = stored_elements_of(type, element_count(sizes), bytes_.data(),
                                   channels_last ? channels_last_places(sizes) : std::function<std::int64_t(std::int64_t)>());
  }
  double real(std::int64_t at) const override { return elements_->real(at); }
  std::int64_t integer(std::int64_t at) const override { return elements_->integer(at); }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<StoredElements> elements_;
};

}  // namespace

KernelCheck::KernelCheck(Execution& execution, const Graph& graph, const CheckExtent& extent, std::uint64_t seed)
    : execution_(execution),
      graph_(graph),
      writer_(execution.plan().buffers.size(), -1),
      results_(execution.plan().steps.size()),
      places_(graph.value_count()),
      comparison_(graph, extent, seed, [this](ValueId value) { return load(value); }) {
  const Plan& plan = execution.plan();
  for (std::size_t n = 0; n < plan.steps.size(); ++n)
    for (const int b : plan.steps[n].outputs)
      if (b >= 0) writer_[static_cast<std::size_t>(b)] = static_cast<int>(n);
  for (const PlannedValue& value : plan.values) {
    places_[value.value].push_back(&value);
    if (const int step = writer_[static_cast<std::size_t>(value.buffer)]; step >= 0)
      results_[static_cast<std::size_t>(step)].push_back(&value);
  }
}

// Does the buffer still hold its value after the current step? Later steps reuse its memory.
bool KernelCheck::is_there(int buffer) const {
  const Plan& plan = execution_.plan();
  if (plan.buffers[static_cast<std::size_t>(buffer)].kind == Buffer::Kind::kInput) return true;
  if (writer_[static_cast<std::size_t>(buffer)] > static_cast<int>(now_)) return false;
  const auto has = [&](const std::vector<int>& list) { return std::find(list.begin(), list.end(), buffer) != list.end(); };
  return has(plan.steps[now_].inputs) || has(plan.steps[now_].outputs);
}

std::unique_ptr<StoredElements> KernelCheck::stored(const PlannedValue& value) {
  const TensorType& type = graph_.value(value.value).type;
  return std::make_unique<CopiedElements>(execution_.read_back(value.buffer), type.type, values(type.shape),
                                          value.channels_last);
}

std::unique_ptr<StoredElements> KernelCheck::load(ValueId value) {
  for (const PlannedValue* const place : places_[value])
    if (is_there(place->buffer)) return stored(*place);
  return nullptr;
}

void KernelCheck::after(std::size_t n) {
  now_ = n;
  if (results_[n].empty()) return;
  const Step& step = execution_.plan().steps[n];
  std::vector<CheckedResult> results;
  for (const PlannedValue* const value : results_[n]) results.push_back({value->value, stored(*value), step.layout});
  comparison_.after({step.node, step.operators, execution_.source(n), execution_.rounding(n), step.flops, step.nodes}, results,
                    execution_.plan().steps.size() - n);
}

}  // namespace rewright::cuda
