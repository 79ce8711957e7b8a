#include "api/define_options.h"
#include "api/devices.h"
#include "api/training_parts.h"
#include "distribution/all_reduce.h"

namespace rewright::api {

namespace {

template <class T>
Choices<T> named_by(std::string_view what, std::initializer_list<std::string_view> names, T (*from_name)(std::string_view)) {
  std::vector<Choice<T>> all;
  for (const std::string_view name : names) all.push_back({name, from_name(name)});
  return {what, std::move(all)};
}

const Choices<Loss>& loss_choices() {
  static const Choices<Loss> kAll =
      named_by("loss", {"softmax-cross-entropy", "mean-squared", "binary-cross-entropy"}, loss_from_name);
  return kAll;
}

const Choices<UpdateMethod>& method_choices() {
  static const Choices<UpdateMethod> kAll = named_by(
      "optimizer", {"sgd", "momentum", "nesterov", "adagrad", "adam", "adamw", "lars", "lamb"}, update_method_from_name);
  return kAll;
}

const Choices<RateSchedule::Kind>& schedule_choices() {
  static const Choices<RateSchedule::Kind> kAll("schedule", {{"constant", RateSchedule::Kind::kConstant},
                                                             {"cosine", RateSchedule::Kind::kCosine},
                                                             {"step", RateSchedule::Kind::kStep}});
  return kAll;
}

const Choices<DataType>& precision_choices() {
  static const Choices<DataType> kAll(
      "precision", {{"float32", DataType::kFloat}, {"bfloat16", DataType::kBfloat16}, {"float16", DataType::kHalf}});
  return kAll;
}

const Choices<DataType>& sent_choices() {
  static const Choices<DataType> kAll(
      "type of gradients that are sent",
      {{"float", DataType::kFloat}, {"bfloat16", DataType::kBfloat16}, {"float16", DataType::kHalf}});
  return kAll;
}

const Choices<int>& stage_choices() {
  static const Choices<int> kAll("stage of ZeRO", {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}});
  return kAll;
}

const Choices<bool>& rounding_choices() {
  static const Choices<bool> kAll("rounding", {{"nearest", false}, {"stochastic", true}});
  return kAll;
}

const Choices<bool>& statistics_choices() {
  static const Choices<bool> kAll("extent of statistics", {{"shard", false}, {"batch", true}});
  return kAll;
}

const Choices<bool>& lost_choices() {
  static const Choices<bool> kAll("way on", {{"stop", false}, {"leave-out", true}});
  return kAll;
}

// A bound of staleness.
define::Written<std::optional<std::int64_t>> bound() {
  return {"S", [](const std::optional<std::int64_t>& v) { return v ? std::to_string(*v) : "any"; },
          [](const std::string& v) {
            return v == "any" ? std::optional<std::int64_t>() : std::optional(define::whole_number(v, 0));
          }};
}

const Choices<bool>& bad_step_choices() {
  static const Choices<bool> kAll("way on", {{"stop", false}, {"skip", true}});
  return kAll;
}

define::Written<std::string> all_reduce() {
  std::string names;
  for (const std::string_view name : all_reduce_names()) names += std::string(name) + "|";
  return {names + "nccl", [](const std::string& v) { return v; },
          [](const std::string& v) {
            if (v != "nccl") all_reduce_from_name(v);
            return v;
          }};
}

#define MEMBER(path) \
  [](TrainingRequest & r) -> auto& { return r.path; }

const std::vector<TrainingOption>& options_of_requests() {
  using namespace define;
  using Request = TrainingRequest;
  constexpr std::int64_t kOne = 1;
  static const std::vector<TrainingOption> kOptions = all_of<TrainingOption>({
      option<Request>(
          "data", text("DIR|FILE"), MEMBER(data.files),
          "a folder with INPUT.npy for each input and targets.npy; a CSV file; or a folder of images for each class"),
      option<Request>("validate", text("DIR|FILE"), MEMBER(validation.files),
                      "data of the same form to judge the result by; it is not trained on"),
      option<Request>("target", text("COLUMN"), MEMBER(target), "the column of a CSV file that is to be predicted"),
      option<Request>("mean", numbers("M,..."), MEMBER(mean),
                      "subtracted from images, whose elements are from 0 to 1: one number, or one for each channel"),
      option<Request>("std", numbers("D,..."), MEMBER(deviation), "divisor of images after that"),
      option<Request>("predictions", text("NAME"), MEMBER(train.output),
                      "the output to compute the loss of (default: the first)"),
      option<Request>("loss", choice(loss_choices()), MEMBER(train.graph.loss),
                      "the loss to minimize (both cross-entropies take logits)"),
      option<Request>("optimizer", choice(method_choices()), MEMBER(train.graph.update.method), "how gradients update weights"),
      option<Request>("rate", positive(), MEMBER(train.schedule.rate), "the learning rate"),
      option<Request>("schedule", choice(schedule_choices()), MEMBER(train.schedule.kind), "how the rate changes"),
      option<Request>("warm-up", count<std::int64_t>("STEPS"), MEMBER(train.schedule.warm_up), "steps in which the rate rises"),
      option<Request>("momentum", number(0, 1), MEMBER(train.graph.update.momentum),
                      "factor of earlier gradients in momentum, nesterov and lars"),
      option<Request>("weight-decay", not_negative(), MEMBER(train.graph.update.weight_decay), "of weights, not of biases"),
      option<Request>("clip", not_negative(), MEMBER(train.graph.clip_norm),
                      "the largest Euclidean norm of all gradients together (0: any)"),
      option<Request>("precision", choice(precision_choices()), MEMBER(train.graph.precision),
                      "the type of products; weights and all else stay float32"),
      option<Request>("weights", choice(precision_choices()), MEMBER(train.graph.weights),
                      "the type in which weights, gradients and the optimizer's states are stored"),
      option<Request>("rounding", choice(rounding_choices()), MEMBER(train.graph.stochastic),
                      "how weights and states of 16 bits are rounded"),
      list<Request>("frozen", "NAME", MEMBER(train.graph.frozen), "a weight that stays as it is"),
      option<Request>("batch", count("N", kOne), MEMBER(train.batch), "examples in a step, of all processes together"),
      option<Request>("epochs", count("N", kOne), MEMBER(train.epochs), "passes over the data"),
      option<Request>(
          "shards", count<std::int64_t>(), MEMBER(train.shards),
          "parts of a batch that are added in one order: the same bits for any number of processes (0: in any order)"),
      option<Request>("allreduce", all_reduce(), MEMBER(all_reduce),
                      "how processes add up gradients; hierarchical:K has K processes a node; engine is MPI's, with the device "
                      "cuda nccl, on a GPU for each process"),
      option<Request>("bucket", bytes(), MEMBER(train.exchange.bucket_bytes),
                      "gradients that are sent together while others are computed (0: all)"),
      option<Request>("gradients", choice(sent_choices()), MEMBER(train.exchange.gradients),
                      "the type in which gradients are sent"),
      option<Request>("zero", choice(stage_choices()), MEMBER(train.exchange.zero),
                      "what processes divide among them: 1 the optimizer's states, 2 gradients too, 3 weights too"),
      option<Request>(
          "plan", text("PLAN"), MEMBER(plan),
          "how the processes share each step (rewright plan): proved first, then followed, with parts of weights and "
          "states in each"),
      option<Request>(
          "mode", choice(mode_choices()), MEMBER(asynchronous.mode),
          "whether each step is one of all processes, or every worker (a process, in hogwild a thread) takes its own"),
      option<Request>("servers", count<std::size_t>("K", 1), MEMBER(asynchronous.servers),
                      "processes that hold the weights in shards, while the others compute, in other modes than synchronous"),
      option<Request>("max-staleness", bound(), MEMBER(asynchronous.max_staleness),
                      "the most updates that a gradient may miss: who would make another's miss more waits"),
      option<Request>("fetch", count("N", kOne), MEMBER(asynchronous.fetch),
                      "a worker's steps from one read of the servers' weights to the next"),
      option<Request>("push", count("N", kOne), MEMBER(asynchronous.push),
                      "a worker's steps from one message to the servers to the next"),
      option<Request>("lost", choice(lost_choices()), MEMBER(leave_out_lost),
                      "what to do if a process ends: stop, or go on without it, from memory or from the checkpoint"),
      option<Request>("batch-norm", choice(statistics_choices()), MEMBER(train.whole_batch_statistics),
                      "whose statistics batch normalizations use: those of each process's shard, or of the whole batch"),
      option<Request>("check-every", count<std::int64_t>("STEPS"), MEMBER(train.check_every),
                      "steps after which processes compare their weights (0: never)"),
      option<Request>("accumulate", count("N", kOne), MEMBER(train.accumulate),
                      "parts of its share of a batch that a process computes one after another, for memory"),
      option<Request>("rewrite", time(), MEMBER(rewrite_seconds), "time to optimize the graph of a step first"),
      option<Request>(
          "memory-budget", bytes(), MEMBER(memory_budget),
          "memory for the intermediate values of a step: parts of the forward pass are computed again (512M, 2G; 0: any)"),
      option<Request>("step-graph", text("FILE.onnx"), MEMBER(step_graph), "write the graph of a whole step as a model"),
      flag<Request>("profile", MEMBER(train.profile), "print time, FLOPs and bytes of the operators of a step"),
      option<Request>("checkpoint", text("FILE"), MEMBER(checkpoint), "the file that keeps the state"),
      option<Request>("save-every", count<std::int64_t>("STEPS"), MEMBER(save_every),
                      "steps between checkpoints (0: only at the end)"),
      flag<Request>("resume", MEMBER(resume), "continue from the checkpoint, if there is one"),
      option<Request>("metrics", text("FILE"), MEMBER(metrics), "a line of JSON for each step"),
      option<Request>("on-nan", choice(bad_step_choices()), MEMBER(train.skip_bad_steps),
                      "what to do if the loss is not finite: stop, or skip the step"),
      option<Request>("device", text(device_syntax(DeviceUse::kSession)), MEMBER(device),
                      "the device to train on (with cuda, each process of a machine takes a GPU of its own)"),
      option<Request>("seed", count<std::uint64_t>("S"), MEMBER(train.seed), "seed of everything random"),
      option<Request>("threads", count<int>(), MEMBER(threads), "threads to use (0: all cores)"),
  });
  return kOptions;
}

#undef MEMBER

}  // namespace

const Choices<Mode>& mode_choices() {
  static const Choices<Mode> kAll("mode", {{"synchronous", Mode::kSynchronous},
                                           {"hogwild", Mode::kHogwild},
                                           {"downpour", Mode::kDownpour},
                                           {"sandblaster", Mode::kSandblaster},
                                           {"adam-differences", Mode::kAdamDifferences},
                                           {"elastic", Mode::kElastic}});
  return kAll;
}

TrainOptions TrainingRequest::initial_training() {
  TrainOptions options;
  options.graph.update.method = UpdateMethod::kAdam;
  options.schedule.rate = 0.001;
  return options;
}

std::span<const TrainingOption> training_options() { return options_of_requests(); }

}  // namespace rewright::api
