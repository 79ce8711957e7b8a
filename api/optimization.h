// Optimization as the command line and other languages ask for it: every option has a name and is written as text.
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
  std::string device;  // as make_device; empty: the best there is
  int threads = 0;     // as usable_threads
  KernelChoice kernels = KernelChoice::kEstimated;
  std::vector<std::string> rules;  // files, as read_proved_rules
  bool unproved = false;
  std::vector<Rule> more_rules;     // beside those of the files, or the shipped ones; proved
  NodePrice price;                  // what operators cost; empty: what the device measures
  std::vector<std::string> shapes;  // NAME=1x3x224x224
  bool fix_inputs = false;          // inputs that have a default value become constants
  // The file of the program `rewright`, which times graphs in processes of their own; empty: they are timed in this one.
  std::string program;
  // A file, "OUT.differs.onnx", for the smallest graph that shows a fault of ours, if one is found; empty: none is written.
  std::string differs;
  OptimizeOptions optimize;  // but for the sizes, which are those of `shapes`
};

// What `rewright optimize` has after two dashes.
using OptimizationOption = RequestOption<OptimizationRequest>;
std::span<const OptimizationOption> optimization_options();

struct Optimization {
  OptimizeResult result;
  std::string facts;                          // JSON, as the command line's contract has it
  std::string page;                           // the report, if it was asked for
  std::vector<std::string> kept_inputs = {};  // weights that are inputs as well: they stay so, and are not folded
};

// What is done for `rewright optimize`, but for reading and writing the model. `input` and `output` are its names in the
// report. Ends early, with the best so far, when `cancel` asks for it. Throws Error as optimize() does, and for what is asked
// and is not here.
Optimization run_optimization(const Graph& graph, const OptimizationRequest& request, const std::string& input,
                              const std::string& output, bool with_page, std::stop_token cancel,
                              const std::function<void(const OptimizeProgress&)>& progress);

}  // namespace rewright::api
