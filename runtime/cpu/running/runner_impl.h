// The internals of PlanRunner, for the files that execute plans.
#pragma once

#include "runtime/cpu/running/runner.h"

namespace rewright::cpu {

// The memory of one execution.
struct PlanRunner::Execution {
  Tensor arena;                          // borrowed for a run
  std::byte* base = nullptr;             // base address of `addresses`
  std::vector<std::byte*> addresses;     // by storage
  std::vector<const std::byte*> inputs;  // of one step
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> results;  // the plan's outputs
  std::vector<double> seconds;      // by step, of one run
};

// The steps that use each input and output.
struct PlanRunner::Uses {
  struct View {
    int storage;
    std::size_t at;
  };
  std::vector<std::vector<View>> views;           // by storage that is not a part of another: all values in it
  std::vector<int> input_storage;                 // by input; -1: unused
  std::vector<std::vector<std::size_t>> needed;   // by step: inputs
  std::vector<std::vector<std::size_t>> written;  // by step: outputs that it writes first
  std::vector<std::vector<std::size_t>> done;     // by step: outputs no later step uses; last entry: those that no step uses

  explicit Uses(const Plan& plan);
};

}  // namespace rewright::cpu
