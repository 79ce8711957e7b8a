#include "api/choices.h"

namespace rewright::api {

namespace {

// Choices for values with a name() function.
template <class T>
std::vector<Choice<T>> named(std::initializer_list<T> values) {
  std::vector<Choice<T>> choices;
  for (const T value : values) choices.push_back({name(value), value});
  return choices;
}

}  // namespace

const Choices<MathClass>& math_choices() {
  static const Choices<MathClass> kAll(
      "arithmetic",
      {{"exact", MathClass::kExact}, {"reassociate", MathClass::kReassociates}, {"fast", MathClass::kNeedsFinite}});
  return kAll;
}

const Choices<KernelChoice>& kernel_choices() {
  static const Choices<KernelChoice> kAll("choice of kernels", {{"estimated", KernelChoice::kEstimated},
                                                                {"cached", KernelChoice::kCached},
                                                                {"measured", KernelChoice::kMeasured},
                                                                {"searched", KernelChoice::kSearched}});
  return kAll;
}

const Choices<Strategy>& strategy_choices() {
  static const Choices<Strategy> kAll("search", named({Strategy::kAuto, Strategy::kBacktrack, Strategy::kSaturate}));
  return kAll;
}

const Choices<Objective>& objective_choices() {
  static const Choices<Objective> kAll("objective", named({Objective::kLatency, Objective::kMemory, Objective::kEnergy}));
  return kAll;
}

const Choices<Dialect>& dialect_choices() {
  static const Choices<Dialect> kAll("dialect", named({Dialect::kAsGiven, Dialect::kStandard, Dialect::kOnnxRuntime}));
  return kAll;
}

const Choices<bool>& truth_choices() {
  static const Choices<bool> kAll("truth value", {{"true", true}, {"false", false}});
  return kAll;
}

}  // namespace rewright::api
