#include "runtime/cpu/onednn/onednn.h"

#include <algorithm>
#include <string>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

using dnnl::memory;

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine = [] {
    // oneDNN keeps primitives that nobody has any more, with the code that it wrote for them: networks whose images have other
    // sizes in each call would fill its 1024 places. These are enough for the networks that are prepared again and again.
    constexpr int kGiven = 1024, kPrimitives = 256;
    if (dnnl::get_primitive_cache_capacity() == kGiven) dnnl::set_primitive_cache_capacity(kPrimitives);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

void set_dnnl_limit(Isa isa) {
  // Refused once a primitive exists; that status is ignored.
  if (isa == Isa::kAvx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  if (isa == Isa::kBaseline) dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
}

bool dnnl_has_bfloat16() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

std::optional<memory::data_type> dnnl_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return memory::data_type::f32;
    case DataType::kInt32:
      return memory::data_type::s32;
    case DataType::kInt8:
      return memory::data_type::s8;
    case DataType::kUint8:
      return memory::data_type::u8;
    default:
      return std::nullopt;
  }
}

memory::desc dnnl_desc(const Sizes& sizes, Layout layout, memory::data_type type) {
  using Tag = memory::format_tag;
  const std::size_t rank = sizes.size();
  if (layout.blocked()) {
    static constexpr Tag kBy8[] = {Tag::aBc8b, Tag::aBcd8b, Tag::aBcde8b};
    static constexpr Tag kBy16[] = {Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b};
    return memory::desc(sizes, type, (layout.channels == 8 ? kBy8 : kBy16)[rank - 3]);
  }
  memory::dims strides(rank);
  std::int64_t step = 1;
  if (layout.channels_last()) {
    strides[1] = 1;
    step = sizes[1];
  }
  for (std::size_t a = rank; a-- > 0;) {
    if (layout.channels_last() && a == 1) continue;
    strides[a] = step;
    step *= sizes[a];
  }
  return memory::desc(sizes, type, strides);
}

memory::desc dnnl_any(const Sizes& sizes) { return memory::desc(sizes, memory::data_type::f32, memory::format_tag::any); }

std::optional<Layout> layout_of(const memory::desc& desc, const Sizes& sizes) {
  std::vector<Layout> known{kPlain, kChannelsLast};
  if (sizes.size() >= 3 && sizes.size() <= 5) {
    known.push_back({8});
    known.push_back({16});
  }
  for (const Layout layout : known)
    if (desc == dnnl_desc(sizes, layout)) return layout;
  return std::nullopt;
}

DnnlKernel::DnnlKernel(dnnl::primitive primitive, memory::desc scratchpad, std::vector<Argument> arguments,
                       std::vector<Owned> owned)
    : primitive_(std::move(primitive)),
      scratchpad_(std::move(scratchpad)),
      arguments_(std::move(arguments)),
      owned_(std::move(owned)) {
  for (const Owned& o : owned_)
    owned_memories_.emplace_back(o.desc, dnnl_engine(), const_cast<std::byte*>(o.bytes.bytes().data()));
  free_.push_back(bind());
}

std::unique_ptr<DnnlKernel::Binding> DnnlKernel::bind() const {
  auto binding = std::make_unique<Binding>();
  binding->stream = dnnl::stream(dnnl_engine());
  const auto add = [&](int number, const memory::desc& desc) {
    binding->memories.emplace_back(desc, dnnl_engine(), nullptr);
    binding->list.push_back({number, binding->memories.back().get()});
  };
  for (const Argument& a : arguments_) add(a.dnnl_number, a.desc);
  if (scratch_bytes() > 0) add(DNNL_ARG_SCRATCHPAD, scratchpad_);
  for (std::size_t o = 0; o < owned_.size(); ++o) binding->list.push_back({owned_[o].dnnl_number, owned_memories_[o].get()});
  return binding;
}

void DnnlKernel::run(const Call& call) const {
  std::unique_ptr<Binding> binding;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      binding = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!binding) binding = bind();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    binding->memories[i].set_data_handle(a.input >= 0 ? const_cast<std::byte*>(call.inputs[a.input]) : call.outputs[a.output]);
  }
  if (scratch_bytes() > 0) binding->memories.back().set_data_handle(call.scratch);
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), binding->stream.get(),
                                                 static_cast<int>(binding->list.size()), binding->list.data()),
                          "could not execute a primitive");
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(binding));
}

std::string DnnlKernel::source() const {
  const char* name = nullptr;
  dnnl_primitive_desc_query(primitive_.get_primitive_desc(), dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
  return dnnl_version_text() + (name == nullptr ? "" : " (" + std::string(name) + ")");
}

std::string dnnl_version_text() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::unique_ptr<Kernel> make_reorder(const memory::desc& source, const memory::desc& target) {
  const dnnl::reorder::primitive_desc description(dnnl_engine(), source, dnnl_engine(), target, user_scratchpad());
  return std::make_unique<DnnlKernel>(
      dnnl::reorder(description), description.scratchpad_desc(),
      std::vector<DnnlKernel::Argument>{{DNNL_ARG_FROM, source, 0, -1}, {DNNL_ARG_TO, target, -1, 0}});
}

namespace {

// A description's layout as text.
std::string text(const memory::desc& desc) {
  std::string text = std::to_string(static_cast<int>(desc.get_data_type()));
  const auto add = [&](const memory::dims& numbers) {
    text += ':';
    for (const auto n : numbers) text += ' ' + std::to_string(n);
  };
  add(desc.get_padded_dims());
  add(desc.get_strides());
  add(desc.get_inner_blks());
  add(desc.get_inner_idxs());
  return text;
}

}  // namespace

DnnlKernel::Owned packed(Planner& planner, const ConstantOrigin& origin, int number, const memory::desc& from,
                         const memory::desc& to, const std::function<Tensor()>& data) {
  const auto make = [&](std::byte* bytes) {
    const Tensor given = data();
    memory source(from, dnnl_engine(), const_cast<std::byte*>(given.bytes().data()));
    memory target(to, dnnl_engine(), bytes);
    dnnl::stream stream(dnnl_engine());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  };
  return {number, to, planner.prepared(origin, std::to_string(number) + ' ' + text(to), to.get_size(), make)};
}

bool is_packed(const Planner& planner, const ConstantOrigin& origin, int number, const memory::desc& to) {
  return planner.is_prepared(origin, std::to_string(number) + ' ' + text(to));
}

DnnlKernel::Owned constant_argument(int number, const memory::desc& desc, const Tensor& data) { return {number, desc, data}; }

}  // namespace rewright::cpu
