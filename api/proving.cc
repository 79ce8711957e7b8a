#include "api/proving.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "api/define_options.h"
#include "api/devices.h"
#include "api/rule_files.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "equivalence/prove.h"
#include "graph/onnx/onnx.h"
#include "runtime/cpu/planning/precision.h"

namespace rewright::api {

using nlohmann::json;

namespace {

#define MEMBER(path) \
  [](ProvingRequest & r) -> auto& { return r.path; }

const std::vector<ProvingOption>& options_of_proofs() {
  using namespace define;
  using Request = ProvingRequest;
  static const std::vector<ProvingOption> kOptions = all_of<ProvingOption>({
      option<Request>("certificate", text("DIR"), MEMBER(certificate), "a folder for the proof, which --check follows"),
      option<Request>("reduce", text("DIR"), MEMBER(reduce),
                      "a folder for the smallest models that differ, and for inputs on which they do"),
      option<Request>("counterexample", text("DIR"), MEMBER(counterexample), "a folder for inputs on which the models differ"),
      list<Request>("map", "NAME=NAME", MEMBER(pairs), "an input or output of the first model, and its name in the second one"),
      option<Request>("tolerance", number(0, 1e-2), MEMBER(tolerance),
                      "relative difference up to which a constant of float is a rounding (other types: in proportion)"),
      flag<Request>("rounding", MEMBER(rounding),
                    "also bound how far results of proved models lie apart in floating point, for inputs within ranges"),
      list<Request>("range", "NAME=LOW:HIGH", MEMBER(ranges), "with --rounding: the range of an input (others: from -1 to 1)"),
      option<Request>("runs", count<int>("N", 1), MEMBER(samples), "random inputs on which both are run"),
      option<Request>("budget", time(), MEMBER(seconds), "time after which what is open stays so"),
  });
  return kOptions;
}

#undef MEMBER

std::map<std::string, std::string> names_of(const ProvingRequest& request) {
  std::map<std::string, std::string> names = request.names;
  for (const std::string& pair : request.pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      throw Error(ErrorCode::kUsage, "\"" + pair + "\" is not NAME=NAME", "--map");
    if (!names.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
      throw Error(ErrorCode::kUsage, "\"" + pair.substr(0, equals) + "\" is there twice", "--map");
  }
  return names;
}

std::map<std::string, equivalence::ValueRange> ranges_of(const ProvingRequest& request) {
  std::map<std::string, equivalence::ValueRange> ranges;
  for (const std::string& text : request.ranges) {
    const auto bad = [&] { return Error(ErrorCode::kUsage, "\"" + text + "\" is not NAME=LOW:HIGH", "--range"); };
    const std::size_t equals = text.rfind('='), colon = text.rfind(':');
    if (equals == std::string::npos || equals == 0 || colon == std::string::npos || colon < equals) throw bad();
    equivalence::ValueRange range;
    const auto number = [&](std::size_t from, std::size_t to, double& value) {
      const auto [end, failure] = std::from_chars(text.data() + from, text.data() + to, value);
      if (failure != std::errc() || end != text.data() + to || !std::isfinite(value)) throw bad();
    };
    number(equals + 1, colon, range.low);
    number(colon + 1, text.size(), range.high);
    if (range.low > range.high) throw bad();
    if (!ranges.emplace(text.substr(0, equals), range).second)
      throw Error(ErrorCode::kUsage, "\"" + text.substr(0, equals) + "\" is there twice", "--range");
  }
  return ranges;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(ErrorCode::kMissing, "cannot be made: " + failure.message(), folder.string());
}

// A name of a file for a tensor, different for each.
std::string file_name(const std::string& name, std::set<std::string>& used) {
  std::string file;
  for (const char c : name) file += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  file = file.substr(0, 100);
  while (!used.insert(file).second) file += "_";
  return file;
}

json write_inputs(const equivalence::Proving& proving, const std::filesystem::path& folder) {
  make_folder(folder);
  std::set<std::string> used;
  json files = json::object();
  for (std::size_t i = 0; i < proving.input_names.size(); ++i) {
    const Tensor& tensor = proving.counterexample->inputs.at(i);
    const std::string name = file_name(proving.input_names[i], used);
    if (is_npy_type(tensor.type())) {
      write_npy(tensor, folder / (name + ".npy"));
      files[proving.input_names[i]] = (folder / (name + ".npy")).string();
    } else {
      Graph graph;
      graph.add_output("y", graph.add_input("x", {tensor.type(), to_indices(tensor.sizes())}));
      write_output(graph, 0, tensor, folder / (name + ".pb"));
      files[proving.input_names[i]] = (folder / (name + ".pb")).string();
    }
  }
  return files;
}

}  // namespace

std::span<const ProvingOption> proving_options() { return options_of_proofs(); }

json prove_models(const ProvingRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  equivalence::ProveOptions options;
  options.names = names_of(request), options.tolerance = request.tolerance;
  options.seed = request.seed, options.samples = request.samples;
  options.certificate = request.certificate;
  if (request.rounding) options.rounding = ranges_of(request);
  options.deadline =
      begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(request.seconds));
  options.cancel = request.cancel, options.progress = request.progress;
  options.rules = read_proved_rules({}, false);
  const std::shared_ptr<Device> device = make_device("cpu", request.threads);
  device->end_at(options.deadline);
  options.executors = {
      reference_executor(1e6, 5, options.deadline),
      {"cpu", [device](const Graph& graph, std::span<const Tensor> inputs) { return device->run(graph, inputs); }},
      reference_executor(3e8, 30, options.deadline)};
  const std::shared_ptr<Device> precise = make_device("cpu", request.threads);
  precise->end_at(options.deadline);
  options.precise = {{"cpu in double", [precise](const Graph& graph, std::span<const Tensor> inputs) {
                        const Graph wide = cpu::in_double(graph);
                        for (const GraphOutput& output : wide.outputs())
                          if (is_real(output.type.type) && output.type.type != DataType::kDouble)
                            throw Error(ErrorCode::kUnsupported, "an operator has no meaning for double");
                        std::vector<Tensor> widened;
                        for (const Tensor& input : inputs) widened.push_back(cpu::widened(input));
                        return precise->run(wide, widened);
                      }}};
  options.end_precise_runs = [precise](std::chrono::steady_clock::time_point end) { precise->end_at(end); };
  const equivalence::Proving proving = equivalence::prove(request.first, request.second, options);

  json places = json::array(), constants = json::array();
  for (const equivalence::Place& place : proving.places)
    places.push_back({{"a", place.a}, {"b", place.b}, {"verdict", name(place.verdict)}, {"reason", place.reason}});
  for (const equivalence::ProvedConstant& constant : proving.constants)
    constants.push_back({{"name", constant.name}, {"max_rel_error", constant.max_rel_error}});
  json result = {{"verdict", name(proving.verdict)},     {"reason", proving.reason},  {"places", std::move(places)},
                 {"constants", std::move(constants)},    {"counterexample", ""},      {"equations", proving.equations},
                 {"by_rewriting", proving.by_rewriting}, {"by_rule", proving.by_rule}};
  if (request.rounding && proving.verdict == equivalence::Verdict::kProved) {
    json& bounds = result["rounding"] = json::array();
    for (const equivalence::ProvedRounding& r : proving.rounding)
      bounds.push_back({{"output", r.bound.output},
                        {"bound", r.bound.bound ? json(*r.bound.bound) : json()},
                        {"reason", r.bound.reason},
                        {"sampled", r.sampled}});
    result["rounding_sizes"] = proving.rounding_sizes;
  }
  if (proving.counterexample) {
    result["output"] = proving.counterexample->output;
    result["max_abs_error"] = proving.counterexample->max_abs_error;
    result["max_rel_error"] = proving.counterexample->max_rel_error;
    const std::string folder = !request.counterexample.empty() ? request.counterexample
                               : !request.reduce.empty()       ? (std::filesystem::path(request.reduce) / "inputs").string()
                                                               : "";
    if (!folder.empty()) {
      result["inputs"] = write_inputs(proving, folder);
      result["counterexample"] = folder;
    }
  }
  if (!request.reduce.empty() && proving.smallest) {
    const std::filesystem::path folder = request.reduce;
    make_folder(folder);
    export_onnx(proving.smallest->first, folder / "a.onnx");
    export_onnx(proving.smallest->second, folder / "b.onnx");
    result["reduced"] = {(folder / "a.onnx").string(), (folder / "b.onnx").string()};
    result["reduced_nodes"] = {proving.smallest->first.nodes().size(), proving.smallest->second.nodes().size()};
  }
  result["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result["peak_bytes"] = peak_resident_bytes();
  return result;
}

json check_equality(const CheckRequest& request, const std::function<void(double fraction)>& progress) {
  equivalence::ProofCheckOptions options;
  options.solver = request.solver, options.tolerance = request.tolerance;
  if (progress)
    options.progress = [&](std::size_t done, std::size_t all) {
      progress(static_cast<double>(done) / static_cast<double>(all));
    };
  const equivalence::ProofCheck check = equivalence::check_proof(request.first, request.second, request.certificate, options);
  return {{"accepted", check.accepted},          {"reason", check.reason},
          {"equations", check.equations},        {"rules", check.rules},
          {"tolerance", check.tolerance},        {"constants", check.constants},
          {"max_rel_error", check.max_rel_error}};
}

}  // namespace rewright::api
