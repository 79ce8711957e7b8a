// A proof that two models are equal: equations, each with its proof, that in their order lead from equal inputs to equal
// outputs. On disk a folder: equality.json lists the equations, rules/ has the certificates of the rules that were applied, and
// equations/ those of equations that are rules themselves.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/checker/constants.h"
#include "equivalence/checker/equation.h"
#include "equivalence/checker/rewriting.h"

namespace rewright::equivalence {

struct Step {
  enum class Kind {
    kTerm,       // `b`, a constant, is a rounding of a term over constants of the first model, or of a number (Joint::explain)
    kAttribute,  // a real attribute is a rounding of a number
    kRewriting,  // `applications` of rules lead from one side of the equation to the other
    kRule,       // the equation is a rule that is proved by itself
    kValue,      // a term over known values that is in neither model: equations that follow lead over it
    kBodies,     // two nodes of If, Loop or Scan are equal since their bodies are
  };
  Kind kind = Kind::kRewriting;
  Equation equation;          // kTerm: b, and the leaves of the term; kValue: the leaves alone
  std::int32_t position = 0;  // kAttribute: the node, and the attribute's number; kBodies: the second model's node
  std::int32_t other = 0;     // kBodies: the first model's
  std::size_t field = 0;
  double number = 0;
  std::vector<Application> applications;  // kRewriting
  std::optional<Rule> term;               // kTerm, kValue: its source computes it from `leaves`; absent: the leaf itself
  std::string certificate;                // kRule: the name of its file
  SizesInRule sizes = SizesInRule::kAny;  // kRule
  std::vector<std::vector<Step>> bodies;  // kBodies: the proof of each pair of bodies
};

struct Proof {
  NameMap names;
  double tolerance = kRoundingTolerance;
  std::string first, second;  // SHA-256 of the models' files
  std::vector<Step> steps;
};

// The bytes of equality.json, which end with their SHA-256, and back. Throws Error(kBadInput) if they are damaged.
std::string write_proof(const Proof& proof);
Proof read_proof(std::string_view bytes, const std::string& name);

// The term of a kTerm or kValue over constants alone as a graph of one output. Throws Error or proof::Refusal if it is none.
Graph graph_of_term(const Joint& joint, const Step& step);

// Is the constant of a step a rounding of its term?
RoundingCheck check_term(const Joint& joint, const Step& step, double tolerance);

// Adds the term of a step to the table, and makes the constant a rounding of it. Throws proof::Refusal if it is none. Returns
// the largest relative difference.
double add_term(Joint& joint, const Step& step, double tolerance);

// Adds the term of a kValue to the table, and returns its value. Throws proof::Refusal if it is ill-typed, or reads what the
// first model does not have.
ValueId add_value(Joint& joint, const Step& step);

// Sets the attribute of a step to its number. Throws proof::Refusal if it is no rounding of it. Returns the relative
// difference.
double round_attribute(Joint& joint, const Step& step, double tolerance);

struct Obligation {
  bool holds = true;
  std::string condition;  // that is not known to hold
};
// Are all operators of the second model, and of terms, well-typed for all sizes for which those of the first one are?
Obligation second_is_well_typed(const Joint& joint);

struct ProofCheck {
  bool accepted = false;
  std::string reason;         // why not
  std::size_t equations = 0;  // that were checked
  std::size_t rules = 0;      // certificates of rules that were checked
  double tolerance = 0;       // of the proof
  std::size_t constants = 0;  // and attributes that are roundings of what takes their places
  double max_rel_error = 0;   // of these
};
struct ProofCheckOptions {
  std::string solver{};  // as in CheckOptions
  std::uint64_t seed = 1;
  double tolerance = kRoundingTolerance;  // a proof with a larger one is refused
  std::function<void(std::size_t done, std::size_t all)> progress{};
};
// Checks the proof in a folder: without a search, an e-graph, or normal forms. Throws Error(kBadInput) if a file is damaged, or
// if it is a proof for other models.
ProofCheck check_proof(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& folder,
                       const ProofCheckOptions& options = {});

}  // namespace rewright::equivalence
