// Weights as one vector of floats: the parameters one after another, then the statistics. Servers hold parts of it, and workers
// compute gradients from it by the graphs of every training step.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

using PrepareSession = std::function<std::unique_ptr<Session>(const Graph& graph, std::vector<Replacement> replacements)>;

struct FlatTensor {
  std::size_t first, count;
  Sizes sizes;
};

// A part of the vector.
struct FlatRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
  template <class T>
  std::span<T> of(std::span<T> whole) const {
    return whole.subspan(first, size());
  }
};

class FlatLayout {
 public:
  // Throws Error(kUnsupported) for tensors that are not float.
  explicit FlatLayout(const TrainedTensors& tensors);

  const std::vector<FlatTensor>& parameters() const { return parameters_; }
  const std::vector<FlatTensor>& statistics() const { return statistics_; }
  std::size_t parameter_elements() const { return parameter_elements_; }
  std::size_t size() const { return size_; }
  // All of the vector.
  FlatRange whole() const { return {0, size_}; }
  // Even parts of the vector; unless `cut`, they end between parameters. The last one has the statistics.
  std::vector<FlatRange> shards(std::size_t count, bool cut) const;

  std::vector<float> flat(const TrainedTensors& tensors) const;
  // Without states.
  TrainedTensors tensors(std::span<const float> flat) const;

 private:
  std::vector<FlatTensor> parameters_, statistics_;
  std::size_t parameter_elements_ = 0, size_ = 0;
};

// Computes gradients at any weights.
class Replica {
 public:
  // `layout` must outlive it. `clip_norm`: as TrainingGraphOptions.
  Replica(const TrainingGraphs& graphs, const FlatLayout& layout, double clip_norm, const PrepareSession& prepare);

  // The loss of a batch, given as TrainingGraphs::gradients has it before the parameters. Writes the gradients of the
  // parameters, and the changes of the statistics. NaN if the loss or one of these is not finite.
  double gradient(std::vector<Tensor> batch, std::span<const float> weights, std::span<float> gradient);
  std::size_t peak_bytes() const { return session_->peak_bytes(); }
  std::vector<StepProfile> profile() const { return session_->profile(); }

 private:
  const FlatLayout& layout_;
  const double clip_norm_;
  std::unique_ptr<Session> session_;
};

// Weights of a range with the optimizer's states, which gradients and changes are applied to.
class OwnedWeights {
 public:
  // `weights`: of the range. `layout`: of the whole vector.
  OwnedWeights(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const FlatLayout& layout, FlatRange range,
               std::span<const float> weights, const PrepareSession& prepare);

  FlatRange range() const { return range_; }
  // A step of the optimizer; statistics change by what is in the gradient's place. `step`: the number of this update, from 1.
  void update(std::span<const float> gradient, double rate, std::int64_t step);
  void add(std::span<const float> change);
  // Moves the weights by `share` of the way to `other`, and returns how far.
  std::vector<float> approach(std::span<const float> other, float share);
  void set(std::span<const float> weights);
  void copy_to(std::span<float> weights) const;
  std::vector<float> weights() const;
  // The optimizer's states of the range, one kind after another.
  std::size_t state_elements() const;
  void set_states(std::span<const float> states);
  void copy_states_to(std::span<float> states) const;

 private:
  struct Part {
    std::size_t first;  // in the range
    Tensor tensor;
  };

  FlatRange range_;
  std::vector<Part> parts_;        // of parameters
  std::vector<float> statistics_;  // behind them
  std::size_t statistics_first_ = 0;
  std::vector<Tensor> states_;  // all of the first kind, then of the second
  std::unique_ptr<Session> session_;
};

}  // namespace rewright::training
