// Optimizations requested by the command line or another language. Every option has a name, and its value is a text:
//
//   OptimizationRequest request;
//   set_option(optimization_options(), request, "budget", "10s");
//   const Optimization done = run_optimization(graph, request, "model.onnx", "faster.onnx", false, {}, {});
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "api/priced_device.h"
#include "api/request_options.h"
#include "optimizer/optimize.h"
#include "runtime/session.h"

namespace rewright::api {

struct OptimizationRequest {
  std::string device;  // as make_device; empty: default_device()
  int threads = 0;     // as usable_threads
  KernelChoice kernels = KernelChoice::kEstimated;
  std::vector<std::string> rules;  // files, as read_proved_rules
  bool unproved = false;
  std::vector<Rule> more_rules;     // in addition to those of the files, or the shipped ones; proved
  NodePrice price;                  // the cost of operators; empty: as the device measures it
  std::vector<std::string> shapes;  // NAME=1x3x224x224
  bool fix_inputs = false;          // inputs that have a default value become constants
  // The file of the program `rewright`, which times graphs in processes of their own; empty: they are timed in this one.
  std::string program;
  // A file, "OUT.differs.onnx", for the smallest graph that shows a fault of the optimizer, if there is one; empty: not
  // written.
  std::string differs;
  OptimizeOptions optimize;  // its sizes are overwritten by those of `shapes`
};

// The options of `rewright optimize`, without the dashes.
using OptimizationOption = RequestOption<OptimizationRequest>;
std::span<const OptimizationOption> optimization_options();

struct Optimization {
  OptimizeResult result;
  std::string facts;                          // the JSON report of the command line
  std::string page;                           // the HTML report, if requested
  std::vector<std::string> kept_inputs = {};  // weights that are also inputs: they stay inputs, and are not folded
};

// `rewright optimize` without reading and writing the model. `input` and `output` are its names in the report. Ends early, with
// the best graph so far, when `cancel` asks for it. Throws Error as optimize() does, and for devices and files that are
// missing.
Optimization run_optimization(const Graph& graph, const OptimizationRequest& request, const std::string& input,
                              const std::string& output, bool with_page, std::stop_token cancel,
                              const std::function<void(const OptimizeProgress&)>& progress);

}  // namespace rewright::api
