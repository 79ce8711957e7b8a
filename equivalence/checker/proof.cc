#include "equivalence/checker/proof.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "rules/bindings.h"
#include "rules/io.h"
#include "verifier/certificate.h"
#include "verifier/checker/questions.h"
#include "verifier/solver.h"

namespace rewright::equivalence {

using nlohmann::json;
using proof::require;

namespace {

constexpr int kFormat = 1;
constexpr std::string_view kDigest = "\nsha256 ";
constexpr const char* kKinds[] = {"term", "attribute", "rewriting", "rule", "value", "bodies"};

json to_json(const Step& step) {
  json result = {{"kind", kKinds[static_cast<int>(step.kind)]},
                 {"a", step.equation.a},
                 {"b", step.equation.b},
                 {"leaves", step.equation.leaves}};
  if (step.term) result["term"] = to_algebra(*step.term);
  if (!step.certificate.empty())
    result["certificate"] = step.certificate, result["any_sizes"] = step.sizes == SizesInRule::kAny;
  if (step.kind == Step::Kind::kAttribute)
    result["position"] = step.position, result["field"] = step.field, result["number"] = step.number;
  json& list = result["applications"] = json::array();
  for (const Application& a : step.applications) list.push_back({{"rule", a.rule}, {"where", a.where}, {"swapped", a.swapped}});
  if (step.kind == Step::Kind::kBodies) {
    result["position"] = step.position, result["other"] = step.other;
    json& bodies = result["bodies"] = json::array();
    for (const std::vector<Step>& steps : step.bodies) {
      json& body = bodies.emplace_back(json::array());
      for (const Step& inner : steps) body.push_back(to_json(inner));
    }
  }
  return result;
}

Step step_of(const json& text) {
  Step step;
  const std::string kind = text.at("kind");
  const auto* const known = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (known == std::end(kKinds)) throw Error(ErrorCode::kBadInput, "there is no kind of step \"" + kind + "\"");
  step.kind = static_cast<Step::Kind>(known - std::begin(kKinds));
  step.equation.a = text.at("a"), step.equation.b = text.at("b");
  step.equation.leaves = text.at("leaves").get<std::vector<ValueId>>();
  step.certificate = text.value("certificate", "");
  step.sizes = text.value("any_sizes", false) ? SizesInRule::kAny : SizesInRule::kAsGiven;
  step.position = text.value("position", std::int32_t{0}), step.other = text.value("other", std::int32_t{0});
  for (const json& body : text.value("bodies", json::array())) {
    std::vector<Step>& steps = step.bodies.emplace_back();
    for (const json& inner : body) steps.push_back(step_of(inner));
  }
  step.field = text.value("field", std::size_t{0}), step.number = text.value("number", 0.0);
  if (text.contains("term")) {
    std::vector<Rule> rules = parse_algebra(text.at("term").get<std::string>(), "a term");
    if (rules.size() != 1) throw Error(ErrorCode::kBadInput, "a term is not one");
    step.term = std::move(rules[0]);
  }
  for (const json& a : text.at("applications"))
    step.applications.push_back({a.at("rule"), a.at("where").get<std::vector<std::uint32_t>>(), a.at("swapped")});
  return step;
}

}  // namespace

std::string write_proof(const Proof& proof) {
  json steps = json::array();
  for (const Step& step : proof.steps) steps.push_back(to_json(step));
  const std::string text = json{{"format", kFormat},    {"first", proof.first},         {"second", proof.second},
                                {"names", proof.names}, {"tolerance", proof.tolerance}, {"steps", std::move(steps)}}
                               .dump(1);
  return text + std::string(kDigest) + proof::hexadecimal(proof::sha256(text)) + "\n";
}

Proof read_proof(std::string_view bytes, const std::string& name) try {
  const std::size_t end = bytes.rfind(kDigest);
  if (end == std::string_view::npos ||
      bytes.substr(end + kDigest.size()) != proof::hexadecimal(proof::sha256(bytes.substr(0, end))) + "\n")
    throw Error(ErrorCode::kBadInput, "is damaged: its bytes are not those of its SHA-256", name);
  const json text = json::parse(bytes.substr(0, end));
  if (text.at("format") != kFormat) throw Error(ErrorCode::kBadInput, "has another format", name);
  Proof result;
  result.names = text.at("names").get<NameMap>();
  result.tolerance = text.at("tolerance");
  result.first = text.at("first"), result.second = text.at("second");
  for (const json& step : text.at("steps")) result.steps.push_back(step_of(step));
  return result;
} catch (const json::exception& e) {
  throw Error(ErrorCode::kBadInput, std::string("is damaged: ") + e.what(), name);
}

namespace {

// Adds the nodes of a term to a graph: `add` makes a node and returns its first output.
ValueId term_of(const Step& step, const std::vector<ValueId>& leaves,
                const std::function<ValueId(const Operator&, Attributes, std::vector<ValueId>)>& add) {
  const Rule& rule = *step.term;
  require(rule.inputs.size() == leaves.size() && rule.source.outputs.size() == 1, "a term has other leaves");
  const Bindings none(rule);
  std::vector<ValueId> nodes;
  const auto value = [&](const PatternValue& v) {
    if (v.kind == PatternValue::Kind::kAbsent) return kNoValue;
    require(v.output == 0, "a term reads another output than the first one");
    return v.kind == PatternValue::Kind::kInput ? leaves.at(v.number) : nodes.at(v.number);
  };
  for (const PatternNode& node : rule.source.nodes) {
    require(!node.op->random(), "a term is random");
    Attributes attributes;
    std::vector<ValueId> inputs;
    for (const Expression& e : node.attributes) attributes.push_back(none.evaluate(e));
    for (const PatternValue& v : node.inputs) inputs.push_back(value(v));
    nodes.push_back(add(*node.op, std::move(attributes), std::move(inputs)));
  }
  return value(rule.source.outputs[0]);
}

void require_leaves(const Joint& joint, const Step& step) {
  const auto in_table = [&](ValueId id) { return id < joint.graph().value_count(); };
  const ValueId constant = step.equation.b;
  require(in_table(constant) && joint.is_constant(constant), "no constant to be explained");
  // A leaf that does not rest on constants alone is refused when the term is evaluated. One of the second model would be a
  // rounding itself.
  for (const ValueId leaf : step.equation.leaves)
    require(in_table(leaf) && !joint.is_of_second(leaf), "a term reads what is no constant of the first model");
  require(step.term || step.equation.leaves.size() == 1, "a term without operators has one leaf");
}

}  // namespace

Graph graph_of_term(const Joint& joint, const Step& step) {
  Graph graph;
  std::vector<ValueId> leaves;
  for (const ValueId leaf : step.equation.leaves) leaves.push_back(add_constant_part(graph, joint.graph(), leaf));
  const ValueId made = !step.term
                           ? leaves.at(0)
                           : term_of(step, leaves, [&](const Operator& op, Attributes attributes, std::vector<ValueId> inputs) {
                               return graph.add_node(op, std::move(attributes), std::move(inputs)).at(0);
                             });
  graph.add_output("y", made);
  return graph;
}

RoundingCheck check_term(const Joint& joint, const Step& step, double tolerance) {
  require_leaves(joint, step);
  const Tensor& found = joint.graph().value(step.equation.b).constant;
  if (!step.term) {
    const ValueId leaf = step.equation.leaves[0];
    return check_rounding(joint.graph(), leaf, evaluate_constant(joint.graph(), leaf), found, tolerance);
  }
  const Graph graph = graph_of_term(joint, step);
  const ValueId made = graph.outputs()[0].value;
  require(graph.value(made).type.type == found.type(), "a term has another type than its constant");
  return check_rounding(graph, made, evaluate_constant(graph, made), found, tolerance);
}

namespace {

ValueId add_to_table(Joint& joint, const Step& step) {
  return term_of(step, step.equation.leaves, [&](const Operator& op, Attributes attributes, std::vector<ValueId> inputs) {
    return joint.add_term(op, std::move(attributes), std::move(inputs));
  });
}

}  // namespace

double add_term(Joint& joint, const Step& step, double tolerance) {
  const RoundingCheck check = check_term(joint, step, tolerance);
  require(check.explained, "a constant is not a rounding of its term");
  const ValueId made = !step.term ? step.equation.leaves[0] : add_to_table(joint, step);
  require(joint.explain(step.equation.b, made), "a term has another type than its constant, or may not explain it");
  return check.max_rel_error;
}

ValueId add_value(Joint& joint, const Step& step) {
  require(step.term.has_value() && !step.term->source.nodes.empty(), "a value has no term");
  // Values of the first model are defined, and so are terms that were added before.
  for (const ValueId leaf : step.equation.leaves)
    require(leaf < joint.graph().value_count() && !joint.is_of_second(leaf),
            "a value reads what the first model does not have");
  return add_to_table(joint, step);
}

double round_attribute(Joint& joint, const Step& step, double tolerance) {
  const auto& nodes = joint.graph().nodes();
  require(step.position >= 0 && static_cast<std::size_t>(step.position) < nodes.size(), "there is no such node");
  const Node& node = *nodes[static_cast<std::size_t>(step.position)];
  require(node.op && !node.op->random() && step.field < node.attributes.size(), "there is no such attribute");
  const Real* real = std::get_if<Real>(&node.attributes[step.field]);
  require(real && real->symbol.empty(), "an attribute is no number");
  const double difference = std::abs(real->value - step.number) / std::abs(step.number);
  // Each is a rounding of one number, not of a chain of them. Two attributes of the first model that differ stay different.
  const bool is_of_first = static_cast<std::size_t>(step.position) < joint.first_nodes();
  require(difference <= tolerance && static_cast<double>(static_cast<float>(real->value)) == real->value &&
              (!is_of_first || static_cast<double>(static_cast<float>(step.number)) == real->value),
          "an attribute is no rounding of a number");
  joint.set_attribute(step.position, step.field, step.number);
  return difference;
}

Obligation second_is_well_typed(const Joint& joint) {
  const Graph& graph = joint.graph();
  proof::Guards known;
  std::vector<std::pair<std::size_t, Condition>> wanted;
  std::map<std::string, bool> sizes;
  const auto note_sizes = [&](const TensorType& type) {
    for (const Index& size : type.shape)
      for_each_atom(size, [&](const Atom& a) {
        if (a.kind == Atom::Kind::kSymbol && sizes.emplace(a.name, true).second)
          known.push_back(proof::at_least(Index::symbol(a.name), Index(1)));
      });
  };
  for (const ValueId id : graph.inputs()) note_sizes(graph.value(id).type);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    if (!node.op) continue;
    const Definition definition = node.op->define(node.attributes, Inputs::of(graph.operand_types(node)).types_only());
    for (const Requirement& r : definition.requirements()) {
      if (r.condition.decided() == true) continue;
      if (n < joint.first_nodes())
        known.push_back(proof::guard(r.condition));
      else
        wanted.emplace_back(n, r.condition);
    }
  }
  proof::Solver solver;
  for (const auto& [position, condition] : wanted) {
    const proof::Guard goal = proof::guard(condition);
    if (std::find(known.begin(), known.end(), goal) != known.end()) continue;
    if (!solver.proves(known, goal)) return {false, condition.to_string()};
    known.push_back(goal);
  }
  return {};
}

}  // namespace rewright::equivalence
