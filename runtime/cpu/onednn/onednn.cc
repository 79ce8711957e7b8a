#include "runtime/cpu/onednn/onednn.h"

#include <algorithm>
#include <string>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

using dnnl::memory;

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void set_dnnl_limit(Isa isa) {
  // Refused, with a status that does not matter here, once a primitive exists.
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

PiecesKernel::PiecesKernel(std::vector<Piece> pieces, int threads, RowLoops::Unary function, std::int64_t channels,
                           std::int64_t height)
    : pieces_(std::move(pieces)), threads_(threads), function_(function), channels_(channels), height_(height) {
  const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  for (const Piece& p : pieces_) {
    thread_bytes_ = std::max(thread_bytes_, aligned(p.kernel->scratch_bytes()));
    copied_bytes_ =
        std::max(copied_bytes_, aligned(sizeof(float) * static_cast<std::size_t>(channels * p.rows.count * p.rows.elements)));
  }
  thread_bytes_ += copied_bytes_;
}

void PiecesKernel::run(const Call& call) const {
  call.workers.share(std::ssize(pieces_), [&](std::int64_t number, int thread) {
    constexpr std::size_t kMostInputs = 16;
    const Piece& piece = pieces_[static_cast<std::size_t>(number)];
    std::byte* const scratch = call.scratch + static_cast<std::size_t>(thread) * thread_bytes_;
    const std::byte* inputs[kMostInputs];
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      inputs[i] = call.inputs[i] + piece.inputs[i] * static_cast<std::int64_t>(sizeof(float));
    if (channels_ > 0) {
      const auto* const x = reinterpret_cast<const float*>(inputs[0]);
      const std::int64_t count = piece.rows.count * piece.rows.elements;
      for (std::int64_t c = 0; c < channels_; ++c)
        std::copy_n(x + (c * height_ + piece.rows.first) * piece.rows.elements, count,
                    reinterpret_cast<float*>(scratch) + c * count);
      inputs[0] = scratch;
    }
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + piece.output;
    std::byte* const output = reinterpret_cast<std::byte*>(y);
    static const Workers alone(1);
    piece.kernel->run({{inputs, call.inputs.size()}, {&output, 1}, scratch + copied_bytes_, alone});
    if (function_ != nullptr) function_(y, y, piece.elements);
  });
}

namespace {

class FollowedKernel final : public Kernel {
 public:
  FollowedKernel(std::unique_ptr<Kernel> kernel, RowLoops::Unary function, std::int64_t elements)
      : kernel_(std::move(kernel)), function_(function), elements_(elements) {}
  void run(const Call& call) const override {
    kernel_->run(call);
    constexpr std::int64_t kPart = 8192;
    constexpr double kElements = 2;  // a nanosecond
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const std::int64_t parts = (elements_ + kPart - 1) / kPart;
    call.workers.for_each(parts, static_cast<double>(elements_) / kElements, [&](std::int64_t p, int) {
      function_(y + p * kPart, y + p * kPart, std::min(kPart, elements_ - p * kPart));
    });
  }
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::string source() const override { return kernel_->source(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  RowLoops::Unary function_;
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> followed_by(std::unique_ptr<Kernel> kernel, RowLoops::Unary function, std::int64_t elements) {
  return std::make_unique<FollowedKernel>(std::move(kernel), function, elements);
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

namespace {

// Floats whose channels come to stand last, or to stand first again.
class ChannelsKernel final : public Kernel {
 public:
  ChannelsKernel(const Sizes& sizes, bool to_last, Isa isa)
      : pictures_(sizes[0]),
        rows_(element_count(std::span(sizes).subspan(2))),
        columns_(sizes[1]),
        loops_(real_loops<float>(isa)) {
    if (!to_last) std::swap(rows_, columns_);
  }

  // The source has `columns_` runs of `rows_` elements, the result is the other way round.
  void run(const Call& call) const override {
    constexpr double kElements = 4;  // a nanosecond
    constexpr std::int64_t kTogether = 64;
    const std::int64_t blocks = (rows_ + kTogether - 1) / kTogether;
    call.workers.for_each(pictures_ * blocks, static_cast<double>(pictures_ * rows_ * columns_) / kElements,
                          [&](std::int64_t unit, int) {
                            const std::int64_t picture = unit / blocks * rows_ * columns_, first = unit % blocks * kTogether;
                            loops_.transpose(reinterpret_cast<float*>(call.outputs[0]) + picture + first * columns_,
                                             reinterpret_cast<const float*>(call.inputs[0]) + picture + first, rows_,
                                             std::min(kTogether, rows_ - first), columns_);
                          });
  }

 private:
  std::int64_t pictures_, rows_, columns_;
  const RealLoops<float>& loops_;
};

}  // namespace

std::unique_ptr<Kernel> make_reorder(const memory::desc& source, const memory::desc& target) {
  const dnnl::reorder::primitive_desc description(dnnl_engine(), source, dnnl_engine(), target, user_scratchpad());
  return std::make_unique<DnnlKernel>(
      dnnl::reorder(description), description.scratchpad_desc(),
      std::vector<DnnlKernel::Argument>{{DNNL_ARG_FROM, source, 0, -1}, {DNNL_ARG_TO, target, -1, 0}});
}

std::unique_ptr<Kernel> make_reorder(DataType type, const Sizes& sizes, Layout from, Layout to, const PlanOptions& options) {
  const memory::data_type moved = byte_size(type) == 1 ? memory::data_type::u8 : dnnl_type(type).value();
  if (type == DataType::kFloat && !from.blocked() && !to.blocked())
    return std::make_unique<ChannelsKernel>(sizes, to.channels_last(), options.isa);
  const memory::desc source = dnnl_desc(sizes, from, moved), target = dnnl_desc(sizes, to, moved);
  return make_reorder(source, target);
}

namespace {

// A description as text, as far as it says where elements lie.
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

DnnlKernel::Owned packed(Planner& planner, ValueId result, int number, const memory::desc& from, const memory::desc& to,
                         const std::function<Tensor()>& data) {
  const auto make = [&](std::byte* bytes) {
    const Tensor given = data();
    memory source(from, dnnl_engine(), const_cast<std::byte*>(given.bytes().data()));
    memory target(to, dnnl_engine(), bytes);
    dnnl::stream stream(dnnl_engine());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  };
  return {number, to, planner.prepared(result, std::to_string(number) + ' ' + text(to), to.get_size(), make)};
}

}  // namespace rewright::cpu
