#include "generator/enumeration/configuration.h"
#include "generator/enumeration/operator_list.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

using namespace rewright;
using namespace rewright::generator;

namespace {

std::string failure(const std::string& operators) {
  try {
    configure(operators);
    return "";
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    return e.text();
  }
}

}  // namespace

TEST_CASE("a list of operators becomes choices, one for each value of the arguments", "[configuration]") {
  const Configuration c = configure("conv2d(kernel=1|3,stride=1|2,activation=none|relu),ew_add");
  CHECK(c.choices.size() == 2 * 2 * 2 + 1);
  CHECK(c.choices[1].activation != nullptr);
  CHECK(c.choices.back().op->name() == "Add");
  CHECK(configure("LeakyRelu(alpha=0.1|0.2)").choices.size() == 2);
}

TEST_CASE("every named set can be configured, and all of them together", "[configuration]") {
  std::size_t most = 0;
  for (const OperatorSet& set : operator_sets()) {
    INFO(set.name);
    const Configuration c = configure(set.name);
    CHECK(c.choices.size() >= 2);
    CHECK(c.leaves.size() >= 3);
    most = std::max(most, c.choices.size());
  }
  const Configuration all = configure("all");
  CHECK(all.choices.size() > most);
  CHECK(std::none_of(all.choices.begin(), all.choices.end(), [](const Choice& choice) { return bool(choice.further); }));
  // Convolutions of all sets have as many results as data: those that change their number belong to a search of their own.
  const Configuration taso = configure("taso");
  for (const Leaf& leaf : taso.leaves)
    CHECK(std::any_of(all.leaves.begin(), all.leaves.end(), [&](const Leaf& other) { return other.name == leaf.name; }));
}

TEST_CASE("what is said twice is one choice", "[configuration]") {
  CHECK(configure("Add,Add,elementwise").choices.size() == 14);
}

TEST_CASE("numbers are constants to begin with", "[configuration]") {
  const Configuration c = configure("Add,numbers(values=2|-3)");
  for (const char* name : {"number 2", "number -3"})
    CHECK(std::count_if(c.leaves.begin(), c.leaves.end(),
                        [&](const Leaf& leaf) { return leaf.name == name && leaf.constant(); }) == 1);
}

TEST_CASE("variables of given shapes stand in for matrices", "[configuration]") {
  const Configuration c = configure("matmul,Mul,variables(shape=[M,K]|[M,1],each=2)");
  std::vector<std::string> shapes;
  for (const Leaf& leaf : c.leaves)
    if (!leaf.constant() && leaf.type.rank() > 0) shapes.push_back(to_string(AttributeValue(leaf.type.shape)));
  CHECK(shapes == std::vector<std::string>{"[M, K]", "[M, K]", "[M, 1]", "[M, 1]"});
  CHECK(failure("Add,variables(shape=[M,0])").find("must be positive") != std::string::npos);
  CHECK(failure("Add,variables(shape=[Q])").find("not an integer") != std::string::npos);
  CHECK(failure("Add,variables(each=4)").find("from 1 to 3") != std::string::npos);
  CHECK(failure("Add,variables(size=2)").find("has no argument") != std::string::npos);
}

TEST_CASE("a batch norm has parameters of its own, and weights may count as leaves", "[configuration]") {
  const Configuration c =
      configure("conv2d(bias=false|true),batchnorm(shift=true|false),weights(at_most=2,each=1,operators=Neg|Abs)");
  REQUIRE(c.choices.size() == 6);
  CHECK(c.choices[1].arity == 3);
  for (const std::size_t n : {2, 3}) {
    REQUIRE(c.choices[n].parameters.size() == 4);
    for (const std::uint32_t leaf : c.choices[n].parameters) CHECK(c.leaves[leaf].parameter);
  }
  CHECK(!c.leaves[c.choices[2].parameters[1]].constant());
  CHECK(c.leaves[c.choices[3].parameters[1]].constant());
  CHECK(c.weight_operators == 2);
  CHECK(!c.choices[3].weights_only);
  CHECK(c.choices[4].weights_only);
  const auto variables = [](const Configuration& of, const std::string& name) {
    return std::count_if(of.leaves.begin(), of.leaves.end(), [&](const Leaf& leaf) { return leaf.name.starts_with(name); });
  };
  CHECK(variables(c, "k33") == 1);
  CHECK(variables(c, "i") == 3);
  CHECK(variables(configure("conv2d"), "k33") == 3);
  CHECK(configure("conv2d").weight_operators == 0);
}

TEST_CASE("what there is not is said", "[configuration]") {
  CHECK(failure("Addd") == "there is no operator or set \"Addd\"");
  CHECK(failure("") == "an operator's name is missing");
  CHECK(failure("Add,,Mul") == "an operator's name is missing");
  CHECK(failure("taso(kernel=3)") == "the set taso has no arguments");
  CHECK(failure("conv2d(size=3)") == "conv2d has no argument \"size\"");
  CHECK(failure("conv2d(kernel=a)") == "kernel of conv2d is \"a\", not an integer");
  CHECK(failure("conv2d(kernel=99)") == "kernel of conv2d is 99, must be from 1 to 7");
  CHECK(failure("conv2d(kernel=2)") == "padding of conv2d is the same on both sides of odd kernels only");
  CHECK(failure("conv2d(activation=gelu)") == "activation of conv2d is \"gelu\", must be none or relu");
  CHECK(failure("conv2d(kernel=3") == "a bracket is not closed");
  CHECK(failure("conv2d)") == "a bracket is closed that was not opened");
  CHECK(failure("conv2d(bias=1)") == "bias of conv2d is \"1\", not true or false");
  CHECK(failure("batchnorm(kernel=3)") == "batchnorm has no argument \"kernel\"");
  CHECK(failure("conv2d,weights(at_most=9)") == "at_most of weights is 9, must be one number from 1 to 4");
  CHECK(failure("conv2d,weights(each=1|2)") == "each of weights is 2, must be one number from 1 to 3");
  CHECK(failure("Add,numbers(values=2|two)") == "values of numbers is \"two\", not an integer");
  CHECK(failure("Add,numbers(values=1)") ==
        "values of numbers is 1, must be a whole number other than 0 and 1, of at most 1000");
  CHECK(failure("conv2d,weights(operators=Addd)") == "there is no operator or set \"Addd\"");
  CHECK(failure("Relu(alpha=1)") == "Relu has no argument \"alpha\"");
  CHECK(failure("BatchNormalization") == "BatchNormalization has no one to three operands");
  CHECK(failure("relu,fold(from=0,to=2)").ends_with("is for searches with corrections"));
  for (const std::string item : {"batchnorm", "numbers(values=2)", "split(axis=0)", "conv2d(kernel=3,activation=relu)"})
    CHECK(failure("corrections,fold(from=0,to=2)," + item).ends_with("cannot be in a search with corrections"));
  CHECK(failure("corrections,conv2d,weights(operators=split(axis=0))").ends_with("cannot be in a search with corrections"));
  CHECK(failure("corrections,border(width=0)") == "width of border is 0, must not be");
  CHECK(failure("corrections,border(side=middle)") == "side of border is \"middle\", must be both, begin or end");
  CHECK(failure("corrections,repeat(times=1)") == "times of repeat is 1, must be 2 or more");
  CHECK(failure("corrections,diagonal(from=1)") == "from and to of diagonal are one axis");
  CHECK(failure("transposed2d(kernel=2,padding=same)") ==
        "padding of transposed2d is the same on both sides of odd kernels only");
  CHECK(failure("conv2d(padding=some)") == "padding of conv2d is \"some\", must be same, valid or a digit");
  CHECK(failure("TopK") == "TopK is not a function with a denotation");
}
