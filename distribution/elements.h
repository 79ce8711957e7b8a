// Addition and conversion of vectors of the types that processes exchange.
#pragma once

#include <cstddef>
#include <span>

#include "expressions/data_type.h"

namespace rewright::distribution {

// into[i] += from[i], rounded to the type: float, double, float16 or bfloat16. Throws Error(kUnsupported) for another type.
void add_elements(std::span<std::byte> into, std::span<const std::byte> from, DataType type);

// Convert between float and float16 or bfloat16. Throw Error(kUnsupported) for another type.
void narrow(std::span<const float> values, std::span<std::byte> into, DataType type);
void widen(std::span<const std::byte> values, std::span<float> into, DataType type);

}  // namespace rewright::distribution
