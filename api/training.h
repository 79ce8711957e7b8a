// Trainings requested by the command line or another language. Every option has a name, and its value is a text.
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
#include "runtime/training/asynchronous/mode.h"
#include "runtime/training/steps/evaluation.h"
#include "runtime/training/steps/trainer.h"

namespace rewright::api {

// Examples: files (see read_dataset), or tensors by the names of the inputs and "targets".
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
  double rewrite_seconds = 0;               // of search for a faster graph of a step; 0: no search
  std::size_t memory_budget = 0;            // as MemoryBudget; 0: any
  std::string all_reduce = "engine";        // as all_reduce_from_name, or "nccl"
  std::string checkpoint;                   // the file of the state; empty: none
  std::int64_t save_every = 100;            // steps from one checkpoint to the next; 0: only at the end
  bool resume = false;                      // from the checkpoint, if there is one
  std::string plan;                         // the file of a plan that all processes follow; empty: data parallel
  AsynchronousOptions asynchronous = {};    // how the processes work on the same weights
  bool leave_out_lost = false;              // synchronous training goes on without processes that end; else all end
  std::string metrics, step_graph;          // files to write: a line of JSON a step; the graph of a step
  TrainOptions train = initial_training();  // fields that the options above set are overwritten

  static TrainOptions initial_training();
};

// The options of `rewright train`, without the dashes.
using TrainingOption = RequestOption<TrainingRequest>;
std::span<const TrainingOption> training_options();

struct FinishedTraining {
  std::optional<Graph> graph;  // the model with the trained weights
  std::int64_t steps = 0;
  bool complete = false;  // false: stopped before the end
  double loss = 0;        // of the last step; NaN if there was none
  std::optional<Evaluation> validation;
  std::optional<Rematerialized> rematerialized;
  std::string facts;          // the JSON report of the command line
  std::string profile_table;  // if the operators were profiled
};

// Do the other processes go on if one ends?
bool outlives_processes(const TrainingRequest& request);

// Reports during the training; each may be empty.
struct TrainingListener {
  std::function<void(const StepReport&)> step = {};
  std::function<void(const std::string&)> note = {};  // a line for people
};

// The model with procedures as graphs of operators, as far as possible: only operators have gradients.
Graph with_procedures_as_graphs(const Graph& model, const std::string& name);

// `rewright train` without reading and writing the model. Every process calls it; the first one alone gets the results, or with
// `everywhere` all do. `output` is the model's name in the facts. When `cancel` is requested, it ends after a step, with a
// checkpoint if the request has one. Throws Error as Trainer does, and for devices and files that are missing.
FinishedTraining run_training(Graph model, const TrainingRequest& request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener);

// run_training in a program that mpirun may have started: only the first process writes files and calls the listener. If one of
// several processes fails, all end, with a line on standard error that names it.
FinishedTraining train_in_program(const Graph& model, const TrainingRequest& request, const std::string& name,
                                  const std::stop_token& cancel, const TrainingListener& listener);

}  // namespace rewright::api
