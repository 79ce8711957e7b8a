// Values that would be strided views (Planner::view) if one of their axes were two, such as heads that are repeated for several
// others.
#pragma once

#include <optional>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

struct SplitView {
  ValueId source;
  planning::SplitStrides strides;
};

// nullopt if the value is none, or its step was already planned. Implemented in plan_maker.cc.
std::optional<SplitView> split_view(const Planner& planner, ValueId value);

// As Planner::view, of floats whose elements are those of a value of 16 bits. Implemented in plan_maker.cc.
std::optional<Planner::View> narrow_view(const Planner& planner, ValueId value);

}  // namespace rewright::cpu
