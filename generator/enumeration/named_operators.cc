#include "generator/enumeration/named_operators.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "generator/enumeration/convolutions.h"
#include "generator/enumeration/fold.h"
#include "generator/enumeration/weight_layouts.h"

namespace rewright::generator {

namespace {

// The ways to split a size in two that a concatenation of tensors of known sizes can give.
std::vector<Indices> pieces(const Index& size) {
  Indices terms;
  if (size.polynomial())
    for (const Monomial& m : size.polynomial()->monomials) {
      Index term = 1;
      for (const AtomPointer& atom : m.factors) term *= Index::atom(atom);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(m.coefficient, 4); ++i) terms.push_back(term);
    }
  if (size.constant_term() > 0 && size.polynomial()) terms.emplace_back(size.constant_term());
  std::vector<Indices> result;
  for (std::size_t reversed = 0; reversed < 2; ++reversed, std::reverse(terms.begin(), terms.end()))
    for (std::size_t cut = 1; cut < terms.size(); ++cut) {
      Index first = 0, second = 0;
      for (std::size_t i = 0; i < terms.size(); ++i) (i < cut ? first : second) += terms[i];
      Indices both{first, second};
      if (first + second == size && std::find(result.begin(), result.end(), both) == result.end())
        result.push_back(std::move(both));
    }
  return result;
}

// Products of matrices.
void add_matmul(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  arguments.finish();
  leaves.matrices = true;
  Choice choice{"MatMul", &operator_named("MatMul"), 2, [](std::span<const TensorType> in) {
                  return std::vector<Attributes>(in[0].rank() == 2 && in[1].rank() == 2 ? 1 : 0);
                }};
  choice.distinct = true;
  choices.push_back(std::move(choice));
}

// Operands: two different tensors of one shape, or a tensor and a scalar.
void add_elementwise(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  arguments.finish();
  const bool adds = arguments.operator_name() == "ew_add";
  (adds ? leaves.adds : leaves.multiplies) = true;
  const Operator& op = operator_named(adds ? "Add" : "Mul");
  Choice choice{op.name(), &op, 2, [](std::span<const TensorType> in) {
                  return std::vector<Attributes>(in[0] == in[1] || in[0].rank() == 0 || in[1].rank() == 0 ? 1 : 0);
                }};
  choice.distinct = true;
  choice.no_arrays = !adds;
  choices.push_back(std::move(choice));
}

// In inference form, with its own parameters. Without a shift it is a scale by channel.
void add_batch_norm(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const std::vector<bool> shifts = arguments.truths("shift", "true");
  arguments.finish();
  leaves.images = leaves.batch_norms = true;
  const Operator& op = operator_named("BatchNormalization");
  const auto [own, zeros] = leaves.add_batch_norm();
  for (const bool shift : shifts) {
    Choice choice{shift ? "BatchNorm" : "BatchNorm unshifted", &op, 1, [&op](std::span<const TensorType> in) {
                    return std::vector<Attributes>(in[0].rank() >= 2 ? 1 : 0, op.defaults());
                  }};
    choice.parameters = {own[0], shift ? own[1] : zeros, shift ? own[2] : zeros, own[3]};
    choices.push_back(std::move(choice));
  }
}

void add_pools(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const bool average = arguments.operator_name() == "pool2d_avg";
  const auto kernels = arguments.texts("kernel", {"3"}), strides = arguments.texts("stride", {"1"});
  const auto paddings = arguments.texts("padding", {"same"});
  arguments.finish();
  leaves.images = true;
  const Operator& op = operator_named(average ? "AveragePool" : "MaxPool");
  for (const std::string& k : kernels)
    for (const std::string& s : strides)
      for (const std::string& p : paddings) {
        const KernelSize size = parse_kernel(k, "kernel of " + arguments.operator_name());
        const Index stride = parse_integer(s, "stride of " + arguments.operator_name());
        const Indices pads = parse_padding(p, size, arguments.operator_name());
        if (average) leaves.averages.insert(size);
        Attributes attributes = attributes_of(op, {{"kernel", Indices{size.height, size.width}},
                                                   {"strides", Indices{stride, stride}},
                                                   {"pads_begin", pads},
                                                   {"pads_end", pads}});
        if (average) attributes[op.field("count_include_pad").value()] = true;
        Choice choice{op.name() + " " + k + " stride " + s + " " + p, &op, 1, {}};
        choice.data_first = true;
        choice.attributes = [=](std::span<const TensorType> in) {
          return in[0].rank() == 4 ? std::vector<Attributes>{attributes} : std::vector<Attributes>{};
        };
        choices.push_back(std::move(choice));
      }
}

// Surrounds a kernel with zeros.
void add_enlarge(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto kernels = arguments.texts("kernel", {"3"});
  arguments.finish();
  const Operator& op = operator_named("Pad");
  for (const std::string& k : kernels) {
    const KernelSize size = parse_kernel(k, "kernel of enlarge");
    Choice choice{"Enlarge " + k, &op, 1, {}};
    choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
      if (in[0].rank() != 4) return {};
      const auto height = in[0].shape[2].constant(), width = in[0].shape[3].constant();
      if (!height || !width || *height > size.height || *width > size.width) return {};
      const std::int64_t dh = size.height - *height, dw = size.width - *width;
      if ((dh == 0 && dw == 0) || dh % 2 != 0 || dw % 2 != 0) return {};
      const Indices pads{0, 0, dh / 2, dw / 2};
      return {attributes_of(op, {{"pads_begin", pads}, {"pads_end", pads}})};
    };
    choices.push_back(std::move(choice));
  }
}

// Surrounds images with zeros, or takes their border away.
void add_border(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves) {
  const auto widths = arguments.texts("width", {"1"}), sides = arguments.texts("side", {"both"});
  arguments.finish();
  leaves.images = true;
  const Operator& op = operator_named("Pad");
  const auto add = [&](const std::string& w, const std::string& side) {
    const std::int64_t width = parse_integer(w, "width of border");
    if (width == 0) wrong_operators("width of border is 0, must not be");
    if (side != "both" && side != "begin" && side != "end")
      wrong_operators("side of border is \"" + side + "\", must be both, begin or end");
    Choice choice{"Border " + w + (side == "both" ? "" : " " + side), &op, 1,
                  [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                    if (in[0].rank() < 3) return {};
                    Indices begin(in[0].rank(), side == "end" ? 0 : width), end(in[0].rank(), side == "begin" ? 0 : width);
                    for (const std::size_t axis : {0, 1}) begin[axis] = end[axis] = 0;
                    return {attributes_of(op, {{"pads_begin", begin}, {"pads_end", end}})};
                  }};
    choice.data_first = true;
    choices.push_back(std::move(choice));
  };
  for (const std::string& w : widths)
    for (const std::string& side : sides) add(w, side);
}

void add_concat(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto axes = arguments.texts("axis", {"0", "1"}), inputs = arguments.texts("inputs", {"2"});
  arguments.finish();
  const Operator& op = operator_named("Concat");
  for (const std::string& a : axes)
    for (const std::string& many : inputs) {
      const std::int64_t axis = parse_integer(a, "axis of concat"), arity = parse_integer(many, "inputs of concat");
      if (arity < 2 || arity > std::int64_t{Choice::kMostOperands})
        wrong_operators("inputs of concat is " + many + ", must be 2 or 3");
      Choice choice{"Concat axis=" + a + (arity == 2 ? "" : " of " + many), &op, static_cast<std::size_t>(arity),
                    [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                      if (axis < 0 || axis >= static_cast<std::int64_t>(in[0].rank())) return {};
                      return {attributes_of(op, {{"axis", Index(axis)}})};
                    }};
      choice.distinct = true;
      choices.push_back(std::move(choice));
    }
}

void add_split(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto axes = arguments.texts("axis", {"0", "1"});
  arguments.finish();
  const Operator& op = operator_named("Split");
  for (const std::string& a : axes) {
    const std::int64_t axis = parse_integer(a, "axis of split");
    choices.push_back({"Split axis=" + a, &op, 1, [=, &op](std::span<const TensorType> in) {
                         std::vector<Attributes> result;
                         if (axis < 0 || axis >= static_cast<std::int64_t>(in[0].rank())) return result;
                         for (const Indices& sizes : pieces(in[0].shape[static_cast<std::size_t>(axis)]))
                           result.push_back(attributes_of(op, {{"axis", Index(axis)}, {"sizes", sizes}}));
                         return result;
                       }});
  }
}

// Transposes of matrices, unless a permutation is given.
void add_transpose(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves&) {
  const auto permutations = arguments.texts("perm", {"[1,0]"});
  arguments.finish();
  const Operator& op = operator_named("Transpose");
  for (const std::string& p : permutations) {
    const Indices perm = parse_integers(p, "perm of transpose");
    choices.push_back({"Transpose perm=" + p, &op, 1, [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                         if (in[0].rank() != perm.size()) return {};
                         return {attributes_of(op, {{"perm", perm}})};
                       }});
  }
}

struct NamedOperator {
  std::string_view name;
  AddOperator add;
};

constexpr std::array<NamedOperator, 16> kNamedOperators = {{
    {"border", add_border},
    {"fold", add_folds},
    {"repeat", add_repeats},
    {"diagonal", add_diagonals},
    {"conv2d", add_convolutions},
    {"transposed2d", add_transposed_convolutions},
    {"batchnorm", add_batch_norm},
    {"pool2d_avg", add_pools},
    {"pool2d_max", add_pools},
    {"enlarge", add_enlarge},
    {"concat", add_concat},
    {"split", add_split},
    {"transpose", add_transpose},
    {"matmul", add_matmul},
    {"ew_add", add_elementwise},
    {"ew_mul", add_elementwise},
}};

}  // namespace

AddOperator find_named_operator(std::string_view name) {
  const auto found = std::find_if(kNamedOperators.begin(), kNamedOperators.end(),
                                  [&](const NamedOperator& named) { return named.name == name; });
  return found == kNamedOperators.end() ? nullptr : found->add;
}

}  // namespace rewright::generator
