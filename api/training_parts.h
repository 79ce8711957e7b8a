// Parts of training in every mode: reading data, writing the file of metrics, reporting results.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "api/choices.h"
#include "api/training.h"
#include "graph/graph.h"
#include "runtime/training/data/data_files.h"

namespace rewright::api {

// The inputs and targets that the model and the request require of the data.
WantedData wanted_data(const Graph& model, const TrainingRequest& request);
// Throws Error(kBadInput) for data that are missing, or are not for this model.
Dataset dataset(const TrainingData& data, const WantedData& wanted);

// One line of JSON a step. Unless the run continues the file, the first step empties it.
class Metrics {
 public:
  // An empty name: no file. Throws Error(kMissing) if it cannot be written.
  Metrics(std::string file, bool append);
  void add(const StepReport& report);

 private:
  void open(std::ios::openmode mode);

  std::string file_;
  bool begins_;
  std::ofstream out_;
};

const Choices<Mode>& mode_choices();

// The facts of every training.
nlohmann::json common_facts(const FinishedTraining& training, const std::string& output, std::size_t processes,
                            std::size_t resident_bytes);

// Refuses options that others exclude: throws Error(kUsage) "BY excludes OPTION" if the option is `given`.
void refuse(bool given, const std::string& by, const std::string& option);

// `rewright train --mode MODE` for all modes but the synchronous one; as run_training.
FinishedTraining train_without_waiting(Graph model, TrainingRequest request, Communicator& processes, bool everywhere,
                                       const std::string& output, const std::stop_token& cancel,
                                       const TrainingListener& listener);

}  // namespace rewright::api
