#include "rules/taso/format.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "rules/taso/taso.pb.h"

namespace rewright::rules::taso {

namespace {

namespace proto = rewright::taso::proto;

constexpr std::size_t kMaximumBytes = std::size_t{64} << 20;
constexpr std::size_t kMaximumRules = 100000;
constexpr int kMaximumOperations = 64;      // of a side
constexpr std::size_t kMaximumInputs = 32;  // of an operation, and of a rule
constexpr std::int32_t kMaximumOutputs = 32;

[[noreturn]] void bad(const std::string& what) { throw Error(ErrorCode::kBadInput, what); }

struct Described {
  Type type;
  const char* name;
  int least_inputs, most_inputs;
};

// The supported operators, by the names of TASO's verifier.
constexpr std::array<Described, 27> kOperators = {{
    {Type::kConv, "conv2d", 2, 2},
    {Type::kMaxPool, "pool2d_max", 1, 1},
    {Type::kAveragePool, "pool2d_avg", 1, 1},
    {Type::kRelu, "relu", 1, 1},
    {Type::kSigmoid, "sigmoid", 1, 1},
    {Type::kTanh, "tanh", 1, 1},
    {Type::kConcat, "concat", 1, static_cast<int>(kMaximumInputs)},
    {Type::kSplit, "split", 1, 1},
    {Type::kTranspose, "transpose", 1, 1},
    {Type::kAdd, "ewadd", 2, 2},
    {Type::kMultiply, "ewmul", 2, 2},
    {Type::kMatMul, "matmul", 2, 2},
    {Type::kScale, "scalar_mul", 2, 2},
    {Type::kEnlarge, "enlarge", 1, 2},
    {Type::kMergeGroups, "merge_gconv", 1, 1},
    {Type::kIdentityMatrix, "const_imm", 0, 0},
    {Type::kIdentityKernel, "const_iconv", 0, 0},
    {Type::kOnes, "const_one", 0, 0},
    {Type::kPoolKernel, "const_pool", 0, 0},
    {Type::kSubtract, "ewsub", 2, 2},
    {Type::kDivide, "ewdiv", 2, 2},
    {Type::kMaximum, "ewmax", 2, 2},
    {Type::kMinimum, "ewmin", 2, 2},
    {Type::kExp, "exp", 1, 1},
    {Type::kLog, "log", 1, 1},
    {Type::kSqrt, "sqrt", 1, 1},
    {Type::kReshape, "reshape", 1, 1},
}};

Operation to_operation(const proto::Operator& p, const Side& before) {
  const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                  [&](const Described& d) { return static_cast<std::int32_t>(d.type) == p.type(); });
  if (found == kOperators.end()) bad("there is no operator " + std::to_string(p.type()) + " that can be expressed");
  Operation result;
  result.type = found->type;
  result.name = found->name;
  if (result.type == Type::kReshape) bad("the file does not say what shape reshape gives");
  if (p.inputs_size() < found->least_inputs || p.inputs_size() > found->most_inputs)
    bad(result.name + " has " + std::to_string(p.inputs_size()) + " inputs");
  for (const proto::Tensor& t : p.inputs()) {
    const Reference r{t.op(), t.output()};
    if (!r.is_input() && static_cast<std::size_t>(r.op) >= before.size())
      bad(result.name + " reads operator " + std::to_string(r.op) + ", which does not come before it");
    const std::size_t outputs = r.is_input() ? 1 : before[static_cast<std::size_t>(r.op)].outputs;
    if (r.output < 0 || static_cast<std::size_t>(r.output) >= outputs)
      bad(result.name + " reads output " + std::to_string(r.output) + " of a tensor or operator that has " +
          std::to_string(outputs));
    result.inputs.push_back(r);
  }
  // If a parameter occurs more than once, the first value counts, as in TASO.
  for (const proto::Parameter& parameter : p.parameters()) result.parameters.emplace(parameter.key(), parameter.value());
  if (result.type == Type::kSplit) result.outputs = static_cast<std::size_t>(result.get(Key::kOutputs, 2, kMaximumOutputs));
  return result;
}

Side to_side(const google::protobuf::RepeatedPtrField<proto::Operator>& operators, const char* what) {
  if (operators.size() > kMaximumOperations)
    bad(std::string("the ") + what + " has " + std::to_string(operators.size()) + " operators, at most " +
        std::to_string(kMaximumOperations) + " are read");
  Side side;
  for (const proto::Operator& p : operators) side.push_back(to_operation(p, side));
  return side;
}

Reference to_output(const Side& side, std::int32_t op, std::int32_t output, bool may_be_input) {
  const Reference r{op, output};
  if (r.is_input()) {
    if (!may_be_input) bad("an output of the source is an input");
    if (output != 0) bad("an input has one output");
    return r;
  }
  if (static_cast<std::size_t>(op) >= side.size()) bad("an output of operator " + std::to_string(op) + ", which is not there");
  const Operation& of = side[static_cast<std::size_t>(op)];
  if (output < 0 || static_cast<std::size_t>(output) >= of.outputs)
    bad("output " + std::to_string(output) + " of " + of.name + ", which has " + std::to_string(of.outputs));
  return r;
}

RuleText to_rule(const proto::Rule& p) {
  RuleText rule;
  rule.source = to_side(p.source(), "source");
  rule.target = to_side(p.target(), "target");
  if (rule.source.empty()) bad("the source has no operator");
  if (p.outputs().empty()) bad("it has no output");
  if (p.outputs_size() > kMaximumOperations) bad("it has " + std::to_string(p.outputs_size()) + " outputs");
  std::set<std::int32_t> inputs;
  for (const Operation& op : rule.source)
    for (const Reference& r : op.inputs)
      if (r.is_input()) inputs.insert(r.op);
  if (inputs.size() > kMaximumInputs) bad("it has " + std::to_string(inputs.size()) + " inputs");
  for (const proto::MapOutput& m : p.outputs())
    rule.outputs.emplace_back(to_output(rule.source, m.source_op(), m.source_output(), false),
                              to_output(rule.target, m.target_op(), m.target_output(), true));
  return rule;
}

}  // namespace

std::int32_t Operation::get(Key key, std::int32_t low, std::int32_t high) const {
  const auto found = parameters.find(static_cast<std::int32_t>(key));
  if (found == parameters.end()) bad(name + " lacks parameter " + std::to_string(static_cast<std::int32_t>(key)));
  if (found->second < low || found->second > high)
    bad("parameter " + std::to_string(found->first) + " of " + name + " is " + std::to_string(found->second));
  return found->second;
}

std::int32_t Operation::get(Key key, std::int32_t low, std::int32_t high, std::int32_t otherwise) const {
  return has(key) ? get(key, low, high) : otherwise;
}

std::vector<RuleText> read(std::string_view bytes, const std::string& file) {
  const auto refuse = [&](const std::string& what) { throw Error(ErrorCode::kBadInput, what, file); };
  if (bytes.size() > kMaximumBytes) refuse("the file is too large");
  const google::protobuf::LogSilencer silencer;  // Protobuf would print what is wrong
  proto::RuleCollection collection;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(10);
  if (!collection.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage() || !collection.unknown_fields().empty() ||
      collection.rules().empty())
    refuse("these are no rules in TASO's format");
  if (static_cast<std::size_t>(collection.rules_size()) > kMaximumRules)
    refuse("the file has " + std::to_string(collection.rules_size()) + " rules");
  std::vector<RuleText> rules;
  for (const proto::Rule& p : collection.rules()) {
    try {
      rules.push_back(to_rule(p));
    } catch (const Error& e) {
      rules.emplace_back();
      rules.back().error = e.what();
    }
  }
  return rules;
}

}  // namespace rewright::rules::taso
