#include "python/native/rules.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <mutex>

#include "api/rule_facts.h"
#include "api/rule_files.h"
#include "graph/file.h"
#include "python/native/interruptible.h"
#include "rules/draw.h"
#include "rules/io.h"
#include "rules/merge.h"
#include "runtime/session.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

std::vector<std::string> conditions_of(const Rule& rule) {
  std::vector<std::string> conditions;
  for (const Condition& condition : rule.conditions) conditions.push_back(condition.to_string());
  for (const Predicate& predicate : rule.predicates) conditions.push_back(to_algebra(predicate));
  return conditions;
}

std::string text_of(const nlohmann::json& facts) {
  return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct Verified {
  std::vector<std::string> facts;  // JSON, one for each rule
  std::vector<Rule> proved;
};

Verified verify_all(const std::vector<Rule>& rules, bool infer_conditions, const std::string& certificates, std::uint64_t seed,
                    int threads, const nb::object& progress, Stop& stop) {
  proof::VerifyOptions options;
  options.infer_conditions = infer_conditions;
  options.certificates = certificates;
  if (seed != 0) {
    options.seed = seed;
    options.solver.seed = static_cast<unsigned>(seed);
  }
  std::vector<VerifiedRule> results;
  std::mutex mutex;
  std::size_t done = 0, told = 0;
  std::string last;
  work_interruptibly(
      stop,
      [&] {
        const auto note = [&](std::size_t count, const Rule& rule) {
          const std::lock_guard lock(mutex);
          done = count;
          last = rule.name;
        };
        results = verify_rules(rules, options, usable_threads(threads), note, stop.source.get_token());
      },
      [&] {
        std::unique_lock lock(mutex);
        if (progress.is_none() || done == told) return;
        told = done;
        const std::string name = last;
        lock.unlock();
        if (progress(name, static_cast<double>(told) / static_cast<double>(rules.size())).is(nb::handle(Py_False)))
          stop.source.request_stop();
      });
  Verified verified;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    verified.facts.push_back(text_of(facts_of(rules[i], results[i])));
    if (results[i].verdict.outcome == proof::Outcome::kProved) verified.proved.push_back(proved_rule(results[i].verdict));
  }
  return verified;
}

RuleFormat format_named(const std::string& name) {
  if (name == "algebra") return RuleFormat::kAlgebra;
  if (name == "text") return RuleFormat::kText;
  if (name == "binary") return RuleFormat::kBinary;
  throw Error(ErrorCode::kUsage, "there is no format \"" + name + "\"", {}, "there are algebra, text and binary");
}

}  // namespace

void bind_rules(nb::module_& m) {
  nb::class_<Rule>(m, "Rule", "A rewrite rule.")
      .def_ro("name", &Rule::name)
      .def_ro("description", &Rule::description, "One line.")
      .def_ro("for_training", &Rule::for_training, "Is it also valid, with its gradients, where weights are variables?")
      .def_prop_ro(
          "algebra", [](const Rule& rule) { return to_algebra(rule); }, "The rule as docs/rules.md writes it.")
      .def_prop_ro("conditions", &conditions_of, "Under which the two sides are equal.")
      .def_prop_ro(
          "dot", [](const Rule& rule) { return to_dot(rule); }, "Both sides, drawn, as text for Graphviz.")
      .def_prop_ro("facts", [](const Rule& rule) { return text_of(facts_of(rule)); })
      .def("__eq__", [](const Rule& a, const Rule& b) { return a == b; })
      .def("__hash__", [](const Rule& rule) { return static_cast<std::size_t>(hash(rule)); })
      .def("__str__", [](const Rule& rule) { return to_algebra(rule); });
  nb::class_<Verified>(m, "Verified").def_ro("facts", &Verified::facts).def_ro("proved", &Verified::proved);
  m.def("read_rules", &read_all_rules, nb::arg("files"));
  m.def(
      "parse_rules", [](const std::string& text, const std::string& name) { return parse_algebra(text, name); },
      nb::arg("text"), nb::arg("name"));
  m.def(
      "write_rules",
      [](const std::vector<Rule>& rules, const std::string& file, const std::string& format) {
        write_file(file, write_rules(rules, format_named(format)));
      },
      nb::arg("rules"), nb::arg("file"), nb::arg("format"));
  m.def(
      "difference",
      [](const std::vector<Rule>& first, const std::vector<Rule>& second) {
        const RuleDifference d = difference(first, second);
        nb::dict facts;
        facts["only_first"] = d.only_first;
        facts["only_second"] = d.only_second;
        facts["changed"] = d.changed;
        facts["renamed"] = d.renamed;
        return facts;
      },
      nb::arg("first"), nb::arg("second"));
  m.def("verify_rules", &verify_all, nb::arg("rules"), nb::arg("infer_conditions"), nb::arg("certificates"), nb::arg("seed"),
        nb::arg("threads"), nb::arg("progress").none(), nb::arg("stop"));
}

}  // namespace rewright::python
