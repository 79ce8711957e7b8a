#include "generator/enumeration/exactness.h"

#include <map>

#include "base/error.h"
#include "generator/enumeration/program.h"
#include "rules/instance.h"

namespace rewright::generator {

namespace {

// The operations behind each element of a graph's outputs.
std::vector<std::vector<Residue>> outputs_of(const Graph& graph, Program::Trace& trace) {
  std::map<ValueId, std::vector<Residue>> values;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    std::vector<Residue>& elements = values[id];
    const auto count = static_cast<std::uint64_t>(element_count(rewright::values(graph.value(id).type.shape)));
    for (std::uint64_t n = 0; n < count; ++n) elements.push_back(trace.variable(i, n));
  }
  std::vector<Residue> registers;
  for (const auto& node : graph.nodes()) {
    const std::vector<TensorType> types = graph.input_types(*node);
    const std::vector<std::size_t> offsets(types.size());
    std::vector<const Residue*> operands;
    for (const ValueId id : node->inputs) {
      if (id == kNoValue) throw Error(ErrorCode::kUnsupported, "an input is absent");
      operands.push_back(values.at(id).data());
    }
    const Definition definition = node->op->define(node->attributes, Inputs::of(std::span<const TensorType>(types)));
    for (std::size_t o = 0; o < node->outputs.size(); ++o) {
      ProgramBuilder builder;
      builder.add(definition.outputs()[o], types, offsets);
      const Program program = std::move(builder).finish();
      std::vector<Residue>& results = values[node->outputs[o]];
      results.resize(program.result_count());
      program.run(operands, trace, registers, results.data());
    }
  }
  std::vector<std::vector<Residue>> result;
  for (const GraphOutput& output : graph.outputs()) result.push_back(values.at(output.value));
  return result;
}

}  // namespace

bool same_operations(const Rule& rule, int instances, std::uint64_t seed) {
  InstanceSampler sampler(rule, seed);
  try {
    for (int n = 0; n < instances; ++n) {
      const auto instance = sampler.sample();
      if (!instance) return false;
      Program::Trace trace;
      const Graph target = instantiate(rule, rule.target, instance->input_types, instance->bindings);
      if (outputs_of(instance->source, trace) != outputs_of(target, trace)) return false;
    }
  } catch (const Error&) {  // no real elements
    return false;
  }
  return true;
}

}  // namespace rewright::generator
