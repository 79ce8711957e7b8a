// oneDNN as the kernels use it: its types and descriptions for ours, primitives as steps, and packed weights. The only header
// of the CPU runtime that includes oneDNN, beside those of kernels.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

const dnnl::engine& dnnl_engine();
void set_dnnl_limit(Isa isa);  // effective before the process's first primitive only
// Whether oneDNN multiplies bfloat16 by the processor's instructions (avx512_bf16): not where the process's limit is below.
bool dnnl_has_bfloat16();

std::optional<dnnl::memory::data_type> dnnl_type(DataType type);
dnnl::memory::desc dnnl_desc(const Sizes& sizes, Layout layout, dnnl::memory::data_type type = dnnl::memory::data_type::f32);
dnnl::memory::desc dnnl_any(const Sizes& sizes);
// The layout that a description means; nullopt if Layout cannot say it.
std::optional<Layout> layout_of(const dnnl::memory::desc& desc, const Sizes& sizes);

// A step that executes a oneDNN primitive. Arguments are inputs and outputs of the step by number, or memory that it owns.
class DnnlKernel final : public Kernel {
 public:
  struct Argument {
    int dnnl_number;
    dnnl::memory::desc desc;
    int input = -1, output = -1;
  };
  struct Owned {
    int dnnl_number;
    dnnl::memory::desc desc;
    Tensor bytes;
  };
  DnnlKernel(dnnl::primitive primitive, dnnl::memory::desc scratchpad, std::vector<Argument> arguments,
             std::vector<Owned> owned = {});
  void run(const Call& call) const override;
  std::size_t scratch_bytes() const override { return scratchpad_.get_size(); }
  std::string source() const override;

 private:
  // What one execution needs for itself: handles that say where arguments lie this time.
  struct Binding {
    std::vector<dnnl::memory> memories;  // of arguments_, and of the scratchpad if there is one
    std::vector<dnnl_exec_arg_t> list;
    dnnl::stream stream;
  };
  std::unique_ptr<Binding> bind() const;

  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  std::vector<Argument> arguments_;
  std::vector<Owned> owned_;
  std::vector<dnnl::memory> owned_memories_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Binding>> free_;  // as many as ever ran at the same time
};

// Copies a tensor from one description to another: floats, 32-bit integers, or elements of one byte.
std::unique_ptr<Kernel> make_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
// The argument `number` of a primitive: constant data of this origin in another description. `data` is asked for where it was
// not made before.
DnnlKernel::Owned packed(Planner& planner, const ConstantOrigin& origin, int number, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to, const std::function<Tensor()>& data);

// Was this made of the origin before?
bool is_packed(const Planner& planner, const ConstantOrigin& origin, int number, const dnnl::memory::desc& to);
// The argument `number` as it is.
DnnlKernel::Owned constant_argument(int number, const dnnl::memory::desc& desc, const Tensor& data);

dnnl::primitive_attr user_scratchpad();

std::string dnnl_version_text();  // "oneDNN 3.2.0"

}  // namespace rewright::cpu
