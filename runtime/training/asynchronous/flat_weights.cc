#include "runtime/training/asynchronous/flat_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace rewright::training {

namespace {

// A view of floats that outlive it.
Tensor seen(const Sizes& sizes, const float* floats) {
  const std::shared_ptr<const void> nobody(std::shared_ptr<const void>(), floats);
  return {DataType::kFloat, sizes, nobody, reinterpret_cast<const std::byte*>(floats)};
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

}  // namespace

FlatLayout::FlatLayout(const TrainedTensors& tensors) {
  for (const auto& [from, into] :
       {std::pair{&tensors.parameters, &parameters_}, std::pair{&tensors.statistics, &statistics_}}) {
    for (const Tensor& t : *from) {
      if (t.type() != DataType::kFloat)
        throw Error(ErrorCode::kUnsupported,
                    "asynchronous training needs weights of float32, not of " + std::string(name(t.type())));
      into->push_back({size_, static_cast<std::size_t>(t.size()), t.sizes()});
      size_ += static_cast<std::size_t>(t.size());
    }
    if (into == &parameters_) parameter_elements_ = size_;
  }
}

std::vector<FlatRange> FlatLayout::shards(std::size_t count, bool cut) const {
  std::vector<std::size_t> bounds{0};
  for (std::size_t n = 1; n < count; ++n) {
    std::size_t bound = parameter_elements_ * n / count;
    if (!cut) {
      const auto next = std::ranges::find_if(parameters_, [&](const FlatTensor& p) { return p.first >= bound; });
      bound = next == parameters_.end() ? parameter_elements_ : next->first;
    }
    bounds.push_back(std::max(bound, bounds.back()));
  }
  bounds.push_back(size_);
  std::vector<FlatRange> ranges;
  for (std::size_t n = 0; n < count; ++n) ranges.push_back({bounds[n], bounds[n + 1]});
  return ranges;
}

std::vector<float> FlatLayout::flat(const TrainedTensors& tensors) const {
  std::vector<float> result;
  result.reserve(size_);
  for (const auto* list : {&tensors.parameters, &tensors.statistics})
    for (const Tensor& t : *list) result.insert(result.end(), t.data<float>().begin(), t.data<float>().end());
  return result;
}

TrainedTensors FlatLayout::tensors(std::span<const float> flat) const {
  TrainedTensors result;
  for (const auto& [from, into] : {std::pair{&parameters_, &result.parameters}, std::pair{&statistics_, &result.statistics}})
    for (const FlatTensor& t : *from) {
      Tensor tensor(DataType::kFloat, t.sizes);
      std::ranges::copy(flat.subspan(t.first, t.count), tensor.mutable_data<float>().begin());
      into->push_back(std::move(tensor));
    }
  return result;
}

Replica::Replica(const TrainingGraphs& graphs, const FlatLayout& layout, double clip_norm, const PrepareSession& prepare)
    : layout_(layout), clip_norm_(clip_norm), session_(prepare(graphs.gradients, {})) {}

double Replica::gradient(std::vector<Tensor> batch, std::span<const float> weights, std::span<float> gradient) {
  for (const auto* list : {&layout_.parameters(), &layout_.statistics()})
    for (const FlatTensor& t : *list) batch.push_back(seen(t.sizes, weights.data() + t.first));
  const std::vector<Tensor> results = session_->run(batch);
  auto next = results.begin() + 1;
  for (const auto* list : {&layout_.parameters(), &layout_.statistics()})
    for (const FlatTensor& t : *list)
      std::ranges::copy((next++)->data<float>(), gradient.begin() + static_cast<std::ptrdiff_t>(t.first));
  for (std::size_t n = layout_.parameter_elements(); n < layout_.size(); ++n) gradient[n] -= weights[n];
  const double loss = results[0].reals()[0];
  if (!std::isfinite(loss) || !all_finite(gradient.first(layout_.size()))) return NAN;
  const std::span<float> of_parameters = gradient.first(layout_.parameter_elements());
  double squares = 0;
  for (const float v : of_parameters) squares += static_cast<double>(v) * v;
  if (clip_norm_ > 0 && squares > clip_norm_ * clip_norm_)
    for (float& v : of_parameters) v = static_cast<float>(v * (clip_norm_ / std::sqrt(squares)));
  return loss;
}

OwnedWeights::OwnedWeights(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const FlatLayout& layout,
                           FlatRange range, std::span<const float> weights, const PrepareSession& prepare)
    : range_(range) {
  std::vector<UpdatedPart> updated;
  for (std::size_t n = 0; n < layout.parameters().size(); ++n) {
    const FlatTensor& whole = layout.parameters()[n];
    const std::size_t first = std::max(whole.first, range.first), last = std::min(whole.first + whole.count, range.last);
    if (first >= last) continue;
    const auto count = static_cast<std::int64_t>(last - first);
    // A part has up to two axes, like its parameter: weight decay depends on the rank.
    Sizes sizes = last - first == whole.count ? whole.sizes : whole.sizes.size() > 1 ? Sizes{1, count} : Sizes{count};
    updated.push_back({graphs.parameters[n].name,
                       {DataType::kFloat, to_indices(sizes)},
                       static_cast<std::int64_t>(n),
                       static_cast<std::int64_t>(first - whole.first)});
    parts_.push_back({first - range.first, Tensor(DataType::kFloat, std::move(sizes))});
  }
  statistics_first_ = std::clamp(layout.parameter_elements(), range.first, range.last) - range.first;
  statistics_.resize(range.size() - statistics_first_);
  set(weights);
  if (parts_.empty()) return;
  for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
    for (const Part& part : parts_) {
      Tensor zeros(DataType::kFloat, part.tensor.sizes());
      std::ranges::fill(zeros.mutable_data<float>(), 0.0f);
      states_.push_back(std::move(zeros));
    }
  // The update is computed in the memory of what it replaces. inputs: rate, step, parameters, gradients, states.
  std::vector<Replacement> replaced;
  const std::size_t count = parts_.size();
  for (std::size_t n = 0; n < count; ++n) replaced.push_back({2 + n, n});
  for (std::size_t n = 0; n < states_.size(); ++n) replaced.push_back({2 + 2 * count + n, count + n});
  session_ = prepare(make_update_graph(updated, training), std::move(replaced));
}

void OwnedWeights::update(std::span<const float> gradient, double rate, std::int64_t step) {
  for (std::size_t n = 0; n < statistics_.size(); ++n) statistics_[n] += gradient[statistics_first_ + n];
  if (parts_.empty()) return;
  std::vector<Tensor> inputs{Tensor::scalar(DataType::kFloat, rate),
                             Tensor::scalar(DataType::kFloat, static_cast<double>(step))};
  for (Part& part : parts_) inputs.push_back(std::exchange(part.tensor, Tensor()));
  for (std::size_t n = 0; n < parts_.size(); ++n)
    inputs.push_back(seen(inputs[2 + n].sizes(), gradient.data() + parts_[n].first));
  for (Tensor& state : states_) inputs.push_back(std::exchange(state, Tensor()));
  std::vector<Tensor> outputs = session_->advance(std::move(inputs));
  for (std::size_t n = 0; n < parts_.size(); ++n) parts_[n].tensor = std::move(outputs[n]);
  for (std::size_t n = 0; n < states_.size(); ++n) states_[n] = std::move(outputs[parts_.size() + n]);
}

void OwnedWeights::add(std::span<const float> change) {
  std::vector<float> all = weights();
  for (std::size_t n = 0; n < all.size(); ++n) all[n] += change[n];
  set(all);
}

std::vector<float> OwnedWeights::approach(std::span<const float> other, float share) {
  std::vector<float> all = weights(), moved(all.size());
  for (std::size_t n = 0; n < all.size(); ++n) {
    moved[n] = share * (other[n] - all[n]);
    all[n] += moved[n];
  }
  set(all);
  return moved;
}

void OwnedWeights::set(std::span<const float> weights) {
  for (Part& part : parts_) {
    Tensor now(DataType::kFloat, part.tensor.sizes());
    std::ranges::copy(weights.subspan(part.first, static_cast<std::size_t>(now.size())), now.mutable_data<float>().begin());
    part.tensor = std::move(now);
  }
  std::ranges::copy(weights.subspan(statistics_first_, statistics_.size()), statistics_.begin());
}

void OwnedWeights::copy_to(std::span<float> weights) const {
  for (const Part& part : parts_)
    std::ranges::copy(part.tensor.data<float>(), weights.begin() + static_cast<std::ptrdiff_t>(part.first));
  std::ranges::copy(statistics_, weights.begin() + static_cast<std::ptrdiff_t>(statistics_first_));
}

std::size_t OwnedWeights::state_elements() const {
  std::size_t count = 0;
  for (const Tensor& state : states_) count += static_cast<std::size_t>(state.size());
  return count;
}

void OwnedWeights::set_states(std::span<const float> states) {
  for (Tensor& state : states_) {
    const std::span<float> values = state.mutable_data<float>();
    std::ranges::copy(states.first(values.size()), values.begin());
    states = states.subspan(values.size());
  }
}

void OwnedWeights::copy_states_to(std::span<float> states) const {
  for (const Tensor& state : states_) {
    const std::span<const float> values = state.data<float>();
    std::ranges::copy(values, states.begin());
    states = states.subspan(values.size());
  }
}

std::vector<float> OwnedWeights::weights() const {
  std::vector<float> result(range_.size());
  copy_to(result);
  return result;
}

}  // namespace rewright::training
