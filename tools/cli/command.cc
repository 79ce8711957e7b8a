#include "tools/cli/command.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "graph/file.h"
#include "optimizer/device_profile.h"
#include "optimizer/sizes.h"
#include "rules/io.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/device.h"
#include "runtime/cuda/device.h"
#include "runtime/onnxruntime/device.h"
#include "runtime/reference/backend.h"

namespace rewright::cli {

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description, const std::string& example,
                      CommonOptions& common) {
  CLI::App* command = program.add_subcommand(name, description);
  command->add_option("--json", common.json, "write the report as JSON to a file (- for standard output)")->type_name("FILE");
  command->add_option("--seed", common.seed, "seed of everything random")->capture_default_str();
  command->add_option("--threads", common.threads, "threads to use (default: all cores)")->check(CLI::NonNegativeNumber);
  command->add_flag("--quiet", common.quiet, "print nothing but errors");
  command->footer("Example:\n  " + example);
  return command;
}

void say(const CommonOptions& common, const std::string& text) {
  if (common.quiet) return;
  (common.json == "-" ? std::cerr : std::cout) << text << std::flush;
}

void write_json(const CommonOptions& common, const nlohmann::json& report) {
  if (common.json.empty()) return;
  const std::string text = report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (common.json == "-")
    std::cout << text << std::flush;
  else
    write_file(common.json, text);
}

void require_writable(const std::string& file) {
  const FileWriter trial(file);  // its temporary file is removed again
}

namespace {

// A number followed by one of the units; the bare number has the unit "".
double parse_quantity(const std::string& text, const std::map<std::string, double>& units, const std::string& example) {
  std::size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const auto unit = units.find(text.substr(end));
  if (end == 0 || !(number >= 0) || unit == units.end())
    throw Error(ErrorCode::kUsage, "\"" + text + "\" is no such quantity", {}, "write it like " + example);
  return number * unit->second;
}

}  // namespace

double parse_seconds(const std::string& text) {
  return parse_quantity(text, {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}}, "60s, 500ms or 2m");
}

std::size_t parse_bytes(const std::string& text) {
  const double bytes = parse_quantity(
      text,
      {{"", 1}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}, {"KB", 0x1p10}, {"MB", 0x1p20}, {"GB", 0x1p30}},
      "8G or 512M");
  if (bytes > 0x1p60) throw Error(ErrorCode::kUsage, text + " is more memory than there is");
  return static_cast<std::size_t>(bytes);
}

std::map<std::string, Sizes> parse_shapes(const std::vector<std::string>& shapes) {
  std::map<std::string, Sizes> result;
  for (const std::string& text : shapes) {
    const std::size_t equals = text.rfind('=');
    const auto wrong = [&] {
      return Error(ErrorCode::kUsage, "--shape " + text + " is not understood", {}, "write it like --shape input=1x3x224x224");
    };
    if (equals == std::string::npos || equals == 0) throw wrong();
    Sizes sizes;
    for (std::size_t at = equals + 1; at < text.size();) {
      std::size_t used = 0;
      try {
        sizes.push_back(std::stoll(text.substr(at), &used));
      } catch (const std::exception&) {
        throw wrong();
      }
      at += used;
      if (sizes.back() < 0 || (at < text.size() && text[at] != 'x') || at + 1 == text.size()) throw wrong();
      ++at;
    }
    if (!result.emplace(text.substr(0, equals), std::move(sizes)).second)
      throw Error(ErrorCode::kUsage, "--shape gives input \"" + text.substr(0, equals) + "\" twice");
  }
  return result;
}

std::map<std::string, std::int64_t> symbol_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes) {
  std::map<std::string, std::int64_t> result;
  for (const auto& [name, sizes] : shapes) {
    const Value* input = nullptr;
    std::string names;
    for (const ValueId id : graph.inputs()) {
      if (graph.value(id).name == name) input = &graph.value(id);
      names += (names.empty() ? "" : ", ") + graph.value(id).name;
    }
    if (!input) throw Error(ErrorCode::kBadInput, "the model has no input \"" + name + "\"", "--shape", "it has " + names);
    const Indices& shape = input->type.shape;
    const auto contradiction = [&] {
      return Error(ErrorCode::kBadInput, "the sizes given with --shape contradict the model's " + to_string(input->type),
                   "input \"" + name + "\"");
    };
    if (shape.size() != sizes.size()) throw contradiction();
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      const Atom* symbol = shape[a].as_atom();
      if (symbol && symbol->kind == Atom::Kind::kSymbol) {
        if (result.emplace(symbol->name, sizes[a]).first->second != sizes[a]) throw contradiction();
      } else if (shape[a].constant() && *shape[a].constant() != sizes[a]) {
        throw contradiction();
      }
    }
  }
  return fitting_sizes(graph, std::move(result));
}

CLI::Option* add_math(CLI::App* command, std::string& math, const std::string& description) {
  return command->add_option("--math", math, description)
      ->check(CLI::IsMember({"exact", "reassociate", "fast"}))
      ->capture_default_str();
}

MathClass math_class(const std::string& math) {
  return math == "exact" ? MathClass::kExact : math == "fast" ? MathClass::kNeedsFinite : MathClass::kReassociates;
}

int thread_count(const CommonOptions& common) { return usable_threads(common.threads); }

namespace {

// Of "cuda" and "cuda:N".
std::optional<int> gpu_number(const std::string& name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string number = name.substr(5);
  if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoi(number);
}

}  // namespace

void add_kernels_option(CLI::App& command, KernelChoice& kernels) {
  static const std::map<std::string, KernelChoice> kChoices = {
      {"estimated", KernelChoice::kEstimated}, {"cached", KernelChoice::kCached}, {"measured", KernelChoice::kMeasured}};
  command
      .add_option_function<std::string>(
          "--kernels", [&kernels](const std::string& name) { kernels = kChoices.at(name); },
          "how convolutions are chosen on the CPU: estimated (the same bits everywhere), cached (as measured here before) or "
          "measured (what is missing as well)")
      ->check(CLI::IsMember({"estimated", "cached", "measured"}))
      ->default_str("estimated");
}

std::string default_device() { return has_cuda_device() ? "cuda" : "cpu"; }

std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math, KernelChoice kernels) {
  const bool exact = math == MathClass::kExact;
  if (name == "cpu") return make_cpu_device(threads, !exact, kernels);
  if (name == "onnxruntime") return make_onnxruntime_device(threads);
  if (const auto gpu = gpu_number(name)) return make_cuda_device(*gpu, math == MathClass::kNeedsFinite);
  if (name.starts_with("profile:"))  // models are executed, to check them, on this machine's CPU
    return make_profile_device(read_profile(name.substr(8)), name, make_cpu_device(threads, !exact));
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\"", {},
              "there are cpu, cuda, onnxruntime and profile:FILE");
}

const Backend& find_backend(const std::string& name, MathClass math) {
  if (name == "cpu") return cpu_backend();
  if (name == "reference") return reference_backend();
  if (const auto gpu = gpu_number(name)) {
    static std::map<std::pair<int, bool>, std::unique_ptr<Backend>> backends;  // of this program's one thread
    const bool tf32 = math == MathClass::kNeedsFinite;
    std::unique_ptr<Backend>& backend = backends[{*gpu, tf32}];
    if (!backend) backend = make_cuda_backend(*gpu, tf32);
    return *backend;
  }
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\" to run on", {}, "there are cpu, cuda and reference");
}

Tensor read_tensor(const std::string& file) {
  if (file.ends_with(".npy")) return read_npy(file);
  if (file.ends_with(".pb")) return read_tensor_proto(file);
  throw Error(ErrorCode::kUsage, "a tensor is read from a .npy or .pb file", file);
}

std::map<std::string, std::string> named_files(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> files;
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorCode::kUsage, "--input " + pair + " is not understood", {}, "write it like --input NAME=FILE.npy");
    files[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return files;
}

std::map<std::string, Tensor> read_named_tensors(const std::vector<std::string>& pairs) {
  std::map<std::string, Tensor> given;
  for (const auto& [name, file] : named_files(pairs)) given[name] = read_tensor(file);
  return given;
}

namespace {

template <class T>
std::vector<T> in_order(const Graph& graph, std::map<std::string, T> given) {
  std::vector<T> result;
  std::string missing;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    const auto at = given.find(value.name);
    if (at == given.end()) {
      missing += (missing.empty() ? "" : ", ") + value.name + " " + to_string(value.type);
      continue;
    }
    result.push_back(at->second);
    given.erase(at);
  }
  if (!missing.empty()) throw Error(ErrorCode::kUsage, "no file is given for " + missing, {}, "add --input NAME=FILE.npy");
  if (!given.empty()) throw Error(ErrorCode::kUsage, "the model has no input \"" + given.begin()->first + "\"");
  return result;
}

}  // namespace

std::vector<Tensor> in_order_of_inputs(const Graph& graph, std::map<std::string, Tensor> given) {
  return in_order(graph, std::move(given));
}

std::vector<Datum> in_order_of_inputs(const Graph& graph, std::map<std::string, Datum> given) {
  return in_order(graph, std::move(given));
}

bool is_part_of_shipped_rules(const std::string& argument) {
  std::error_code error;
  return (argument == "generated" || argument == "handwritten") && !std::filesystem::exists(argument, error);
}

std::vector<Rule> read_all_rules(const std::vector<std::string>& files) {
  if (files.empty()) return shipped_rules().rules();
  std::vector<Rule> rules;
  for (const std::string& file : files) {
    if (!is_part_of_shipped_rules(file)) {
      for (Rule& rule : read_rules(file)) rules.push_back(std::move(rule));
      continue;
    }
    const bool generated = file == "generated";
    for (const Rule& rule : shipped_rules().rules())
      if (rule.origin == RuleOrigin::kBoth || (rule.origin == RuleOrigin::kGenerated) == generated) rules.push_back(rule);
  }
  return RuleSet(std::move(rules)).rules();
}

std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved) {
  std::vector<Rule> rules = read_all_rules(files);
  if (files.empty())
    std::erase_if(rules, [](const Rule& rule) {
      return rule.origin == RuleOrigin::kGenerated && rule.target.nodes.size() >= rule.source.nodes.size();
    });
  for (const Rule& rule : rules)
    if (rule.proof.status != RuleStatus::kProved && !unproved)
      throw Error(ErrorCode::kBadInput, "the rule is not proved", "rule " + rule.name,
                  "give what rewright verify -o writes, or --unproved");
  return rules;
}

// ---- Interruption

void prepare_interruption() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of writing it
}

namespace {

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);  // ends the watcher
  return set;
}

}  // namespace

Interruption::Interruption() {
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // threads that are started from here on inherit it
  watcher_ = std::make_unique<std::thread>([this] {
    const sigset_t waited = interrupt_signals();
    for (int signal = 0; sigwait(&waited, &signal) == 0;) {
      if (signal == SIGUSR1) return;
      if (source_.stop_requested()) _exit(128 + signal);
      source_.request_stop();
    }
  });
}

Interruption::~Interruption() {
  pthread_kill(watcher_->native_handle(), SIGUSR1);
  watcher_->join();
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// ---- Progress

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Progress::Progress(const CommonOptions& common)
    : enabled_(!common.quiet), terminal_(isatty(STDERR_FILENO) != 0), started_(now()), stage_started_(started_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::update(const std::string& stage, double fraction, const std::string& note) {
  const double time = now();
  if (stage != stage_) {
    stage_ = stage;
    stage_started_ = time;
    stage_began_at_ = fraction;
  }
  if (!enabled_ || time - started_ < 2 || time - last_ < (terminal_ ? 0.1 : 5)) return;
  last_ = time;
  drawn_ = true;
  fraction = std::min(1.0, std::max(0.0, fraction));
  std::string line = stage + " ";
  if (terminal_) {
    constexpr int kWidth = 30;
    const int full = static_cast<int>(fraction * kWidth);
    line += "[" + std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(kWidth - full), '.') +
            "] ";
  }
  line += std::to_string(static_cast<int>(fraction * 100)) + "%";
  if (const double done = fraction - stage_began_at_; done > 0.02) {  // work that is continued does not begin at 0
    const double left = (time - stage_started_) * (1 - fraction) / done;
    line += ", " + std::to_string(static_cast<int>(left + 0.5)) + " s left";
  }
  if (!note.empty()) line += ", " + note;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace rewright::cli
