// Products of bfloat16 matrices with constant weights, by the processor's bfloat16 instructions, with sums in float.
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>

#include "runtime/cpu/kernels/epilogue.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;
using Kind = ElementNode::Kind;

constexpr double kMultiplications = 220;               // per nanosecond
constexpr std::int64_t kLeastWeights = 64 * 64;        // below, converting takes longer than the gain
constexpr std::size_t kBytes = sizeof(std::uint16_t);  // of an element

bool has_instructions(Isa isa) { return isa == Isa::kAvx512 && dnnl_has_bfloat16(); }

// rows x k by k x n.
struct Matrices {
  std::int64_t rows = 1, k = 1, n = 1;
  bool transposed = false;  // the weights
};

std::optional<Matrices> read_matrices(const Node& node, const Sizes& x, const Sizes& w) {
  if (w.size() != 2 || x.size() < 2) return std::nullopt;
  Matrices m;
  const planning::ProductAttributes attributes = planning::read_product_attributes(node);
  if (attributes.alpha != 1 || attributes.beta != 1 || attributes.a_transposed) return std::nullopt;
  m.transposed = attributes.b_transposed;
  m.k = x.back();
  m.n = w[m.transposed ? 0 : 1];
  if (element_count(x) == 0 || m.k * m.n < kLeastWeights) return std::nullopt;
  m.rows = element_count(x) / m.k;
  return m;
}

// A bfloat16 is the upper half of a float.
bool is_bfloat16(float v) { return (std::bit_cast<std::uint32_t>(v) & 0xFFFF) == 0; }

// The bfloat16 value that a node converts to float unchanged.
std::optional<ValueId> widened_operand(const Planner& planner, ValueId value) {
  const Node* const node = planner.producer(value);
  if (node == nullptr || node->inputs.size() != 1 || node->outputs.size() != 1) return std::nullopt;
  const ValueInfo &from = planner.info(node->inputs[0]), &to = planner.info(value);
  if (from.type != DataType::kBfloat16 || to.type != DataType::kFloat || from.sizes != to.sizes) return std::nullopt;
  if (planner.constant(node->inputs[0])) return std::nullopt;
  const Definition& definition = planner.define(*node);
  if (!definition.has_denotation()) return std::nullopt;
  Element e = definition.outputs()[0].element;
  while (e->kind == Kind::kConvert) e = e->arguments[0];
  if (e->kind != Kind::kRead || !at_result_position(*e, definition.outputs()[0].position, to.sizes)) return std::nullopt;
  return node->inputs[0];
}

// Each piece computes some rows.
class RowsKernel final : public Kernel {
 public:
  struct Piece {
    std::int64_t first;
    std::unique_ptr<Kernel> kernel;
  };
  RowsKernel(std::vector<Piece> pieces, const Matrices& m, int threads) : pieces_(std::move(pieces)), m_(m), threads_(threads) {
    for (const Piece& p : pieces_) bytes_ = std::max(bytes_, (p.kernel->scratch_bytes() + 63) / 64 * 64);
  }
  std::size_t scratch_bytes() const override { return bytes_ * static_cast<std::size_t>(threads_); }
  std::string source() const override { return pieces_.front().kernel->source(); }
  void run(const Call& call) const override {
    call.workers.share(static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t n, int thread) {
      const Workers alone(1);
      const Piece& piece = pieces_[static_cast<std::size_t>(n)];
      std::array<const std::byte*, kMostInputs> inputs{};
      for (std::size_t i = 0; i < call.inputs.size(); ++i)  // inputs after the first have the result's sizes
        inputs[i] = call.inputs[i] + piece.first * (i == 0 ? m_.k * static_cast<std::int64_t>(kBytes) : 4 * m_.n);
      std::byte* const output = call.outputs[0] + piece.first * m_.n * 4;
      piece.kernel->run(
          {{inputs.data(), call.inputs.size()}, {&output, 1}, call.scratch + static_cast<std::size_t>(thread) * bytes_, alone});
    });
  }
  static constexpr std::size_t kMostInputs = 4;

 private:
  std::vector<Piece> pieces_;
  Matrices m_;
  int threads_;
  std::size_t bytes_ = 0;
};

class Bfloat16Plan final : public NodePlan {
 public:
  Bfloat16Plan(const Node& node, const Matrices& matrices, ValueId x, std::size_t rank)
      : node_(node), m_(matrices), x_(x), epilogue_(rank - 1, [](const Eltwise& e) { return !only_in_loops_of_ours(e); }) {}

  std::vector<ValueId> computed_ahead() const override { return {node_.inputs[0]}; }

  // Absorbs everything except factors, which would change the weights' type.
  bool absorb(Planner& planner, const Chain& chain) override {
    Epilogue longer = epilogue_;
    if (!longer.absorb(planner, chain) || longer.additions().size() + 2 > RowsKernel::kMostInputs) return false;
    if (longer.affine() &&
        std::any_of(longer.affine()->scale.begin(), longer.affine()->scale.end(), [](double s) { return s != 1; }))
      return false;
    epilogue_ = std::move(longer);
    return true;
  }

  void emit(Planner& planner, ValueId result) override {
    const int threads = planner.options().threads;
    const double nanoseconds = static_cast<double>(m_.rows * m_.k * m_.n) / kMultiplications;
    const std::int64_t count = piece_count(threads, nanoseconds, m_.rows, planner.options().piece_nanoseconds);
    const bool bias = planner.has(node_, 2) || epilogue_.affine();
    const auto floats = memory::data_type::f32;
    std::vector<int> inputs{planner.storage(x_, kPlain)};
    for (const ValueId v : epilogue_.additions()) inputs.push_back(planner.storage(v, kPlain));
    const auto describe = [&](std::int64_t rows, const memory::desc& weights) {
      const memory::desc y({rows, m_.n}, floats, memory::format_tag::ab);
      dnnl::primitive_attr attributes = user_scratchpad();
      attributes.set_post_ops(epilogue_.post_ops(std::vector<memory::desc>(epilogue_.additions().size(), y)));
      return dnnl::matmul::primitive_desc(
          dnnl_engine(), memory::desc({rows, m_.k}, memory::data_type::bf16, memory::format_tag::ab), weights,
          bias ? memory::desc({1, m_.n}, floats, memory::format_tag::ab) : memory::desc(), y, attributes);
    };
    // The packing that the pieces with the most rows prefer is used for all.
    const std::int64_t most = (m_.rows + count - 1) / count;
    const memory::desc any({m_.k, m_.n}, memory::data_type::bf16, memory::format_tag::any);
    const memory::desc wanted = describe(most, any).weights_desc();
    const memory::desc given({m_.k, m_.n}, memory::data_type::bf16,
                             m_.transposed ? memory::format_tag::ba : memory::format_tag::ab);
    std::vector<DnnlKernel::Owned> owned{packed(planner, ConstantOrigin(planner.constant(node_.inputs[1])).add(m_.transposed),
                                                DNNL_ARG_WEIGHTS, given, wanted, [&] { return weights(planner); })};
    if (bias) {
      const memory::desc b({1, m_.n}, floats, memory::format_tag::ab);
      owned.push_back(constant_argument(DNNL_ARG_BIAS, b, this->bias(planner)));
    }
    const std::vector<int> numbers = epilogue_.argument_numbers();
    std::vector<RowsKernel::Piece> pieces;
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t first = first_unit(m_.rows, p, count), rows = first_unit(m_.rows, p + 1, count) - first;
      const auto d = describe(rows, wanted);
      std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, d.src_desc(), 0, -1}, {DNNL_ARG_DST, d.dst_desc(), -1, 0}};
      for (std::size_t n = 0; n < numbers.size(); ++n)
        arguments.push_back({numbers[n], d.dst_desc(), static_cast<int>(n) + 1, -1});
      pieces.push_back(
          {first, std::make_unique<DnnlKernel>(dnnl::matmul(d), d.scratchpad_desc(), std::move(arguments), owned)});
    }
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<RowsKernel>(std::move(pieces), m_, threads), std::move(inputs), {target});
  }

 private:
  Tensor weights(const Planner& planner) const {
    const Tensor& given = planner.constant(node_.inputs[1]);
    Tensor result(DataType::kUint8, {given.size() * static_cast<std::int64_t>(kBytes)});
    auto* to = reinterpret_cast<std::uint16_t*>(result.mutable_bytes().data());
    for (const float v : given.data<float>()) *to++ = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16);
    return result;
  }
  Tensor bias(const Planner& planner) const {
    Tensor result(DataType::kFloat, {m_.n});
    const auto to = result.mutable_data<float>();
    for (std::size_t c = 0; c < to.size(); ++c) {
      double b = 0;
      if (planner.has(node_, 2)) {
        const auto given = planner.constant(node_.inputs[2]).data<float>();
        b = given[given.size() == 1 ? 0 : c];
      }
      to[c] = static_cast<float>(epilogue_.affine() ? b + epilogue_.affine()->shift[c] : b);
    }
    return result;
  }

  const Node& node_;
  Matrices m_;
  ValueId x_;
  Epilogue epilogue_;
};

}  // namespace

// Is this product faster with a bfloat16 operand, although the rest of the graph is computed in float?
bool reads_bfloat16(const Graph& graph, const Node& node, Isa isa) {
  if (!has_instructions(isa)) return false;
  const Tensor& w = graph.value(node.inputs[1]).constant;
  const Value& x = graph.value(node.inputs[0]);
  return w && w.type() == DataType::kBfloat16 && w.sizes().size() == 2 && !x.constant && x.type.type == DataType::kBfloat16 &&
         w.size() >= kLeastWeights;
}

// Not supported unless the first operand is a bfloat16 tensor converted to float, and the weights are bfloat16 numbers.
std::unique_ptr<NodePlan> plan_bfloat16_product(Planner& planner, const Node& node) {
  const auto x = widened_operand(planner, node.inputs[0]);  // most nodes have none
  if (!x || !has_instructions(planner.options().isa)) return nullptr;
  const Tensor& w = planner.constant(node.inputs[1]);
  const auto m = w ? read_matrices(node, planner.info(*x).sizes, w.sizes()) : std::nullopt;
  if (!m) return nullptr;
  const auto numbers = w.data<float>();
  if (!std::all_of(numbers.begin(), numbers.end(), is_bfloat16)) return nullptr;
  if (planner.has(node, 2)) {
    const Tensor& c = planner.constant(node.inputs[2]);
    if (!c || (c.size() != 1 && (c.size() != m->n || c.sizes().back() != m->n))) return nullptr;
  }
  return std::make_unique<Bfloat16Plan>(node, *m, *x, planner.info(node.outputs[0]).sizes.size());
}

}  // namespace rewright::cpu
