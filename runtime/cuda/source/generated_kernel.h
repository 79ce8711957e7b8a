// CUDA C++ source from element expressions. All that is not a product or a convolution runs by one template: a row of the
// result belongs to one thread, one warp or one block, which reduces over what the row's elements share and then computes each
// of them.
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

// How many threads share a row, how many elements one of them computes at a time, and how many of all this there are.
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
  // An index that is read from a tensor may point outside of what it indexes. Such a kernel takes one more argument, an int*
  // that it sets to 1 then.
  bool checks_positions = false;
};

// The kernel's arguments are the addresses of the operands, of the output, and of the flag. `position` are the variables of the
// output's axes. nullopt if the expression has a type, a function or an unknown size that kernels cannot have, or the output
// is too large.
std::optional<GeneratedKernel> generate_kernel(const Element& element, const Indices& position, const KernelOperand& output,
                                const std::vector<KernelOperand>& operands);

// A kernel's source from its parameters on; its name follows from it.
void set_source(GeneratedKernel& kernel, const std::string& from_parameters);

// The same where the result lies in the memory of an operand that is read in place.
GeneratedKernel with_aliases(const GeneratedKernel& kernel);

// A complete source file with these kernels, whose reals are of the same type.
std::string kernel_file(const std::vector<const GeneratedKernel*>& kernels);

}  // namespace rewright::cuda
