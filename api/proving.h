// Proves two models equal, by names and files: for `rewright prove` and other programs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "api/request_options.h"
#include "equivalence/checker/constants.h"

namespace rewright::api {

struct ProvingRequest {
  std::string first, second;                           // files
  std::map<std::string, std::string> names;            // inputs and outputs: from the first model's to the second's
  std::vector<std::string> pairs;                      // the same as NAME=NAME, in addition
  double tolerance = equivalence::kRoundingTolerance;  // relative, of constants that are roundings, for float
  std::string certificate;                             // a folder for the proof; empty: none
  std::string reduce;                                  // a folder for the smallest models that differ; empty: none
  std::string counterexample;       // a folder for inputs on which they differ; empty: within `reduce`, or none
  bool rounding = false;            // also bound how far results lie apart in floating point
  std::vector<std::string> ranges;  // of inputs, NAME=LOW:HIGH; others: from -1 to 1
  std::uint64_t seed = 0;
  int samples = 3;  // random inputs on which both are run
  int threads = 1;
  double seconds = 600;
  std::stop_token cancel = {};
  std::function<void(double fraction, const std::string& note)> progress = {};
};

// The options of `rewright prove`, without the dashes, but for those that check a proof.
using ProvingOption = RequestOption<ProvingRequest>;
std::span<const ProvingOption> proving_options();

// {"verdict", "seconds", "reason", "places": [{"a", "b", "verdict", "reason"}], "constants": [{"name", "max_rel_error"}],
// "counterexample", "max_abs_error", "max_rel_error", "inputs": {name: file}, "reduced": [files], "equations", "peak_bytes"};
// with `rounding` also "rounding": [{"output", "bound" (absolute; null if there is none), "reason", "sampled"}] and
// "rounding_sizes". Throws Error(kBadInput) for models without the same inputs and outputs.
nlohmann::json prove_models(const ProvingRequest& request);

// {"accepted", "reason", "equations", "rules", "tolerance", "constants" (how many are roundings), "max_rel_error"}: does the
// certificate prove the two models equal, with constants that differ by no more than `tolerance`? Throws Error(kBadInput) if it
// is damaged or for other models.
struct CheckRequest {
  std::string first, second, certificate;
  std::string solver = {};
  double tolerance = equivalence::kRoundingTolerance;
};
nlohmann::json check_equality(const CheckRequest& request, const std::function<void(double fraction)>& progress);

}  // namespace rewright::api
