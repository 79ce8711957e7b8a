// Operators that return sizes of their input.
#include <algorithm>
#include <limits>

#include "operators/definitions/families.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

// The sizes of x, from axis `start` to before axis `end`.
struct Shape {
  static constexpr std::string_view kName = "Shape";
  static constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  Index start = 0, end = kLast;

  template <class V>
  void fields(V&& v) {
    v("start", start), v("end", end);
  }
  void normalize(const Inputs& in) {
    const auto rank = static_cast<std::int64_t>(in[0].rank());
    const auto clamped = [&](const Index& axis) {
      return std::clamp<std::int64_t>(axis.value() < 0 ? axis.value() + rank : axis.value(), 0, rank);
    };
    start = clamped(start);
    end = std::max(clamped(end), start.value());
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    Shape canonical = *this;
    canonical.normalize(in);
    const Indices& shape = in[0].shape();
    const Indices part(shape.begin() + canonical.start.value(), shape.begin() + canonical.end.value());
    d.output(DataType::kInt64, {Index(part.size())}, [=](const Indices& i) { return pick(i[0], part); });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Shape op = from_attributes<Shape>(attributes);
      OnnxSink::NamedAttributes named;
      if (!(op.start == Index(0)) || !(op.end == Index(sink.type_of(inputs[0]).rank()))) {
        if (sink.opset() < 15) return false;
        named = {{"start", op.start}, {"end", op.end}};
      }
      sink.node("Shape", std::move(named), inputs, outputs);
      return true;
    };
  }
};

struct Size {
  static constexpr std::string_view kName = "Size";
  Definition define(const Inputs& in) const {
    Definition d(in);
    d.output(DataType::kInt64, {}, [count = product(in[0].shape())](const Indices&) { return from_index(count); });
    return d;
  }
};

}  // namespace

void register_shape(Registry& r) {
  r.add<Shape>();
  r.add<Size>();
}

}  // namespace rewright::operators
