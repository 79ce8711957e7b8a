#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "optimizer/certificate.h"
#include "optimizer/optimize.h"
#include "runtime/cpu/evaluator.h"
#include "runtime/training/evaluation.h"
#include "runtime/training/trainer.h"
#include "tools/cli/command.h"
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
  std::string rewrite, step_graph;
  TrainOptions train;
};

RateSchedule::Kind schedule_from_name(const std::string& name) {
  if (name == "cosine") return RateSchedule::Kind::kCosine;
  return name == "step" ? RateSchedule::Kind::kStep : RateSchedule::Kind::kConstant;
}

std::vector<std::string> columns_of(const Graph& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.inputs()) names.push_back(model.value(id).name);
  names.emplace_back("targets");
  return names;
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

int train_with(Options options, Communicator& processes) {
  const bool speaks = processes.rank() == 0;
  if (!speaks) options.common.quiet = true, options.common.json.clear(), options.metrics.clear();
  if (options.resume && options.checkpoint.empty()) throw Error(ErrorCode::kUsage, "--resume needs --checkpoint FILE");
  TrainOptions o = options.train;
  o.graph.loss = loss_from_name(options.loss);
  o.graph.update.method = update_method_from_name(options.optimizer);
  o.schedule = {schedule_from_name(options.schedule), options.rate, o.schedule.warm_up};
  o.seed = options.common.seed;
  o.threads = thread_count(options.common);
  o.skip_bad_steps = options.on_nan == "skip";
  o.output = options.predictions;
  if (!options.rewrite.empty()) {
    parse_seconds(options.rewrite);
    o.rewrite = [&](const Graph& graph) { return rewritten(graph, options, processes); };
  }
  if (speaks) require_writable(options.output);

  const Graph model = import_onnx(options.model);
  const std::vector<std::string> columns = columns_of(model);
  const Dataset data = Dataset::read(options.data, columns);
  const Backend& backend = find_backend(options.device);
  Trainer trainer(model, data, o, processes, backend);
  if (options.resume && std::filesystem::exists(options.checkpoint)) trainer.resume(read_checkpoint(options.checkpoint));
  if (speaks && !options.step_graph.empty()) export_onnx(trainer.graphs().step, options.step_graph);
  const auto save = [&] {
    if (speaks && !options.checkpoint.empty()) write_checkpoint(trainer.checkpoint(), options.checkpoint);
  };

  Interruption interruption;
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
  save();
  if (!speaks) return kDone;
  const Graph trained = trainer.trained();
  export_onnx(trained, options.output);

  nlohmann::json report{{"output", options.output},
                        {"steps", trainer.steps_done()},
                        {"complete", complete},
                        {"loss", last.loss},
                        {"processes", processes.size()}};
  std::ostringstream text;
  text << options.output << ": " << trainer.steps_done() << " steps" << (complete ? "" : " (interrupted)") << ", loss "
       << std::setprecision(4) << last.loss << "\n";
  if (!options.validate.empty()) {
    const Evaluation e = evaluate(trained, o.output, o.graph.loss, Dataset::read(options.validate, columns), o.batch, backend,
                                  {.threads = o.threads});
    report["validation"] = {{"loss", e.loss}, {"examples", e.examples}};
    text << "held out: loss " << e.loss << " on " << e.examples << " examples\n";
    if (e.accuracy) {
      report["validation"]["accuracy"] = *e.accuracy;
      text << "accuracy " << std::fixed << std::setprecision(4) << *e.accuracy << "\n";
    }
  }
  say(options.common, text.str());
  write_json(options.common, report);
  return kDone;
}

int train_command(const Options& options) {
  return run_in_processes([&](Communicator& processes) { return train_with(options, processes); });
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
  command->add_option("--data", o.data, "a folder with INPUT.npy for each input, and targets.npy")
      ->required()
      ->type_name("DIR");
  command->add_option("--validate", o.validate, "such a folder that is not trained on, to judge by at the end")
      ->type_name("DIR");
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
  command->add_option("--frozen", o.train.graph.frozen, "a weight that stays as it is (repeatable)")->type_name("NAME");
  command->add_option("--batch", o.train.batch, "examples in a step, of all processes together")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--epochs", o.train.epochs, "passes over the data")->capture_default_str()->check(CLI::PositiveNumber);
  command
      ->add_option("--shards", o.train.shards,
                   "parts of a batch that are added in one order: the same bits for any number of processes")
      ->check(CLI::PositiveNumber);
  command->add_option("--rewrite", o.rewrite, "look this long for a faster graph of a step first")->type_name("TIME");
  command->add_option("--step-graph", o.step_graph, "write the graph of a whole step, as a model to look at or to profile")
      ->type_name("FILE.onnx");
  command->add_option("--checkpoint", o.checkpoint, "where the state is kept")->type_name("FILE");
  command->add_option("--save-every", o.save_every, "steps from one checkpoint to the next")->capture_default_str();
  command->add_flag("--resume", o.resume, "go on from the checkpoint, if there is one");
  command->add_option("--metrics", o.metrics, "a line of JSON for each step")->type_name("FILE");
  command->add_option("--on-nan", o.on_nan, "what a loss that is not finite does: stop, or skip the step")
      ->capture_default_str()
      ->check(CLI::IsMember({"stop", "skip"}));
  command->add_option("--device", o.device, "cpu, or reference")->capture_default_str();
  command->callback([options, &run] { run = [options] { return train_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
