#include "api/training_parts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rewright::api {

namespace {

constexpr const char* kTargets = "targets";

}  // namespace

WantedData wanted_data(const Graph& model, const TrainingRequest& request) {
  WantedData wanted;
  for (const ValueId id : model.inputs()) wanted.inputs.emplace_back(model.value(id).name, model.value(id).type);
  wanted.targets = target_type(request.train.graph.loss, model.value(find_predictions(model, request.train.output)).type);
  wanted.target_column = request.target;
  wanted.mean = request.mean, wanted.deviation = request.deviation;
  return wanted;
}

Dataset dataset(const TrainingData& data, const WantedData& wanted) {
  if (data.tensors.empty()) return read_dataset(data.files, wanted);
  std::vector<std::string> names{kTargets};
  for (const auto& [name, type] : wanted.inputs) names.push_back(name);
  for (const std::string& name : names)
    if (!data.tensors.contains(name))
      throw Error(ErrorCode::kBadInput, name == kTargets ? "there are no targets" : "there is no data for the input",
                  "data: " + name);
  for (const auto& [name, tensor] : data.tensors)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(ErrorCode::kBadInput, "the model has no input of this name", "data: " + name);
  return Dataset(data.tensors);
}

Metrics::Metrics(std::string file, bool append) : file_(std::move(file)), begins_(!append) {
  if (!file_.empty()) open(std::ios::app);
}

void Metrics::add(const StepReport& r) {
  if (file_.empty()) return;
  if (std::exchange(begins_, false)) out_.close(), open(std::ios::trunc);
  nlohmann::json line{{"step", r.step}, {"epoch", r.epoch}, {"rate", r.rate}, {"examples_per_second", r.examples_per_second}};
  line["loss"] = r.skipped ? nlohmann::json() : nlohmann::json(r.loss);
  out_ << line.dump() << "\n" << std::flush;
}

void Metrics::open(std::ios::openmode mode) {
  out_.open(file_, mode);
  if (!out_) throw Error(ErrorCode::kMissing, "cannot be written", file_);
}

nlohmann::json common_facts(const FinishedTraining& training, const std::string& output, std::size_t processes,
                            std::size_t resident_bytes) {
  nlohmann::json facts{{"output", output},      {"steps", training.steps}, {"complete", training.complete},
                       {"loss", training.loss}, {"processes", processes},  {"resident_bytes", resident_bytes}};
  if (const auto& v = training.validation) {
    facts["validation"] = {{"loss", v->loss}, {"examples", v->examples}};
    if (v->accuracy) facts["validation"]["accuracy"] = *v->accuracy;
  }
  return facts;
}

void refuse(bool given, const std::string& by, const std::string& option) {
  if (given) throw Error(ErrorCode::kUsage, by + " excludes " + option);
}

}  // namespace rewright::api
