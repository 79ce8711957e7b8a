// Proves two models equal, or names the first place where they differ.
//
//   const Proving result = prove("before.onnx", "after.onnx", options);
//   if (result.verdict == Verdict::kRefuted) ... result.places.front() ...
//
// Values that agree on random inputs are candidates for equality. From the inputs on, each candidate of the second model is cut
// off at what is known to be equal, and the small equation in between is proved: by congruence, by rewrites in an e-graph of
// both sides, or as a rule of its own by the prover. What is proved is known for what follows.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "equivalence/checker/proof.h"
#include "equivalence/rounding.h"
#include "equivalence/samples.h"
#include "optimizer/checking/check.h"
#include "rules/rule.h"

namespace rewright::equivalence {

enum class Verdict { kProved, kRefuted, kUndecided };
std::string_view name(Verdict verdict);  // "proved", "refuted", "undecided"

struct ProveOptions {
  NameMap names = {};
  double tolerance = kRoundingTolerance;
  std::uint64_t seed = 0;
  int samples = 3;
  std::vector<CheckExecutor> executors = {};  // run the models; none: nothing is refuted, and names are the candidates
  std::vector<CheckExecutor> precise =
      {};  // run them in double: to refute what small differences tell apart, and to name the place
  // Lets their runs end at this time, with Error(kCancelled); empty: they end when they are done.
  std::function<void(std::chrono::steady_clock::time_point)> end_precise_runs = {};
  // Ranges of inputs by name, to bound how far results of proved models lie apart in floating point; empty: no bound.
  std::optional<std::map<std::string, ValueRange>> rounding = {};
  std::vector<Rule> rules = {};            // that are proved, for the e-graph
  std::filesystem::path certificate = {};  // a folder for the proof; empty: none is written
  std::string certificate_names = {};      // what names of certificates in it begin with
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token cancel = {};
  std::function<void(double fraction, const std::string& note)> progress = {};
};

struct Place {
  std::string a, b;  // nodes or values of both models
  Verdict verdict = Verdict::kUndecided;
  std::string reason;
};

struct ProvedConstant {
  std::string name;  // of a value, or a node and an attribute, in either model
  double max_rel_error = 0;
};

struct ProvedRounding {
  RoundingBound bound;
  double sampled = 0;  // the largest difference of random inputs within the ranges
};

struct Proving {
  Verdict verdict = Verdict::kUndecided;
  std::string reason;                                  // one line, if it is not proved
  std::vector<Place> places;                           // kRefuted: the first pair that differs; kUndecided: what stayed open
  std::vector<ProvedConstant> constants;               // of the second model that are roundings
  std::vector<ProvedRounding> rounding;                // of each output, if it was asked for and the models are proved
  std::map<std::string, std::int64_t> rounding_sizes;  // of named axes, for which the bounds are
  std::optional<Counterexample> counterexample;
  std::vector<std::string> input_names;  // of the counterexample
  std::size_t equations = 0;             // proved by rewrites or as rules, and terms of constants
  std::size_t by_rewriting = 0, by_rule = 0, cached = 0;
  std::optional<std::pair<Graph, Graph>> smallest;  // kRefuted: small graphs that differ, around the place
};

// Throws Error(kBadInput) for a file that is no model, and for models that do not have the same inputs and outputs.
Proving prove(const std::filesystem::path& a, const std::filesystem::path& b, const ProveOptions& options);
// For graphs; without a certificate.
Proving prove(const Graph& a, const Graph& b, const ProveOptions& options);

}  // namespace rewright::equivalence
