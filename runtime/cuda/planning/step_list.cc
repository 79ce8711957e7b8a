#include "runtime/cuda/planning/step_list.h"

#include <algorithm>
#include <string>
#include <utility>

namespace rewright::cuda {

std::optional<int> StepList::find(Placed value) const {
  if (const auto found = places_.find(value); found != places_.end()) return found->second;
  return around_ == nullptr ? std::nullopt : around_->find(value);
}

std::optional<int> StepList::buffer(ValueId value, Layout layout) {
  if (value == kNoValue) return -1;
  if (const auto known = find({value, layout})) return known;
  const GraphFacts& facts = plan_.facts;
  if (const Tensor& constant = facts.constant(value)) return places_[{value, layout}] = plan_.add_constant(constant, layout);
  const Layout other = layout == kRows ? kChannelsLast : kRows;
  const std::optional<int> source = find({value, other});
  if (!source) return std::nullopt;
  const ValueInfo& info = facts.info(value);
  if (same_either_way(info.sizes)) return places_[{value, layout}] = *source;

  const Operand operand(0, {info.type, to_indices(info.sizes)});
  Indices position;
  for (std::size_t a = 0; a < info.sizes.size(); ++a) position.push_back(Index::fresh("i"));
  auto kernel = plan_.generate(operand(position), position, {value, layout}, {{value, other}});
  if (!kernel) return std::nullopt;
  Step step;
  step.node = value < facts.graph().value_count() ? facts.graph().value(value).name : std::string();
  step.operators = "(layout)";
  step.layout = true;
  step.work = KernelStep{plan_.add_kernel(std::move(*kernel))};
  step.inputs = {*source};
  const bool is_own = result_ == nullptr || plan_.buffer(*source).kind == Buffer::Kind::kWorkspace || value == result_->value;
  StepList& list = is_own ? *this : outermost();
  const std::optional<int> copy = list.add_value(value, layout);
  if (!copy) return std::nullopt;
  step.outputs = {*copy};
  list.add(std::move(step));
  return copy;
}

std::optional<std::vector<int>> StepList::buffers(const std::vector<Placed>& values) {
  std::vector<int> result;
  for (const auto& [value, layout] : values) {
    const auto found = buffer(value, layout);
    if (!found) return std::nullopt;
    result.push_back(*found);
  }
  return result;
}

int StepList::required_buffer(ValueId value, Layout layout) {
  const auto found = buffer(value, layout);
  if (!found)
    throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", plan_.facts.graph().value(value).name);
  return *found;
}

std::optional<int> StepList::add_value(ValueId value, Layout layout) {
  const bool is_result = result_ != nullptr && result_->value == value;
  if (is_result && result_->layout) {
    if (*result_->layout != layout) return std::nullopt;
    return places_[{value, layout}] = result_->buffer;
  }
  Buffer b;
  b.bytes = plan_.byte_count(value);
  const bool in_workspace = result_ != nullptr && (!is_result || result_->nested);
  const int number = in_workspace ? plan_.add_workspace(b.bytes) : plan_.add_buffer(std::move(b));
  if (is_result) result_->layout = layout, result_->buffer = number;
  return places_[{value, layout}] = number;
}

Layout StepList::layout_of(ValueId value) const {
  return value != kNoValue && !find({value, kRows}) && find({value, kChannelsLast}) ? kChannelsLast : kRows;
}

std::vector<Placed> StepList::as_placed(const std::vector<ValueId>& values) const {
  std::vector<Placed> result;
  for (const ValueId v : values) result.push_back({v, layout_of(v)});
  return result;
}

void StepList::add(Step step) {
  for (const std::vector<int>* list : {&step.inputs, &step.outputs})
    for (const int b : *list)
      if (b >= 0) step.bytes += static_cast<double>(plan_.buffer(b).bytes);
  steps_.push_back(std::move(step));
}

Alternatives::Alternatives(StepList& list, ValueId result)
    : list_(list),
      own_{result, list.result() != nullptr},
      result_(list.result() != nullptr && list.result()->value == result ? *list.result() : own_) {
  if (list.result() == nullptr) list.plan().workspace = 0;
}

void Alternatives::add(const std::function<bool(StepList&)>& plan, bool last_resort) {
  StepList steps(list_, result_);
  if (plan(steps)) either_.alternatives.push_back({std::move(steps.steps()), last_resort});
}

bool Alternatives::finish(Step step) {
  if (either_.alternatives.empty()) return false;
  list_.place({result_.value, *result_.layout}, result_.buffer);
  step.outputs = {result_.buffer};
  std::vector<Step>& first = either_.alternatives[0].steps;
  if (either_.alternatives.size() == 1 && first.size() == 1) {
    step.inputs = std::move(first[0].inputs);
    step.work = std::move(first[0].work);
  } else {
    complete(step);
  }
  list_.add(std::move(step));
  return true;
}

namespace {

// Identifies the work of a step; equal for equal work.
std::string key(const Step& step, const Plan& plan) {
  if (const auto* library = std::get_if<LibraryStep>(&step.work))
    return to_string(library->shape) + " " + std::to_string(library->starts.size());
  if (const auto* kernel = std::get_if<KernelStep>(&step.work)) return plan.kernels[kernel->kernel].name;
  return std::get<EitherStep>(step.work).key;
}

}  // namespace

// The step reads everything that an alternative reads and does not compute itself.
void Alternatives::complete(Step& step) const {
  EitherStep either = either_;
  for (EitherStep::Alternative& alternative : either.alternatives) {
    either.key += either.key.empty() ? "either" : " or";
    for (const Step& part : alternative.steps) {
      either.key += " " + key(part, list_.plan().plan);
      for (const std::vector<int>* list : {&part.inputs, &part.outputs})
        for (const int b : *list) {
          if (b < 0 || b == result_.buffer) continue;
          const Buffer& buffer = list_.plan().buffer(b);
          if (buffer.kind == Buffer::Kind::kWorkspace)
            alternative.workspace_bytes = std::max(alternative.workspace_bytes, buffer.offset + buffer.bytes);
          else if (std::find(step.inputs.begin(), step.inputs.end(), b) == step.inputs.end())
            step.inputs.push_back(b);
        }
    }
  }
  step.work = std::move(either);
}

}  // namespace rewright::cuda
