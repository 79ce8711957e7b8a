// oneDNN, as the kernels use it. Only for .cc files of this folder.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/rows.h"

namespace rewright::cpu {

const dnnl::engine& dnnl_engine();
void set_dnnl_limit(Isa isa);  // effective before the process's first primitive only

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
  DnnlKernel(dnnl::primitive primitive, dnnl::memory::desc scratchpad, std::vector<Argument> arguments,
             std::vector<std::pair<int, dnnl::memory>> owned = {});
  void run(const Call& call) const override;
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable std::vector<dnnl::memory> memories_;
  mutable dnnl::memory scratchpad_;
  std::size_t scratch_bytes_;
  std::unordered_map<int, dnnl::memory> bound_;
  dnnl::stream stream_;
};

// The kernel, and then a function of every element of its first output, which maps 0 to 0.
std::unique_ptr<Kernel> followed_by(std::unique_ptr<Kernel> kernel, RowLoops::Unary function, std::int64_t elements);

std::unique_ptr<Kernel> make_reorder(const Sizes& sizes, Layout from, Layout to);
// Constant data in another description, in memory that oneDNN owns.
dnnl::memory packed(const void* data, const dnnl::memory::desc& from, const dnnl::memory::desc& to);

dnnl::primitive_attr user_scratchpad();

}  // namespace rewright::cpu
