#include "tests/kernel_sweep/operator_cases.h"

namespace rewright::testing {

namespace {

// Parameters that vary along one axis, or a single number, known or not.
ValueId along_axis(CaseBuilder& b, const Sizes& sizes, std::size_t axis, double low, double high) {
  Sizes parameter;
  if (b.chance(0.8)) {
    parameter.assign(sizes.size() - axis, 1);
    parameter[0] = sizes[axis];
  }
  return b.chance(0.3) ? b.input(parameter, low, high) : b.constant(parameter, low, high);
}

ValueId of_type(CaseBuilder& b, DataType type, const Sizes& sizes) {
  if (!is_real(type))
    return b.input(b.integers(type, sizes, type == DataType::kBool ? 0 : -9, type == DataType::kBool ? 1 : 9));
  std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
  for (double& e : elements) e = std::uniform_real_distribution<double>(-2, 2)(b.random);
  return b.input(Tensor::from_reals(type, sizes, elements));
}

}  // namespace

ValueId linear_function(CaseBuilder& b) {
  const Sizes s = b.some_sizes(1, 4);
  const auto axis = static_cast<std::size_t>(b.pick(0, std::ssize(s) - 1));
  ValueId y = b.input(s);
  switch (b.pick(0, 4)) {
    case 0:
      y = b.op("HardSigmoid", {y}, {{"alpha", Real(0.3)}, {"beta", Real(0.4)}});
      break;
    case 1:
      return b.op("LeakyRelu", {y}, {{"alpha", Real(b.chance(0.5) ? 0.01 : -0.3)}});
    case 2:
      return b.op("PRelu", {y, along_axis(b, s, axis, -0.5, 1.5)});
    case 3:
      if (s.size() > 1) {
        const Sizes c{s[1]};
        y = b.op("BatchNormalization", {y, b.constant(c, 0.5, 1.5), b.constant(c), b.constant(c), b.constant(c, 0.5, 2)});
        break;
      }
      [[fallthrough]];
    default:
      for (std::int64_t n = b.pick(1, 4); n > 0; --n) {
        static constexpr const char* kLinear[] = {"Add", "Sub", "Mul", "Div"};
        y = b.op(kLinear[b.pick(0, 3)], {y, along_axis(b, s, axis, 0.5, 1.5)});
      }
  }
  if (b.chance(0.3)) y = b.op("Relu", {y});
  if (b.chance(0.3)) y = b.op("Clip", {y, b.number(-0.25), b.number(b.chance(0.8) ? 0.75 : -0.5)});
  return y;
}

ValueId integer_product(CaseBuilder& b) {
  const auto r = b.matrices();
  const DataType a_type = b.byte_type(), b_type = b.byte_type(), y_type = b.byte_type();
  Sizes left = r.batch, right;
  left.insert(left.end(), {r.m, r.k});
  const double matrices = static_cast<double>(element_count(r.batch));
  if (b.chance(0.5) && matrices * static_cast<double>(r.k * r.n) <= b.limit.elements) right = r.batch;
  if (right.size() > 1 && b.chance(0.5)) (b.chance(0.5) ? left : right)[0] = 1;  // repeated for the other's matrices
  right.insert(right.end(), {r.k, r.n});
  const auto entries = [&](std::int64_t count) { return b.chance(0.5) ? Sizes{count} : b.chance(0.5) ? Sizes{} : Sizes{1}; };
  const auto parameter = [&](Tensor t) { return b.chance(0.5) ? b.input(std::move(t)) : b.graph.add_constant(std::move(t)); };
  const ValueId x = b.input(b.bytes(a_type, left)), w = parameter(b.bytes(b_type, right));
  if (b.chance(0.15)) return b.op("MatMulInteger", {x, w});
  const ValueId a_zero = parameter(b.bytes(a_type, entries(r.m))), b_zero = parameter(b.bytes(b_type, entries(r.n)));
  if (b.chance(0.4)) return b.op("MatMulInteger", {x, w, a_zero, b_zero});
  const double root = std::sqrt(static_cast<double>(r.k));
  const ValueId b_scale = parameter(b.tensor(entries(r.n), 0.01, 0.1));
  return b.op("QLinearMatMul", {x, parameter(b.tensor({}, 0.01, 0.1)), a_zero, w, b_scale, b_zero,
                                parameter(b.tensor({}, 0.1 * root, root)), parameter(b.bytes(y_type, {}))});
}

ValueId placed_columns(CaseBuilder& b) {
  for (;;) {
    const auto axes = static_cast<std::size_t>(b.pick(1, 3));
    Sizes x{b.pick(1, 4), 1}, w{1, 1};
    Indices strides, dilations, begin, end, more;
    for (std::size_t a = 0; a < axes; ++a) {
      const std::int64_t kernel = b.pick(1, axes == 1 ? 12 : 4), stride = b.pick(1, 4),
                         dilation = b.chance(0.7) ? 1 : b.pick(2, 3);
      const std::int64_t windows = b.log_pick(1, axes == 1 ? 900 : axes == 2 ? 60 : 12);
      const std::int64_t extent = dilation * (kernel - 1) + 1 + stride * (windows - 1);
      x.push_back(windows);
      w.push_back(kernel);
      x[1] *= kernel;
      strides.emplace_back(stride);
      dilations.emplace_back(dilation);
      begin.emplace_back(b.pick(0, std::min<std::int64_t>(kernel, extent - 1)));
      end.emplace_back(b.pick(0, std::min<std::int64_t>(kernel, extent - 1 - begin.back().value())));
      more.emplace_back(b.pick(0, stride - 1));
    }
    if (static_cast<double>(element_count(x)) > b.limit.elements) continue;
    w[0] = x[1];
    std::vector<double> own(static_cast<std::size_t>(w[0] * w[0]));
    for (std::int64_t t = 0; t < w[0]; ++t) own[static_cast<std::size_t>(t * w[0] + t)] = 1;
    const ValueId weight = b.graph.add_constant(Tensor::from_reals(DataType::kFloat, w, own));
    return b.op(
        "ConvTranspose", {b.input(x), weight},
        {{"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"output_padding", more}});
  }
}

ValueId repeated_elements(CaseBuilder& b) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf,  DataType::kBool,  DataType::kInt8,
                                        DataType::kInt32, DataType::kInt64, DataType::kDouble};
  for (;;) {
    Sizes s;
    Indices repeats, shape;
    double tiled = 1, expanded = 1;
    for (std::int64_t a = b.pick(1, 4); a > 0; --a) {
      s.push_back(b.chance(0.4) ? 1 : b.log_pick(1, 300));
      repeats.emplace_back(b.chance(0.5) ? 1 : b.log_pick(1, 40));
      shape.emplace_back(s.back() == 1 ? b.log_pick(1, 300) : s.back());
      tiled *= static_cast<double>(s.back() * repeats.back().value());
      expanded *= static_cast<double>(shape.back().value());
    }
    if (b.chance(0.5)) shape.emplace(shape.begin(), b.pick(1, 9));
    if (std::max(tiled, 9 * expanded) > b.limit.elements) continue;
    const DataType type = kTypes[b.pick(0, std::ssize(kTypes) - 1)];
    ValueId x = of_type(b, type, s);
    if (type == DataType::kFloat && b.chance(0.4)) x = b.op("Exp", {x});  // what is repeated is not in memory
    return b.chance(0.5) ? b.op("Tile", {x}, {{"repeats", repeats}}) : b.op("Expand", {x}, {{"shape", shape}});
  }
}

ValueId scattered(CaseBuilder& b) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt32, DataType::kInt64};
  static constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};
  const DataType type = kTypes[b.pick(0, 2)];
  const Sizes s = b.some_sizes(1, 3);
  const auto axis = static_cast<std::size_t>(b.pick(0, std::ssize(s) - 1));
  // Without a reduction the results of equal places would differ: each place is used once.
  std::vector<std::int64_t> places(static_cast<std::size_t>(s[axis]));
  for (std::size_t n = 0; n < places.size(); ++n) places[n] = static_cast<std::int64_t>(n);
  std::shuffle(places.begin(), places.end(), b.random);
  places.resize(static_cast<std::size_t>(b.pick(1, s[axis])));
  const std::string reduction = kReductions[b.pick(0, std::ssize(kReductions) - 1)];
  const auto count = static_cast<std::int64_t>(places.size());
  if (reduction != "none")
    for (auto& place : places) place = b.pick(-s[axis], s[axis] - 1);
  const ValueId data = of_type(b, type, s);
  Sizes updates = s;
  updates[axis] = count;
  if (axis == 0 && b.chance(0.5)) {
    const ValueId rows = b.input(Tensor::from_integers(DataType::kInt64, {count, 1}, places));
    return b.op("ScatterND", {data, rows, of_type(b, type, updates)}, {{"reduction", reduction}});
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(element_count(updates)));
  const std::int64_t inner = element_count(std::span(s).subspan(axis + 1));
  for (std::size_t n = 0; n < all.size(); ++n)
    all[n] = places[static_cast<std::size_t>(static_cast<std::int64_t>(n) / inner % count)];
  const ValueId indices = b.input(Tensor::from_integers(DataType::kInt64, updates, all));
  return b.op("ScatterElements", {data, indices, of_type(b, type, updates)},
              {{"axis", Index(static_cast<std::int64_t>(axis))}, {"reduction", reduction}});
}

ValueId with_statistics(CaseBuilder& b) {
  const Sizes s = b.some_sizes(1, 4);
  if (b.chance(0.2)) {
    const auto outputs = node(b.graph, "DynamicQuantizeLinear", {b.input(s)});
    for (std::size_t o = 1; o < outputs.size(); ++o) b.graph.add_output("more" + std::to_string(o), outputs[o]);
    return outputs[0];
  }
  if (b.chance(0.2))
    return b.op("LpNormalization", {b.input(s)}, {{"axis", Index(std::ssize(s) - 1)}, {"p", Index(b.pick(1, 2))}});
  const std::int64_t axis = b.pick(0, std::ssize(s) - 1);
  const Sizes row(s.begin() + axis, s.end());
  std::vector<ValueId> operands{b.input(s), b.constant(row, 0.5, 1.5)};
  if (b.chance(0.3)) return b.op("RMSNormalization", operands, {{"axis", Index(axis)}});
  if (b.chance(0.5)) operands.push_back(b.constant(row));
  const auto outputs = node(b.graph, "LayerNormalization", operands, {{"axis", Index(axis)}});
  for (std::size_t o = 1; o < outputs.size(); ++o)
    if (b.chance(0.5)) b.graph.add_output("statistics" + std::to_string(o), outputs[o]);
  return outputs[0];
}

ValueId written_out(CaseBuilder& b) {
  const Sizes s = b.some_sizes(2, 4);
  const std::int64_t axis = b.chance(0.7) ? std::ssize(s) - 1 : b.pick(0, std::ssize(s) - 1);
  const auto reduced = [&](const char* op, ValueId of) { return b.op(op, {of}, {{"axes", Indices{Index(axis)}}}); };
  const ValueId x = b.input(s);
  if (b.chance(0.5)) {
    const ValueId e = b.op("Exp", {b.op("Sub", {x, reduced("ReduceMax", x)})});
    if (b.chance(0.2)) b.graph.add_output("e", e);
    return b.op("Div", {e, reduced("ReduceSum", e)});
  }
  const ValueId centred = b.op("Sub", {x, reduced("ReduceMean", x)});
  const ValueId variance = reduced("ReduceMean", b.op("Mul", {centred, centred}));
  const ValueId y = b.op("Div", {centred, b.op("Sqrt", {b.op("Add", {variance, b.constant({1}, 0.01, 0.1)})})});
  return b.chance(0.5) ? b.op("Mul", {y, b.constant({s.back()}, 0.5, 1.5)}) : y;
}

ValueId best_elements(CaseBuilder& b) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf,  DataType::kInt8,  DataType::kUint8,
                                        DataType::kInt32, DataType::kInt64, DataType::kDouble};
  const Sizes s = b.some_sizes(1, 3);
  const std::int64_t axis = b.chance(0.7) ? std::ssize(s) - 1 : b.pick(0, std::ssize(s) - 1);
  const std::int64_t size = s[static_cast<std::size_t>(axis)];
  const DataType type = kTypes[b.pick(0, std::ssize(kTypes) - 1)];
  const ValueId x = type == DataType::kUint8 ? b.input(b.integers(type, s, 0, 255)) : of_type(b, type, s);
  const std::int64_t k = b.chance(0.8) ? std::min(size, b.log_pick(1, 300)) : b.pick(0, size);
  const auto found = node(b.graph, "TopK", {x}, {{"axis", Index(axis)}, {"k", Index(k)}, {"largest", Index(b.pick(0, 1))}});
  b.graph.add_output("positions", found[1]);
  return found[0];
}

ValueId running_totals(CaseBuilder& b) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64};
  const Sizes s = b.some_sizes(1, 3);
  ValueId x = of_type(b, kTypes[b.pick(0, std::ssize(kTypes) - 1)], s);
  if (b.chance(0.3)) x = b.op("Abs", {x});
  return b.op("CumSum", {x},
              {{"axis", Index(b.pick(0, std::ssize(s) - 1))}, {"exclusive", b.chance(0.3)}, {"reverse", b.chance(0.3)}});
}

}  // namespace rewright::testing
