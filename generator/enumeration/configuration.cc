#include "generator/enumeration/configuration.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

namespace {

std::vector<std::pair<std::string, bool>> pairs(const std::vector<std::string>& first, const std::vector<bool>& second) {
  std::vector<std::pair<std::string, bool>> result;
  for (const std::string& a : first)
    for (const bool b : second) result.emplace_back(a, b);
  return result;
}

KernelSize kernel(const std::string& text, const std::string& where) {
  const std::size_t cross = text.find('x');
  const std::int64_t height = parse_integer(text.substr(0, cross), where);
  const KernelSize k{height, cross == std::string::npos ? height : parse_integer(text.substr(cross + 1), where)};
  if (k.height < 1 || k.width < 1 || k.height > 7 || k.width > 7)
    wrong_operators(where + " is " + text + ", must be from 1 to 7");
  return k;
}

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

class Configurator {
 public:
  Configuration build(std::string_view text) {
    c_.operators = std::string(text);
    c_.symbols = {{"N", {2, 1}}, {"C", {2, 3}}, {"H", {3, 4}}, {"W", {4, 3}}, {"M", {2, 5}}, {"K", {5, 3}}};
    const std::vector<ListedOperator> items = parse_operator_list(text);
    for (const ListedOperator& item : items)
      if (item.name == "conv2d") leaves_.other_channels |= truths(item, "outputs", "same", "own", "same")[0];
    for (const ListedOperator& item : items) add(item);
    std::set<std::string> names;
    std::erase_if(c_.choices, [&](const Choice& choice) { return !names.insert(choice.name).second; });
    leaves_.add_needed();
    c_.leaves = leaves_.take();
    return std::move(c_);
  }

 private:
  // The alternatives of an argument, or of its default.
  std::vector<std::string> argument(const ListedOperator& item, const std::string& name, std::vector<std::string> otherwise) {
    used_.insert(name);
    const auto at = item.arguments.find(name);
    return at == item.arguments.end() ? otherwise : at->second;
  }
  // The alternatives of an argument with two possible words.
  std::vector<bool> truths(const ListedOperator& item, const std::string& name, const std::string& otherwise,
                           const std::string& yes = "true", const std::string& no = "false") {
    std::vector<bool> result;
    for (const std::string& text : argument(item, name, {otherwise})) {
      if (text != yes && text != no)
        wrong_operators(name + " of " + item.name + " is \"" + text + "\", not " + yes + " or " + no);
      result.push_back(text == yes);
    }
    return result;
  }
  void finish(const ListedOperator& item) {
    for (const auto& [name, values] : item.arguments)
      if (!used_.count(name)) wrong_operators(item.name + " has no argument \"" + name + "\"");
    used_.clear();
  }

  void add(const ListedOperator& item) {
    static const std::map<std::string, std::string> kNames = {{"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};
    if (item.name == "weights") return add_weights(item);
    if (item.name == "numbers") return add_numbers(item);
    if (item.name == "conv2d") return add_convolutions(item);
    if (item.name == "batchnorm") return add_batch_norm(item);
    if (item.name == "pool2d_avg" || item.name == "pool2d_max") return add_pools(item);
    if (item.name == "enlarge") return add_enlarge(item);
    if (item.name == "concat") return add_concat(item);
    if (item.name == "split") return add_split(item);
    if (item.name == "transpose") return add_transpose(item);
    if (item.name == "matmul") return add_matmul(item);
    if (item.name == "ew_add" || item.name == "ew_mul") return add_elementwise(item);
    const auto alias = kNames.find(item.name);
    add_operator(item, operator_named(alias == kNames.end() ? item.name : alias->second));
  }

  // Any operator, with given values of its fields.
  void add_operator(const ListedOperator& item, const Operator& op) {
    if (op.random() || op.execute()) wrong_operators(op.name() + " is not a function with a denotation");
    std::vector<std::pair<std::string, Attributes>> variants{{op.name(), op.defaults()}};
    for (const auto& [name, values] : item.arguments) {
      const auto field = op.field(name);
      if (!field) wrong_operators(item.name + " has no argument \"" + name + "\"");
      std::vector<std::pair<std::string, Attributes>> next;
      for (const auto& [text, attributes] : variants)
        for (const std::string& value : values) {
          next.emplace_back(text + " " + name + "=" + value, attributes);
          next.back().second[*field] = parse_attribute(op.fields()[*field].default_value, value, name + " of " + item.name);
        }
      variants = std::move(next);
    }
    constexpr int kMost = Choice::kMostOperands;
    if (op.min_inputs() > kMost || op.max_inputs() == 0) wrong_operators(op.name() + " has no one to three operands");
    const auto arity = static_cast<std::size_t>(op.max_inputs() > kMost ? std::max(op.min_inputs(), 2) : op.max_inputs());
    for (auto& [text, attributes] : variants)
      add_choice({text, &op, arity, [a = attributes](std::span<const TensorType>) { return std::vector<Attributes>{a}; }});
    leaves_.matrices |= op.name() == "MatMul" || op.name() == "Gemm";
    leaves_.biases |= op.name() == "Gemm";
    leaves_.adds |= op.name() == "Add" || op.name() == "Sub";
    leaves_.multiplies |= op.name() == "Mul" || op.name() == "Div";
  }

  // Products of matrices.
  void add_matmul(const ListedOperator& item) {
    finish(item);
    leaves_.matrices = true;
    Choice choice{"MatMul", &operator_named("MatMul"), 2, [](std::span<const TensorType> in) {
                    return std::vector<Attributes>(in[0].rank() == 2 && in[1].rank() == 2 ? 1 : 0);
                  }};
    choice.distinct = true;
    add_choice(std::move(choice));
  }

  // Operands: two different tensors of one shape, or a tensor and a scalar.
  void add_elementwise(const ListedOperator& item) {
    finish(item);
    const bool adds = item.name == "ew_add";
    (adds ? leaves_.adds : leaves_.multiplies) = true;
    const Operator& op = operator_named(adds ? "Add" : "Mul");
    Choice choice{op.name(), &op, 2, [](std::span<const TensorType> in) {
                    return std::vector<Attributes>(in[0] == in[1] || in[0].rank() == 0 || in[1].rank() == 0 ? 1 : 0);
                  }};
    choice.distinct = true;
    choice.no_arrays = !adds;
    add_choice(std::move(choice));
  }

  void add_choice(Choice choice) { c_.choices.push_back(std::move(choice)); }

  void add_convolutions(const ListedOperator& item) {
    const auto kernels = argument(item, "kernel", {"3"}), strides = argument(item, "stride", {"1"});
    const auto paddings = argument(item, "padding", {"same"}), activations = argument(item, "activation", {"none"});
    const std::vector<bool> biases = truths(item, "bias", "false");
    used_.insert("outputs");
    finish(item);
    leaves_.images = true;
    const Operator& op = operator_named("Conv");
    for (const std::string& k : kernels)
      for (const std::string& s : strides)
        for (const std::string& p : paddings)
          for (const auto& [activation, bias] : pairs(activations, biases)) {
            const KernelSize size = kernel(k, "kernel of conv2d");
            const Index stride = parse_integer(s, "stride of conv2d");
            const Indices pads = padding(p, size, "conv2d");
            leaves_.kernels.insert(size);
            Choice choice{"Conv " + k + " stride " + s + " " + p, &op, 2, {}};
            if (bias) {
              leaves_.channel_biases = true;
              choice.arity = 3;
              choice.name += " bias";
            }
            if (activation == "relu") {
              choice.activation = &operator_named("Relu");
              choice.name += " relu";
            } else if (activation != "none") {
              wrong_operators("activation of conv2d is \"" + activation + "\", must be none or relu");
            }
            choice.data_first = true;
            choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
              if (in[0].rank() != 4 || in[1].rank() != 4) return {};
              if (!(in[1].shape[2] == Index(size.height)) || !(in[1].shape[3] == Index(size.width))) return {};
              for (const Index& group : {Index(1), Index(2), in[0].shape[1]})
                if (in[1].shape[1] * group == in[0].shape[1])
                  return {attributes_of(
                      op, {{"strides", Indices{stride, stride}}, {"pads_begin", pads}, {"pads_end", pads}, {"group", group}})};
              return {};
            };
            add_choice(std::move(choice));
          }
  }

  // In inference form, with its own parameters. Without a shift it is a scale by channel.
  void add_batch_norm(const ListedOperator& item) {
    const std::vector<bool> shifts = truths(item, "shift", "true");
    finish(item);
    leaves_.images = leaves_.batch_norms = true;
    const Operator& op = operator_named("BatchNormalization");
    const auto [own, zeros] = leaves_.add_batch_norm();
    for (const bool shift : shifts) {
      Choice choice{shift ? "BatchNorm" : "BatchNorm unshifted", &op, 1, [&op](std::span<const TensorType> in) {
                      return std::vector<Attributes>(in[0].rank() >= 2 ? 1 : 0, op.defaults());
                    }};
      choice.parameters = {own[0], shift ? own[1] : zeros, shift ? own[2] : zeros, own[3]};
      add_choice(std::move(choice));
    }
  }

  // Graphs of weights count as leaves. Some operators only apply to weights.
  void add_weights(const ListedOperator& item) {
    const auto operators = argument(item, "operators", {}), most = argument(item, "at_most", {"1"});
    const auto each = argument(item, "each", {"3"});
    finish(item);
    const auto number = [&](const std::vector<std::string>& texts, const std::string& name, std::int64_t largest) {
      const std::int64_t n = parse_integer(texts[0], name + " of weights");
      if (texts.size() != 1 || n < 1 || n > largest)
        wrong_operators(name + " of weights is " + texts.back() + ", must be one number from 1 to " + std::to_string(largest));
      return static_cast<std::size_t>(n);
    };
    c_.weight_operators = number(most, "at_most", 4);
    leaves_.weight_variables = number(each, "each", 3);
    for (const std::string& text : operators) {
      const std::size_t before = c_.choices.size();
      for (const ListedOperator& inner : parse_operator_list(text)) add(inner);
      for (std::size_t n = before; n < c_.choices.size(); ++n) c_.choices[n].weights_only = true;
    }
  }

  // Scalars, in addition to the 0 and 1 that sums and products add.
  void add_numbers(const ListedOperator& item) {
    constexpr std::int64_t kLargestNumber = 1000;
    for (const std::string& text : argument(item, "values", {"2"})) {
      const std::int64_t n = parse_integer(text, "values of numbers");
      if (n == 0 || n == 1 || std::abs(n) > kLargestNumber)
        wrong_operators("values of numbers is " + text + ", must be a whole number other than 0 and 1, of at most " +
                        std::to_string(kLargestNumber));
      leaves_.numbers.insert(n);
    }
    finish(item);
  }

  // Pads at both ends. "same" keeps the size at stride 1.
  Indices padding(const std::string& text, const KernelSize& k, const std::string& where) {
    if (text == "valid") return {0, 0};
    if (text != "same") wrong_operators("padding of " + where + " is \"" + text + "\", must be same or valid");
    if (k.height % 2 == 0 || k.width % 2 == 0)
      wrong_operators("padding of " + where + " is the same on both sides of odd kernels only");
    return {(k.height - 1) / 2, (k.width - 1) / 2};
  }

  void add_pools(const ListedOperator& item) {
    const bool average = item.name == "pool2d_avg";
    const auto kernels = argument(item, "kernel", {"3"}), strides = argument(item, "stride", {"1"});
    const auto paddings = argument(item, "padding", {"same"});
    finish(item);
    leaves_.images = true;
    const Operator& op = operator_named(average ? "AveragePool" : "MaxPool");
    for (const std::string& k : kernels)
      for (const std::string& s : strides)
        for (const std::string& p : paddings) {
          const KernelSize size = kernel(k, "kernel of " + item.name);
          const Index stride = parse_integer(s, "stride of " + item.name);
          const Indices pads = padding(p, size, item.name);
          if (average) leaves_.averages.insert(size);
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
          add_choice(std::move(choice));
        }
  }

  // Surrounds a kernel with zeros.
  void add_enlarge(const ListedOperator& item) {
    const auto kernels = argument(item, "kernel", {"3"});
    finish(item);
    const Operator& op = operator_named("Pad");
    for (const std::string& k : kernels) {
      const KernelSize size = kernel(k, "kernel of enlarge");
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
      add_choice(std::move(choice));
    }
  }

  void add_concat(const ListedOperator& item) {
    const auto axes = argument(item, "axis", {"0", "1"}), inputs = argument(item, "inputs", {"2"});
    finish(item);
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
        add_choice(std::move(choice));
      }
  }

  void add_split(const ListedOperator& item) {
    const auto axes = argument(item, "axis", {"0", "1"});
    finish(item);
    const Operator& op = operator_named("Split");
    for (const std::string& a : axes) {
      const std::int64_t axis = parse_integer(a, "axis of split");
      add_choice({"Split axis=" + a, &op, 1, [=, &op](std::span<const TensorType> in) {
                    std::vector<Attributes> result;
                    if (axis < 0 || axis >= static_cast<std::int64_t>(in[0].rank())) return result;
                    for (const Indices& sizes : pieces(in[0].shape[static_cast<std::size_t>(axis)]))
                      result.push_back(attributes_of(op, {{"axis", Index(axis)}, {"sizes", sizes}}));
                    return result;
                  }});
    }
  }

  // Transposes of matrices, unless a permutation is given.
  void add_transpose(const ListedOperator& item) {
    const auto permutations = argument(item, "perm", {"[1,0]"});
    finish(item);
    const Operator& op = operator_named("Transpose");
    for (const std::string& p : permutations) {
      const Indices perm = parse_integers(p, "perm of transpose");
      add_choice({"Transpose perm=" + p, &op, 1, [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                    if (in[0].rank() != perm.size()) return {};
                    return {attributes_of(op, {{"perm", perm}})};
                  }});
    }
  }

  Configuration c_;
  std::set<std::string> used_;
  Leaves leaves_;
};

}  // namespace

Configuration configure(std::string_view operators) { return Configurator().build(operators); }

}  // namespace rewright::generator
