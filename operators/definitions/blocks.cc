// Blocks of channels and blocks of positions.
#include "operators/definitions/families.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

// Blocks of channels become blocks of positions. "DCR": the block's number is the slow part of the channel; "CRD": the fast.
struct DepthToSpace {
  static constexpr std::string_view kName = "DepthToSpace";
  Index blocksize = 1;
  std::string mode = "DCR";

  template <class V>
  void fields(V&& v) {
    v("blocksize", blocksize), v("mode", mode);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.require_rank(x, 4, "input");
    d.require(less_equal(1, blocksize), [&] { return "blocksize " + blocksize.to_string() + " is not positive"; });
    d.require(mode == "DCR" || mode == "CRD", [&] { return "mode is '" + mode + "'"; });
    const Index b = blocksize, block = b * b, channels = floor_div(x.size(1), block);
    d.require(equal(channels * block, x.size(1)),
              [&] { return "input has " + x.size(1).to_string() + " channels, not a multiple of " + block.to_string(); });
    d.output(x.type(), {x.size(0), channels, x.size(2) * b, x.size(3) * b}, [=, crd = mode == "CRD"](const Indices& i) {
      const Index within = mod(i[2], b) * b + mod(i[3], b);
      return x({i[0], crd ? i[1] * block + within : within * channels + i[1], floor_div(i[2], b), floor_div(i[3], b)});
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const DepthToSpace op = from_attributes<DepthToSpace>(attributes);
      OnnxSink::NamedAttributes named{{"blocksize", op.blocksize}};
      if (op.mode != "DCR") {
        if (sink.opset() < 11) return false;
        named.emplace_back("mode", op.mode);
      }
      sink.node("DepthToSpace", std::move(named), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return {call.graph.add("SpaceToDepth", {call.output_gradients[0]}, {{"blocksize", blocksize}, {"mode", mode}})};
  }
};

// The inverse of DepthToSpace.
struct SpaceToDepth {
  static constexpr std::string_view kName = "SpaceToDepth";
  Index blocksize = 1;
  std::string mode = "DCR";

  template <class V>
  void fields(V&& v) {
    v("blocksize", blocksize), v("mode", mode);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.require_rank(x, 4, "input");
    d.require(less_equal(1, blocksize), [&] { return "blocksize " + blocksize.to_string() + " is not positive"; });
    d.require(mode == "DCR" || mode == "CRD", [&] { return "mode is '" + mode + "'"; });
    const Index b = blocksize, block = b * b, channels = x.size(1);
    for (const std::size_t a : {2, 3})
      d.require(equal(mod(x.size(a), b), 0), [&] {
        return "axis " + std::to_string(a) + " has size " + x.size(a).to_string() + ", not a multiple of " + b.to_string();
      });
    d.require(less_equal(1, channels), [] { return std::string("input has no channels"); });
    const Indices shape{x.size(0), channels * block, floor_div(x.size(2), b), floor_div(x.size(3), b)};
    d.output(x.type(), shape, [=, crd = mode == "CRD"](const Indices& i) {
      const Index within = crd ? mod(i[1], block) : floor_div(i[1], channels);
      const Index channel = crd ? floor_div(i[1], block) : mod(i[1], channels);
      return x({i[0], channel, i[2] * b + floor_div(within, b), i[3] * b + mod(within, b)});
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const SpaceToDepth op = from_attributes<SpaceToDepth>(attributes);
      OnnxSink::NamedAttributes named{{"blocksize", op.blocksize}};
      if (op.mode != "DCR") {
        if (sink.opset() < 28) return false;
        named.emplace_back("mode", op.mode);
      }
      sink.node("SpaceToDepth", std::move(named), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return {call.graph.add("DepthToSpace", {call.output_gradients[0]}, {{"blocksize", blocksize}, {"mode", mode}})};
  }
};

}  // namespace

void register_blocks(Registry& r) {
  r.add<DepthToSpace>();
  r.add<SpaceToDepth>();
}

}  // namespace rewright::operators
