// The tensors that a planned training step changes, as the last inputs of its graph: parameters, statistics, then states.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/training/steps/training_step.h"

namespace rewright::runtime {

class KeptTensors {
 public:
  // `inputs`: of the step's graph, with these.
  KeptTensors(training::TrainedTensors start, std::size_t inputs) : tensors_(std::move(start)), first_(inputs) {
    for (const std::vector<Tensor>* list : all()) first_ -= list->size();
  }

  // Replaces all of them, one after another, so that no more than one is there twice. `part`: of a tensor, for its input.
  void load(training::TrainedTensors tensors, const std::function<Tensor(Tensor tensor, std::size_t input)>& part) {
    tensors_ = std::move(tensors);
    keep(part);
  }
  void keep(const std::function<Tensor(Tensor tensor, std::size_t input)>& part) {
    std::size_t input = first_;
    for (std::vector<Tensor>* list : all())
      for (Tensor& t : *list) t = part(std::move(t), input++);
  }

  void append_to(std::vector<Tensor>& inputs) {
    for (const std::vector<Tensor>* list : all()) inputs.insert(inputs.end(), list->begin(), list->end());
  }
  // By as many new ones.
  void replace(std::span<Tensor> outputs) {
    auto next = outputs.begin();
    for (std::vector<Tensor>* list : all())
      for (Tensor& t : *list) t = std::move(*next++);
  }

  // `whole`: the whole tensor, of what this process keeps for an input.
  training::TrainedTensors gathered(bool with_states,
                                    const std::function<Tensor(const Tensor& mine, std::size_t input)>& whole) const {
    training::TrainedTensors result;
    std::size_t input = first_;
    const auto add = [&](const std::vector<Tensor>& from, std::vector<Tensor>& into) {
      for (const Tensor& t : from) into.push_back(whole(t, input++));
    };
    add(tensors_.parameters, result.parameters);
    add(tensors_.statistics, result.statistics);
    if (with_states) add(tensors_.states, result.states);
    return result;
  }

 private:
  std::array<std::vector<Tensor>*, 3> all() { return {&tensors_.parameters, &tensors_.statistics, &tensors_.states}; }

  training::TrainedTensors tensors_;
  std::size_t first_;  // the first of them among the inputs
};

}  // namespace rewright::runtime
