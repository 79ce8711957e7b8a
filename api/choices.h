// Tables of named values. Options, their help texts and their errors are derived from them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/onnx/dialect.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/search/search.h"
#include "rules/rule.h"
#include "runtime/session.h"

namespace rewright::api {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T>
class Choices {
 public:
  // `what`: the kind of value, for messages.
  Choices(std::string_view what, std::vector<Choice<T>> all) : what_(what), all_(std::move(all)) {}

  const std::vector<Choice<T>>& all() const { return all_; }
  // Throws Error(kUsage) that lists all names.
  T value(std::string_view name) const {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Choice<T>& choice) { return choice.name == name; });
    if (found != all_.end()) return found->value;
    throw Error(ErrorCode::kUsage, "there is no " + std::string(what_) + " \"" + std::string(name) + "\"", {},
                "there are " + names(", "));
  }
  std::string_view name(T value) const {
    return std::find_if(all_.begin(), all_.end(), [&](const Choice<T>& choice) { return choice.value == value; })->name;
  }
  std::string names(std::string_view between) const {
    std::string text;
    for (const Choice<T>& choice : all_) text += std::string(text.empty() ? "" : between) + std::string(choice.name);
    return text;
  }

 private:
  std::string_view what_;
  std::vector<Choice<T>> all_;
};

const Choices<MathClass>& math_choices();
const Choices<KernelChoice>& kernel_choices();
const Choices<Strategy>& strategy_choices();
const Choices<Objective>& objective_choices();
const Choices<Dialect>& dialect_choices();
const Choices<bool>& truth_choices();

}  // namespace rewright::api
