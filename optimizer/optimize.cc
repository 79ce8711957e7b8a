#include "optimizer/optimize.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/process_memory.h"
#include "graph/onnx/body.h"
#include "graph/onnx/kept_calls.h"
#include "graph/onnx/opset.h"
#include "graph/onnx/tree_calls.h"
#include "operators/specification.h"
#include "optimizer/candidates/candidate_steps.h"
#include "optimizer/checking/written_check.h"
#include "optimizer/inputs/sizes.h"
#include "optimizer/measuring/measuring.h"
#include "optimizer/raising/raise.h"

namespace rewright::optimizer {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastDifference = 0.005;  // in predicted cost, between measured candidates

constexpr std::size_t kMostFaults = 4;  // after which the original graph is returned

constexpr double kFirstRunShare = 0.4;  // of the budget, at most, for executing the original graph for the check
constexpr double kSpare = 1.3;          // factor by which the search may exceed its time
constexpr double kLeastSearch = 0.55;   // of the time left when it begins, unless measuring needs more

// While it exists, devices stop when the optimization's time ends.
class DevicesEnd {
 public:
  DevicesEnd(Device& device, Device* second, const Budget& budget) : device_(device), second_(second) { end_at(budget.end()); }
  ~DevicesEnd() { end_at(Budget::Clock::time_point::max()); }
  DevicesEnd(const DevicesEnd&) = delete;
  DevicesEnd& operator=(const DevicesEnd&) = delete;
  void end_at(Budget::Clock::time_point time) const {
    device_.end_at(time);
    if (second_ != nullptr) second_->end_at(time);
  }

 private:
  Device& device_;
  Device* second_;
};

bool has_symbols(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId id) { return !all_constant(graph.value(id).type.shape); });
}

// The number of nodes, and of constants that are read.
std::pair<std::size_t, std::size_t> size_of(const Graph& graph) {
  std::vector<bool> is_read(graph.value_count());
  for (const auto& node : graph.nodes())
    for (const auto* ids : {&node->inputs, &node->parameters})
      for (const ValueId id : *ids)
        if (id != kNoValue) is_read[id] = graph.is_constant(id);
  for (const GraphOutput& output : graph.outputs()) is_read[output.value] = graph.is_constant(output.value);
  return {graph.nodes().size(), static_cast<std::size_t>(std::count(is_read.begin(), is_read.end(), true))};
}

// The rules whose targets can be exported with this graph: operators that only exist in later opsets cannot, unless their
// mapping has another form, nor can ensembles of trees of some models.
std::vector<Rule> writable(std::vector<Rule> rules, const Graph& graph) {
  const int opset = opset_of(graph);
  const bool has_trees = can_write_other_trees(graph);
  std::erase_if(rules, [&](const Rule& rule) {
    return std::any_of(rule.target.nodes.begin(), rule.target.nodes.end(), [&](const PatternNode& node) {
      const OnnxMapping& mapping = node.op->onnx();
      if (!has_trees && operators::view_of(*node.op) != nullptr) return true;
      return !mapping.write && mapping.domain.empty() && mapping.since > opset;
    });
  });
  return rules;
}

class Optimizer {
 public:
  Optimizer(const Graph& graph, const std::vector<Rule>& rules, Device& device, Evaluator& evaluator, CostDatabase* database,
            const OptimizeOptions& options)
      : standard_(in_dialect(graph, options.dialect)),
        original_(standard_ ? standard_->graph : graph),
        given_(graph),
        index_(writable(rules, original_), {options.math, options.for_training}),
        device_(device),
        evaluator_(evaluator),
        options_(options),
        budget_(options.started.value_or(options.now ? options.now() : Budget::Clock::now()), options.budget_seconds,
                options.now),
        devices_end_(device, options.second_device, budget_),
        database_(database),
        measuring_(given_at_sizes(), device, {options.timing, options.seed, options.check_runs, options.cancel}, budget_),
        costs_(options.measure ? &device : nullptr, database, costs_at(options.sizes)),
        steps_(index_, costs_, evaluator, options.fold, !options.for_training),
        written_check_(
            given_, device,
            {options.seed, options.check_runs, options.second_device, options.reference_check, options.written, options.cancel},
            budget_, [this](const Graph& other) { return measurable(other); }) {}

  OptimizeResult run() {
    report_.device = device_.name();
    report_.objective = name(options_.objective);
    for (const WeightedSizes& at : options_.sizes) report_.at.push_back({.at = at});
    report_.nodes_before = given_.nodes().size();
    if (standard_) {
      first_steps_.emplace_back().kind = CertificateStep::Kind::kStandard;
      report_.left = standard_->left;
    }
    for (const auto& node : original_.nodes())
      if (!node->op) report_.opaque.push_back({node->origin ? node->origin->name : "", node->opaque_reason});

    if (const std::optional<std::string> why = look_at_given()) {
      predict_given();
      report_.stop_reason = name(StopReason::kTime);
      return give_back("the given graph: " + *why);
    }
    for (;;) {
      std::vector<Candidate> candidates = find_candidates();
      const std::optional<std::size_t> winner = choose(candidates);
      if (!winner) return keep_given();
      Candidate& chosen = candidates[*winner];
      const auto verdict = options_.check_runs > 0 ? check(chosen.graph) : ResultComparison::Verdict::kSame;
      if (verdict == ResultComparison::Verdict::kSame) return finish(&chosen);
      if (verdict == ResultComparison::Verdict::kNotRun)
        return give_back(no_time_to_check_
                             ? "the given graph: the budget left no time to check a rewritten one"
                             : "the given graph: a rewritten one could not be checked, as nothing here can execute the model");
      const bool goes_on = bisect(chosen);
      if (!goes_on) return give_back("the given graph: the rewritten graph's results differed from the model's");
    }
  }

 private:
  // The graph in ONNX's own operators, if it is to be; tidied, as by a replayed certificate.
  static std::optional<StandardGraph> in_dialect(const Graph& graph, Dialect dialect) {
    if (dialect != Dialect::kStandard) return std::nullopt;
    Graph tidy = graph;
    tidy.tidy();
    StandardGraph standard = in_standard_dialect(tidy);
    standard.graph.tidy();
    return standard;
  }

  bool times_graphs() const { return options_.measure && options_.time_graphs && device_.measures(); }

  // Executes the original graph, to estimate the time after the search. Returns the reason if there is no time.
  std::optional<std::string> look_at_given() {
    const auto too_slow = [&](const std::string& what) {
      return "there was no time to " + what + " a rewritten one (" + measuring_.advice() + ")";
    };
    if (times_graphs()) {
      tell("measuring", 0);
      const Measuring::Look look = measuring_.look();
      if (look == Measuring::Look::kNoTime)
        return "there was no time to measure a rewritten one, as executing the given one takes too much of the budget";
      executable_ = look == Measuring::Look::kExecuted;
      if (!executable_) {
        unexecutable_ = measuring_.reason();
        if (has_symbols(original_))
          unexecutable_ +=
              " (sizes that the model leaves open were taken as " + names_of_sizes() + ": give others with --shape)";
        written_check_.leave_out_device(unexecutable_);
      }
      const bool latency = options_.objective == Objective::kLatency;
      if (executable_ && latency && measuring_.least_seconds() + measuring_.check_seconds() > budget_.left())
        return too_slow("measure");
    }
    if ((times_graphs() && executable_) || options_.check_runs == 0) return std::nullopt;
    tell("checking", 0);
    const double before = budget_.left();
    devices_end_.end_at(budget_.within(kFirstRunShare * budget_.seconds()));
    if (!written_check_.prepare())
      return "there was no time to check a rewritten one, as executing the given one takes too much of the budget";
    measuring_.note(before - budget_.left());
    if (measuring_.check_seconds() > budget_.left()) return too_slow("check");
    return std::nullopt;
  }

  // Seconds to leave when the search ends.
  double reserve() const {
    const double checking = measuring_.check_seconds();
    if (!times_graphs() || !executable_) return checking;
    const double least = kSpare * (measuring_.least_seconds() + checking);
    return std::max(least, std::min(measuring_.wanted_seconds() + checking, (1 - kLeastSearch) * budget_.left()));
  }

  // False if the original graph must be returned.
  bool bisect(const Candidate& chosen) {
    tell("bisecting", 0);
    try {
      devices_end_.end_at(budget_.end());
      const Fault fault = written_check_.find_difference(chosen.graph, chosen.steps, index_, evaluator_);
      report_.check.differs.push_back(fault);
      return report_.check.differs.size() < kMostFaults && steps_.leave_out(fault, original_.value_count()) && !budget_.over();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled || !budget_.over()) throw;
      return false;  // there was no time to find the cause
    }
  }

  void predict_given() {
    report_.strategy = name(options_.strategy);
    costs_.set_deadline(budget_.now());
    costs_.learn(MatchedGraph(original_, options_.for_training));
    predict(original_, report_.quantities_before);
    report_.predicted_before = report_.predicted_after = report_.quantities_before.seconds;
  }

  void tell(const char* stage, double fraction) {
    if (options_.progress)
      options_.progress({stage, fraction, report_.predicted_after > 0 ? report_.predicted_before / report_.predicted_after : 1,
                         report_.predicted_after});
  }

  // Predicts the cost by the objective, and all quantities.
  double predict(const Graph& graph, Quantities& quantities) {
    const MatchedGraph facts(graph, options_.for_training);
    const MatchedGraph* const one = &facts;
    costs_.prepare({&one, 1});
    quantities = costs_.quantities(facts);
    return costs_.cost(facts);
  }

  // The best graph found, and others on the way to it.
  std::vector<Candidate> find_candidates() {
    const Clock::time_point start = Clock::now();
    double bodies_saved = 0;  // predicted, with each body executed once
    tidied_.reset();
    SearchOptions search_options = options_.search;
    search_options.strategy = options_.strategy;
    search_options.alpha = options_.alpha;
    search_options.saturation.extraction.seed = static_cast<int>(options_.seed % 1000000);
    search_options.memory = options_.memory;
    search_options.cancel = options_.cancel;
    // Searches again without a wrong step, in half of the time.
    const double seconds = std::max(0.0, budget_.left() - reserve()) * (report_.check.differs.empty() ? 1 : 0.5);
    search_options.deadline = start + Budget::duration(seconds);
    devices_end_.end_at(budget_.end());
    search_options.progress = [this](const SearchProgress& progress) {
      report_.predicted_after = progress.cost;
      tell("searching", progress.fraction);
    };
    costs_.set_deadline(search_options.deadline);
    costs_.learn(MatchedGraph(original_, options_.for_training));
    const double cost_before = predict(original_, report_.quantities_before);
    report_.predicted_before = report_.predicted_after = cost_before;

    tell("folding", 0);
    Candidate folded{original_, first_steps_};
    tidy_around_calls(folded.graph);
    if (!standard_ && size_of(folded.graph) != size_of(original_)) {
      folded.steps.emplace_back().kind = CertificateStep::Kind::kFold;  // folds nothing: tidies the graph
      tidied_ = folded;
    }
    const bool is_contracted = steps_.contract_into(folded);
    SearchOptions inside = search_options;  // for bodies: at most half of the time
    inside.progress = nullptr;
    try {
      steps_.fold_into(folded);
      if (standard_) tidied_ = folded;
      inside.deadline = Clock::now() + (search_options.deadline - Clock::now()) / 2;
      bodies_saved = steps_.rewrite_bodies(folded, inside);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled || options_.cancel.stop_requested()) throw;
      report_.strategy = name(options_.strategy);
      report_.stop_reason = name(StopReason::kTime);
      out_of_time_ = true;
      return {};
    }
    SearchResult found = search(folded.graph, index_, costs_, search_options);

    std::vector<Candidate> candidates;
    const auto add = [&](const Graph& graph, const std::vector<CertificateStep>& steps) {
      Candidate candidate{graph, folded.steps};
      candidate.steps.insert(candidate.steps.end(), steps.begin(), steps.end());
      steps_.fold_found_into(candidate);
      if (candidate.steps.size() > first_steps_.size()) candidates.push_back(std::move(candidate));
    };
    const double before_folding = budget_.left();
    try {
      add(found.graph, found.steps);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled || options_.cancel.stop_requested()) throw;
      out_of_time_ = true;
    }
    const double folding = before_folding - budget_.left();
    if (raises())
      for (Candidate& raised : steps_.raised_from(candidates.empty() ? folded : candidates.front()))
        candidates.push_back(std::move(raised));
    // Other candidates are kept only if their predicted costs differ by more than measuring can resolve.
    double last = found.cost;
    for (const Milestone& milestone : found.milestones) {
      if (milestone.cost < last * (1 + kLeastDifference)) continue;
      if (out_of_time_ || budget_.left() - folding < reserve()) break;
      add(milestone.graph, milestone.steps);
      last = milestone.cost;
    }
    // The search minimizes the objective, but the report has times.
    gain_ = found.cost - bodies_saved < (is_contracted ? cost_before : found.cost_before);
    predict(found.graph, report_.quantities_after);
    report_.predicted_before = report_.quantities_before.seconds;
    report_.predicted_after = report_.quantities_after.seconds;
    report_.front = found.front;
    report_.stop_reason = name(found.stop_reason);
    report_.strategy = name(options_.strategy);
    report_.graphs_explored = found.graphs_explored;
    report_.e_nodes = found.e_nodes;
    report_.search_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    report_.operators_measured = costs_.measured();
    return candidates;
  }

  // Only what is measured is raised.
  bool raises() const {
    return options_.dialect == Dialect::kOnnxRuntime && device_.name() == "onnxruntime" && times_graphs() && executable_;
  }

  // The graph as it is measured, at each set of sizes: those of inputs known. Others are what its nodes compute.
  std::vector<Graph> measurable(const Graph& graph) const {
    std::vector<Graph> result;
    const bool is_open = has_symbols(graph);
    for (const WeightedSizes& at : options_.sizes) result.push_back(is_open ? with_named_sizes(graph, at.sizes) : graph);
    return result;
  }

  std::vector<SizedGraph> given_at_sizes() const {
    std::vector<SizedGraph> result;
    for (Graph& graph : measurable(original_)) result.push_back({std::move(graph), options_.sizes[result.size()].weight});
    return result;
  }

  CostOptions costs_at(std::span<const WeightedSizes> sizes) const {
    return {sizes_or_one(sizes), options_.measure, options_.for_training, options_.objective, options_.cancel};
  }

  std::string names_of_sizes() const {
    std::string text;
    for (const WeightedSizes& at : options_.sizes) text += (text.empty() ? "" : "; ") + to_string(at.sizes);
    return text;
  }

  // Fills in the predictions at each set of sizes.
  void predict_at_sizes(const Graph& after) {
    for (SizesReport& at : report_.at) {
      if (report_.at.size() == 1) {
        at.predicted_before = report_.predicted_before, at.predicted_after = report_.predicted_after;
        continue;
      }
      CostModel costs(options_.measure ? &device_ : nullptr, database_, costs_at({&at.at, 1}));
      costs.set_deadline(budget_.now());  // what was timed for all sizes is known
      const MatchedGraph before(original_, options_.for_training), found(after, options_.for_training);
      costs.learn(before);
      const MatchedGraph* const both[] = {&before, &found};
      costs.prepare(both);
      at.predicted_before = costs.quantities(before).seconds;
      at.predicted_after = costs.quantities(found).seconds;
    }
  }

  void note_times(const Measuring::Result& result) {
    const bool changed = result.best || options_.objective != Objective::kLatency;
    for (std::size_t k = 0; k < std::min(result.at.size(), report_.at.size()); ++k) {
      const Measuring::Times& times = result.at[k];
      report_.at[k].measured_before = times.before;
      report_.at[k].measured_after = changed ? times.after : times.before;
      report_.at[k].speedup = changed ? times.speedup : 1;
    }
  }

  // Measures the candidates and the original alternately; nullopt if none is faster.
  std::optional<std::size_t> choose(std::vector<Candidate>& candidates) {
    if (candidates.empty()) {
      report_.outcome =
          out_of_time_ ? "the given graph: there was no time to compute its constants" : "no rewrite was predicted to gain";
      return std::nullopt;
    }
    const bool by_time = options_.objective == Objective::kLatency;
    if (!by_time && !gain_) {
      report_.outcome = "no rewrite was predicted to gain";
      return std::nullopt;
    }
    const std::string by = by_time ? "cost" : report_.objective;
    if (!times_graphs()) {
      report_.outcome = "chosen by predicted " + by;
      return 0;
    }
    if (!executable_) {
      report_.outcome = "chosen by predicted " + by + ", as it cannot be executed on " + unexecutable_;
      return gain_ ? std::optional<std::size_t>(0) : std::nullopt;
    }
    tell("measuring", 0);
    const double reserve = measuring_.check_seconds();
    Measuring::Result result;
    if (by_time) {
      std::vector<Measuring::AtSizes> graphs;
      for (const Candidate& candidate : candidates) graphs.push_back(measurable(candidate.graph));
      result = measuring_.choose(graphs, reserve);
    } else {
      result = measuring_.compare(measurable(candidates[0].graph), reserve);
    }
    devices_end_.end_at(budget_.end());
    note_times(result);
    report_.measured_before = report_.measured_after = result.before;
    if (!by_time) {
      if (result.measured == 0 && !result.no_time && !budget_.over()) {
        report_.outcome = "what was predicted to gain cannot be executed on " + device_.name();
        return std::nullopt;
      }
      report_.measured_after = result.after;
      report_.speedup = result.speedup;
      report_.outcome = "chosen by predicted " + by;
      return 0;
    }
    if (!result.best) {
      report_.outcome =
          result.no_time ? "the given graph: there was no time to measure a rewritten one (" + measuring_.advice() + ")"
          : result.slower_at
              ? "no rewritten graph was kept: the fastest was slower at " + to_string(options_.sizes[*result.slower_at].sizes)
              : "no rewritten graph was significantly faster";
      return std::nullopt;
    }
    report_.measured_after = result.after;
    report_.speedup = result.speedup;
    report_.outcome = "measured to be faster, in two processes";
    return result.best;
  }

  ResultComparison::Verdict check(const Graph& graph) {
    tell("checking", 0);
    no_time_to_check_ = false;
    try {
      devices_end_.end_at(budget_.end());
      const auto verdict = written_check_.check(graph, report_.check);
      const bool is_other = verdict == ResultComparison::Verdict::kDiffers;
      return is_other && standard_ ? check_exactly(graph, verdict) : verdict;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled || !budget_.over()) throw;
      no_time_to_check_ = true;
      report_.check.runs = 0;
      report_.check.reason = "its time was over";
      return ResultComparison::Verdict::kNotRun;
    }
  }

  // A device may compute less exactly than the operator says (products of few bits with accuracy_level 4): where another one
  // computes both sides alike, they are the same.
  ResultComparison::Verdict check_exactly(const Graph& graph, ResultComparison::Verdict otherwise) {
    if (options_.second_device == nullptr) return otherwise;
    WrittenCheck exact(given_, device_,
                       {options_.seed, options_.check_runs, options_.second_device, options_.reference_check, options_.written,
                        options_.cancel},
                       budget_, [this](const Graph& other) { return measurable(other); });
    exact.leave_out_device(device_.name() + " rounds more in operators of its own");
    CheckReport report = report_.check;
    if (exact.check(graph, report) != ResultComparison::Verdict::kSame) return otherwise;
    report.note = "in " + device_.name() + ", which rounds more in operators of its own, the largest error was " +
                  std::to_string(report_.check.max_rel_error) + " relative";
    report_.check = std::move(report);
    return ResultComparison::Verdict::kSame;
  }

  // Nothing but the dialect was changed.
  void check_standard(const Graph& graph) {
    if (options_.check_runs == 0) return;
    if (check(graph) == ResultComparison::Verdict::kDiffers)
      throw Error(ErrorCode::kUnsupported,
                  "written in ONNX's own operators it computes something else, which is a fault of rewright");
  }

  OptimizeResult give_back(const std::string& why) {
    tidied_.reset();
    report_.outcome = why;
    return finish(nullptr);
  }

  // The original graph, without unneeded parts if that was confirmed to compute the same.
  OptimizeResult keep_given() {
    if (tidied_ && options_.check_runs > 0 && measuring_.check_seconds() > budget_.left()) tidied_.reset();
    if (tidied_ && options_.check_runs > 0) {
      const CheckReport before = report_.check;
      if (check(tidied_->graph) != ResultComparison::Verdict::kSame) tidied_.reset();
      if (!before.differs.empty()) report_.check.ok = before.ok;
    }
    return finish(nullptr);
  }

  OptimizeResult finish(Candidate* winner) {
    OptimizeResult result;
    result.graph = winner ? std::move(winner->graph) : original_;
    if (winner) {
      result.certificate.steps = std::move(winner->steps);
    } else {
      if (tidied_) {
        result.graph = std::move(tidied_->graph);
        result.certificate.steps = std::move(tidied_->steps);
        if (!standard_) report_.outcome += "; what nothing needs is left out";
      } else if (standard_) {
        result.certificate.steps = first_steps_;
        report_.outcome += "; written in ONNX's own operators";
        check_standard(result.graph);
      }
      report_.predicted_after = report_.predicted_before;
      report_.quantities_after = report_.quantities_before;
      report_.measured_after = report_.measured_before;
      report_.speedup = 1;
      for (SizesReport& at : report_.at) at.measured_after = at.measured_before, at.speedup = 1;
    }
    predict_at_sizes(result.graph);
    std::string left_out;
    for (const Fault& fault : report_.check.differs) left_out += (left_out.empty() ? "" : ", ") + to_string(fault);
    if (!left_out.empty()) report_.outcome += "; left out, since it changed the results: " + left_out;
    if (report_.check.runs == 0 && report_.check.reason.empty())
      report_.check.reason = options_.check_runs > 0 ? "nothing was changed" : "it was not asked for";
    result.certificate.before = given_.hash();
    result.certificate.after = result.graph.hash();
    result.certificate.match = index_.options();
    for (const Rewrite& rewrite : rewrites_of(result.certificate.steps))
      report_.rules_applied.push_back({rewrite.rule, rewrite.names});
    report_.changed = winner != nullptr;
    report_.nodes_after = result.graph.nodes().size();
    report_.opset = opset_of(result.graph);
    report_.peak_bytes = peak_resident_bytes();
    result.report = std::move(report_);
    return result;
  }

  const std::optional<StandardGraph> standard_;
  const Graph& original_;  // what is improved: the given graph, or that in ONNX's own operators
  const Graph& given_;
  std::vector<CertificateStep> first_steps_;  // from the given graph to the original one
  RuleIndex index_;
  Device& device_;
  Evaluator& evaluator_;
  const OptimizeOptions& options_;
  const Budget budget_;
  const DevicesEnd devices_end_;
  CostDatabase* const database_;
  Measuring measuring_;
  CostModel costs_;
  CandidateSteps steps_;
  OptimizeReport report_;
  std::optional<Candidate> tidied_;  // the original graph without unneeded parts, if there are any
  bool executable_ = true;           // can the device execute the original graph?
  std::string unexecutable_;         // why not
  WrittenCheck written_check_;
  bool out_of_time_ = false;  // before any graph could be measured
  bool no_time_to_check_ = false;
  bool gain_ = false;  // predicted, for the objective
};

}  // namespace

OptimizeResult optimize(const Graph& graph, const std::vector<Rule>& rules, Device& device, Evaluator& evaluator,
                        CostDatabase* database, const OptimizeOptions& options) {
  return Optimizer(graph, rules, device, evaluator, database, options).run();
}

}  // namespace rewright::optimizer
