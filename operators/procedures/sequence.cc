// Sequences and optionals.
#include <algorithm>
#include <numeric>

#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

void run_construct(Call& call) {
  std::vector<Datum> elements;
  for (std::size_t i = 0; i < call.input_count(); ++i) elements.emplace_back(call.tensor(i));
  call.give(Datum::sequence(std::move(elements)));
}

void run_at(Call& call) {
  const auto& elements = call.input(0).elements();
  const std::int64_t at = checked_index(call.integer_input(1), static_cast<std::int64_t>(elements.size()));
  call.give(elements[static_cast<std::size_t>(at)]);
}

void run_insert(Call& call) {
  std::vector<Datum> elements = call.input(0).elements();
  const auto count = static_cast<std::int64_t>(elements.size());
  std::int64_t at = call.has_input(2) ? call.integer_input(2) : count;
  if (at != count) at = checked_index(at, count);
  elements.insert(elements.begin() + at, call.input(1));
  call.give(Datum::sequence(std::move(elements)));
}

void run_erase(Call& call) {
  std::vector<Datum> elements = call.input(0).elements();
  const auto count = static_cast<std::int64_t>(elements.size());
  elements.erase(elements.begin() + checked_index(call.has_input(1) ? call.integer_input(1) : -1, count));
  call.give(Datum::sequence(std::move(elements)));
}

void run_length(Call& call) {
  const auto count = static_cast<std::int64_t>(call.input(0).elements().size());
  call.give(Tensor::from_integers(DataType::kInt64, {}, std::vector{count}));
}

void run_split(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::size_t axis = checked_axis(call.integer("axis", 0), x.sizes().size());
  const std::int64_t size = x.sizes()[axis];
  require_few(x.size() == 0 ? size : 0);
  std::vector<std::int64_t> lengths;
  // An empty list counts as absent, as in ONNX Runtime.
  const bool single = !call.has_input(1) || (call.tensor(1).size() == 0 && size > 0);
  if (single) {
    lengths.assign(static_cast<std::size_t>(size), 1);
  } else if (call.tensor(1).sizes().empty()) {
    const std::int64_t length = call.integer_input(1);
    if (length < 1) throw Error(ErrorCode::kBadInput, "split is " + std::to_string(length));
    for (std::int64_t rest = size; rest > 0; rest -= length) lengths.push_back(std::min(length, rest));
  } else {
    lengths = call.integers(1);
  }
  std::vector<Datum> parts;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > size - start) throw Error(ErrorCode::kBadInput, "the parts are not those of the axis");
    std::vector<std::int64_t> entries(static_cast<std::size_t>(length));
    std::iota(entries.begin(), entries.end(), start);
    start += length;
    const bool drops_axis = single && call.integer("keepdims", 1) == 0;
    parts.emplace_back(drops_axis ? entry_of(x, axis, entries[0]) : entries_of(x, axis, entries));
  }
  if (start != size) throw Error(ErrorCode::kBadInput, "the parts are not those of the axis");
  call.give(Datum::sequence(std::move(parts)));
}

void run_concat(Call& call) {
  std::vector<Tensor> tensors;
  for (const Datum& element : call.input(0).elements()) tensors.push_back(element.tensor());
  if (tensors.empty()) throw Error(ErrorCode::kBadInput, "the sequence is empty");
  const bool is_new = call.integer("new_axis", 0) != 0;
  const std::size_t axis = checked_axis(call.integer("axis", 0), tensors[0].sizes().size() + (is_new ? 1 : 0));
  call.give(is_new ? stacked(tensors, axis) : concatenated(tensors, axis));
}

// Runs the body on the elements of the first sequence, with the elements of the others at the same position; tensors are passed
// to each.
void run_map(Call& call) {
  const auto& first = call.input(0).elements();
  std::vector<std::vector<Datum>> results(call.output_count());
  for (std::size_t n = 0; n < first.size(); ++n) {
    call.checkpoint();
    std::vector<Datum> inputs{first[n]};
    for (std::size_t i = 1; i < call.input_count(); ++i) {
      const Datum& other = call.input(i);
      if (other.is_sequence() && n >= other.elements().size())
        throw Error(ErrorCode::kBadInput, "input " + std::to_string(i) + " is a shorter sequence than the first");
      inputs.push_back(other.is_sequence() ? other.elements()[n] : other);
    }
    std::vector<Datum> given = call.body("body", inputs);
    if (given.size() != results.size()) throw Error(ErrorCode::kBadInput, "the body gives too few results");
    for (std::size_t i = 0; i < given.size(); ++i) results[i].push_back(std::move(given[i]));
  }
  for (auto& elements : results) call.give(Datum::sequence(std::move(elements)));
}

void give_input(Call& call) { call.give(call.input(0)); }

void run_get_element(Call& call) {
  if (!call.has_input(0)) throw Error(ErrorCode::kBadInput, "the optional is empty");
  call.give(call.input(0));
}

void run_has_element(Call& call) {
  call.give(Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{call.has_input(0)}));
}

}  // namespace

void register_sequence(Procedures& p) {
  p.add("SequenceEmpty", [](Call& call) { call.give(Datum::sequence({})); });
  p.add("SequenceConstruct", run_construct);
  p.add("SequenceAt", run_at);
  p.add("SequenceInsert", run_insert);
  p.add("SequenceErase", run_erase);
  p.add("SequenceLength", run_length);
  p.add("SequenceMap", run_map);
  p.add("SplitToSequence", run_split);
  p.add("ConcatFromSequence", run_concat);
  p.add("Optional", give_input);
  p.add("OptionalGetElement", run_get_element);
  p.add("OptionalHasElement", run_has_element);
  p.add("Identity", give_input);  // of values that are no tensors of numbers
}

}  // namespace rewright::operators
