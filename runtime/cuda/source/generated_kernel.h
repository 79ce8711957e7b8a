// CUDA C++ source from element expressions. All kernels have one form: one thread, warp or block computes a row of the result:
// first the reductions that the row's elements share, then each element.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::cuda {

struct KernelOperand {
  DataType type = DataType::kUndefined;  // kUndefined: absent
  Sizes sizes;
};

// `lanes` threads share a row; each computes `vector` elements at a time.
struct Launch {
  int lanes = 1, vector = 1;
  unsigned threads = 256;  // of a block
  unsigned blocks = 0;     // 0: nothing to do
};

struct GeneratedKernel {
  std::string name;  // a hash of the source
  std::string source;
  bool in_double = false;  // its reals are double; else float
  Launch launch;
  // The kernel reads positions from tensors. It has an additional argument, an int* that it sets to 1 if a position is outside
  // of its axis.
  bool checks_positions = false;
};

// The kernel's arguments are the addresses of the operands, the output and the flag. `position`: the variables of the output's
// axes. nullopt if the expression has an unsupported type or function or an unknown size, or if the output is too large.
std::optional<GeneratedKernel> generate_kernel(const Element& element, const Indices& position, const KernelOperand& output,
                                               const std::vector<KernelOperand>& operands);

// Sets a kernel's source, from text that begins with its parameters, and its name, a hash of the source.
void set_source(GeneratedKernel& kernel, const std::string& from_parameters);

// The kernel for a result in the memory of an operand that it reads in place: without __restrict__.
GeneratedKernel with_aliases(const GeneratedKernel& kernel);

// A complete source file with these kernels, all in double or all in float.
std::string kernel_file(const std::vector<const GeneratedKernel*>& kernels);

}  // namespace rewright::cuda
