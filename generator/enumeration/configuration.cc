#include "generator/enumeration/configuration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace rewright::generator {

namespace {

// "taso" is the set of TASO's generator (Jia et al., SOSP 2019): its operators, attributes and constants; "matrices" is that
// without convolutions.
constexpr std::array<OperatorSet, 6> kSets = {{
    {"taso",
     "matmul,ew_add,ew_mul,conv2d(kernel=3x3|1x3|3x1,activation=none|relu),pool2d_avg,pool2d_max,enlarge,relu,"
     "concat(axis=0|1),split(axis=0|1),transpose"},
    {"matrices", "matmul,ew_add,ew_mul,relu,concat(axis=0|1),split(axis=0|1),transpose"},
    {"cnn",
     "conv2d(kernel=1|3,stride=1|2),ew_add,ew_mul,relu,pool2d_avg,pool2d_max,GlobalAveragePool,Flatten,"
     "MaxPool(kernel=[3,3],strides=[2,2],ceil_mode=true),ReduceMean(axes=[2,3],keepdims=true|false),"
     "enlarge,concat(axis=1),split(axis=1)"},
    {"transformer",
     "matmul,ew_add,ew_mul,Sub,transpose,concat(axis=0|1),split(axis=0|1),Softmax(axis=-1),Gelu,ReduceSum(axes=[-1])"},
    {"linear", "matmul,ew_add,Sub,ew_mul,Neg,transpose,concat(axis=0|1),split(axis=0|1)"},
    {"elementwise", "Add,Sub,Mul,Div,Neg,Relu,Sigmoid,Tanh,Exp,Sqrt,Abs,Max,Min,Reciprocal"},
}};

using Arguments = std::map<std::string, std::vector<std::string>>;  // alternatives by name

struct Item {
  std::string name;
  Arguments arguments;
};

[[noreturn]] void wrong(const std::string& what) { throw Error(ErrorCode::kUsage, what, "--operators"); }

std::string trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

// At separators that are outside of brackets.
std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth < 0) wrong("a bracket is closed that was not opened");
    if (c == separator && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth != 0) wrong("a bracket is not closed");
  for (std::string& part : parts) part = trimmed(part);
  return parts;
}

std::vector<Item> parse(std::string_view text) {
  std::vector<Item> items;
  for (const std::string& part : split_text(text, ',')) {
    if (part.empty()) wrong("an operator's name is missing");
    const std::size_t open = part.find('(');
    Item item{trimmed(part.substr(0, open)), {}};
    if (open != std::string::npos) {
      if (part.back() != ')') wrong("\"" + part + "\" does not end with a bracket");
      for (const std::string& argument : split_text(part.substr(open + 1, part.size() - open - 2), ',')) {
        const std::size_t equals = argument.find('=');
        if (equals == std::string::npos) wrong("\"" + argument + "\" of " + item.name + " is not name=value");
        item.arguments[trimmed(argument.substr(0, equals))] = split_text(argument.substr(equals + 1), '|');
      }
    }
    if (item.name == "all") {
      if (!item.arguments.empty()) wrong("the set all has no arguments");
      for (const OperatorSet& set : kSets)
        for (Item& inner : parse(set.operators)) items.push_back(std::move(inner));
      continue;
    }
    const auto set = std::find_if(kSets.begin(), kSets.end(), [&](const OperatorSet& s) { return s.name == item.name; });
    if (set == kSets.end()) {
      items.push_back(std::move(item));
      continue;
    }
    if (!item.arguments.empty()) wrong("the set " + item.name + " has no arguments");
    for (Item& inner : parse(set->operators)) items.push_back(std::move(inner));
  }
  return items;
}

std::int64_t integer(const std::string& text, const std::string& where) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) wrong(where + " is \"" + text + "\", not an integer");
  return value;
}

Indices integers(std::string text, const std::string& where) {
  if (!text.empty() && text.front() == '[') text = text.substr(1, text.size() - 2);
  Indices result;
  if (!text.empty())
    for (const std::string& part : split_text(text, ',')) result.emplace_back(integer(part, where));
  return result;
}

AttributeValue attribute(const AttributeValue& like, const std::string& text, const std::string& where) {
  if (std::holds_alternative<bool>(like)) {
    if (text != "true" && text != "false") wrong(where + " is \"" + text + "\", not true or false");
    return text == "true";
  }
  if (std::holds_alternative<Index>(like)) return Index(integer(text, where));
  if (std::holds_alternative<Indices>(like)) return integers(text, where);
  if (std::holds_alternative<std::string>(like)) return text;
  if (std::holds_alternative<Real>(like)) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) wrong(where + " is \"" + text + "\", not a number");
    return Real(value);
  }
  wrong(where + " cannot be given here");
}

const Operator& find(const std::string& name) {
  const Operator* op = registry().find(name);
  if (!op) wrong("there is no operator or set \"" + name + "\"");
  return *op;
}

Attributes with(const Operator& op, const std::vector<std::pair<std::string, AttributeValue>>& values) {
  Attributes attributes = op.defaults();
  for (const auto& [name, value] : values) attributes[op.field(name).value()] = value;
  return attributes;
}

std::vector<std::pair<std::string, bool>> pairs(const std::vector<std::string>& first, const std::vector<bool>& second) {
  std::vector<std::pair<std::string, bool>> result;
  for (const std::string& a : first)
    for (const bool b : second) result.emplace_back(a, b);
  return result;
}

struct Kernel {
  std::int64_t height, width;
  friend auto operator<=>(const Kernel&, const Kernel&) = default;
};

Kernel kernel(const std::string& text, const std::string& where) {
  const std::size_t cross = text.find('x');
  const std::int64_t height = integer(text.substr(0, cross), where);
  const Kernel k{height, cross == std::string::npos ? height : integer(text.substr(cross + 1), where)};
  if (k.height < 1 || k.width < 1 || k.height > 7 || k.width > 7) wrong(where + " is " + text + ", must be from 1 to 7");
  return k;
}

// The ways to cut a size in two: those that a concatenation of tensors of known sizes can have come from.
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
    const std::vector<Item> items = parse(text);
    for (const Item& item : items)
      if (item.name == "conv2d") outputs_ |= truths(item, "outputs", "same", "own", "same")[0];
    for (const Item& item : items) add(item);
    std::set<std::string> names;
    std::erase_if(c_.choices, [&](const Choice& choice) { return !names.insert(choice.name).second; });
    add_leaves();
    return std::move(c_);
  }

 private:
  // The alternatives of an argument, or the default's.
  std::vector<std::string> argument(const Item& item, const std::string& name, std::vector<std::string> otherwise) {
    used_.insert(name);
    const auto at = item.arguments.find(name);
    return at == item.arguments.end() ? otherwise : at->second;
  }
  // Of an argument that is one of two words.
  std::vector<bool> truths(const Item& item, const std::string& name, const std::string& otherwise,
                           const std::string& yes = "true", const std::string& no = "false") {
    std::vector<bool> result;
    for (const std::string& text : argument(item, name, {otherwise})) {
      if (text != yes && text != no) wrong(name + " of " + item.name + " is \"" + text + "\", not " + yes + " or " + no);
      result.push_back(text == yes);
    }
    return result;
  }
  void finish(const Item& item) {
    for (const auto& [name, values] : item.arguments)
      if (!used_.count(name)) wrong(item.name + " has no argument \"" + name + "\"");
    used_.clear();
  }

  void add(const Item& item) {
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
    add_operator(item, find(alias == kNames.end() ? item.name : alias->second));
  }

  // Any operator, with the values of its fields.
  void add_operator(const Item& item, const Operator& op) {
    if (op.random() || op.execute()) wrong(op.name() + " is not a function with a denotation");
    std::vector<std::pair<std::string, Attributes>> variants{{op.name(), op.defaults()}};
    for (const auto& [name, values] : item.arguments) {
      const auto field = op.field(name);
      if (!field) wrong(item.name + " has no argument \"" + name + "\"");
      std::vector<std::pair<std::string, Attributes>> next;
      for (const auto& [text, attributes] : variants)
        for (const std::string& value : values) {
          next.emplace_back(text + " " + name + "=" + value, attributes);
          next.back().second[*field] = attribute(op.fields()[*field].default_value, value, name + " of " + item.name);
        }
      variants = std::move(next);
    }
    constexpr int kMost = Choice::kMostOperands;
    if (op.min_inputs() > kMost || op.max_inputs() == 0) wrong(op.name() + " has no one to three operands");
    const auto arity = static_cast<std::size_t>(op.max_inputs() > kMost ? std::max(op.min_inputs(), 2) : op.max_inputs());
    for (auto& [text, attributes] : variants)
      add_choice({text, &op, arity, [a = attributes](std::span<const TensorType>) { return std::vector<Attributes>{a}; }});
    matrices_ |= op.name() == "MatMul" || op.name() == "Gemm";
    biases_ |= op.name() == "Gemm";
    adds_ |= op.name() == "Add" || op.name() == "Sub";
    multiplies_ |= op.name() == "Mul" || op.name() == "Div";
  }

  // Of matrices.
  void add_matmul(const Item& item) {
    finish(item);
    matrices_ = true;
    Choice choice{"MatMul", &find("MatMul"), 2, [](std::span<const TensorType> in) {
                    return std::vector<Attributes>(in[0].rank() == 2 && in[1].rank() == 2 ? 1 : 0);
                  }};
    choice.distinct = true;
    add_choice(std::move(choice));
  }

  // Of two different tensors of one shape, or of a tensor and a scalar.
  void add_elementwise(const Item& item) {
    finish(item);
    const bool adds = item.name == "ew_add";
    (adds ? adds_ : multiplies_) = true;
    const Operator& op = find(adds ? "Add" : "Mul");
    Choice choice{op.name(), &op, 2, [](std::span<const TensorType> in) {
                    return std::vector<Attributes>(in[0] == in[1] || in[0].rank() == 0 || in[1].rank() == 0 ? 1 : 0);
                  }};
    choice.distinct = true;
    choice.no_arrays = !adds;
    add_choice(std::move(choice));
  }

  void add_choice(Choice choice) { c_.choices.push_back(std::move(choice)); }

  void add_convolutions(const Item& item) {
    const auto kernels = argument(item, "kernel", {"3"}), strides = argument(item, "stride", {"1"});
    const auto paddings = argument(item, "padding", {"same"}), activations = argument(item, "activation", {"none"});
    const std::vector<bool> biases = truths(item, "bias", "false");
    used_.insert("outputs");
    finish(item);
    images_ = true;
    const Operator& op = find("Conv");
    for (const std::string& k : kernels)
      for (const std::string& s : strides)
        for (const std::string& p : paddings)
          for (const auto& [activation, bias] : pairs(activations, biases)) {
            const Kernel size = kernel(k, "kernel of conv2d");
            const Index stride = integer(s, "stride of conv2d");
            const Indices pads = padding(p, size, "conv2d");
            kernels_.insert(size);
            Choice choice{"Conv " + k + " stride " + s + " " + p, &op, 2, {}};
            if (bias) {
              channel_biases_ = true;
              choice.arity = 3;
              choice.name += " bias";
            }
            if (activation == "relu") {
              choice.activation = &find("Relu");
              choice.name += " relu";
            } else if (activation != "none") {
              wrong("activation of conv2d is \"" + activation + "\", must be none or relu");
            }
            choice.data_first = true;
            choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
              if (in[0].rank() != 4 || in[1].rank() != 4) return {};
              if (!(in[1].shape[2] == Index(size.height)) || !(in[1].shape[3] == Index(size.width))) return {};
              for (const Index& group : {Index(1), Index(2), in[0].shape[1]})
                if (in[1].shape[1] * group == in[0].shape[1])
                  return {with(
                      op, {{"strides", Indices{stride, stride}}, {"pads_begin", pads}, {"pads_end", pads}, {"group", group}})};
              return {};
            };
            add_choice(std::move(choice));
          }
  }

  // In inference, with parameters of its own; without a shift it is a scale by channel.
  void add_batch_norm(const Item& item) {
    const std::vector<bool> shifts = truths(item, "shift", "true");
    finish(item);
    images_ = batch_norms_ = true;
    const Operator& op = find("BatchNormalization");
    std::array<std::uint32_t, 4> own{};
    const Index channels = outputs();
    for (std::size_t k = 0; k < own.size(); ++k) {
      static constexpr std::array<const char*, 4> kNames = {"gamma", "beta", "mean", "var"};
      own[k] = static_cast<std::uint32_t>(c_.leaves.size());
      add_variables(kNames[k], 1, {channels}, true);
      c_.leaves.back().parameter = true;
    }
    const auto zeros = static_cast<std::uint32_t>(c_.leaves.size());
    const Operator& fill = find("Fill");
    add_constant("zeros", "Fill", with(fill, {{"value", Real(0.0)}, {"shape", Indices{channels}}}), true);
    c_.leaves.back().parameter = true;
    for (const bool shift : shifts) {
      Choice choice{shift ? "BatchNorm" : "BatchNorm unshifted", &op, 1, [&op](std::span<const TensorType> in) {
                      return std::vector<Attributes>(in[0].rank() >= 2 ? 1 : 0, op.defaults());
                    }};
      choice.parameters = {own[0], shift ? own[1] : zeros, shift ? own[2] : zeros, own[3]};
      add_choice(std::move(choice));
    }
  }

  // Graphs of weights count as leaves; some operators are for them alone.
  void add_weights(const Item& item) {
    const auto operators = argument(item, "operators", {}), most = argument(item, "at_most", {"1"});
    const auto each = argument(item, "each", {"3"});
    finish(item);
    const auto number = [&](const std::vector<std::string>& texts, const std::string& name, std::int64_t largest) {
      const std::int64_t n = integer(texts[0], name + " of weights");
      if (texts.size() != 1 || n < 1 || n > largest)
        wrong(name + " of weights is " + texts.back() + ", must be one number from 1 to " + std::to_string(largest));
      return static_cast<std::size_t>(n);
    };
    c_.weight_operators = number(most, "at_most", 4);
    weight_variables_ = number(each, "each", 3);
    for (const std::string& text : operators) {
      const std::size_t before = c_.choices.size();
      for (const Item& inner : parse(text)) add(inner);
      for (std::size_t n = before; n < c_.choices.size(); ++n) c_.choices[n].weights_only = true;
    }
  }

  // Whole numbers, beside the 0 and 1 that sums and products bring along.
  void add_numbers(const Item& item) {
    constexpr std::int64_t kLargestNumber = 1000;
    for (const std::string& text : argument(item, "values", {"2"})) {
      const std::int64_t n = integer(text, "values of numbers");
      if (n == 0 || n == 1 || std::abs(n) > kLargestNumber)
        wrong("values of numbers is " + text + ", must be a whole number other than 0 and 1, of at most " +
              std::to_string(kLargestNumber));
      numbers_.insert(n);
    }
    finish(item);
  }

  // Pads at both ends; "same" keeps the size at stride 1.
  Indices padding(const std::string& text, const Kernel& k, const std::string& where) {
    if (text == "valid") return {0, 0};
    if (text != "same") wrong("padding of " + where + " is \"" + text + "\", must be same or valid");
    if (k.height % 2 == 0 || k.width % 2 == 0) wrong("padding of " + where + " is the same on both sides of odd kernels only");
    return {(k.height - 1) / 2, (k.width - 1) / 2};
  }

  void add_pools(const Item& item) {
    const bool average = item.name == "pool2d_avg";
    const auto kernels = argument(item, "kernel", {"3"}), strides = argument(item, "stride", {"1"});
    const auto paddings = argument(item, "padding", {"same"});
    finish(item);
    images_ = true;
    const Operator& op = find(average ? "AveragePool" : "MaxPool");
    for (const std::string& k : kernels)
      for (const std::string& s : strides)
        for (const std::string& p : paddings) {
          const Kernel size = kernel(k, "kernel of " + item.name);
          const Index stride = integer(s, "stride of " + item.name);
          const Indices pads = padding(p, size, item.name);
          if (average) averages_.insert(size);
          Attributes attributes = with(op, {{"kernel", Indices{size.height, size.width}},
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

  // A kernel with zeros around it.
  void add_enlarge(const Item& item) {
    const auto kernels = argument(item, "kernel", {"3"});
    finish(item);
    const Operator& op = find("Pad");
    for (const std::string& k : kernels) {
      const Kernel size = kernel(k, "kernel of enlarge");
      Choice choice{"Enlarge " + k, &op, 1, {}};
      choice.attributes = [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
        if (in[0].rank() != 4) return {};
        const auto height = in[0].shape[2].constant(), width = in[0].shape[3].constant();
        if (!height || !width || *height > size.height || *width > size.width) return {};
        const std::int64_t dh = size.height - *height, dw = size.width - *width;
        if ((dh == 0 && dw == 0) || dh % 2 != 0 || dw % 2 != 0) return {};
        const Indices pads{0, 0, dh / 2, dw / 2};
        return {with(op, {{"pads_begin", pads}, {"pads_end", pads}})};
      };
      add_choice(std::move(choice));
    }
  }

  void add_concat(const Item& item) {
    const auto axes = argument(item, "axis", {"0", "1"}), inputs = argument(item, "inputs", {"2"});
    finish(item);
    const Operator& op = find("Concat");
    for (const std::string& a : axes)
      for (const std::string& many : inputs) {
        const std::int64_t axis = integer(a, "axis of concat"), arity = integer(many, "inputs of concat");
        if (arity < 2 || arity > std::int64_t{Choice::kMostOperands}) wrong("inputs of concat is " + many + ", must be 2 or 3");
        Choice choice{"Concat axis=" + a + (arity == 2 ? "" : " of " + many), &op, static_cast<std::size_t>(arity),
                      [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                        if (axis < 0 || axis >= static_cast<std::int64_t>(in[0].rank())) return {};
                        return {with(op, {{"axis", Index(axis)}})};
                      }};
        choice.distinct = true;
        add_choice(std::move(choice));
      }
  }

  void add_split(const Item& item) {
    const auto axes = argument(item, "axis", {"0", "1"});
    finish(item);
    const Operator& op = find("Split");
    for (const std::string& a : axes) {
      const std::int64_t axis = integer(a, "axis of split");
      add_choice({"Split axis=" + a, &op, 1, [=, &op](std::span<const TensorType> in) {
                    std::vector<Attributes> result;
                    if (axis < 0 || axis >= static_cast<std::int64_t>(in[0].rank())) return result;
                    for (const Indices& sizes : pieces(in[0].shape[static_cast<std::size_t>(axis)]))
                      result.push_back(with(op, {{"axis", Index(axis)}, {"sizes", sizes}}));
                    return result;
                  }});
    }
  }

  // Of matrices, unless a permutation is given.
  void add_transpose(const Item& item) {
    const auto permutations = argument(item, "perm", {"[1,0]"});
    finish(item);
    const Operator& op = find("Transpose");
    for (const std::string& p : permutations) {
      const Indices perm = integers(p, "perm of transpose");
      add_choice({"Transpose perm=" + p, &op, 1, [=, &op](std::span<const TensorType> in) -> std::vector<Attributes> {
                    if (in[0].rank() != perm.size()) return {};
                    return {with(op, {{"perm", perm}})};
                  }});
    }
  }

  void add_variables(const std::string& name, std::size_t count, const Indices& shape, bool weight) {
    if (weight) count = std::min(count, weight_variables_);
    for (std::size_t i = 1; i <= count; ++i)
      c_.leaves.push_back({name + (count > 1 ? std::to_string(i) : ""), {DataType::kFloat, shape}, groups_, weight});
    ++groups_;
  }
  void add_constant(const std::string& name, const std::string& op, Attributes attributes, bool weight) {
    const Operator& o = find(op);
    const Inputs none(std::vector<Operand>{});
    attributes = o.normalized(std::move(attributes), none);
    const TensorType type = o.define(attributes, none.types_only()).outputs().at(0).type;
    c_.leaves.push_back({name, type, -1, weight, &o, std::move(attributes)});
  }

  // The channels that convolutions give: those of their inputs, or others.
  Index outputs() const { return Index::symbol(outputs_ ? "K" : "C"); }

  void add_leaves() {
    const auto symbol = [](const char* name) { return Index::symbol(name); };
    const Index n = symbol("N"), c = symbol("C"), h = symbol("H"), w = symbol("W"), m = symbol("M"), k = symbol("K");
    if (matrices_ || !images_) add_variables("x", 3, {m, k}, false);
    if (matrices_) add_variables("w", 3, {k, k}, true);
    if (biases_) add_variables("b", 2, {k}, true);
    if (images_) add_variables("i", 3, {n, c, h, w}, false);
    for (const Kernel& size : kernels_) {
      const std::string suffix = std::to_string(size.height) + std::to_string(size.width) + "_";
      add_variables("k" + suffix, 3, {outputs(), c, size.height, size.width}, true);
    }
    if (channel_biases_) add_variables("c", 3, {outputs()}, true);
    if (kernels_.count({3, 3}) && !outputs_) add_variables("d33", 1, {c, 1, 3, 3}, true);
    if (multiplies_) add_variables("s", 1, {}, false);
    const Operator &fill = find("Fill"), &dirac = find("DiracKernel"), &eye = find("Eye");
    if (adds_) add_constant("zero", "Fill", with(fill, {{"value", Real(0.0)}}), false);
    if (multiplies_) add_constant("one", "Fill", with(fill, {{"value", Real(1.0)}}), false);
    for (const std::int64_t n : numbers_)
      add_constant("number " + std::to_string(n), "Fill", with(fill, {{"value", Real(static_cast<double>(n))}}), false);
    if (batch_norms_) add_constant("row", "Fill", with(fill, {{"value", Real(0.0)}, {"shape", Indices{1, outputs()}}}), true);
    if (matrices_) add_constant("eye", "Eye", with(eye, {{"size", k}}), true);
    for (const Kernel& size : kernels_)
      if (size.height % 2 == 1 && size.width % 2 == 1 && !outputs_)
        add_constant("dirac" + std::to_string(size.height) + std::to_string(size.width), "DiracKernel",
                     with(dirac, {{"channels", c},
                                  {"kernel", Indices{size.height, size.width}},
                                  {"centre", Indices{(size.height - 1) / 2, (size.width - 1) / 2}}}),
                     true);
    for (const Kernel& size : averages_)
      if (kernels_.count(size)) {
        add_constant("mean" + std::to_string(size.height) + std::to_string(size.width), "Fill",
                     with(fill, {{"value", Real(1.0)}, {"shape", Indices{c, 1, size.height, size.width}}}), true);
        c_.leaves.back().divisor = size.height * size.width;
      }
  }

  Configuration c_;
  std::set<std::string> used_;
  std::set<Kernel> kernels_, averages_;
  std::set<std::int64_t> numbers_;
  bool matrices_ = false, biases_ = false, images_ = false, adds_ = false, multiplies_ = false;
  bool channel_biases_ = false, batch_norms_ = false, outputs_ = false;
  std::size_t weight_variables_ = 3;  // of each kind, at most
  int groups_ = 0;
};

}  // namespace

std::span<const OperatorSet> operator_sets() { return kSets; }

Configuration configure(std::string_view operators) { return Configurator().build(operators); }

}  // namespace rewright::generator
