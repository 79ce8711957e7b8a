// Conversions between our and oneDNN's types and descriptions, primitives as steps, and packed weights. Apart from kernels'
// headers, only this one includes oneDNN.
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
void set_dnnl_limit(Isa isa);  // only effective before the process's first primitive
// Does oneDNN use the processor's bfloat16 instructions (avx512_bf16)? Not if the process's limit is lower.
bool dnnl_has_bfloat16();

std::optional<dnnl::memory::data_type> dnnl_type(DataType type);
dnnl::memory::desc dnnl_desc(const Sizes& sizes, Layout layout, dnnl::memory::data_type type = dnnl::memory::data_type::f32);
dnnl::memory::desc dnnl_any(const Sizes& sizes);
// The layout of a description; nullopt if Layout cannot express it.
std::optional<Layout> layout_of(const dnnl::memory::desc& desc, const Sizes& sizes);

// A step that executes a oneDNN primitive. Arguments are the step's inputs and outputs by number, or memory that it owns.
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
  // State of one execution: handles to the current arguments.
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
  mutable std::vector<std::unique_ptr<Binding>> free_;  // as many as ran concurrently
};

// Converts a tensor between descriptions: floats, 32-bit integers, or elements of one byte.
std::unique_ptr<Kernel> make_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
// Argument `number` of a primitive: constant data of this origin, packed in another description. `data` is only called if it
// was not packed before.
DnnlKernel::Owned packed(Planner& planner, const ConstantOrigin& origin, int number, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to, const std::function<Tensor()>& data);

// Was this packed before?
bool is_packed(const Planner& planner, const ConstantOrigin& origin, int number, const dnnl::memory::desc& to);
// Argument `number`, unconverted.
DnnlKernel::Owned constant_argument(int number, const dnnl::memory::desc& desc, const Tensor& data);

dnnl::primitive_attr user_scratchpad();

std::string dnnl_version_text();  // "oneDNN 3.2.0"

}  // namespace rewright::cpu
