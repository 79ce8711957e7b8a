#include "equivalence/prove.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "equivalence/checker/bodies.h"
#include "equivalence/constant_terms.h"
#include "equivalence/cut.h"
#include "equivalence/place.h"
#include "equivalence/proof_files.h"
#include "equivalence/related_values.h"
#include "equivalence/rewriting_search.h"
#include "equivalence/sample_runs.h"
#include "equivalence/statement_prover.h"
#include "equivalence/term_writer.h"
#include "graph/file.h"
#include "graph/onnx/body.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/opaque_meaning.h"
#include "graph/print.h"
#include "optimizer/inputs/sizes.h"
#include "rules/io.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

std::string_view name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"proved", "refuted", "undecided"};
  return kNames[static_cast<int>(verdict)];
}

namespace {

constexpr int kDepths = 3;  // of cuts
constexpr std::size_t kMostPlaces = 20;
constexpr std::chrono::seconds kQuick{2};
constexpr double kForProofs = 0.75;  // of the time; the rest is for refuting in double what stayed open

class Prover {
 public:
  Prover(const Graph& a, const Graph& b, const ProveOptions& options)
      : a_(a),
        b_(b),
        options_(options),
        joint_(a, b, options.names),
        runs_(a, b, joint_, options, [this](auto end) { return is_over(end); }),
        rules_(options.rules, {.math = MathClass::kNeedsFinite}),
        statements_(rules_, options.certificate, options.certificate_names, [this] { return seconds_left(); }),
        parts_(joint_, [this](const Step& step) { return take_value(step); }),
        related_(joint_, runs_, [this](const Step& step) { return take_value(step); }) {
    if (options.rounding)
      for (const auto& given : *options.rounding)
        if (std::none_of(a.inputs().begin(), a.inputs().end(), [&](ValueId id) { return a.value(id).name == given.first; }))
          throw Error(ErrorCode::kUsage, "there is no input \"" + given.first + "\"", "--range");
    proof_.names = options.names, proof_.tolerance = options.tolerance;
    const auto now = std::chrono::steady_clock::now();
    end_of_proofs_ = options.deadline;
    if (!options.precise.empty() && options.deadline != std::chrono::steady_clock::time_point::max())
      end_of_proofs_ =
          now + std::chrono::duration_cast<std::chrono::steady_clock::duration>((options.deadline - now) * kForProofs);
  }

  Proving run() {
    for (const ValueId id : a_.inputs()) result_.input_names.push_back(a_.value(id).name);
    try {
      if (!joint_.outputs_are_equal()) search();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      stopped_ = true;  // with what is known by then
    }
    result_.by_rewriting = statements_.by_rewriting(), result_.by_rule = statements_.by_rule();
    result_.cached = statements_.cached();
    conclude();
    return std::move(result_);
  }
  Proof& proof() { return proof_; }
  const std::set<std::string>& used_rules() const { return used_rules_; }

 private:
  void search() {
    const auto begin = std::chrono::steady_clock::now();
    runs_.run(end_of_proofs_);
    if (runs_.counterexample()) return;
    // Refuting takes less time than a search for what is not true.
    if (std::chrono::steady_clock::now() - begin < kQuick) runs_.run_in_double_shortly();
    if (runs_.counterexample()) return;
    join_moves();
    take_open(computed_constants(joint_, options_.tolerance, [this] { return ended(); }));
    take_open(moved_constants(joint_, options_.tolerance));
    settle_fills();
    settle_numbers();
    sweep();
    if (!joint_.outputs_are_equal() && !runs_.has_run_in_double()) runs_.run_in_double();
  }

  bool ended() const { return is_over(end_of_proofs_); }
  double seconds_left() const {
    if (ended()) return 0;
    if (end_of_proofs_ == std::chrono::steady_clock::time_point::max()) return std::numeric_limits<double>::infinity();
    return std::chrono::duration<double>(end_of_proofs_ - std::chrono::steady_clock::now()).count();
  }
  bool is_over(std::chrono::steady_clock::time_point end) const {
    return stopped_ || options_.cancel.stop_requested() || std::chrono::steady_clock::now() > end;
  }

  // ---- Constants

  void take_open(const std::vector<Step>& steps) {
    for (const Step& step : steps)
      if (!joint_.is_known(step.equation.b) && !joint_.is_explained(step.equation.b)) take_term(step);
  }

  void take_attribute(const Step& step) {
    const Node& node = *joint_.graph().nodes()[static_cast<std::size_t>(step.position)];
    const std::string name = node_name(joint_.graph(), node) + "." + node.op->fields()[step.field].name;
    result_.constants.push_back({name, round_attribute(joint_, step, options_.tolerance)});
    proof_.steps.push_back(step);
    ++result_.equations;
  }

  void take_term(const Step& step) {
    const double error = add_term(joint_, step, options_.tolerance);
    if (error > 0) result_.constants.push_back({joint_.graph().value(step.equation.b).name, error});
    proof_.steps.push_back(step);
    ++result_.equations;
  }

  ValueId take_value(const Step& step) {
    const ValueId value = add_value(joint_, step);
    proof_.steps.push_back(step);
    ++result_.equations;
    return value;
  }

  // ---- Equations

  // What an opaque node of the first model reads may be another value of it moved twice or not at all: nodes of the second one
  // read that.
  void join_operands() {
    for (std::size_t n = 0; n < joint_.first_nodes() && !ended(); ++n) {
      const std::shared_ptr<const Node> node = joint_.graph().nodes()[n];
      if (node->op) continue;
      for (const ValueId input : node->inputs) {
        if (input == kNoValue || joint_.producer(input) < 0) continue;
        for (const ValueId other : runs_.candidates(input))
          if (!joint_.equal(other, input) && joint_.producer(other) < joint_.producer(input) && settle_pair(other, input))
            break;
      }
    }
  }

  // Values of the first model that one of their operands is already (a Reshape to the same sizes): nodes of the second one read
  // either.
  void join_moves() {
    for (std::size_t n = 0; n < joint_.first_nodes() && !ended(); ++n) {
      const std::shared_ptr<const Node> node = joint_.graph().nodes()[n];
      if (!node->op || node->op->random() || node->outputs.size() != 1 || node->outputs[0] == kNoValue) continue;
      for (std::size_t i = 0; i < node->inputs.size(); ++i) {
        const ValueId input = node->inputs[i], output = node->outputs[0];
        if (input == kNoValue || joint_.equal(input, output)) continue;
        const Value &from = joint_.graph().value(input), &to = joint_.graph().value(output);
        if (from.shape_known && to.shape_known && from.type == to.type && only_reads(joint_.graph(), *node, i) &&
            runs_.may_be_equal(input, output))
          settle_pair(input, output);
      }
    }
  }

  // Values that the first model computes from constants, and that are one number: rows of zeros, wherever they are taken from.
  void settle_fills() {
    const std::vector<bool> constant = joint_.graph().constant_values();
    for (std::size_t n = 0; n < joint_.first_nodes() && !ended(); ++n) {
      const std::shared_ptr<const Node> node = joint_.graph().nodes()[n];
      if (!node->op || node->op->is_fill() || node->inputs.empty() || node->outputs.size() != 1) continue;
      const ValueId value = node->outputs[0];
      if (value == kNoValue || !constant[value] || joint_.defined_by(value) != value || joint_.is_constant(value)) continue;
      const std::optional<double> number = runs_.samples().only_number(value);
      const TensorType type = joint_.graph().value(value).type;
      if (!number || !std::all_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.is_constant(); }))
        continue;
      TermWriter term(Step::Kind::kValue, "of a number");
      const ValueId fill = take_value(
          term.finish(term.node("Fill", {{"value", Real(*number)}, {"shape", type.shape}, {"type", type.type}}, {})));
      settle_pair(value, fill);
      open_.erase(fill);
    }
  }

  // Numbers of the second model that a value of the first one is for all inputs: Softmax over an axis of one element.
  void settle_numbers() {
    for (ValueId b = 0; b < joint_.graph().value_count() && !ended(); ++b) {
      if (!joint_.is_of_second(b) || !joint_.is_constant(b) || joint_.is_known(b) || joint_.defined_by(b) != b ||
          !is_one_number(joint_.graph().value(b).constant))
        continue;
      for (const ValueId a : runs_.candidates(b))
        if (settle_pair(a, b)) break;
      open_.erase(b);
    }
  }

  void sweep() {
    join_operands();
    sweep_nodes();
    // A later equation may explain a constant that an earlier one lacked; what follows from that one is tried again.
    if (!joint_.outputs_are_equal() && settle_lacking()) sweep_nodes();
    // An output may be one of the inputs, or computed by no node of its own.
    for (const auto& [a, b] : joint_.outputs())
      if (!joint_.equal(a, b) && !ended()) settle_pair(a, b);
  }

  void sweep_nodes() {
    const std::size_t from = joint_.first_nodes(), count = joint_.second_nodes();
    for (std::size_t n = 0; n < count && !ended() && !joint_.outputs_are_equal(); ++n) {
      if (options_.progress)
        options_.progress(0.1 + 0.9 * static_cast<double>(n) / static_cast<double>(count),
                          std::to_string(result_.equations) + " equations");
      const std::vector<ValueId> outputs = joint_.graph().nodes()[from + n]->outputs;
      if (settle_bodies(static_cast<std::int32_t>(from + n))) continue;
      for (const ValueId b : outputs)
        if (b != kNoValue && !joint_.is_known(b)) settle(b);
      // The pieces of what is split are parts of one constant.
      if (outputs.size() > 1) settle_lacking();
    }
  }

  // Values that lacked the meaning of a constant that is explained now; true if one of them was proved.
  bool settle_lacking() {
    bool proved = false;
    for (const auto& [b, constant] : std::map<ValueId, ValueId>(lacking_)) {
      if (ended()) break;
      if (!joint_.is_explained(constant)) continue;
      lacking_.erase(b);
      if (joint_.is_known(b)) continue;
      settle(b);
      proved = proved || joint_.is_known(b);
    }
    return proved;
  }

  // If, Loop and Scan: their bodies are proved as models of their own.
  bool settle_bodies(std::int32_t position) {
    const std::shared_ptr<const Node> b = joint_.graph().nodes()[static_cast<std::size_t>(position)];
    if (b->op || bodies_of(*b).empty() || b->outputs.empty() || joint_.is_known(b->outputs[0])) return false;
    for (std::size_t n = 0; n < joint_.first_nodes() && !ended(); ++n) {
      Step step;
      step.kind = Step::Kind::kBodies;
      step.other = static_cast<std::int32_t>(n), step.position = position;
      if (!have_equal_bodies(step)) continue;
      joint_.unite_results(step.other, position);
      proof_.steps.push_back(std::move(step));
      ++result_.equations;
      return true;
    }
    return false;
  }

  bool have_equal_bodies(Step& step) try {
    const auto pairs = paired_bodies(joint_, a_, b_, step.other, step.position);
    if (!pairs) return false;
    for (const BodyPair& pair : *pairs) {
      ProveOptions inner = options_;
      inner.names = pair.names, inner.precise = {}, inner.deadline = end_of_proofs_, inner.progress = {}, inner.rounding = {};
      inner.certificate_names += "body_" + std::to_string(bodies_++) + "_";
      Prover prover(pair.x, pair.y, inner);
      const Proving result = prover.run();
      if (result.verdict != Verdict::kProved) return false;
      result_.constants.insert(result_.constants.end(), result.constants.begin(), result.constants.end());
      used_rules_.insert(prover.used_rules_.begin(), prover.used_rules_.end());
      step.bodies.push_back(std::move(prover.proof_.steps));
    }
    return true;
  } catch (const Error& error) {  // a body that cannot be imported, or bodies with other inputs
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kMissing) throw;
    return false;
  }

  void settle(ValueId b) {
    for (const ValueId a : runs_.candidates(b)) {
      if (ended()) return;
      if (settle_pair(a, b)) return;
    }
    // It may be a term over a value of the first model. The proof goes on over that.
    const bool was_open = open_.count(b) > 0;
    for (const ValueId term : related_.terms_for(b)) {
      if (ended() || joint_.equal(term, b)) return;
      if (!leads_from_first(joint_, {term, b, {}})) continue;
      if (settle_pair(term, b)) return;
      if (!was_open) open_.erase(b);
    }
  }

  bool settle_pair(ValueId a, ValueId b) {
    if (!(joint_.graph().value(a).type == joint_.graph().value(b).type)) return false;
    std::string reason = "no proof was found", last;  // of the most local equation
    for (int depth = kConstantsAsLeaves; depth < kDepths && !ended(); ++depth) try {
        const std::optional<Equation> equation = cut(joint_, a, b, depth);
        if (!equation && depth < 0) continue;
        if (!equation) break;
        if (prove(*equation, depth == 0 ? reason : last, depth <= 0)) {
          open_.erase(b);
          return true;
        }
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kMissing) throw;
        if (depth > 0) break;
        reason = error.what();
      }
    open_.try_emplace(b, a, reason);
    return false;
  }

  // `is_local`: it is the shortest equation for these values, for which more is tried.
  bool prove(const Equation& equation, std::string& reason, bool is_local) {
    Statement statement = statement_of(joint_, equation);
    if (by_any_method(statement, equation, reason, is_local)) return true;
    // With more known of its constants it is another equation.
    if (explain_constants(statement)) {
      if (joint_.equal(equation.a, equation.b)) return true;
      statement = statement_of(joint_, equation);
      if (by_any_method(statement, equation, reason, is_local)) return true;
    }
    return is_local && by_forms(equation, statement, reason);
  }

  // In two steps over a term that is in neither model: what rules make of the first value with constants that were folded, and
  // what the second model makes of that, where the constants may be any.
  bool by_forms(const Equation& equation, const Statement& statement, std::string& reason) {
    if (statement.unexplained || statement.graph.nodes().size() > kMostInGraph || !joint_.is_known(equation.a) ||
        joint_.is_known(equation.b) || !joint_.is_of_second(joint_.defined_by(equation.b)))
      return false;
    const std::set<ValueId> parts = joined_parts(statement);
    if (parts.empty() && statement.graph.nodes().size() <= kMostInRule) return false;
    // Equal statements have no other forms.
    const std::string key = key_of(statement);
    if (!key.empty() && !without_forms_.insert(key).second) return false;
    if (prove_by_forms(equation, statement, parts, reason)) {
      without_forms_.erase(key);
      return true;
    }
    return false;
  }

  bool prove_by_forms(const Equation& equation, const Statement& statement, const std::set<ValueId>& parts,
                      std::string& reason) {
    for (const Form& form : search_forms(joint_, statement, rules_, {})) {
      if (ended()) return false;
      const ValueId term = take_value(form.value);
      if (!joint_.equal(term, equation.b)) {
        if (parts.empty()) continue;
        Equation second{term, equation.b, equation.leaves};
        second.leaves.insert(second.leaves.end(), parts.begin(), parts.end());
        add_leaves_of_term(joint_, term, second.leaves);
        std::string other;
        if (joint_.is_known(term) || !leads_from_first(joint_, second) ||
            !by_any_method(statement_of(joint_, second), second, other, false))
          continue;
      }
      if (joint_.equal(equation.a, equation.b)) return true;
      const Statement last = statement_of(joint_, equation);
      Step step;
      step.equation = equation;
      if (!last.unexplained && statements_.prove_by(form, last, step) && take_equation(last, std::move(step))) return true;
      if (by_any_method(last, equation, reason, true)) return true;
    }
    return false;
  }

  // The classes of what is joined to constants of the second model, or filled up with zeros.
  std::set<ValueId> joined_parts(const Statement& statement) const {
    std::set<ValueId> parts;
    const std::vector<bool> constant = statement.graph.constant_values();
    for (const auto& node : statement.graph.nodes()) {
      if ((node->op->name() != "Concat" && node->op->name() != "Pad") || !constant[node->outputs[0]]) continue;
      for (const ValueId input : node->inputs) parts.insert(statement.classes.at(input));
    }
    return parts;
  }

  bool by_any_method(const Statement& statement, const Equation& equation, std::string& reason, bool thorough) {
    if (statement.unexplained) {
      lacking_[equation.b] = *statement.unexplained;
      reason = "constant \"" + joint_.graph().value(*statement.unexplained).name +
               "\" is not known to be a rounding of what the first model computes";
      return false;
    }
    Step step;
    step.equation = equation;
    if (!statements_.prove(statement, step, reason, thorough)) return false;
    return take_equation(statement, std::move(step));
  }

  bool take_equation(const Statement& statement, Step step) {
    keep_numbers(joint_, statement);
    if (!joint_.unite(step.equation.a, step.equation.b)) return false;
    for (const Application& application : step.applications) used_rules_.insert(application.rule);
    proof_.steps.push_back(std::move(step));
    ++result_.equations;
    return true;
  }

  // Terms for constants of the statement; true if there are new ones.
  bool explain_constants(const Statement& statement) {
    if (statement.graph.nodes().size() > kMostInGraph) return false;
    bool explained = false;
    const auto take = [&](const std::vector<Step>& steps) {
      for (const Step& step : steps) {
        const bool is_attribute = step.kind == Step::Kind::kAttribute;
        if (is_attribute ? !rounded_.emplace(step.position, step.field).second : joint_.is_explained(step.equation.b)) continue;
        try {
          if (is_attribute)
            take_attribute(step);
          else
            take_term(step);
          explained = true;
        } catch (const proof::Refusal&) {  // its class has a definition
        }
      }
    };
    take(known_numbers(joint_, statement, options_.tolerance));
    take(scales_of_biases(joint_, statement, options_.tolerance));
    const TermSearch found = search_terms(joint_, statement, rules_, options_.tolerance, {});
    take(found.explained);
    for (const Step& part : found.parts) parts_.add(part);
    for (const ValueId of_class : statement.classes) {
      if (of_class == kNoValue || ended()) continue;
      const ValueId constant = joint_.defined_by(of_class);
      if (!joint_.is_constant(constant) || joint_.is_known(of_class) || joint_.is_explained(constant)) continue;
      if (const std::optional<Step> step = parts_.explain(constant, options_.tolerance)) take({*step});
    }
    return explained;
  }

  // ---- The verdict

  void conclude() {
    if (runs_.counterexample()) {
      refuted();
      return;
    }
    if (joint_.outputs_are_equal()) {
      const Obligation obligation = second_is_well_typed(joint_);
      if (obligation.holds) {
        result_.verdict = Verdict::kProved;
        if (options_.rounding) bound_rounding();
        return;
      }
      result_.reason = "it is open whether the second model is defined for all sizes: " + obligation.condition;
      return;
    }
    undecided();
  }

  void bound_rounding() {
    RoundingOptions options{.ranges = *options_.rounding, .tolerance = options_.tolerance};
    const std::vector<NamedSizes> sizes = runs_.sizes();
    options.sizes = sizes.front();
    for (const std::string& name : open_sizes(a_, {})) options.sizes.try_emplace(name, 1);
    options.ended = [this] { return is_over(options_.deadline); };
    result_.rounding_sizes = options.sizes;
    for (RoundingBound& bound : rounding_bounds(joint_, proof_.steps, options))
      result_.rounding.push_back({std::move(bound), 0});
    sample_rounding(options);
  }

  // Inputs within the ranges, and at their ends.
  void sample_rounding(const RoundingOptions& options) {
    constexpr int kRuns = 20;
    for (int run = 0; run < kRuns && !is_over(options_.deadline); ++run) try {
        const std::vector<double> differences =
            runs_.samples().differences(options.sizes, options.ranges, options_.seed + static_cast<std::uint64_t>(run));
        for (std::size_t k = 0; k < differences.size(); ++k)
          result_.rounding[k].sampled = std::max(result_.rounding[k].sampled, differences[k]);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kMissing) throw;
        return;  // they cannot be run
      }
  }

  void refuted() {
    result_.verdict = Verdict::kRefuted;
    result_.counterexample = runs_.counterexample();
    result_.reason = "output \"" + result_.counterexample->output + "\" differs";
    try {
      name_first_difference();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
    }
  }

  void name_first_difference() {
    if (!runs_.has_run_in_double()) runs_.run_in_double();
    const auto& outputs = joint_.outputs();
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (a_.outputs()[k].name == result_.counterexample->output) wrong = k;
    const DifferingPair pair = first_difference(joint_, runs_.telling(), outputs[wrong].first, outputs[wrong].second);
    result_.places.push_back(
        {place_name(joint_, pair.a), place_name(joint_, pair.b), Verdict::kRefuted, "the first that differ"});
    result_.smallest =
        smallest_difference(joint_, runs_.telling(), pair, [&](const Graph& x, const Graph& y) { return runs_.differ(x, y); });
  }

  // The first nodes of the second model that stayed open.
  void undecided() {
    const std::size_t from = joint_.first_nodes();
    for (std::size_t n = from; n < from + joint_.second_nodes() && result_.places.size() < kMostPlaces; ++n) {
      const Node& node = *joint_.graph().nodes()[n];
      const bool reads_known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return id == kNoValue || joint_.is_known(id) || joint_.is_constant(id);
      });
      const auto first = std::find_if(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId id) { return id != kNoValue && !joint_.is_known(id); });
      if (!reads_known || first == node.outputs.end()) continue;
      if (!node.op) result_.places.push_back(place(runs_.namesake(*first), *first, "no equal node is in the first model"));
    }
    for (const auto& [b, open] : open_)
      if (!joint_.is_known(b) && result_.places.size() < kMostPlaces && !rests_on_open(b))
        result_.places.push_back(place(open.first, b, open.second));
    for (const auto& [a, b] : joint_.outputs()) {
      if (joint_.equal(a, b) || !result_.places.empty()) continue;
      const auto open = open_.find(b);
      result_.places.push_back(place(a, b,
                                     runs_.samples().count() == 0 ? "the models were not executed: " + runs_.samples().note()
                                     : open != open_.end()        ? open->second.second
                                                                  : "the outputs have no common values"));
    }
    result_.reason = stopped_ || ended() ? "the time was up" : result_.places.empty() ? "" : result_.places.front().reason;
  }

  // Is it computed from another value that stayed open, through values that are not known?
  bool rests_on_open(ValueId b) const {
    std::vector<ValueId> left{b};
    std::set<ValueId> seen{b};
    while (!left.empty()) {
      const std::int32_t position = joint_.producer(left.back());
      left.pop_back();
      if (position < 0) continue;
      for (const ValueId id : joint_.graph().nodes()[static_cast<std::size_t>(position)]->inputs) {
        if (id == kNoValue || joint_.is_known(id) || !seen.insert(id).second) continue;
        if (open_.count(id)) return true;
        left.push_back(id);
      }
    }
    return false;
  }

  Place place(ValueId a, ValueId b, const std::string& reason) const {
    return {a == b ? "" : place_name(joint_, a), place_name(joint_, b), Verdict::kUndecided, reason};
  }

  const Graph &a_, &b_;
  const ProveOptions& options_;
  Joint joint_;
  SampleRuns runs_;
  RuleIndex rules_;
  StatementProver statements_;
  Proof proof_;
  Proving result_;
  std::map<ValueId, std::pair<ValueId, std::string>> open_;  // values of the second model that were not proved, and why
  std::set<std::string> used_rules_;
  std::set<std::string> without_forms_;  // what statements say
  Parts parts_;
  RelatedValues related_;
  std::map<ValueId, ValueId> lacking_;  // values of the second model, and a constant whose meaning was not known
  std::set<std::pair<std::int32_t, std::size_t>> rounded_;  // attributes
  std::chrono::steady_clock::time_point end_of_proofs_;
  bool stopped_ = false;
  int bodies_ = 0;  // that were asked for
};

}  // namespace

Proving prove(const Graph& a, const Graph& b, const ProveOptions& options) { return Prover(a, b, options).run(); }

Proving prove(const std::filesystem::path& a, const std::filesystem::path& b, const ProveOptions& options) {
  const Graph first = import_onnx(a), second = import_onnx(b);
  if (!options.certificate.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(options.certificate, failure);
    if (failure) throw Error(ErrorCode::kMissing, "cannot be created: " + failure.message(), options.certificate.string());
  }
  Prover prover(first, second, options);
  Proving result = prover.run();
  if (result.verdict == Verdict::kProved && !options.certificate.empty()) {
    write_rule_certificates(options.certificate, options.rules, prover.used_rules());
    prover.proof().first = digest_of(a), prover.proof().second = digest_of(b);
    write_file(options.certificate / "equality.json", write_proof(prover.proof()));
  }
  return result;
}

}  // namespace rewright::equivalence
