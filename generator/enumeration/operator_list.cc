#include "generator/enumeration/operator_list.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace rewright::generator {

namespace {

// "taso" is the set of TASO's generator (Jia et al., SOSP 2019): its operators, attributes and constants; "matrices" is that
// without convolutions.
constexpr std::array<OperatorSet, 13> kSets = {{
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
    {"sum-product",
     "matmul,Add,Sub,Mul,ReduceSum(axes=[0]|[1]),ReduceMean(axes=[0]|[1]),transpose,"
     "variables(shape=[M,K]|[K,K]|[M,1]|[1,K],each=2)"},
    {"partial",
     "corrections,conv2d(kernel=3,padding=same|valid,dilation=1|2,bias=true,outputs=own),"
     "fold(from=2|3|2x3,to=0,part=outer|inner),fold(from=0,to=2|3|2x3,part=outer,place=outer|inner),"
     "AveragePool(kernel=[3,3],pads_begin=[1,1],pads_end=[1,1],count_include_pad=true|false),"
     "conv2d(kernel=3,stride=2,bias=true,outputs=own),border"},
    {"partial-channels",
     "corrections,conv2d(kernel=4,stride=2,padding=1|2,bias=true,outputs=own),conv2d(kernel=3,stride=1|2,bias=true,outputs=own)"
     ","
     "conv2d(kernel=2,padding=valid|1|before,bias=true,outputs=own,variables=false),"
     "fold(from=2x3,to=1,part=inner),fold(from=0,to=1),fold(from=1,to=0),border,"
     "weights(at_most=2,each=1,operators=fold(from=2x3,to=1,part=inner)|border(side=begin)|repeat(axis=0))"},
    {"partial-transposed",
     "corrections,transposed2d(kernel=4,stride=2,padding=1|2,bias=true),transposed2d(kernel=2,padding=valid|1,bias=true,"
     "variables=false),fold(from=1,to=2x3,place=inner),border(width=-1),"
     "weights(at_most=1,each=1,operators=fold(from=2x3,to=1,part=inner)|repeat(axis=0,times=4))"},
    {"partial-borders",
     "corrections,conv2d(kernel=3,bias=true,outputs=own),fold(from=0,to=2|3),fold(from=2|3,to=0),border(width=1|-1,side=end)"},
    {"partial-groups",
     "corrections(groups=true),conv2d(kernel=3,padding=same,bias=true,outputs=own),"
     "weights(at_most=1,each=1,operators=diagonal(from=0,to=1,blocks=G))"},
    {"functions", "Add,Sub,Mul,Div,Neg,Reciprocal,Exp,Log,Sqrt,Abs,Sigmoid,Tanh,Max,variables(shape=[M,K],each=2)"},
}};

std::string trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

// Splits at separators outside of brackets.
std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth < 0) wrong_operators("a bracket is closed that was not opened");
    if (c == separator && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth != 0) wrong_operators("a bracket is not closed");
  for (std::string& part : parts) part = trimmed(part);
  return parts;
}

}  // namespace

std::span<const OperatorSet> operator_sets() { return kSets; }

void wrong_operators(const std::string& what) { throw Error(ErrorCode::kUsage, what, "--operators"); }

std::vector<ListedOperator> parse_operator_list(std::string_view text) {
  std::vector<ListedOperator> items;
  for (const std::string& part : split_text(text, ',')) {
    if (part.empty()) wrong_operators("an operator's name is missing");
    const std::size_t open = part.find('(');
    ListedOperator item{trimmed(part.substr(0, open)), {}};
    if (open != std::string::npos) {
      if (part.back() != ')') wrong_operators("\"" + part + "\" does not end with a bracket");
      for (const std::string& argument : split_text(part.substr(open + 1, part.size() - open - 2), ',')) {
        const std::size_t equals = argument.find('=');
        if (equals == std::string::npos) wrong_operators("\"" + argument + "\" of " + item.name + " is not name=value");
        item.arguments[trimmed(argument.substr(0, equals))] = split_text(argument.substr(equals + 1), '|');
      }
    }
    if (item.name == "all") {
      if (!item.arguments.empty()) wrong_operators("the set all has no arguments");
      for (const OperatorSet& set : kSets) {
        if (set.name.starts_with("partial")) continue;  // their rules are found in another way
        for (ListedOperator& inner : parse_operator_list(set.operators))
          if (inner.name != "variables") items.push_back(std::move(inner));  // the others need their own
      }
      continue;
    }
    const auto set = std::find_if(kSets.begin(), kSets.end(), [&](const OperatorSet& s) { return s.name == item.name; });
    if (set == kSets.end()) {
      items.push_back(std::move(item));
      continue;
    }
    if (!item.arguments.empty()) wrong_operators("the set " + item.name + " has no arguments");
    for (ListedOperator& inner : parse_operator_list(set->operators)) items.push_back(std::move(inner));
  }
  return items;
}

std::int64_t parse_integer(const std::string& text, const std::string& where) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) wrong_operators(where + " is \"" + text + "\", not an integer");
  return value;
}

std::vector<std::string> parse_list(std::string text) {
  if (!text.empty() && text.front() == '[') text = text.substr(1, text.size() - 2);
  return text.empty() ? std::vector<std::string>() : split_text(text, ',');
}

Indices parse_integers(const std::string& text, const std::string& where) {
  Indices result;
  for (const std::string& part : parse_list(text)) result.emplace_back(parse_integer(part, where));
  return result;
}

AttributeValue parse_attribute(const AttributeValue& like, const std::string& text, const std::string& where) {
  if (std::holds_alternative<bool>(like)) {
    if (text != "true" && text != "false") wrong_operators(where + " is \"" + text + "\", not true or false");
    return text == "true";
  }
  if (std::holds_alternative<Index>(like)) return Index(parse_integer(text, where));
  if (std::holds_alternative<Indices>(like)) return parse_integers(text, where);
  if (std::holds_alternative<std::string>(like)) return text;
  if (std::holds_alternative<Real>(like)) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) wrong_operators(where + " is \"" + text + "\", not a number");
    return Real(value);
  }
  wrong_operators(where + " cannot be given here");
}

const Operator& operator_named(const std::string& name) {
  const Operator* op = registry().find(name);
  if (!op) wrong_operators("there is no operator or set \"" + name + "\"");
  return *op;
}

Attributes attributes_of(const Operator& op, const std::vector<std::pair<std::string, AttributeValue>>& values) {
  Attributes attributes = op.defaults();
  for (const auto& [name, value] : values) attributes[op.field(name).value()] = value;
  return attributes;
}

}  // namespace rewright::generator
