#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/language/call_shapes.h"
#include "api/language/config.h"
#include "api/optimization.h"
#include "api/options.h"
#include "api/proving.h"
#include "base/error.h"
#include "graph/file.h"
#include "tools/cli/model_folder.h"
#include "tools/cli/request_options.h"

namespace rewright::cli {

namespace {

struct OptimizeOptions {
  CommonOptions common;
  std::string input, output, certificate, report;
  OptimizationRequest request;
  bool prove = false;
};

// A line for each of several sets of sizes.
std::string table_of_sizes(const std::vector<SizesReport>& sets) {
  std::ostringstream out;
  for (const SizesReport& set : sets) {
    out << "  at " << to_string(set.at.sizes) << " (weight " << std::defaultfloat << std::setprecision(3) << set.at.weight
        << "): ";
    out << std::fixed << std::setprecision(3) << "predicted " << set.predicted_before * 1e3 << " -> "
        << set.predicted_after * 1e3 << " ms";
    if (set.measured_before > 0)
      out << ", measured " << set.measured_before * 1e3 << " -> " << set.measured_after * 1e3 << " ms, " << std::setprecision(2)
          << set.speedup << " times as fast";
    out << "\n";
  }
  return out.str();
}

std::string summary(const OptimizeOptions& options, const OptimizeReport& r, const nlohmann::json& facts) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << options.input << " -> " << options.output << "  (" << r.device << ")\n";
  out << "  nodes      " << r.nodes_before << " -> " << r.nodes_after;
  if (options.request.optimize.dialect == Dialect::kStandard) out << ", of ONNX's opset " << r.opset;
  if (!r.opaque.empty()) out << ", " << r.opaque.size() << " kept as they are (see rewright show --unsupported)";
  std::string chosen;
  for (const auto& name : facts.at("chosen_sizes"))
    if (const auto size = facts.at("sizes").find(name.get<std::string>()); size != facts.at("sizes").end())
      chosen += (chosen.empty() ? "" : ", ") + size.key() + " " + size->dump();
  if (!chosen.empty()) out << "\n  sizes      " << chosen << ", which the model leaves open (others with --shape)";
  if (r.at.size() > 1) out << "\n" << table_of_sizes(r.at) << "  their weighted mean:";
  out << "\n  predicted  " << r.predicted_before * 1e3 << " -> " << r.predicted_after * 1e3 << " ms\n";
  if (r.objective == "memory")
    out << "  peak       " << r.quantities_before.peak_bytes * 1e-6 << " -> " << r.quantities_after.peak_bytes * 1e-6
        << " MB\n";
  if (r.objective == "energy-proxy")
    out << "  moved      " << r.quantities_before.moved_bytes * 1e-6 << " -> " << r.quantities_after.moved_bytes * 1e-6
        << " MB\n";
  if (r.measured_before > 0)
    out << "  measured   " << r.measured_before * 1e3 << " -> " << r.measured_after * 1e3 << " ms, " << std::setprecision(2)
        << r.speedup << " times as fast\n";
  out << "  search     " << r.rules_applied.size() << " rewrites, " << r.graphs_explored << " graphs, " << r.e_nodes
      << " e-nodes, " << std::setprecision(1) << r.search_seconds << " s, stopped: " << r.stop_reason << "\n";
  if (r.check.runs > 0)
    out << "  check      " << r.check.runs << " random " << (r.check.runs == 1 ? "input" : "inputs") << ", largest error "
        << std::scientific << std::setprecision(1) << r.check.max_abs_error << " absolute, " << r.check.max_rel_error
        << " relative" << (r.check.executor == r.device ? "" : ", on " + r.check.executor) << "\n";
  else
    out << "  check      did not run: " << r.check.reason << "\n";
  out << "  " << r.outcome << "\n";
  return out.str();
}

// Warns of faults of the optimizer, and of checks that could not be made.
void warn(const OptimizeReport& r, const optimizer::OptimizeOptions& options) {
  const auto line = [](const std::string& text) { std::cerr << "rewright: warning: " << text << "\n"; };
  for (const Fault& fault : r.check.differs) line(message_of(fault));
  for (const std::string& kernel : r.check.kernels) line(kernel);
  for (const NotStandard& node : r.left)
    line("node \"" + node.node + "\" (" + node.type + ") has no form in ONNX's own operators: " + node.reason);
  if (options.dialect == Dialect::kStandard && options.check_runs > 0 && r.check.runs == 0)
    line("what was written in ONNX's own operators was not compared: " + r.check.reason);
  if (!r.changed && r.check.runs == 0 && r.outcome.starts_with("the given graph"))
    line(r.outcome + " (" + r.check.reason + ")");
}

// "OUT.differs.onnx"
std::string differs_beside(const std::string& output) {
  return std::filesystem::path(output).replace_extension(".differs.onnx").string();
}

// From the file that was read to the file that was written: neither the search, nor folding, nor the export is believed.
nlohmann::json prove_result(const OptimizeOptions& options, const std::string& written, std::stop_token cancel) {
  Progress progress(options.common);
  ProvingRequest request;
  request.first = options.input, request.second = written;
  request.seed = options.common.seed, request.threads = thread_count(options.common), request.cancel = std::move(cancel);
  request.progress = [&](double fraction, const std::string& note) { progress.update("proving", fraction, note); };
  try {
    return prove_models(request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
    return {{"verdict", "undecided"}, {"reason", error.what()}};  // inputs became constants
  }
}

void warn_of_proof(const nlohmann::json& proof) {
  const std::string verdict = proof.at("verdict"), reason = proof.at("reason");
  if (verdict == "proved") return;
  std::string place;
  for (const auto& p : proof.value("places", nlohmann::json::array())) {
    place = ", first at \"" + p.at("b").get<std::string>() + "\"";
    break;
  }
  std::cerr << "rewright: warning: "
            << (verdict == "refuted" ? "the result was refuted" + place +
                                           ", which is a fault of rewright: the given graph was written; please report it"
                                     : "the result was written and is not proved" + place)
            << (reason.empty() ? "" : " (" + reason + ")") << "\n";
}

// The steps that lead from a graph to itself.
Certificate without_steps(const Certificate& certificate) {
  Certificate none;
  none.before = none.after = certificate.before;
  none.match = certificate.match;
  return none;
}

// The destination of a result.
struct Target {
  std::function<std::string(const Graph&)> write;  // returns the file
  std::function<void()> commit;                    // it stays
};

// Optimizes a model. What a proof refutes is not written: the given graph is.
int optimize_model(const OptimizeOptions& options, const Target& target) {
  const Graph graph = import_onnx(options.input);
  Interruption interruption;
  Optimization done;
  {
    Progress progress(options.common);
    done = run_optimization(graph, options.request, options.input, options.output, !options.report.empty(),
                            interruption.token(), [&](const OptimizeProgress& p) {
                              std::ostringstream note;
                              if (p.predicted_gain > 1.001)
                                note << "predicted gain " << std::fixed << std::setprecision(2) << p.predicted_gain;
                              progress.update(p.stage, p.fraction, note.str());
                            });
  }
  warn(done.result.report, options.request.optimize);
  const std::string written = target.write(done.result.graph);
  nlohmann::json proof;
  if (options.prove) {
    proof = prove_result(options, written, interruption.token());
    warn_of_proof(proof);
  }
  const bool is_proved = !options.prove || proof.at("verdict") == "proved";
  const bool is_refuted = options.prove && proof.at("verdict") == "refuted";
  if (is_refuted) target.write(graph);
  target.commit();
  if (!options.certificate.empty())
    write_file(options.certificate, to_json(is_refuted ? without_steps(done.result.certificate) : done.result.certificate));
  if (!options.report.empty()) write_file(options.report, done.page);
  nlohmann::json facts = nlohmann::json::parse(done.facts);
  std::string text = summary(options, done.result.report, facts);
  if (options.prove) {
    const std::string reason = proof.at("reason");
    text += "  proof      " + proof.at("verdict").get<std::string>() + (reason.empty() ? "" : ": " + reason) +
            (is_refuted ? "; the given graph was written" : "") + "\n";
    proof["written"] = !is_refuted;
    facts["proof"] = proof;
  }
  say(options.common, text);
  if (!done.kept_inputs.empty())
    std::cerr << "rewright: warning: " << done.kept_inputs.size()
              << " weights are inputs as well, which a caller may give: they were not folded (--fix-inputs makes constants of "
                 "them)\n";
  write_json(options.common, facts);
  return is_proved && done.result.report.left.empty() ? kDone : kNo;
}

// Shapes for a language model, which is called with a prompt and then with single tokens; none for another folder's model.
std::vector<std::string> shapes_of_language_model(const std::filesystem::path& folder, const std::filesystem::path& model) {
  if (!std::filesystem::is_regular_file(folder / "genai_config.json")) return {};
  try {
    const LanguageConfig config = read_language_config(folder);
    std::error_code ignored;
    return std::filesystem::equivalent(config.model, model, ignored) ? shapes_of_calls(config) : std::vector<std::string>();
  } catch (const Error&) {  // one that `complete` does not take
    return {};
  }
}

// Optimizes the model of a folder, and copies its other files.
int optimize_folder(OptimizeOptions options) {
  const std::filesystem::path folder = options.input, model = model_in(folder);
  FolderCopy copy(folder, model, options.output);
  options.input = (folder / model).string();
  if (options.request.shapes.empty()) options.request.shapes = shapes_of_language_model(folder, folder / model);
  options.output = (std::filesystem::path(options.output) / model).string();
  ExportOptions written = kRewritten;
  if (copy.has_external_weights()) written.external_data_above = 0;
  return optimize_model(options, {[&](const Graph& graph) {
                                    export_onnx(graph, copy.model(), written);
                                    return copy.model().string();
                                  },
                                  [&] { copy.commit(); }});
}

int optimize_command(OptimizeOptions options) {
  options.request.optimize.started = Budget::Clock::now();
  options.request.program = "/proc/self/exe";
  const bool is_folder = std::filesystem::is_directory(options.input);
  for (const std::string& file : {is_folder ? "" : options.output, options.certificate, options.report})
    if (!file.empty()) require_writable(file);
  options.request.threads = options.common.threads;
  options.request.optimize.seed = options.common.seed;
  if (!is_folder) options.request.differs = differs_beside(options.output);
  if (is_folder) return optimize_folder(options);
  return optimize_model(options, {[&](const Graph& graph) {
                                    export_onnx(graph, options.output, kRewritten);
                                    return options.output;
                                  },
                                  [] {}});
}

}  // namespace

CLI::App* add_optimize(CLI::App& program, Run& run) {
  const auto options = std::make_shared<OptimizeOptions>();
  OptimizeOptions& o = *options;
  CLI::App* command = add_command(program, "optimize", "Find the fastest equivalent graph and write it",
                                  "rewright optimize model.onnx -o faster.onnx --device onnxruntime", o.common);
  command->add_option("input", o.input, "the model, or a folder with model.onnx")->required()->type_name("IN.onnx");
  command
      ->add_option("-o,--output", o.output, "where the result is written; for a folder: a folder, with all else in it copied")
      ->required()
      ->type_name("OUT.onnx");
  add_options(*command, o.request, optimization_options());
  command->add_option("--report", o.report, "write a page of what changed and what it gained, to look at")
      ->type_name("FILE.html");
  command->add_flag("--prove", o.prove, "prove that the written file computes what the read one does, as rewright prove does");
  command->add_option("--certificate", o.certificate, "write every rewrite applied, to be replayed")->type_name("FILE");
  command->callback([options, &run] { run = [options] { return optimize_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
