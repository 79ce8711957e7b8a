#include "runtime/training/steps/run_data.h"

#include <utility>

#include "base/error.h"

namespace rewright::training {

namespace {

constexpr const char* kTargets = "targets";  // the name of the column

std::vector<std::string> input_names(const Graph& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.inputs()) names.push_back(model.value(id).name);
  return names;
}

std::vector<std::string> columns_for(const Graph& model) {
  std::vector<std::string> columns = input_names(model);
  columns.emplace_back(kTargets);
  return columns;
}

std::int64_t shards_of(const TrainOptions& options, std::int64_t processes) {
  return options.shards > 0 ? options.shards : processes * options.accumulate;
}

BatchPart part_of(const TrainOptions& options, const Communicator& processes) {
  const auto count = static_cast<std::int64_t>(processes.size()), shards = shards_of(options, count);
  if (shards % count != 0)
    throw Error(ErrorCode::kUsage,
                std::to_string(shards) + " shards cannot be divided among " + std::to_string(count) + " processes");
  if (options.batch < 1 || options.batch % shards != 0)
    throw Error(ErrorCode::kUsage, "a batch of " + std::to_string(options.batch) + " cannot be divided into " +
                                       std::to_string(shards) + " shards");
  const std::int64_t here = shards / count;
  return {options.batch, options.batch / shards, static_cast<std::int64_t>(processes.rank()) * here, here};
}

std::int64_t whole_batches(std::int64_t examples, std::int64_t batch) {
  if (examples < batch)
    throw Error(ErrorCode::kBadInput,
                "the data holds " + std::to_string(examples) + " examples, fewer than a batch of " + std::to_string(batch));
  return examples / batch;
}

}  // namespace

RunData::RunData(const Graph& model, const Dataset& data, const TrainOptions& options, const Communicator& processes)
    : data_(data),
      options_(options),
      shards_(shards_of(options, static_cast<std::int64_t>(processes.size()))),
      part_(part_of(options, processes)),
      steps_per_epoch_(whole_batches(data.size(), options.batch)),
      steps_(steps_per_epoch_ * options.epochs),
      batches_(data, columns_for(model), part_, options.seed, steps_) {}

Graph RunData::sized(const Graph& model) const {
  std::vector<Tensor> example;
  for (const std::string& name : input_names(model)) example.push_back(data_.like_rows(name, rows()));
  return with_sizes(model, bind_sizes(model, example));
}

void RunData::check_targets(const Graph& sized, const Graph& gradients) const {
  const TensorType wanted = gradients.value(gradients.inputs()[sized.inputs().size()]).type;
  const Tensor have = data_.like_rows(kTargets, rows());
  if (have.type() != wanted.type || to_indices(have.sizes()) != wanted.shape)
    throw Error(ErrorCode::kBadInput, "targets of " + std::to_string(rows()) + " examples are " +
                                          to_string(TensorType{have.type(), to_indices(have.sizes())}) + ", the loss needs " +
                                          to_string(wanted));
  training::check_targets(options_.graph.loss, sized.value(find_predictions(sized, options_.output)).type,
                          data_.column(kTargets));
}

StepInputs RunData::take(std::int64_t step, double scale) {
  Batch batch = batches_.take(step);
  StepInputs inputs{std::move(batch.shards), std::move(batch.complaint)};
  for (std::size_t k = 0; k < inputs.shards.size(); ++k) {
    const std::int64_t shard = part_.first + static_cast<std::int64_t>(k);
    for (const double number : {static_cast<double>(step + 1), static_cast<double>(shard), scale})
      inputs.shards[k].push_back(Tensor::scalar(DataType::kFloat, number));
  }
  return inputs;
}

}  // namespace rewright::training
