// Executes control flow: graphs in attributes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

Tensor truth(bool value) { return Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{value}); }

void run_if(Call& call) {
  for (Datum& result : call.body(call.integer_input(0) != 0 ? "then_branch" : "else_branch", {})) call.give(std::move(result));
}

// A loop without iterations gives empty stacked results: the caller of the node knows the body's types.
Datum stacked_or_none(const std::vector<Tensor>& parts, std::size_t axis) {
  return parts.empty() ? Datum() : Datum(stacked(parts, axis));
}

// Inputs: the number of iterations and the first condition, each optional, and the carried values. The body gets the number of
// the iteration, the condition and the carried values. It returns the next condition, the next values, and the results to
// stack.
void run_loop(Call& call) {
  const std::int64_t limit = call.has_input(0) ? call.integer_input(0) : std::numeric_limits<std::int64_t>::max();
  bool going = !call.has_input(1) || call.integer_input(1) != 0;
  std::vector<Datum> carried;
  for (std::size_t i = 2; i < call.body_input_count("body"); ++i) carried.push_back(call.input(i));
  std::vector<std::vector<Tensor>> collected(call.output_count() - std::min(call.output_count(), carried.size()));
  for (std::int64_t n = 0; n < limit && going; ++n) {
    call.checkpoint();
    std::vector<Datum> inputs{Tensor::from_integers(DataType::kInt64, {}, std::vector{n}), truth(going)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Datum> results = call.body("body", inputs);
    if (results.size() < 1 + carried.size()) throw Error(ErrorCode::kBadInput, "the body gives too few results");
    going = results[0].tensor().integers().at(0) != 0;
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = std::move(results[1 + i]);
    collected.resize(results.size() - 1 - carried.size());
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(results[1 + carried.size() + i].tensor());
  }
  for (Datum& value : carried) call.give(std::move(value));
  for (const auto& parts : collected) call.give(stacked_or_none(parts, 0));
}

struct ScanInput {
  Tensor tensor;
  std::size_t axis;
  bool backward;
};

// Runs the body over the entries of the inputs' axes; returns the last states, then the stacked results.
std::vector<Datum> scan(Call& call, std::vector<Datum> states, const std::vector<ScanInput>& inputs, std::int64_t length,
                        const std::vector<std::int64_t>& axes, const std::vector<std::int64_t>& directions) {
  std::vector<std::vector<Tensor>> collected;
  for (std::int64_t n = 0; n < length; ++n) {
    call.checkpoint();
    std::vector<Datum> given = states;
    for (const ScanInput& in : inputs) given.emplace_back(entry_of(in.tensor, in.axis, in.backward ? length - 1 - n : n));
    std::vector<Datum> results = call.body("body", given);
    if (results.size() < states.size()) throw Error(ErrorCode::kBadInput, "the body gives too few results");
    collected.resize(results.size() - states.size());
    for (std::size_t i = 0; i < states.size(); ++i) states[i] = results[i];
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(results[states.size() + i].tensor());
  }
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (i < directions.size() && directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    const std::size_t rank = collected[i].empty() ? 1 : collected[i][0].sizes().size() + 1;
    states.push_back(stacked_or_none(collected[i], i < axes.size() ? checked_axis(axes[i], rank) : 0));
  }
  return states;
}

std::int64_t common_length(const std::vector<ScanInput>& inputs) {
  if (inputs.empty()) throw Error(ErrorCode::kBadInput, "has nothing to scan");
  for (const ScanInput& in : inputs)
    if (in.tensor.sizes()[in.axis] != inputs[0].tensor.sizes()[inputs[0].axis])
      throw Error(ErrorCode::kBadInput, "the scanned axes have different sizes");
  return inputs[0].tensor.sizes()[inputs[0].axis];
}

// Appends zeros, or empty strings, until the first axis has this many entries.
Tensor padded(const Tensor& tensor, std::int64_t entries) {
  Sizes sizes = tensor.sizes();
  sizes[0] = entries;
  if (tensor.type() == DataType::kString) {
    std::vector<std::string> strings(tensor.strings().begin(), tensor.strings().end());
    strings.resize(static_cast<std::size_t>(element_count(sizes)));
    return Tensor::from_strings(sizes, std::move(strings));
  }
  Tensor result(tensor.type(), sizes);
  const std::span<std::byte> to = result.mutable_bytes();
  std::fill(std::copy(tensor.bytes().begin(), tensor.bytes().end(), to.begin()), to.end(), std::byte{0});
  return result;
}

// Before opset 9 there is a batch axis first, and each batch has its own length, padded with zeros.
void run_batched_scan(Call& call) {
  const auto scanned = static_cast<std::size_t>(call.integer("num_scan_inputs", 1));
  const std::vector<std::int64_t> directions = call.integers("directions");
  const std::size_t count = call.input_count();
  if (scanned == 0 || scanned + 1 > count) throw Error(ErrorCode::kBadInput, "num_scan_inputs is wrong");
  const std::size_t carried = count - scanned - 1;  // results in front of those that are stacked
  std::vector<std::vector<Tensor>> results;
  std::vector<std::int64_t> without_steps;  // batches
  const Sizes& sizes = call.tensor(count - 1).sizes();
  if (sizes.size() < 2) throw Error(ErrorCode::kBadInput, "a scanned input has no batch and sequence axes");
  for (std::int64_t b = 0; b < sizes[0]; ++b) {
    std::vector<Datum> states;
    std::vector<ScanInput> inputs;
    for (std::size_t i = 1; i < count; ++i) {
      if (call.tensor(i).sizes().empty())
        throw Error(ErrorCode::kBadInput, "input " + std::to_string(i) + " has no batch axis");
      const Tensor part = entry_of(call.tensor(i), 0, checked_index(b, call.tensor(i).sizes()[0]));
      if (i < count - scanned)
        states.emplace_back(part);
      else
        inputs.push_back({part, 0, inputs.size() < directions.size() && directions[inputs.size()] != 0});
    }
    const std::int64_t whole = common_length(inputs);
    const std::vector<std::int64_t> lengths = call.has_input(0) ? call.integers(0) : std::vector<std::int64_t>();
    if (call.has_input(0) && b >= std::ssize(lengths)) throw Error(ErrorCode::kBadInput, "a sequence's length is missing");
    const std::int64_t length = call.has_input(0) ? lengths[static_cast<std::size_t>(b)] : whole;
    if (length < 0 || length > whole) throw Error(ErrorCode::kBadInput, "a sequence's length is wrong");
    const std::vector<Datum> one = scan(call, std::move(states), inputs, length, {}, {});
    results.resize(std::max(results.size(), one.size()));
    for (std::size_t i = 0; i < one.size(); ++i)
      results[i].push_back(i < carried ? one[i].tensor() : padded(one[i].tensor(), whole));
    if (length == 0) without_steps.push_back(b);
  }
  // A batch without steps has results of zeros, with the sizes of another batch's results.
  for (std::size_t i = carried; i < results.size(); ++i)
    for (const std::int64_t b : without_steps) {
      if (results[i].empty()) break;
      Sizes shape = results[i][0].sizes();
      shape[0] = 0;
      results[i].insert(results[i].begin() + b, padded(Tensor(results[i][0].type(), shape), results[i][0].sizes()[0]));
    }
  for (const auto& parts : results) call.give(stacked_or_none(parts, 0));
}

void run_scan(Call& call) {
  if (call.opset() < 9) return run_batched_scan(call);
  const auto scanned = static_cast<std::size_t>(call.integer("num_scan_inputs", 0));
  if (scanned == 0 || scanned > call.input_count()) throw Error(ErrorCode::kBadInput, "num_scan_inputs is wrong");
  const std::size_t carried = call.input_count() - scanned;
  const std::vector<std::int64_t> axes = call.integers("scan_input_axes"), directions = call.integers("scan_input_directions");
  std::vector<Datum> states;
  for (std::size_t i = 0; i < carried; ++i) states.push_back(call.input(i));
  std::vector<ScanInput> inputs;
  for (std::size_t i = 0; i < scanned; ++i) {
    const Tensor& tensor = call.tensor(carried + i);
    inputs.push_back({tensor, checked_axis(i < axes.size() ? axes[i] : 0, tensor.sizes().size()),
                      i < directions.size() && directions[i] != 0});
  }
  const std::int64_t length = common_length(inputs);
  for (Datum& result : scan(call, std::move(states), inputs, length, call.integers("scan_output_axes"),
                            call.integers("scan_output_directions")))
    call.give(std::move(result));
}

std::vector<BodyInput> inputs_of_loop_body(const OnnxAttributes&, int, std::size_t, std::size_t count) {
  using Kind = BodyInput::Kind;
  std::vector<BodyInput> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    if (i < 2)
      inputs.push_back({Kind::kScalar, i == 0 ? DataType::kInt64 : DataType::kBool});
    else
      inputs.push_back({Kind::kCarried, DataType::kUndefined, i, i - 1});
  }
  return inputs;
}

std::vector<BodyInput> inputs_of_scan_body(const OnnxAttributes& node, int opset, std::size_t given, std::size_t count) {
  using Kind = BodyInput::Kind;
  const std::int64_t scanned = node.integer("num_scan_inputs", 0);
  if (opset < 9 || given != count || scanned < 0 || scanned > static_cast<std::int64_t>(count))
    return std::vector<BodyInput>(count);
  const std::size_t carried = count - static_cast<std::size_t>(scanned);
  const std::vector<std::int64_t> axes = node.integers("scan_input_axes");
  std::vector<BodyInput> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    if (i < carried)
      inputs.push_back({Kind::kCarried, DataType::kUndefined, i, i});
    else
      inputs.push_back({Kind::kEntry, DataType::kUndefined, i, 0, i - carried < axes.size() ? axes[i - carried] : 0});
  }
  return inputs;
}

}  // namespace

void register_control(Procedures& p) {
  p.add("If", run_if);
  p.add_control("Loop", {run_loop, false, inputs_of_loop_body, {}});
  p.add_control("Scan", {run_scan, false, inputs_of_scan_body, {}});
}

}  // namespace rewright::operators
