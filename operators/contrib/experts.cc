// Mixtures of experts: MoE, and QMoE with weights of few bits.
//
//   y[r] = sum(e) share[r, e] * (second[e] * f(first[e] * x[r] + bias1[e]) + bias2[e])
//
// The k experts with the largest scores have a share in a row, all others none. The graph multiplies with all of them; which
// products are not needed is for a kernel to find out.
#include <cmath>
#include <limits>

#include "operators/contrib/packed_weights.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

// Numbers of a layer's inputs; 0: it has none.
struct LayerInputs {
  std::size_t weights, scales, bias, zeros;
};

class Mixture {
 public:
  Mixture(ContribNode& node, bool quantized) : n_(node), b_(node.b), quantized_(quantized), f_(node.b, node.type(0)) {
    const Indices shape = n_.shape(0);
    n_.require(shape.size() == 2 || shape.size() == 3,
               "its input has rank " + std::to_string(shape.size()) + ", must be 2 or 3");
    n_.require_rank(1, 2);
    rows_ = shape.size() == 2 ? shape[0] : shape[0] * shape[1];
    width_ = known(shape.back(), "the number of its input's columns");
    experts_ = known(n_.shape(1)[1], "the number of its experts");
    chosen_ = n_.source.integer("k", 1);
    n_.require(chosen_ >= 1 && chosen_ <= experts_,
               "k is " + std::to_string(chosen_) + ", there are " + std::to_string(experts_) + " experts");
    n_.require_equal(n_.shape(1)[0], rows_, "the number of scores' rows");
  }

  // Empty: it is known. Else why not.
  std::string reason() const {
    if (n_.source.integer("use_sparse_mixer", 0) != 0) return "its router is a sparse mixer";
    if (n_.source.integer("weights_prepacked", 0) == 1) return "its weights are packed for a device";
    if (quantized_ && n_.source.text("quant_type", "int") != "int") return "its weights are no integers";
    const std::string name = n_.source.text("activation_type", "relu");
    for (const char* known : {"relu", "gelu", "silu", "identity", "swiglu"})
      if (name == known) return {};
    return "activation " + name + " is not known";
  }

  Results run() {
    const bool gated = n_.source.text("activation_type", "relu") == "swiglu";
    const std::int64_t fusion = gated ? n_.source.integer("swiglu_fusion", 0) : 0;
    n_.require(fusion >= 0 && fusion <= 2, "swiglu_fusion is " + std::to_string(fusion) + ", must be 0, 1 or 2");
    const LayerInputs first = quantized_ ? LayerInputs{2, 3, 4, 11} : LayerInputs{2, 0, 3, 0};
    const LayerInputs second = quantized_ ? LayerInputs{5, 6, 7, 12} : LayerInputs{4, 0, 5, 0};
    const LayerInputs gate = quantized_ ? LayerInputs{8, 9, 10, 13} : LayerInputs{6, 0, 7, 0};
    const std::int64_t inner = inner_width(second);
    const ValueId x = b_.reshaped(n_.input(0), {rows_, width_});
    ValueId h = layer(first, 1, x, width_, inner * (fusion > 0 ? 2 : 1));
    if (fusion > 0) {
      const auto [left, right] = halves(h, inner, fusion == 1);
      h = gated_by(left, right);
    } else if (n_.has(gate.weights)) {
      const ValueId factor = layer(gate, 3, x, width_, inner);
      h = gated ? gated_by(h, factor) : f_.times(activated(h), factor);
    } else {
      n_.require(!gated, "swiglu needs a third layer, or swiglu_fusion");
      h = activated(h);
    }
    return n_.results({b_.reshaped(mixed(layer(second, 2, h, inner, width_)), n_.shape(0))});
  }

 private:
  static std::int64_t known(const Index& size, const char* what) {
    ContribNode::require(size.is_constant() && size.value() > 0,
                         std::string(what) + " is " + size.to_string() + ", must be known");
    return size.value();
  }

  // Bits of a weight of layer 1 to 3.
  std::int64_t bits(int number) const {
    if (!quantized_) return 8;
    const std::int64_t all = n_.source.integer("expert_weight_bits", 4);
    const std::int64_t bits = n_.source.integer("fc" + std::to_string(number) + "_expert_weight_bits", all);
    n_.require(bits == 2 || bits == 4 || bits == 8, "its weights have " + std::to_string(bits) + " bits, must be 2, 4 or 8");
    return bits;
  }

  // The number of hidden values, from the sizes of the second layer's weights.
  std::int64_t inner_width(const LayerInputs& second) const {
    n_.require_rank(second.weights, 3);
    const Indices shape = n_.shape(second.weights);
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const std::int64_t a = known(shape[1], "a size of its weights"), c = known(shape[2], "a size of its weights");
    n_.require(a < kMost && c < kMost / 8, "its weights are too large");
    const std::int64_t count = a * c * (quantized_ ? 8 / bits(2) : 1);
    n_.require(count % width_ == 0, "its second weights do not have whole columns");
    return count / width_;
  }

  // x W' + bias for all experts: [experts, rows, to].
  ValueId layer(const LayerInputs& in, int number, ValueId x, std::int64_t from, std::int64_t to) {
    ValueId y = b_.add("MatMul", {x, n_.swapped(weights(in, number, from, to), 1, 2)});
    if (n_.has(in.bias)) y = f_.sum(y, b_.reshaped(sized(in.bias, {experts_, to}, "bias"), {experts_, 1, to}));
    return y;
  }

  ValueId sized(std::size_t i, const Indices& sizes, const char* what) const {
    n_.require(n_.shape(i) == sizes, std::string("its ") + what + " has other sizes than the layer");
    return n_.input(i);
  }

  // [experts, to, from]
  ValueId weights(const LayerInputs& in, int number, std::int64_t from, std::int64_t to) {
    const std::int64_t bits = this->bits(number);
    n_.require_rank(in.weights, 3);
    n_.require(from * bits % 8 == 0, "a row of its weights does not fill its bytes");
    const Indices packed{experts_, to, from * bits / 8}, given = n_.shape(in.weights);
    // Older models declare the transposed sizes for the same order of elements.
    const Indices other{experts_, from, to * bits / 8};
    n_.require(given == packed || given == other, "its weights have other sizes than the layer");
    const ValueId q = b_.reshaped(n_.input(in.weights), packed);
    if (!quantized_) return q;
    n_.require(n_.type(in.weights) == DataType::kUint8, "its weights must consist of bytes");
    const DataType type = n_.type(0);
    const std::int64_t block = n_.source.integer("block_size", 0);
    if (block != 0) require_block_size(block);
    const std::int64_t blocks = block == 0 ? 1 : (from + block - 1) / block;
    const Indices by_block{experts_, to, blocks};
    const ValueId scales = block == 0 && n_.shape(in.scales).size() == 2
                               ? b_.reshaped(sized(in.scales, {experts_, to}, "scales"), by_block)
                               : sized(in.scales, by_block, "scales");
    ValueId zeros = b_.scalar(type, std::ldexp(1, static_cast<int>(bits - 1)));
    if (n_.has(in.zeros)) zeros = b_.cast(zero_points(in.zeros, bits, to, block == 0 ? 0 : blocks), type);
    return scaled(b_.cast(unpacked(n_, q, bits), type), zeros, b_.cast(scales, type), from, to, block);
  }

  // [experts, to, blocks]; without blocks those of a column lie behind each other.
  ValueId zero_points(std::size_t i, std::int64_t bits, std::int64_t to, std::int64_t blocks) {
    const std::int64_t count = blocks == 0 ? to : blocks, bytes = (count * bits + 7) / 8;
    n_.require(n_.type(i) == DataType::kUint8, "its zero points must consist of bytes");
    const Indices sizes = blocks == 0 ? Indices{experts_, bytes} : Indices{experts_, to, bytes};
    const ValueId all = unpacked(n_, sized(i, sizes, "zero points"), bits);
    return b_.reshaped(n_.entries(all, sizes.size() - 1, 0, count), {experts_, to, blocks == 0 ? 1 : blocks});
  }

  // (q - zeros) * scales, with one of both for each block of a row.
  ValueId scaled(ValueId q, ValueId zeros, ValueId scales, std::int64_t from, std::int64_t to, std::int64_t block) {
    const Indices whole{experts_, to, from};
    if (block != 0 && from % block == 0) {
      const auto by_block = [&](ValueId v) {
        return b_.shape_of(v).empty() ? v : b_.reshaped(v, {experts_, to, from / block, 1});
      };
      const ValueId blocks = b_.reshaped(q, {experts_, to, from / block, block});
      return b_.reshaped(f_.times(f_.difference(blocks, by_block(zeros)), by_block(scales)), whole);
    }
    const auto spread = [&](ValueId v) {
      if (block == 0 || b_.shape_of(v).empty()) return v;
      const ValueId places = b_.add("Div", {n_.range(from), b_.scalar(DataType::kInt64, static_cast<double>(block))});
      return b_.add("Gather", {v, places}, {{"axis", Index(2)}});
    };
    return f_.times(f_.difference(q, spread(zeros)), spread(scales));
  }

  ValueId activated(ValueId h) {
    const std::string name = n_.source.text("activation_type", "relu");
    if (name == "relu") return b_.add("Relu", {h});
    if (name == "gelu") return b_.add("Gelu", {h}, {{"approximate", std::string("tanh")}});
    if (name == "silu") return b_.add("Swish", {h}, {{"alpha", Real(1)}});
    return h;
  }

  // Columns that take turns, or one half behind the other.
  std::pair<ValueId, ValueId> halves(ValueId h, std::int64_t inner, bool take_turns) {
    if (!take_turns) return {n_.entries(h, 2, 0, inner), n_.entries(h, 2, inner, inner)};
    const ValueId pairs = b_.reshaped(h, {experts_, rows_, inner, 2});
    const auto half = [&](std::int64_t i) { return b_.reshaped(n_.entries(pairs, 3, i, 1), {experts_, rows_, inner}); };
    return {half(0), half(1)};
  }

  // g sigmoid(alpha g) (v + beta), g = min(gate, limit), v = value within -limit .. limit.
  ValueId gated_by(ValueId gate, ValueId value) {
    const double limit = n_.source.real("swiglu_limit", std::numeric_limits<double>::infinity());
    if (limit < std::numeric_limits<float>::max()) {
      gate = b_.add("Min", {gate, f_.number(limit)});
      value = f_.clamped(value, -limit, limit);
    }
    const ValueId open = b_.add("Swish", {gate}, {{"alpha", Real(n_.source.real("activation_alpha", 1))}});
    return f_.times(open, f_.plus(value, n_.source.real("activation_beta", 0)));
  }

  // Whether expert e is among the k with the largest scores of row r: [rows, experts].
  ValueId selected(ValueId scores) {
    const Operator& op = registry().get("TopK");
    Attributes attributes = op.defaults();
    attributes.at(op.field("k").value()) = Index(chosen_);
    const ValueId places = b_.node(op, std::move(attributes), {scores}).at(1);
    const ValueId equal = b_.add("Equal", {b_.reshaped(places, {rows_, chosen_, 1}), n_.range(experts_)});
    const ValueId count = b_.summed(b_.cast(equal, DataType::kInt64), {Index(1)});
    return b_.add("Less", {b_.scalar(DataType::kInt64, 0), count});
  }

  // The sum of the experts' results by their shares.
  ValueId mixed(ValueId y) {
    const DataType type = n_.type(0);
    const ValueId scores = b_.reshaped(n_.input(1), {rows_, experts_}), chosen = selected(scores), none = f_.number(0);
    const bool given = quantized_ && n_.has(14);
    const ValueId weight = given ? sized(14, n_.shape(1), "router_weights") : b_.add("Softmax", {scores}, {{"axis", Index(1)}});
    ValueId share = f_.where(chosen, b_.cast(weight, type), none);
    // Quantized mixtures take the softmax of the chosen ones' scores, in any case.
    if ((quantized_ && !given) || n_.source.integer("normalize_routing_weights", 0) != 0) {
      const ValueId sum = b_.add("ReduceSum", {share}, {{"axes", Indices{1}}, {"keepdims", true}});
      share = f_.quotient(share, sum);
    }
    const auto by_expert = [&](ValueId v) { return b_.reshaped(n_.swapped(v, 0, 1), {experts_, rows_, 1}); };
    return b_.summed(f_.where(by_expert(chosen), f_.times(y, by_expert(share)), none), {Index(0)});
  }

  ContribNode& n_;
  SourceBuilder& b_;
  const bool quantized_;
  Formulas f_;
  Index rows_;
  std::int64_t width_ = 0, experts_ = 0, chosen_ = 0;
};

ContribGraph mixture(bool quantized) {
  return [quantized](ContribNode& n, std::string& reason) -> Results {
    Mixture m(n, quantized);
    reason = m.reason();
    return reason.empty() ? m.run() : std::nullopt;
  };
}

}  // namespace

void register_contrib_experts(ContribOperators& c) {
  c.add("MoE", mixture(false));
  c.add("QMoE", mixture(true));
}

}  // namespace rewright::operators
