#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/training.h"
#include "graph/file.h"
#include "tools/cli/processes.h"
#include "tools/cli/request_options.h"

namespace rewright::cli {

namespace {

struct TrainOptions {
  CommonOptions common;
  std::string model, output;
  TrainingRequest request;
};

std::string summary(const TrainOptions& options, const FinishedTraining& t) {
  std::ostringstream out;
  if (const auto& r = t.rematerialized)
    out << "memory of a step: " << r->peak_before * 1e-6 << " -> " << r->peak_bytes * 1e-6 << " MB, " << r->nodes_again
        << " nodes computed again\n";
  out << options.output << ": " << t.steps << " steps" << (t.complete ? "" : " (interrupted)") << ", loss "
      << std::setprecision(4) << t.loss << "\n";
  if (t.validation) {
    out << "held out: loss " << t.validation->loss << " on " << t.validation->examples << " examples\n";
    if (t.validation->accuracy) out << "accuracy " << std::fixed << std::setprecision(4) << *t.validation->accuracy << "\n";
  }
  return out.str() + t.profile_table;
}

int train_with(TrainOptions options, Communicator& processes) {
  const CommonOptions given = options.common;
  const bool speaks = processes.rank() == 0;
  if (!speaks) options.common.quiet = true;
  if (speaks) require_writable(options.output);
  Interruption interruption;  // before threads start, which signals would otherwise end
  Graph model = import_onnx(options.model, {.procedures_as_graphs = true});
  FinishedTraining training;
  {
    Progress progress(options.common);
    const auto step = [&](const StepReport& r) {
      std::ostringstream note;
      note << "loss " << std::setprecision(4) << r.loss << ", " << std::fixed << std::setprecision(0) << r.examples_per_second
           << " examples/s";
      progress.update("training", static_cast<double>(r.step) / static_cast<double>(r.steps), note.str());
    };
    const auto note = [&](const std::string& text) { say(given, text); };  // the first process alone is told
    training =
        run_training(std::move(model), options.request, processes, false, options.output, interruption.token(), {step, note});
  }
  if (training.facts.empty()) return kDone;  // another process is the first one, which may not be the one that was at the start
  export_onnx(*training.graph, options.output);
  say(given, summary(options, training));
  write_json(given, nlohmann::json::parse(training.facts));
  return kDone;
}

WhenOneEnds when_one_ends(const TrainOptions& options) {
  const AsynchronousOptions& a = options.request.asynchronous;
  if (a.mode != Mode::kSynchronous && started_as().rank < a.servers) return {"it was a server, and the run is over"};
  if (outlives_processes(options.request)) return {"the others go on", true};
  return {options.request.checkpoint.empty() ? "" : "--resume goes on from the last checkpoint"};
}

int train_command(TrainOptions options) {
  options.request.threads = options.common.threads;
  options.request.train.seed = options.common.seed;
  return run_in_processes([&](Communicator& processes) { return train_with(options, processes); }, when_one_ends(options));
}

}  // namespace

CLI::App* add_train(CLI::App& program, Run& run) {
  const auto options = std::make_shared<TrainOptions>();
  TrainOptions& o = *options;
  CLI::App* command =
      add_command(program, "train", "Train a model; under mpirun, each process takes its part of every batch",
                  "rewright train model.onnx --data digits/train --validate digits/test -o trained.onnx", o.common);
  command->add_option("model", o.model, "the model; its weights are where training starts")->required()->type_name("IN.onnx");
  command->add_option("-o,--output", o.output, "where the trained model is written")->required()->type_name("OUT.onnx");
  add_options(*command, o.request, training_options());
  command->get_option("--data")->required();
  command->callback([options, &run] { run = [options] { return train_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
