#include "optimizer/checking/fault.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "optimizer/certificates/replay.h"
#include "optimizer/folding/fold.h"
#include "optimizer/matching/region.h"

namespace rewright::optimizer {

namespace {

constexpr std::size_t kMostMatches = 64;  // matches of a rule that are examined separately

// The step up to its first `count` parts: rewrites, constants or bodies. A choice of saturation is one part.
CertificateStep cut_short(const CertificateStep& step, std::size_t count) {
  CertificateStep cut = step;
  if (step.kind == CertificateStep::Kind::kRewrite) cut.rewrites.resize(count);
  if (step.kind == CertificateStep::Kind::kFold && !step.folded.empty()) cut.folded.resize(count);
  if (step.kind == CertificateStep::Kind::kBodies) cut.bodies.resize(count);
  return cut;
}

std::size_t part_count(const CertificateStep& step) {
  const std::size_t count = step.kind == CertificateStep::Kind::kRewrite  ? step.rewrites.size()
                            : step.kind == CertificateStep::Kind::kFold   ? step.folded.size()
                            : step.kind == CertificateStep::Kind::kBodies ? step.bodies.size()
                                                                          : 1;
  return std::max<std::size_t>(count, 1);
}

// A graph of its own: nodes are exported from their meaning, not as in the model.
Graph by_itself(Graph graph) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (const auto& node : nodes) {
    Node copy = *node;
    if (copy.op != nullptr) copy.origin = nullptr;
    copy.parameters.clear();
    copy.expansion = nullptr;
    graph.add_raw(std::move(copy));
  }
  graph.tidy();
  return graph;
}

// Does it depend on more than constants?
bool varies(const Node& node, const std::vector<bool>& constant) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id != kNoValue && !constant[id]; });
}

class FaultFinder {
 public:
  FaultFinder(const Graph& given, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
              const FaultCheck& check)
      : steps_(steps), index_(index), evaluator_(evaluator), check_(check) {
    starts_.emplace(0, given);
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (std::size_t part = 1; part <= part_count(steps[s]); ++part) parts_.emplace_back(s, part);
  }

  Fault run() {
    std::size_t good = 0, bad = parts_.size();  // numbers of parts applied
    while (bad - good > 1) {
      const std::size_t middle = good + (bad - good) / 2;
      (agrees_after(middle) ? good : bad) = middle;
    }
    Fault fault;
    if (parts_.empty()) return fault;
    const auto [step, part] = parts_[bad - 1];
    fault.step = step + 1;
    const Graph before = part == 1 ? before_step(step) : after(bad - 1), next = after(bad);
    switch (steps_[step].kind) {
      case CertificateStep::Kind::kFold:
        describe_folding(before, step, part, fault);
        break;
      case CertificateStep::Kind::kBodies:
        describe_body(steps_[step].bodies[part - 1], fault);
        break;
      case CertificateStep::Kind::kStandard:
      case CertificateStep::Kind::kRaise:
      case CertificateStep::Kind::kContract:
        fault.rules = steps_[step].calls;
        fault.kind = Fault::Kind::kDialect;
        break;
      default:
        describe_rule(before, next, step, part, fault);
    }
    return fault;
  }

 private:
  Graph after(std::size_t parts) {
    if (parts == 0) return starts_.at(0);
    const auto [step, part] = parts_[parts - 1];
    const Graph start = before_step(step);
    return after_steps(start, {cut_short(steps_[step], part)}, index_, evaluator_);
  }

  const Graph& before_step(std::size_t step) {
    auto known = std::prev(starts_.upper_bound(step));
    for (std::size_t s = known->first; s < step; ++s)
      known = starts_.emplace(s + 1, after_steps(known->second, {steps_[s]}, index_, evaluator_)).first;
    return known->second;
  }

  bool agrees_after(std::size_t parts) {
    try {
      return check_.agrees(after(parts));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled) throw;
      return false;
    }
  }

  void describe_folding(const Graph& before, std::size_t step, std::size_t part, Fault& fault) {
    fault.kind = Fault::Kind::kFolding;
    if (steps_[step].folded.empty()) return;
    const ValueId id = steps_[step].folded[part - 1];
    fault.folded = id;
    const std::vector<std::int32_t> producers = before.producers();
    const std::int32_t producer = producers.at(id);
    const std::string& value_name = before.value(id).name;
    std::string place = value_name.empty() ? "value " + std::to_string(id) : value_name;
    if (producer >= 0)
      if (const auto& origin = before.nodes()[static_cast<std::size_t>(producer)]->origin; origin && !origin->name.empty())
        place = origin->name;
    fault.where.push_back(std::move(place));
    if (!before.constant_values()[id]) return;
    // The part of the graph that it depends on.
    Graph cone = before;
    cone.set_outputs({});
    cone.add_output("folded", id);
    fault.smallest = without_inputs(std::move(cone));
  }

  static Graph without_inputs(Graph tidy) {
    tidy.tidy();
    Graph alone;
    std::map<ValueId, ValueId> local{{kNoValue, kNoValue}};
    const auto take = [&](ValueId id) {
      const auto [entry, added] = local.try_emplace(id, 0);
      if (added) entry->second = alone.add_value(tidy.value(id));
      return entry->second;
    };
    for (const auto& node : tidy.nodes()) {
      Node copy = *node;
      for (ValueId& id : copy.inputs) id = take(id);
      copy.parameters.clear();
      for (ValueId& id : copy.outputs) id = take(id);
      alone.add_raw(std::move(copy));
    }
    for (const GraphOutput& output : tidy.outputs()) alone.add_output(output.name, take(output.value));
    return by_itself(std::move(alone));
  }

  static void describe_body(const BodySteps& body, Fault& fault) {
    fault.kind = Fault::Kind::kBody;
    fault.where.push_back(body.name.empty() ? "body \"" + body.attribute + "\"" : body.name);
    std::set<std::string> names;
    for (const Rewrite& rewrite : rewrites_of(body.steps)) names.insert(rewrite.rule);
    fault.rules.assign(names.begin(), names.end());
  }

  void describe_rule(const Graph& before, const Graph& next, std::size_t step, std::size_t part, Fault& fault) {
    const std::vector<Rewrite>& rewrites = steps_[step].rewrites;
    std::set<std::string> names;
    if (steps_[step].kind == CertificateStep::Kind::kRewrite) {
      names.insert(rewrites.at(part - 1).rule);
      fault.where = rewrites[part - 1].names;
    } else {
      for (const Rewrite& rewrite : rewrites) names.insert(rewrite.rule);
    }
    fault.rules.assign(names.begin(), names.end());
    std::set<const Node*> stay;
    for (const auto& node : next.nodes()) stay.insert(node.get());
    std::vector<std::uint32_t> gone;
    const std::vector<bool> constant = before.constant_values();
    for (std::uint32_t n = 0; n < before.nodes().size(); ++n)
      if (!stay.contains(before.nodes()[n].get()) && varies(*before.nodes()[n], constant)) gone.push_back(n);
    if (gone.empty()) return;
    const Graph region = extract(before, gone).graph;
    for (const std::string& rule : names) {
      if (std::optional<Graph> shown = shown_by(region, rule, fault)) {
        fault.rules = {rule};
        fault.smallest = std::move(shown);
        return;
      }
    }
    // No single rule is wrong: the fault is everything that the step replaced.
    fault.smallest = by_itself(region);
  }

  // The nodes of a match alone, if the rule changes their result; otherwise the whole region, if that shows the fault.
  std::optional<Graph> shown_by(const Graph& region, const std::string& rule, Fault& fault) {
    const std::optional<std::uint32_t> number = index_.find(rule);
    if (!number) return std::nullopt;
    const RuleIndex alone = RuleIndex({index_.rules()[*number]}, index_.options()).widened();
    const std::vector<bool> constant = region.constant_values();
    std::size_t looked_at = 0;
    for (const Match& match : Matcher(alone).find(MatchedGraph(region, index_.options().for_training))) {
      if (++looked_at > kMostMatches) break;
      std::set<std::uint32_t> nodes;
      for (const std::int64_t node : match.where)
        if (node >= 0 && varies(*region.nodes()[static_cast<std::size_t>(node)], constant))
          nodes.insert(static_cast<std::uint32_t>(node));
      const std::vector<std::uint32_t> positions(nodes.begin(), nodes.end());
      const Graph part = by_itself(extract(region, positions).graph);
      for (const Match& again : Matcher(alone).find(MatchedGraph(part, index_.options().for_training))) {
        const std::optional<Graph> rewritten = apply(part, alone.rules()[again.rule], again);
        if (!rewritten || check_.parts_agree(part, *rewritten)) continue;
        name_nodes(region, positions, fault);
        return part;
      }
    }
    return std::nullopt;
  }

  static void name_nodes(const Graph& region, const std::vector<std::uint32_t>& positions, Fault& fault) {
    std::vector<std::string> names;
    for (const std::uint32_t position : positions) {
      const Node& node = *region.nodes()[position];
      if (node.origin && !node.origin->name.empty()) names.push_back(node.origin->name);
    }
    if (!names.empty()) fault.where = std::move(names);
  }

  const std::vector<CertificateStep>& steps_;
  const RuleIndex& index_;
  Evaluator& evaluator_;
  const FaultCheck& check_;
  std::map<std::size_t, Graph> starts_;                     // the graph before each step
  std::vector<std::pair<std::size_t, std::size_t>> parts_;  // step, number of its parts
};

}  // namespace

std::string_view name(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kRule:
      return "rule";
    case Fault::Kind::kFolding:
      return "folding";
    case Fault::Kind::kBody:
      return "body";
    case Fault::Kind::kDialect:
      return "dialect";
    case Fault::Kind::kExport:
      return "export";
  }
  return "";
}

std::string to_string(const Fault& fault) {
  const auto listed = [](const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : ", ") + names[i];
    return text;
  };
  std::string text;
  switch (fault.kind) {
    case Fault::Kind::kRule:
      text = (fault.rules.size() > 1 ? "one of the rules " : "the rule ") + listed(fault.rules);
      break;
    case Fault::Kind::kFolding:
      text = "folding constants";
      break;
    case Fault::Kind::kBody:
      text = "rewriting the graph inside of a node (" + listed(fault.rules) + ")";
      break;
    case Fault::Kind::kDialect:
      text = fault.rules.empty() ? "writing calls in ONNX's own operators" : "one of the operators " + listed(fault.rules);
      break;
    case Fault::Kind::kExport:
      text = "writing what was found" + (fault.rules.empty() ? "" : " by " + listed(fault.rules));
      break;
  }
  if (!fault.where.empty()) text += " at " + listed(fault.where);
  return text;
}

std::string message_of(const Fault& fault) {
  const std::string left_out = ": it was left out";
  if (!fault.unwritable.empty()) return to_string(fault) + " is not possible (" + fault.unwritable + ")" + left_out;
  return to_string(fault) + " changed the model's results, which is a fault of rewright" + left_out +
         (fault.file.empty() ? "" : "; " + fault.file + " shows it, please report it");
}

Fault find_fault(const Graph& given, const std::vector<CertificateStep>& steps, const RuleIndex& index, Evaluator& evaluator,
                 const FaultCheck& check) {
  return FaultFinder(given, steps, index, evaluator, check).run();
}

}  // namespace rewright::optimizer
