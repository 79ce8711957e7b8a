// Plans as texts, for comparing them.
#pragma once

#include <sstream>
#include <string>
#include <typeinfo>

#include "runtime/cpu/planning/plan.h"

namespace rewright::testing {

// All of a plan but the bytes that its kernels keep.
inline std::string to_string(const cpu::Plan& plan) {
  std::ostringstream text;
  const auto list = [&](const char* name, const std::vector<int>& numbers) {
    text << ' ' << name << '(';
    for (const int n : numbers) text << n << ' ';
    text << ')';
  };
  for (const cpu::Storage& s : plan.storages) {
    text << "storage " << static_cast<int>(s.kind) << " bytes " << s.bytes << " number " << s.number << " part " << s.part_of
         << '+' << s.part_at << " from " << s.first << " to " << s.last << " at " << s.offset << " replaces " << s.replaces;
    if (s.constant) text << " constant " << s.constant.content_hash();
    text << '\n';
  }
  for (const cpu::Step& s : plan.steps) {
    const cpu::Kernel& kernel = *s.kernel;
    text << s.operators << " \"" << s.node << "\" " << typeid(kernel).name() << ' ' << kernel.source() << ' ' << kernel.loops();
    list("inputs", s.inputs), list("outputs", s.outputs), list("in place", s.read_in_place);
    text << " scratch " << s.scratch << ' ' << kernel.scratch_bytes() << " bytes " << s.bytes
         << (s.changes_layout ? " layout" : "") << '\n';
  }
  list("outputs", plan.outputs);
  for (const TensorType& type : plan.output_types) text << ' ' << rewright::to_string(type.shape);
  text << " arena " << plan.arena_bytes << '\n';
  return text.str();
}

}  // namespace rewright::testing
