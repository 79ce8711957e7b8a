// From a choice of e-nodes to the rewrites it depends on, and from those back to a graph.
#include <algorithm>
#include <map>
#include <set>

#include "optimizer/saturation/saturation.h"

namespace rewright::optimizer {

namespace {

// Collects rule applications with everything they depend on.
class Needs {
 public:
  explicit Needs(const Saturation& saturation) : saturation_(saturation), graph_(saturation.graph()) {}

  void equality(ClassId a, ClassId b) {
    if (a == b || a == kNoClass || !equalities_.emplace(std::min(a, b), std::max(a, b)).second) return;
    for (const Reason& reason : graph_.explain(a, b)) {
      if (reason.application != Reason::kCongruence) {
        application(reason.application);
        continue;
      }
      node(reason.left);
      node(reason.right);
      inputs(graph_.inputs(reason.left), graph_.inputs(reason.right), reason.exchanged);
    }
  }

  void node(ENodeId id) {
    if (const std::optional<std::uint32_t> creator = saturation_.creator(id)) application(*creator);
  }

  // Processes all requests. Not recursive, since chains of applications may be long.
  std::vector<std::uint32_t> run() {
    while (!open_.empty()) {
      const std::uint32_t number = open_.back();
      open_.pop_back();
      const Application& application = saturation_.applications()[number];
      for (const ENodeId id : application.match.where) node(id);
      saturation_.matcher().for_each_equality(application.match, [this](ClassId a, ClassId b) { equality(a, b); });
      for (std::uint32_t p = 0; p < application.made.nodes.size(); ++p) {
        const ENodeId made = application.made.nodes[p];
        if (saturation_.creator(made) == number) continue;
        node(made);
        inputs(saturation_.matcher().target_inputs(application.match, application.made.nodes, p), graph_.inputs(made),
               (application.made.exchanged >> p) & 1);
      }
    }
    return {needed_.begin(), needed_.end()};
  }

 private:
  void application(std::uint32_t number) {
    if (needed_.insert(number).second) open_.push_back(number);
  }

  void inputs(std::span<const ClassId> a, std::span<const ClassId> b, bool exchanged) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) equality(a[i], b[exchanged && i < 2 ? 1 - i : i]);
  }

  const Saturation& saturation_;
  const EGraph& graph_;
  std::set<std::uint32_t> needed_;
  std::set<std::pair<ClassId, ClassId>> equalities_;
  std::vector<std::uint32_t> open_;
};

std::vector<std::string> names_of(const EGraph& graph, std::span<const ENodeId> where) {
  std::vector<std::int64_t> positions;
  for (const ENodeId id : where)
    if (graph.node(id).position >= 0) positions.push_back(graph.node(id).position);
  return names_at(graph.graph(), positions);
}

// The computed value of each class: leaves first, then the chosen e-nodes in order.
std::map<ClassId, ClassId> makers_of(const EGraph& graph, std::span<const ENodeId> chosen) {
  std::map<ClassId, ClassId> made;
  for (ENodeId id = 0; id < graph.node_count(); ++id)
    if (graph.node(id).leaf != kNoValue) made.emplace(graph.find(graph.outputs(id)[0]), graph.outputs(id)[0]);
  for (const ENodeId id : chosen)
    for (const ClassId output : graph.outputs(id))
      if (output != kNoClass) made.emplace(graph.find(output), output);
  return made;
}

// The chosen e-nodes as a graph. Original nodes stay if they read the same values.
std::optional<Graph> graph_of(const EGraph& e, std::span<const ENodeId> chosen) {
  Graph graph = e.graph();
  graph.drop_nodes_from(0);
  std::map<ClassId, ValueId> values;
  for (ENodeId id = 0; id < e.node_count(); ++id)
    if (e.node(id).leaf != kNoValue) values.emplace(e.find(e.outputs(id)[0]), e.node(id).leaf);
  bool complete = true;
  const auto value_of = [&](ClassId value) {
    if (value == kNoClass) return kNoValue;
    const auto found = values.find(e.find(value));
    complete = complete && found != values.end();
    return found == values.end() ? kNoValue : found->second;
  };
  for (const ENodeId id : chosen) {
    const ENode& node = e.node(id);
    if (node.leaf != kNoValue) return std::nullopt;
    std::vector<ValueId> inputs, parameters, outputs;
    for (const ClassId input : e.inputs(id)) inputs.push_back(value_of(input));
    for (const ClassId parameter : e.parameters(id)) parameters.push_back(value_of(parameter));
    if (!complete) return std::nullopt;
    if (node.position < 0) {
      try {
        outputs = graph.add_node(*node.op, e.attributes(node.attributes), std::move(inputs));
      } catch (const Error&) {
        return std::nullopt;
      }
    } else {
      const std::shared_ptr<const Node>& original = e.graph().nodes()[static_cast<std::size_t>(node.position)];
      outputs = original->outputs;
      Node changed = *original;
      for (std::size_t o = 0; o < outputs.size(); ++o)
        if (outputs[o] == kNoValue && e.outputs(id)[o] != kNoClass) {
          Value value;
          value.type = e.type_of(e.type(e.outputs(id)[o]));
          outputs[o] = graph.add_value(std::move(value));
        }
      if (inputs == original->inputs && parameters == original->parameters && outputs == original->outputs) {
        graph.add_shared(original);
      } else {
        changed.inputs = std::move(inputs);
        changed.parameters = std::move(parameters);
        changed.outputs = outputs;
        graph.add_raw(std::move(changed));
      }
    }
    for (std::size_t o = 0; o < outputs.size() && o < e.outputs(id).size(); ++o)
      if (e.outputs(id)[o] != kNoClass && outputs[o] != kNoValue) values.emplace(e.find(e.outputs(id)[o]), outputs[o]);
  }
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  for (GraphOutput& output : outputs) output.value = value_of(e.value_of(output.value));
  if (!complete) return std::nullopt;
  graph.set_outputs(std::move(outputs));
  if (!graph.try_tidy()) return std::nullopt;
  return graph;
}

}  // namespace

CertificateStep explain_choice(const Saturation& saturation, std::span<const ENodeId> chosen) {
  const EGraph& graph = saturation.graph();
  Needs needs(saturation);
  const std::map<ClassId, ClassId> makers = makers_of(graph, chosen);
  const auto is_read = [&](ClassId value) {
    if (value != kNoClass) needs.equality(value, makers.at(graph.find(value)));
  };
  for (const ENodeId id : chosen) {
    needs.node(id);
    for (const ClassId input : graph.inputs(id)) is_read(input);
    for (const ClassId parameter : graph.parameters(id)) is_read(parameter);
  }
  for (const GraphOutput& output : graph.graph().outputs()) is_read(graph.value_of(output.value));

  // Repeats the rewrites without all others, which changes the numbers of e-nodes.
  EGraph again(graph.graph(), saturation.rules().options().for_training);
  EMatcher matcher(again, saturation.rules());
  again.rebuild();
  std::map<ENodeId, ENodeId> numbers;
  const auto renumbered = [&](ENodeId id) {
    if (!saturation.creator(id)) return id;
    return numbers.at(id);
  };
  CertificateStep step;
  step.kind = CertificateStep::Kind::kSaturate;
  for (const std::uint32_t number : needs.run()) {
    const Application& application = saturation.applications()[number];
    const Rule& rule = saturation.rules().rules()[application.match.rule];
    std::vector<ENodeId> where;
    for (const ENodeId id : application.match.where) where.push_back(renumbered(id));
    const std::optional<EMatch> match = matcher.find_at(application.match.rule, where, application.match.swapped);
    const std::optional<EMatcher::Made> made =
        match ? matcher.apply(*match, static_cast<std::uint32_t>(step.rewrites.size())) : std::nullopt;
    if (!made) throw Error(ErrorCode::kUsage, "an explanation does not hold: rule " + rule.name);
    again.rebuild();
    for (std::size_t p = 0; p < made->nodes.size(); ++p) numbers.emplace(application.made.nodes[p], made->nodes[p]);
    step.rewrites.push_back({rule.name,
                             saturation.rules().hashes()[application.match.rule],
                             std::vector<std::int64_t>(where.begin(), where.end()),
                             application.match.swapped,
                             {}});
  }
  for (const ENodeId id : chosen) step.chosen.push_back(renumbered(id));
  return step;
}

std::optional<Graph> apply_step(const Graph& region, const RuleIndex& rules, CertificateStep& step) {
  EGraph graph(region, rules.options().for_training);
  EMatcher matcher(graph, rules);
  graph.rebuild();
  for (Rewrite& rewrite : step.rewrites) {
    const std::optional<std::uint32_t> rule = rules.find(rewrite.rule);
    if (!rule || rules.hashes()[*rule] != rewrite.rule_hash) return std::nullopt;
    std::vector<ENodeId> where;
    for (const std::int64_t id : rewrite.where) {
      if (id < 0 || id >= static_cast<std::int64_t>(graph.node_count())) return std::nullopt;
      where.push_back(static_cast<ENodeId>(id));
    }
    const std::optional<EMatch> match = matcher.find_at(*rule, where, rewrite.swapped);
    if (!match || !matcher.apply(*match, 0)) return std::nullopt;
    rewrite.names = names_of(graph, where);
    graph.rebuild();
  }
  std::vector<ENodeId> chosen;
  for (const std::uint32_t id : step.chosen) {
    if (id >= graph.node_count()) return std::nullopt;
    chosen.push_back(id);
  }
  return graph_of(graph, chosen);
}

}  // namespace rewright::optimizer
