// The emitter for reductions, by one thread or by all lanes of a row.
#include "runtime/cuda/source/emitter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

const char* operation(Reduction r) {
  switch (r) {
    case Reduction::kSum:
      return "Sum";
    case Reduction::kProduct:
      return "Product";
    case Reduction::kMax:
      return "Max";
    case Reduction::kMin:
      return "Min";
  }
  return "";
}

std::string neutral(Reduction r, Scalar scalar) {
  const bool is_real = scalar == Scalar::kReal;
  switch (r) {
    case Reduction::kSum:
      return is_real ? "real(0)" : "integer(0)";
    case Reduction::kProduct:
      return is_real ? "real(1)" : "integer(1)";
    case Reduction::kMax:
      return is_real ? "(-infinity())" : literal(std::numeric_limits<std::int64_t>::min());
    case Reduction::kMin:
      return is_real ? "infinity()" : literal(std::numeric_limits<std::int64_t>::max());
  }
  return {};
}

}  // namespace

void Emitter::hoist(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes) {
  std::set<const ElementNode*> seen;
  hoist_inside(e, available, in_all_lanes, seen);
}

void Emitter::hoist_inside(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes,
                           std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return;
  const auto visit_index = [&](const Index& i) {
    for_each_atom(i, [&](const Atom& a) {
      if (a.kind == Atom::Kind::kLoad) hoist_inside(a.element, available, in_all_lanes, seen);
    });
  };
  for_each_index(*e, visit_index);
  for (const Element& a : e->arguments) hoist_inside(a, available, in_all_lanes, seen);
  if (e->kind != Kind::kReduce) return;
  for (const Scope& scope : scopes_)
    if (scope.elements.contains(e.get())) return;
  const auto& free = free_.of(*e);
  if (!std::includes(available.begin(), available.end(), free.begin(), free.end())) return;
  std::string text = reduce(*e, in_all_lanes);
  scopes_.back().elements[e.get()] = std::move(text);
}

std::string Emitter::reduce(const ElementNode& e, bool in_all_lanes) {
  const ReductionNest nest = reduction_nest(e);
  const Scalar scalar = e.scalar == Scalar::kReal ? Scalar::kReal : Scalar::kInteger;
  const std::string type = type_of(scalar), result = fresh("r");
  line(type + " " + result + " = " + neutral(e.reduction, scalar) + ";");
  if (nest.steps == 0) return e.scalar == Scalar::kBoolean ? "(" + result + " != 0)" : result;
  const bool together = in_all_lanes && lanes > 1 && nest.steps > 0;
  const auto outside = variables_;
  std::set<std::uint64_t> available;
  for (const auto& [id, text] : variables_) available.insert(id);
  hoist(nest.body, available, in_all_lanes);
  const int vector = std::exchange(vector_, 1);  // no vector reads inside the loop
  if (together) {
    const std::string step = fresh("s");
    note({0, nest.steps + lanes});
    line("for (index_t " + step + " = lane; " + step + " < " + std::to_string(nest.steps) + "; " + step +
         " += " + std::to_string(lanes) + ") {");
    open();
    std::int64_t stride = nest.steps;
    for (std::size_t v = 0; v < nest.variables.size(); ++v) {
      const std::int64_t size = nest.bounds[v].value();
      stride /= size;
      std::string text = step;
      if (stride > 1) text += " / " + std::to_string(stride);
      if (v > 0 && size > 1) text += " % " + std::to_string(size);
      define(nest.variables[v], size == 1 ? "0" : let("index_t", text), {0, size - 1});
    }
  } else {
    for (std::size_t v = 0; v < nest.variables.size(); ++v) {
      const IndexRange bound = ranges.of(nest.bounds[v]);
      const std::string name = fresh("k"), end = index(nest.bounds[v]);
      line("for (index_t " + name + " = 0; " + name + " < " + end + "; ++" + name + ") {");
      open();
      define(nest.variables[v], name, {0, std::max<std::int64_t>(bound.high - 1, 0)});
    }
  }
  const std::string guard = condition(nest.conditions);
  if (!guard.empty()) line("if (!(" + guard + ")) continue;");
  const std::string v = nest.body->scalar == scalar ? element(nest.body) : as(nest.body, scalar);
  line(result + " = " + std::string(operation(e.reduction)) + "::of(" + result + ", " + v + ");");
  const std::size_t opened = together ? 1 : nest.variables.size();
  for (std::size_t n = 0; n < opened; ++n) {
    close_into();
    line("}");
  }
  vector_ = vector;
  variables_ = outside;  // what is hoisted afterwards must not use those of closed loops
  if (!together) return e.scalar == Scalar::kBoolean ? "(" + result + " != 0)" : result;
  return let(type, "across<" + std::to_string(lanes) + ", " + operation(e.reduction) + ">(" + result + ")");
}

}  // namespace rewright::cuda
