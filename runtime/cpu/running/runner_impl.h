// What PlanRunner keeps; for the files that execute plans.
#pragma once

#include "runtime/cpu/running/runner.h"

namespace rewright::cpu {

// The memory of one execution at a time.
struct PlanRunner::Execution {
  Tensor arena;                          // borrowed for a run
  std::byte* base = nullptr;             // that `addresses` are for
  std::vector<std::byte*> addresses;     // by storage
  std::vector<const std::byte*> inputs;  // of one step
  std::vector<std::byte*> outputs;
  std::vector<double> seconds;  // by step, of one run
};

// Which steps look at which inputs and outputs.
struct PlanRunner::Uses {
  struct View {
    int storage;
    std::size_t at;
  };
  std::vector<std::vector<View>> views;           // by storage that is part of no other: all that lie in it
  std::vector<int> input_storage;                 // by input; -1: no step needs it
  std::vector<std::vector<std::size_t>> needed;   // by step: inputs
  std::vector<std::vector<std::size_t>> written;  // by step: outputs of which it is the first to write
  std::vector<std::vector<std::size_t>> done;     // by step: outputs that no later one looks at; one more for what no step does

  explicit Uses(const Plan& plan);
};

}  // namespace rewright::cpu
