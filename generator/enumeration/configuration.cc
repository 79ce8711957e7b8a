#include "generator/enumeration/configuration.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "generator/enumeration/convolutions.h"
#include "generator/enumeration/named_operators.h"

namespace rewright::generator {

namespace {

class Configurator {
 public:
  Configuration build(std::string_view text) {
    c_.operators = std::string(text);
    c_.symbols = {{"N", {2, 1}}, {"C", {2, 3}}, {"H", {3, 4}}, {"W", {4, 3}}, {"M", {2, 5}}, {"K", {5, 3}}};
    const std::vector<ListedOperator> items = parse_operator_list(text);
    for (const ListedOperator& item : items)
      if (item.name == "transposed2d") {
        leaves_.other_channels = true;
      } else if (item.name == "conv2d") {
        OperatorArguments arguments(item);
        leaves_.other_channels |= own_output_channels(arguments)[0];
      }
    for (const ListedOperator& item : items) add(item);
    std::set<std::pair<std::string, bool>> names;
    std::erase_if(c_.choices, [&](const Choice& choice) { return !names.emplace(choice.name, choice.weights_only).second; });
    require_searches_that_fit(items);
    leaves_.add_needed();
    c_.leaves = leaves_.take();
    return std::move(c_);
  }

 private:
  // Rules are written from one step of each operator; corrections from operators without constants, and with one result.
  void require_searches_that_fit(std::span<const ListedOperator> items) const {
    for (const Choice& choice : c_.choices) {
      if (choice.further && !c_.corrections) wrong_operators(choice.name + " is for searches with corrections");
      const bool several = choice.op->name() == "Split" && !choice.further;
      if (c_.corrections && (several || choice.activation != nullptr || !choice.parameters.empty()))
        wrong_operators(choice.name + " cannot be in a search with corrections");
    }
    for (const ListedOperator& item : items)
      if (c_.corrections && item.name == "numbers") wrong_operators(item.name + " cannot be in a search with corrections");
  }

  // Adds the choices of a listed operator: of a special entry, of one with a name of its own, or of any other operator.
  void add(const ListedOperator& item) {
    static const std::map<std::string, std::string> kNames = {{"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};
    if (item.name == "weights") return add_weights(item);
    if (item.name == "numbers") return add_numbers(item);
    if (item.name == "variables") return add_variables(item);
    if (item.name == "corrections") return add_corrections(item);
    OperatorArguments arguments(item);
    if (const AddOperator add_named = find_named_operator(item.name)) return add_named(arguments, c_.choices, leaves_);
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
      c_.choices.push_back(
          {text, &op, arity, [a = attributes](std::span<const TensorType>) { return std::vector<Attributes>{a}; }});
    leaves_.matrices |= op.name() == "MatMul" || op.name() == "Gemm";
    leaves_.biases |= op.name() == "Gemm";
    leaves_.adds |= op.name() == "Add" || op.name() == "Sub";
    leaves_.multiplies |= op.name() == "Mul" || op.name() == "Div";
  }

  // Graphs of weights count as leaves. Some operators only apply to weights.
  void add_weights(const ListedOperator& item) {
    OperatorArguments arguments(item);
    const auto operators = arguments.texts("operators", {}), most = arguments.texts("at_most", {"1"});
    const auto each = arguments.texts("each", {"3"});
    arguments.finish();
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
      for (std::size_t n = before; n < c_.choices.size(); ++n) {
        c_.choices[n].weights_only = true;
        c_.choices[n].data_first = false;
      }
    }
  }

  // One image and one weight of each kind. Sizes are larger than otherwise, and there are three assignments of them: which
  // positions agree has to be told as a function of the sizes. With groups, channels are those of 2 G groups.
  void add_corrections(const ListedOperator& item) {
    OperatorArguments arguments(item);
    leaves_.grouped = arguments.truths("groups", "false")[0];
    arguments.finish();
    c_.corrections = true;
    c_.symbols = {{"N", {1, 2, 1}}, {"C", {1, 2, 1}}, {"H", {4, 5, 6}}, {"W", {5, 4, 6}},
                  {"M", {2, 5, 3}}, {"K", {2, 1, 2}}, {"G", {2, 1, 3}}};
    leaves_.one_even_image = true;
    leaves_.weight_variables = 1;
  }

  // Scalars, in addition to the 0 and 1 that sums and products add.
  void add_numbers(const ListedOperator& item) {
    constexpr std::int64_t kLargestNumber = 1000;
    OperatorArguments arguments(item);
    for (const std::string& text : arguments.texts("values", {"2"})) {
      const std::int64_t n = parse_integer(text, "values of numbers");
      if (n == 0 || n == 1 || std::abs(n) > kLargestNumber)
        wrong_operators("values of numbers is " + text + ", must be a whole number other than 0 and 1, of at most " +
                        std::to_string(kLargestNumber));
      leaves_.numbers.insert(n);
    }
    arguments.finish();
  }

  // Variables of given shapes, in numbers and symbols, in place of matrices.
  void add_variables(const ListedOperator& item) {
    constexpr std::size_t kMostShapes = 4, kMostOfShape = 3;
    OperatorArguments arguments(item);
    const auto shapes = arguments.texts("shape", {"[M,K]"}), each = arguments.texts("each", {"3"});
    arguments.finish();
    if (shapes.size() > kMostShapes) wrong_operators("variables have at most " + std::to_string(kMostShapes) + " shapes");
    const std::int64_t n = parse_integer(each[0], "each of variables");
    if (each.size() != 1 || n < 1 || n > static_cast<std::int64_t>(kMostOfShape))
      wrong_operators("each of variables is " + each.back() + ", must be one number from 1 to " + std::to_string(kMostOfShape));
    leaves_.variables_of_shape = static_cast<std::size_t>(n);
    leaves_.shapes.clear();
    for (const std::string& text : shapes) leaves_.shapes.push_back(parse_shape(text));
  }

  Indices parse_shape(const std::string& text) const {
    Indices shape;
    for (const std::string& size : parse_list(text)) {
      const bool is_symbol = std::any_of(c_.symbols.begin(), c_.symbols.end(),
                                         [&](const Configuration::Symbol& symbol) { return symbol.name == size; });
      shape.push_back(is_symbol ? Index::symbol(size) : Index(parse_integer(size, "a size of variables")));
      if (const auto number = shape.back().constant(); number && *number < 1)
        wrong_operators("a size of variables is " + size + ", must be positive");
    }
    return shape;
  }

  Configuration c_;
  Leaves leaves_;
};

}  // namespace

Configuration configure(std::string_view operators) { return Configurator().build(operators); }

}  // namespace rewright::generator
