#include <algorithm>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "optimizer/certificate.h"
#include "optimizer/optimize.h"
#include "runtime/cpu/evaluator.h"
#include "runtime/training/data_files.h"
#include "runtime/training/evaluation.h"
#include "runtime/training/trainer.h"
#include "tools/cli/command.h"
#include "tools/cli/memory.h"
#include "tools/cli/processes.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::string model, data, validate, output, device = "cpu";
  std::string loss = "softmax-cross-entropy", optimizer = "adam", schedule = "constant", predictions;
  double rate = 0.001;
  std::string checkpoint, metrics, on_nan = "stop";
  std::int64_t save_every = 100;
  bool resume = false;
  std::string all_reduce = "engine", bucket = "4M", gradients = "float";
  std::string batch_norm = "shard";
  int zero = 0;
  std::string target = "target";
  std::vector<double> mean, deviation;
  std::string rewrite, step_graph, memory_budget, precision = "float32", weights = "float32", rounding = "nearest";
  TrainOptions train;
};

RateSchedule::Kind schedule_from_name(const std::string& name) {
  if (name == "cosine") return RateSchedule::Kind::kCosine;
  return name == "step" ? RateSchedule::Kind::kStep : RateSchedule::Kind::kConstant;
}

DataType type_from_name(const std::string& name) {
  return name == "float16" ? DataType::kHalf : name == "bfloat16" ? DataType::kBfloat16 : DataType::kFloat;
}

WantedData wanted_data(const Graph& model, const TrainOptions& train, const Options& options) {
  WantedData wanted;
  for (const ValueId id : model.inputs()) wanted.inputs.emplace_back(model.value(id).name, model.value(id).type);
  wanted.targets = target_type(train.graph.loss, model.value(find_predictions(model, train.output)).type);
  wanted.target_column = options.target;
  wanted.mean = options.mean, wanted.deviation = options.deviation;
  return wanted;
}

// A line of JSON a step.
class Metrics {
 public:
  Metrics(const std::string& file, bool append) {
    if (file.empty()) return;
    out_.open(file, append ? std::ios::app : std::ios::trunc);
    if (!out_) throw Error(ErrorCode::kMissing, "cannot be written", file);
  }
  void add(const StepReport& r) {
    if (!out_.is_open()) return;
    nlohmann::json line{{"step", r.step}, {"epoch", r.epoch}, {"rate", r.rate}, {"examples_per_second", r.examples_per_second}};
    line["loss"] = r.skipped ? nlohmann::json() : nlohmann::json(r.loss);
    out_ << line.dump() << "\n" << std::flush;
  }

 private:
  std::ofstream out_;
};

// The fastest graph that the first process finds; the others follow its certificate.
Graph rewritten(const Graph& graph, const Options& options, Communicator& processes) {
  const std::vector<Rule> rules = read_proved_rules({}, false);
  const int threads = thread_count(options.common);
  const std::unique_ptr<Evaluator> evaluator = make_cpu_evaluator(threads);
  std::string certificate;
  if (processes.rank() == 0) {
    const std::unique_ptr<Device> device = make_device(options.device, threads);
    CostDatabase database(CostDatabase::default_file());
    OptimizeOptions o;
    o.for_training = true;
    o.budget_seconds = parse_seconds(options.rewrite);
    o.seed = options.common.seed;
    const OptimizeResult found = optimize(graph, rules, *device, *evaluator, &database, o);
    certificate = to_json(found.certificate);
    std::ostringstream text;
    text << "a step's graph: " << found.report.nodes_before << " -> " << found.report.nodes_after << " nodes, "
         << std::setprecision(3) << found.report.measured_before * 1e3 << " -> " << found.report.measured_after * 1e3 << " ms, "
         << found.report.rules_applied.size() << " rewrites\n";
    say(options.common, text.str());
  }
  processes.broadcast(certificate, 0);
  return replay(graph, parse_certificate(certificate, "the first process's rewrites"), rules, *evaluator);
}

void require_choice(const Options& options, bool chosen) {
  if (options.train.shards > 0 && chosen)
    throw Error(ErrorCode::kUsage, "--shards adds gradients in one order, and leaves nothing to choose for --allreduce");
}

ExchangeOptions exchange_from(const Options& options) {
  ExchangeOptions e;
  e.all_reduce = all_reduce_from_name(options.all_reduce);
  require_choice(options, e.all_reduce.strategy != AllReduceStrategy::kEngine);
  e.bucket_bytes = options.bucket == "0" ? 0 : parse_bytes(options.bucket);
  e.gradients = type_from_name(options.gradients);
  e.zero = options.zero;
  return e;
}

// What the nodes of a step cost, measured where that is not known yet.
std::vector<NodeCost> measured_costs(const Graph& graph, const Options& options) {
  const std::unique_ptr<Device> device = make_device(options.device, thread_count(options.common));
  CostDatabase database(CostDatabase::default_file());
  CostOptions for_training;
  for_training.for_training = true;
  CostModel model(device.get(), &database, for_training);
  const MatchedGraph matched(graph, true);
  const MatchedGraph* const one = &matched;
  model.prepare({&one, 1});
  return model.alone(matched);
}

// Each process of a machine takes a GPU of its own, unless one is named.
void choose_gpu(Options& options, Communicator& processes) {
  if (options.device != "cuda" || processes.size() == 1) return;
  options.device = "cuda:" + std::to_string(own_gpu(processes));
  std::string missing;
  try {
    find_backend(options.device);
  } catch (const Error& error) {
    missing = error.text();
  }
  const std::vector<std::string> all = processes.all_gather(missing);
  for (std::size_t p = 0; p < all.size(); ++p)
    if (!all[p].empty())
      throw Error(ErrorCode::kMissing, all[p],
                  "--device cuda: process " + std::to_string(p) + " of " + std::to_string(all.size()),
                  "each process of a machine takes a GPU of its own, unless one is named for all, as --device cuda:0");
}

// Do gradients stay in the memory of GPUs while processes add them up?
bool adds_on_gpus(const Options& options) {
  const bool chosen = options.all_reduce == "nccl" || (options.all_reduce == "engine" && options.device == "cuda");
  return chosen && options.device.starts_with("cuda") && options.train.shards == 0 && options.zero == 0 &&
         options.gradients == "float" && options.batch_norm != "batch";
}

int train_with(Options options, Communicator& processes) {
  const bool speaks = processes.rank() == 0;
  if (!speaks) options.common.quiet = true, options.common.json.clear(), options.metrics.clear();
  if (options.resume && options.checkpoint.empty()) throw Error(ErrorCode::kUsage, "--resume needs --checkpoint FILE");
  const bool adds = adds_on_gpus(options), on_gpus = adds && processes.size() > 1;
  if (adds) options.all_reduce = "engine";
  TrainOptions o = options.train;
  o.graph.loss = loss_from_name(options.loss);
  o.graph.update.method = update_method_from_name(options.optimizer);
  o.graph.precision = type_from_name(options.precision);
  o.graph.weights = type_from_name(options.weights);
  o.graph.stochastic = options.rounding == "stochastic";
  o.schedule = {schedule_from_name(options.schedule), options.rate, o.schedule.warm_up};
  o.seed = options.common.seed;
  o.threads = thread_count(options.common);
  o.skip_bad_steps = options.on_nan == "skip";
  o.output = options.predictions;
  o.exchange = exchange_from(options);
  o.whole_batch_statistics = options.batch_norm == "batch";
  if (!options.rewrite.empty()) {
    parse_seconds(options.rewrite);
    o.rewrite = [&](const Graph& graph) { return rewritten(graph, options, processes); };
  }
  if (!options.memory_budget.empty()) {
    o.memory.bytes = parse_bytes(options.memory_budget);
    if (options.device != "reference") o.memory.costs = [&](const Graph& graph) { return measured_costs(graph, options); };
  }
  if (speaks) require_writable(options.output);

  Interruption interruption;  // before threads are started, which otherwise would be ended by signals
  Graph model = import_onnx(options.model, {.procedures_as_graphs = true});
  const WantedData wanted = wanted_data(model, o, options);
  const Dataset data = read_dataset(options.data, wanted);
  choose_gpu(options, processes);
  const Backend& backend = find_backend(options.device);
  const std::unique_ptr<DeviceSums> sums = on_gpus ? make_nccl_sums(processes, gpu_number(options.device).value()) : nullptr;
  o.device_sums = sums.get();
  Trainer trainer(std::move(model), data, o, processes, backend);
  if (options.resume && std::filesystem::exists(options.checkpoint)) trainer.resume(read_checkpoint(options.checkpoint));
  if (speaks && !options.step_graph.empty()) export_onnx(trainer.graphs().step, options.step_graph);
  const bool in_parts = o.exchange.zero > 0;  // no process has all of it
  const auto save = [&] {
    if (options.checkpoint.empty() || !(speaks || in_parts)) return;
    const TrainingCheckpoint now = trainer.checkpoint();
    if (speaks) write_checkpoint(now, options.checkpoint);
  };

  Metrics metrics(options.metrics, options.resume);
  StepReport last{};
  bool complete = false;
  {
    Progress progress(options.common);
    complete = trainer.run(interruption.token(), [&](const StepReport& r) {
      last = r;
      metrics.add(r);
      std::ostringstream note;
      note << "loss " << std::setprecision(4) << r.loss << ", " << std::fixed << std::setprecision(0) << r.examples_per_second
           << " examples/s";
      progress.update("training", static_cast<double>(r.step) / static_cast<double>(r.steps), note.str());
      if (options.save_every > 0 && r.step % options.save_every == 0) save();
    });
  }
  const std::size_t resident = memory_of_process("VmHWM:");
  save();
  if (!speaks && !in_parts) return kDone;
  const Graph trained = trainer.trained();
  if (!speaks) return kDone;
  export_onnx(trained, options.output);

  nlohmann::json report{{"output", options.output},  {"steps", trainer.steps_done()}, {"complete", complete},
                        {"loss", last.loss},         {"processes", processes.size()}, {"peak_bytes", trainer.peak_bytes()},
                        {"resident_bytes", resident}};
  std::ostringstream text;
  if (const Rematerialized* r = trainer.rematerialized()) {
    report["rematerialization"] = {{"peak_bytes_before", r->peak_before},
                                   {"predicted_bytes", r->predicted_bytes},
                                   {"predicted_ms", r->seconds * 1e3},
                                   {"predicted_ms_again", r->seconds_again * 1e3},
                                   {"least_ms_again", r->least_seconds_again * 1e3},
                                   {"nodes_again", r->nodes_again}};
    text << "memory of a step: " << r->peak_before * 1e-6 << " -> " << r->peak_bytes * 1e-6 << " MB, " << r->nodes_again
         << " nodes computed again\n";
  }
  text << options.output << ": " << trainer.steps_done() << " steps" << (complete ? "" : " (interrupted)") << ", loss "
       << std::setprecision(4) << last.loss << "\n";
  if (!options.validate.empty()) {
    const Evaluation e = evaluate(trained, o.output, o.graph.loss, read_dataset(options.validate, wanted), o.batch, backend,
                                  {.threads = o.threads});
    report["validation"] = {{"loss", e.loss}, {"examples", e.examples}};
    text << "held out: loss " << e.loss << " on " << e.examples << " examples\n";
    if (e.accuracy) {
      report["validation"]["accuracy"] = *e.accuracy;
      text << "accuracy " << std::fixed << std::setprecision(4) << *e.accuracy << "\n";
    }
  }
  if (const std::optional<TrainingMemory> memory = trainer.memory())
    report["bytes"] = {{"parameters", memory->parameters}, {"gradients", memory->gradients}, {"states", memory->states}};
  if (o.profile) text << profile_table(trainer.profile(), make_device(options.device, o.threads)->roofline());
  say(options.common, text.str());
  write_json(options.common, report);
  return kDone;
}

int train_on(const Options& options, Communicator& processes) {
  if (options.all_reduce != "nccl" || adds_on_gpus(options)) return train_with(options, processes);
  require_choice(options, true);
  Options with_nccl = options;
  with_nccl.all_reduce = "engine";
  return train_with(with_nccl, *make_nccl_communicator(processes));
}

int train_command(const Options& options) {
  return run_in_processes([&](Communicator& processes) { return train_on(options, processes); },
                          options.checkpoint.empty() ? "" : "--resume goes on from the last checkpoint");
}

}  // namespace

CLI::App* add_train(CLI::App& program, Run& run) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  CLI::App* command =
      add_command(program, "train", "Train a model; under mpirun, each process takes its part of every batch",
                  "rewright train model.onnx --data digits/train --validate digits/test -o trained.onnx", o.common);
  command->add_option("model", o.model, "the model; its weights are where training starts")->required()->type_name("IN.onnx");
  command->add_option("-o,--output", o.output, "where the trained model is written")->required()->type_name("OUT.onnx");
  command
      ->add_option("--data", o.data,
                   "a folder with INPUT.npy for each input and targets.npy; a CSV file; or a folder of pictures for each class")
      ->required()
      ->type_name("DIR|FILE");
  command->add_option("--validate", o.validate, "such data that is not trained on, to judge by at the end")
      ->type_name("DIR|FILE");
  command->add_option("--target", o.target, "the column of a CSV file that is to be predicted")
      ->capture_default_str()
      ->type_name("COLUMN");
  command
      ->add_option("--mean", o.mean, "what is taken from pictures, whose numbers go from 0 to 1: one number, or one a channel")
      ->delimiter(',')
      ->type_name("M,...");
  command->add_option("--std", o.deviation, "what pictures are then divided by")->delimiter(',')->type_name("D,...");
  command->add_option("--predictions", o.predictions, "the output that the loss is of (default: the first)")->type_name("NAME");
  command->add_option("--loss", o.loss, "softmax-cross-entropy, mean-squared or binary-cross-entropy (both of logits)")
      ->capture_default_str();
  command->add_option("--optimizer", o.optimizer, "sgd, momentum, nesterov, adam, adamw, lars or lamb")->capture_default_str();
  command->add_option("--rate", o.rate, "the learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  command->add_option("--schedule", o.schedule, "of the rate: constant, cosine or step")
      ->capture_default_str()
      ->check(CLI::IsMember({"constant", "cosine", "step"}));
  command->add_option("--warm-up", o.train.schedule.warm_up, "steps in which the rate rises")->check(CLI::NonNegativeNumber);
  command->add_option("--momentum", o.train.graph.update.momentum, "of momentum, nesterov and lars")->capture_default_str();
  command->add_option("--weight-decay", o.train.graph.update.weight_decay, "of weights, not of biases")->capture_default_str();
  command->add_option("--clip", o.train.graph.clip_norm, "the largest length of all gradients together (0: any)");
  command->add_option("--precision", o.precision, "what products compute in; weights and all else stay float32")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  command->add_option("--weights", o.weights, "what weights, gradients and the optimizer's states are kept as")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  command->add_option("--rounding", o.rounding, "of weights and states that are kept in 16 bits: nearest or stochastic")
      ->capture_default_str()
      ->check(CLI::IsMember({"nearest", "stochastic"}));
  command->add_option("--frozen", o.train.graph.frozen, "a weight that stays as it is (repeatable)")->type_name("NAME");
  command->add_option("--batch", o.train.batch, "examples in a step, of all processes together")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--epochs", o.train.epochs, "passes over the data")->capture_default_str()->check(CLI::PositiveNumber);
  command
      ->add_option("--shards", o.train.shards,
                   "parts of a batch that are added in one order: the same bits for any number of processes")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--allreduce", o.all_reduce,
          "how processes add up gradients: engine (MPI's), parameter-server, naive, ring, tree, butterfly, "
          "recursive-doubling, hierarchical[:PROCESSES A NODE], or nccl (on a GPU for each process; with --device cuda "
          "this is what engine means)")
      ->capture_default_str();
  command->add_option("--bucket", o.bucket, "gradients that are sent together while others are computed (0: all)")
      ->capture_default_str()
      ->type_name("SIZE");
  command->add_option("--gradients", o.gradients, "what gradients are sent as: float, bfloat16 or float16")
      ->capture_default_str()
      ->check(CLI::IsMember({"float", "bfloat16", "float16"}));
  command
      ->add_option("--zero", o.zero,
                   "what each process keeps only a part of: 1 the optimizer's states, 2 gradients too, 3 weights too")
      ->check(CLI::Range(0, 3));
  command
      ->add_option("--batch-norm", o.batch_norm,
                   "whose statistics batch normalizations use: those of each process's shard, or of the whole batch")
      ->capture_default_str()
      ->check(CLI::IsMember({"shard", "batch"}));
  command->add_option("--check-every", o.train.check_every, "steps after which processes compare their weights (0: never)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--accumulate", o.train.accumulate,
                   "parts of its share of a batch that a process computes one after another, for memory")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->excludes("--shards");
  command->add_option("--rewrite", o.rewrite, "look this long for a faster graph of a step first")->type_name("TIME");
  command
      ->add_option("--memory-budget", o.memory_budget,
                   "bytes for the intermediate values of a step: parts of the forward pass are computed again (512M, 2G)")
      ->type_name("BYTES");
  command->add_option("--step-graph", o.step_graph, "write the graph of a whole step, as a model to look at or to profile")
      ->type_name("FILE.onnx");
  command->add_flag("--profile", o.train.profile, "print time, FLOPs and bytes of the operators of a step");
  command->add_option("--checkpoint", o.checkpoint, "where the state is kept")->type_name("FILE");
  command->add_option("--save-every", o.save_every, "steps from one checkpoint to the next")->capture_default_str();
  command->add_flag("--resume", o.resume, "go on from the checkpoint, if there is one");
  command->add_option("--metrics", o.metrics, "a line of JSON for each step")->type_name("FILE");
  command->add_option("--on-nan", o.on_nan, "what a loss that is not finite does: stop, or skip the step")
      ->capture_default_str()
      ->check(CLI::IsMember({"stop", "skip"}));
  command
      ->add_option("--device", o.device,
                   "cpu, reference, cuda (under mpirun each process of a machine takes a GPU of its own) or cuda:N")
      ->capture_default_str();
  command->callback([options, &run] { run = [options] { return train_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
