// Runs random cases (cases.h) with the CPU runtime and compares elements of each step's result with the operators' definitions.
//
//   rewright_kernel_sweep --cases 400 --small        as in the tests
//   rewright_kernel_sweep --cases 20000              sizes of real models; writes a table of the kernels that ran
//   rewright_kernel_sweep --cases 20 --models DIR    also writes them as ONNX models, for tests/kernel_sweep.py
//
// The second and third of every three cases have each storage between guard pages (guarded_run.h). Where no single elements of
// a step can be computed (scatters), all results are compared with the interpreter's.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/onnx/onnx.h"
#include "runtime/cpu/backend/kernel_check.h"
#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/running/runner.h"
#include "tests/kernel_sweep/cases.h"
#include "tests/kernel_sweep/guarded_run.h"

using namespace rewright;
using namespace rewright::testing;

namespace {

struct Options {
  std::uint64_t cases = 400, first = 0;
  std::size_t elements = 24;
  std::string family, models;
  bool small = false, verbose = false;
  double seconds = 0;  // 0: no limit
};

struct Count {
  std::size_t cases = 0, steps = 0, elements = 0, unchecked = 0;
};

class Sweep {
 public:
  explicit Sweep(const Options& options) : options_(options) {}

  int run() {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    std::uint64_t done = 0;
    for (; done < options_.cases && (options_.seconds == 0 || seconds() < options_.seconds); ++done) {
      const std::uint64_t seed = options_.first + done;
      try {
        try_case(seed);
      } catch (const std::exception& error) {
        ++failures_;
        std::cout << "seed " << seed << ": " << error.what() << std::endl;
      }
    }
    print(done, seconds());
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void try_case(std::uint64_t seed) {
    const SweepCase c = make_sweep_case(seed, options_.family, options_.small ? kSmallSweep : kLargeSweep);
    if (!options_.models.empty()) write(seed, c);
    cpu::PlanOptions options;
    options.checked = true;
    options.threads = 1 + static_cast<int>(seed % 3);
    options.isa = seed % 8 == 7 ? Isa::kBaseline : seed % 8 == 3 ? Isa::kAvx2 : Isa::kAvx512;
    options.isa = std::min(options.isa, cpu::detected_isa());
    if (seed % 4 == 1) options.piece_nanoseconds = 0;  // the largest possible number of pieces
    cpu::PlanRunner runner(cpu::make_plan(c.graph, options));
    const cpu::Plan& plan = runner.plan();
    CheckExtent extent;
    extent.elements = options_.elements;
    extent.seconds = 2;
    cpu::KernelCheck check(plan, extent, seed);
    std::set<std::string> sources;
    bool all_checked = true;
    const auto observe = [&](std::size_t step, std::span<std::byte* const> addresses) {
      const CheckedKernels before = check.counts();
      check.after(step, addresses);
      const std::string source = plan.steps[step].changes_layout ? "changes of layout" : plan.steps[step].kernel->source();
      Count& count = counts_[{plan.steps[step].changes_layout ? "" : c.family, source}];
      count.cases += sources.insert(source).second;
      ++count.steps;
      count.elements += check.counts().elements - before.elements;
      const bool unchecked = check.has_result(step) && check.counts().checked == before.checked;
      count.unchecked += unchecked;
      all_checked = all_checked && !unchecked;
    };
    using Side = cpu::GuardedRun::Side;
    if (const std::uint64_t kind = seed / 3 % 3; kind > 0)
      cpu::GuardedRun(plan, c.inputs, kind == 1 ? Side::kBegin : Side::kEnd).execute(observe);
    else
      runner.run_observed(c.inputs, observe);
    if (!all_checked && options_.small) compare_results(seed, c, runner);
    if (options_.verbose) std::cout << "seed " << seed << " (" << c.family << "): " << check.counts().elements << " elements\n";
    for (const KernelFault& fault : check.faults()) {
      ++failures_;
      std::cout << "seed " << seed << " (" << c.family << ", " << options.threads << " threads, " << cpu::name(options.isa)
                << "): " << fault.message << std::endl;
    }
  }

  void compare_results(std::uint64_t seed, const SweepCase& c, cpu::PlanRunner& runner) {
    constexpr double kTolerance = 1e-4;
    const std::vector<Tensor> expected = interpret(c.graph, c.inputs), found = runner.run(c.inputs);
    for (std::size_t o = 0; o < expected.size(); ++o) {
      const std::vector<double> e = expected[o].reals(), f = found[o].reals();
      std::size_t wrong = 0;
      for (std::size_t n = 0; n < e.size(); ++n)
        wrong += !(f[n] == e[n] || std::fabs(f[n] - e[n]) <= kTolerance * (std::fabs(e[n]) + kTolerance));
      if (wrong == 0) continue;
      ++failures_;
      std::cout << "seed " << seed << " (" << c.family << "): " << wrong << " of " << e.size()
                << " elements differ from the interpreter's" << std::endl;
    }
  }

  // Writes a folder with the model and its inputs, if ONNX has the operators.
  void write(std::uint64_t seed, const SweepCase& c) const {
    const std::filesystem::path folder = std::filesystem::path(options_.models) / std::to_string(seed);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "family.txt") << c.family;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      write_npy(c.inputs[i], folder / (c.graph.value(c.graph.inputs()[i]).name + ".npy"));
    try {
      export_onnx(c.graph, folder / "model.onnx");
    } catch (const Error& error) {
      std::ofstream(folder / "no_model.txt") << error.what();
    }
  }

  void print(std::uint64_t cases, double seconds) const {
    std::printf("%llu cases, seeds from %llu, %d of wrong results, %.0f s\n\n", static_cast<unsigned long long>(cases),
                static_cast<unsigned long long>(options_.first), failures_, seconds);
    std::printf(
        "| case | kernel | cases | steps | elements compared | steps not compared |\n| --- | --- | ---: | ---: | ---: | ---: "
        "|\n");
    for (const auto& [key, count] : counts_)
      std::printf("| %s | %s | %zu | %zu | %zu | %zu |\n", key.first.c_str(), key.second.c_str(), count.cases, count.steps,
                  count.elements, count.unchecked);
  }

  Options options_;
  int failures_ = 0;
  std::map<std::pair<std::string, std::string>, Count> counts_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App program("Kernels of the CPU runtime against the operators' definitions");
  program.add_option("--cases", options.cases, "how many");
  program.add_option("--first", options.first, "the first one's seed");
  program.add_option("--elements", options.elements, "of each result");
  program.add_option("--family", options.family, "of the cases");
  program.add_option("--models", options.models, "a folder to write the cases to");
  program.add_option("--seconds", options.seconds, "begin no case after so many");
  program.add_flag("--small", options.small, "cases of some milliseconds");
  program.add_flag("--verbose", options.verbose, "a line a case");
  CLI11_PARSE(program, argc, argv);
  return Sweep(options).run();
}
