// Training as the command line and other languages ask for it: every option has a name and is written as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "api/request_options.h"
#include "runtime/training/steps/evaluation.h"
#include "runtime/training/steps/trainer.h"

namespace rewright::api {

// Examples: files, as read_dataset, or tensors by the names of inputs and "targets".
struct TrainingData {
  std::string files = {};
  std::map<std::string, Tensor> tensors = {};
  bool given() const { return !files.empty() || !tensors.empty(); }
};

struct TrainingRequest {
  TrainingData data, validation;
  std::string target = "target";            // as WantedData::target_column
  std::vector<double> mean, deviation;      // as WantedData
  std::string device = "cpu";               // as find_backend
  int threads = 0;                          // as usable_threads
  double rewrite_seconds = 0;               // to look for a faster graph of a step; 0: none is looked for
  std::size_t memory_budget = 0;            // as MemoryBudget; 0: any
  std::string all_reduce = "engine";        // as all_reduce_from_name, or "nccl"
  std::string checkpoint;                   // where the state is kept; empty: nowhere
  std::int64_t save_every = 100;            // steps from one checkpoint to the next; 0: only at the end
  bool resume = false;                      // from the checkpoint, if there is one
  std::string metrics, step_graph;          // files to write: a line of JSON a step; the graph of a step
  TrainOptions train = initial_training();  // but for what the above says

  static TrainOptions initial_training();
};

// What `rewright train` has after two dashes.
using TrainingOption = RequestOption<TrainingRequest>;
std::span<const TrainingOption> training_options();

struct FinishedTraining {
  std::optional<Graph> graph;  // the model with what was trained
  std::int64_t steps = 0;
  bool complete = false;  // or asked to stop before the end
  double loss = 0;        // of the last step; NaN if there was none
  std::optional<Evaluation> validation;
  std::optional<Rematerialized> rematerialized;
  std::string facts;          // JSON, as the command line's contract has it
  std::string profile_table;  // if the operators were profiled
};

// What is said on the way; each may be empty.
struct TrainingListener {
  std::function<void(const StepReport&)> step = {};
  std::function<void(const std::string&)> note = {};  // a line for people
};

// What is done for `rewright train`, but for reading and writing the model. Every process calls it; the first one alone has the
// results, unless they are wanted `everywhere`. `output` is the model's name in the facts. Ends after a step, with a checkpoint
// if one is kept, when `cancel` asks for it. Throws Error as Trainer does, and for what is asked and is not here.
FinishedTraining run_training(Graph model, const TrainingRequest& request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener);

// The same in a program that may have been started by mpirun: the first process alone writes files and speaks. Of several
// processes, one that fails ends all, with a line on standard error that names it.
FinishedTraining train_in_program(const Graph& model, const TrainingRequest& request, const std::string& name,
                                  const std::stop_token& cancel, const TrainingListener& listener);

}  // namespace rewright::api
