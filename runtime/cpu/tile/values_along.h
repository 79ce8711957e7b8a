// Numbers for each position of an axis, computed by an operator's definition when a plan is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/base/workers.h"
#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

// The values of an expression of a position, for each position of an axis; empty if it cannot be compiled.
template <class T>
std::vector<T> values_along(const Element& element, const Index& p, std::int64_t size, DataType type) {
  const auto program = compile_tiles(element, {p}, {type, {size}, kPlain}, {}, {Isa::kBaseline, true});
  std::vector<T> result(program ? static_cast<std::size_t>(size) : 0);
  if (program) program->run(nullptr, reinterpret_cast<std::byte*>(result.data()), Workers(1));
  return result;
}

}  // namespace rewright::cpu
