// CUDA C++ source from element expressions. All kernels have one form: a row of the result belongs to one thread, one warp or
// one block, which computes the reductions that the row's elements share, and then each element.
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

// `lanes` threads share a row, and each computes `vector` elements at a time.
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
  // The kernel reads positions from tensors. It has one more argument, an int* that it sets to 1 where a position is outside of
  // its axis.
  bool checks_positions = false;
};

// The kernel's arguments are the addresses of the operands, of the output, and of the flag. `position` are the variables of the
// output's axes. nullopt if the expression has a type, a function or an unknown size that kernels cannot have, or the output
// is too large.
std::optional<GeneratedKernel> generate_kernel(const Element& element, const Indices& position, const KernelOperand& output,
                                               const std::vector<KernelOperand>& operands);

// Sets a kernel's source from the text that begins with its parameters, and its name from the source.
void set_source(GeneratedKernel& kernel, const std::string& from_parameters);

// The same kernel for a result in the memory of an operand that it reads in place: without __restrict__.
GeneratedKernel with_aliases(const GeneratedKernel& kernel);

// A complete source file with these kernels, which are all in double or all in float.
std::string kernel_file(const std::vector<const GeneratedKernel*>& kernels);

}  // namespace rewright::cuda
