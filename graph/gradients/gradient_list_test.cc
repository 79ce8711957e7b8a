// docs/gradients.md says which of ONNX's operators have no gradient. It is derived here from ONNX's list; with the environment
// variable REWRIGHT_WRITE_DOCS it is written.
#include <onnx/defs/schema.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "graph/gradients/opaque_gradient.h"
#include "graph/gradients/without_gradient.h"
#include "operators/onnx.h"
#include "operators/procedure.h"

namespace rewright::graph {
namespace {

enum class Way { kDefinition, kFunction, kProcedure, kOpaque, kLoop, kGradient, kNone };

Way way_of(const onnx::OpSchema& schema) {
  const std::string domain = schema.domain();
  if (schema.Name() == "Loop" || schema.Name() == "Scan") return Way::kLoop;
  if (schema.Name() == "Gradient") return Way::kGradient;
  if (find_onnx(domain, schema.Name()) != nullptr) return Way::kDefinition;
  if (domain.empty() && opaque_operators_with_gradient().contains(schema.Name())) return Way::kOpaque;
  const Procedure* procedure = find_procedure(domain, schema.Name());
  if (procedure != nullptr) return procedure->graph ? Way::kProcedure : Way::kNone;
  return schema.HasFunction() || schema.HasContextDependentFunction() ? Way::kFunction : Way::kNone;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string page() {
  const std::map<std::string, std::string> without = testing::operators_without_gradient();
  std::map<Way, std::vector<std::string>> with;
  std::map<std::string, std::vector<std::string>> by_reason;
  std::map<std::string, const onnx::OpSchema*> schemas;
  const std::vector<onnx::OpSchema> all = onnx::OpSchemaRegistry::get_all_schemas();
  for (const onnx::OpSchema& schema : all)
    if ((schema.domain().empty() || schema.domain() == "ai.onnx.preview.training") && !schema.deprecated())
      schemas[schema.Name()] = &schema;
  for (const auto& [name, schema] : schemas) {
    const Way way = way_of(*schema);
    const auto reason = without.find(name);
    INFO(name << ": it has a gradient, or there is a reason why not");
    CHECK((way != Way::kNone || reason != without.end()));
    if (reason != without.end())
      by_reason[reason->second].push_back(name);
    else
      with[way].push_back(name);
  }
  std::string text =
      "# Gradients of ONNX's operators\n\nDerived by `graph/gradients/gradient_list_test.cc` from ONNX's list of "
      "operators.\n\n";
  const auto section = [&](Way way, const std::string& what) { text += what + ": " + list(with[way]) + ".\n\n"; };
  text += "## Those that have one\n\n";
  section(Way::kDefinition, "By a definition here, checked by finite differences (`graph/gradients/differentiate_test.cc`)");
  section(Way::kFunction, "By the body of the function that ONNX says they are");
  section(
      Way::kProcedure,
      "As a graph of operators (`graph/onnx/import/procedure_test.cc`); sequences must have a known length, and the maximum of "
      "RoiAlign a sampling_ratio");
  section(
      Way::kOpaque,
      "By nodes of ONNX beside operators, where sizes or the branch that is taken are only known while the graph is executed "
      "(`graph/gradients/opaque_gradient_test.cc`)");
  section(
      Way::kLoop,
      "Written out, where the number of iterations, at most 1000, is known: a constant, or a size that the data gives, such "
      "as the scanned axis. A loop that ends by its condition gets a known number if it goes on to the largest one, with "
      "`Where` in its body keeping the carried values once the condition does not hold any more; sequences of different "
      "lengths are padded to one");
  section(Way::kGradient, "By differentiating once more");
  text += "## Those that have none\n\n| why | operators |\n|---|---|\n";
  for (const auto& [reason, names] : by_reason) text += "| " + reason + " | " + list(names) + " |\n";
  return text;
}

TEST_CASE("the list of operators without a gradient is the one in the documentation") {
  const std::string text = page(), file = "docs/gradients.md";
  if (std::getenv("REWRIGHT_WRITE_DOCS") != nullptr) std::ofstream(file) << text;
  std::ifstream in(file);
  const std::string there{std::istreambuf_iterator<char>(in), {}};
  CHECK(there == text);
}

}  // namespace
}  // namespace rewright::graph
