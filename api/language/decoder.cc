#include "api/language/decoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "api/devices.h"
#include "api/language/logits_rows.h"
#include "base/error.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/onnx.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"

namespace rewright::api {

namespace {

using TokenSpans = std::span<const std::span<const std::int64_t>>;

Tensor zeros(DataType type, Sizes sizes) {
  Tensor tensor(type, std::move(sizes));
  std::memset(tensor.mutable_bytes().data(), 0, tensor.byte_count());
  return tensor;
}

// [sequences, heads, positions, size] with more positions, zeros behind the old ones.
Tensor longer(const Tensor& old, std::int64_t positions) {
  Sizes sizes = old.sizes();
  const auto blocks = static_cast<std::size_t>(sizes[0] * sizes[1]);
  const std::size_t from = blocks == 0 ? 0 : old.byte_count() / blocks;
  sizes[2] = positions;
  Tensor result = zeros(old.type(), std::move(sizes));
  const std::size_t to = blocks == 0 ? 0 : result.byte_count() / blocks;
  for (std::size_t b = 0; b < blocks; ++b)
    std::memcpy(result.mutable_bytes().data() + b * to, old.bytes().data() + b * from, from);
  return result;
}

const Sizes& sizes_of(const PlacedTensor& tensor) {
  const auto* const placed = std::get_if<DeviceTensor>(&tensor);
  return placed != nullptr ? placed->sizes : std::get<Tensor>(tensor).sizes();
}

std::vector<float> floats_of(const Tensor& tensor, std::size_t row, std::size_t count) {
  const std::size_t first = row * count;
  if (tensor.type() == DataType::kFloat) {
    const auto given = tensor.data<float>().subspan(first, count);
    return {given.begin(), given.end()};
  }
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.type() == DataType::kHalf)
      result[i] = half_to_float(tensor.data<std::uint16_t>()[first + i]);
    else
      result[i] = bfloat16_to_float(tensor.data<std::uint16_t>()[first + i]);
  }
  return result;
}

// On a GPU each length of prompts needs kernels of its own, which take about a second to compile. Prompts are filled up to one
// of few lengths, at most half as long again.
std::size_t planned_length(std::size_t length, std::size_t context) {
  std::size_t planned = 16;
  while (planned < length) planned += planned & (planned - 1) ? planned / 3 : planned / 2;  // 16, 24, 32, 48, 64 ...
  return length > context ? length : std::min(planned, context);
}

// The integer of an input of one number for each sequence and place.
class Rows {
 public:
  Rows(DataType type, std::size_t rows, std::size_t columns)
      : columns_(columns), values_(rows * columns), type_(type), rows_(rows) {}
  std::int64_t& at(std::size_t row, std::size_t column) { return values_[row * columns_ + column]; }
  Tensor tensor() const {
    return Tensor::from_integers(type_, {static_cast<std::int64_t>(rows_), static_cast<std::int64_t>(columns_)}, values_);
  }

 private:
  std::size_t columns_;
  std::vector<std::int64_t> values_;
  DataType type_;
  std::size_t rows_;
};

}  // namespace

Decoder::Decoder(const std::filesystem::path& folder, const std::string& device, int threads)
    : config_(read_language_config(folder)) {
  const Backend& backend = find_backend(device);  // before the long work
  Graph graph = with_defaults(import_onnx(config_.model));
  try {
    graph = with_selected_logits(std::move(graph), config_.logits);
    find_inputs(graph);
    rows_ = graph.inputs().size() - 1;
    output_count_ = graph.outputs().size();
    logits_ = output_named(graph, config_.logits);
    const TensorType& logits = graph.outputs()[logits_].type;
    if (logits.type != DataType::kFloat && logits.type != DataType::kHalf && logits.type != DataType::kBfloat16)
      throw Error(ErrorCode::kBadInput, "must be float, float16 or bfloat16", "output \"" + config_.logits + "\"");
    batch_is_open_ = !graph.value(graph.inputs()[ids_]).type.shape[0].is_constant();
    find_cache(graph);
    require_complete(graph);
  } catch (const Error& error) {
    throw error.within(config_.model.string());
  }
  if (mask_ == kAbsent) config_.cache_is_shared = false;  // nothing tells how much of the cache is filled
  SessionOptions options;
  options.threads = usable_threads(threads);
  options.checkpoint = run_checkpoint;
  if (config_.cache_is_shared)
    for (const CacheTensor& c : cache_)
      if (!c.is_state) options.replacements.push_back({c.input, c.output});
  session_ = prepare_session(backend, graph, options);
  memory_ = dynamic_cast<const MemoryOfDevice*>(&backend);
  if (memory_ != nullptr) on_device_ = dynamic_cast<DeviceSession*>(session_.get());
  prepare();
}

void Decoder::find_inputs(const Graph& graph) {
  const auto found = [&](const std::string& name, std::size_t& input, DataType& type) {
    if (name.empty()) return;
    input = input_named(graph, name);
    const Value& value = graph.value(graph.inputs()[input]);
    type = value.type.type;
    if ((type != DataType::kInt64 && type != DataType::kInt32) || !value.shape_known || value.type.rank() != 2)
      throw Error(ErrorCode::kBadInput, "must be int32 or int64 and have two axes", "input \"" + name + "\"");
  };
  found(config_.input_ids, ids_, ids_type_);
  found(config_.attention_mask, mask_, mask_type_);
  found(config_.position_ids, positions_, positions_type_);
}

// Packs weights, and plans for steps of one token, so that the first text does not wait for it.
void Decoder::prepare() const {
  Cache cache(1);
  if (config_.cache_is_shared) cache.filled_[0] = 1;  // as if there were a token
  const std::int64_t tokens[] = {config_.pad};
  const std::span<const std::int64_t> one(tokens);
  step(cache, {&one, 1});
}

std::size_t Decoder::input_named(const Graph& graph, const std::string& name) const {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.value(graph.inputs()[i]).name == name) return i;
  throw Error(ErrorCode::kBadInput, "the model has no input \"" + name + "\", which genai_config.json names");
}

std::size_t Decoder::output_named(const Graph& graph, const std::string& name) const {
  for (std::size_t o = 0; o < graph.outputs().size(); ++o)
    if (graph.outputs()[o].name == name) return o;
  throw Error(ErrorCode::kBadInput, "the model has no output \"" + name + "\", which genai_config.json names");
}

void Decoder::find_cache(const Graph& graph) {
  for (const std::int64_t layer : config_.convolutions)
    add_to_cache(graph, layer_name(config_.past_states, layer), layer_name(config_.present_states, layer), true);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    if (!has_keys(config_, layer)) continue;
    add_to_cache(graph, layer_name(config_.past_keys, layer), layer_name(config_.present_keys, layer), false);
    add_to_cache(graph, layer_name(config_.past_values, layer), layer_name(config_.present_values, layer), false);
  }
}

void Decoder::add_to_cache(const Graph& graph, const std::string& past, const std::string& present, bool is_state) {
  CacheTensor c{input_named(graph, past), output_named(graph, present), present};
  const Value& value = graph.value(graph.inputs()[c.input]);
  const std::string place = "input \"" + value.name + "\"";
  const auto known = [&](std::size_t axis, std::int64_t configured) {
    const Index& size = value.type.shape[axis];
    if (size.is_constant() && size.value() != configured)
      throw Error(ErrorCode::kBadInput,
                  "has size " + size.to_string() + " on axis " + std::to_string(axis) + ", genai_config.json says " +
                      std::to_string(configured),
                  place);
    return configured;
  };
  c.is_state = is_state;
  if (!value.shape_known || value.type.rank() != (is_state ? 3 : 4))
    throw Error(ErrorCode::kBadInput,
                is_state ? "must have three axes: sequences, channels, positions"
                         : "must have four axes: sequences, heads, positions, elements",
                place);
  if (!is_state && value.type.shape[2].is_constant())
    throw Error(ErrorCode::kUnsupported, "its number of positions is fixed", place);
  c.type = value.type.type;
  if (c.type != DataType::kFloat && c.type != DataType::kHalf && c.type != DataType::kBfloat16)
    throw Error(ErrorCode::kUnsupported, "the cache must be of float, float16 or bfloat16", place);
  c.heads = known(1, is_state ? config_.state_channels : config_.cached_heads);
  c.size = is_state ? known(2, config_.state_length) : known(3, config_.head_size);
  cache_.push_back(std::move(c));
}

// Every input must get a value.
void Decoder::require_complete(const Graph& graph) const {
  std::set<std::size_t> given{ids_, mask_, positions_, rows_};
  for (const CacheTensor& c : cache_) given.insert(c.input);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    if (!given.contains(i))
      throw Error(ErrorCode::kUnsupported, "genai_config.json does not say what it gets",
                  "input \"" + graph.value(graph.inputs()[i]).name + "\"");
}

void Decoder::make_room(Cache& cache, std::size_t positions) const {
  // Twice as much each time: few sizes to plan for, which all texts have in common.
  constexpr std::size_t kLeast = 128;
  if (cache.room_ >= positions && !cache.entries_.empty()) return;
  std::size_t room = 0;
  if (config_.cache_is_shared) {
    room = std::max(kLeast, cache.room_);
    while (room < positions) room *= 2;
    room = std::min(room, std::max(static_cast<std::size_t>(config_.context_length), positions));
  }
  const auto sequences = static_cast<std::int64_t>(cache.filled_.size());
  const auto size = static_cast<std::int64_t>(room);
  for (std::size_t i = 0; i < cache_.size(); ++i) {
    const CacheTensor& c = cache_[i];
    if (cache.entries_.size() <= i)
      cache.entries_.push_back(zeros(c.type, c.sizes(sequences, size)));
    else if (c.is_state)
      continue;
    else if (const auto* placed = std::get_if<DeviceTensor>(&cache.entries_[i]))
      cache.entries_[i] = longer(memory_->copy_out(*placed), size);
    else
      cache.entries_[i] = longer(std::get<Tensor>(cache.entries_[i]), size);
  }
  cache.room_ = room;
}

// 1 for tokens that are in the cache or new. As GroupQueryAttention reads it, the number of ones of a row is the sequence's
// length with the new tokens, and a mask that is as long as the new tokens says that these are all.
Tensor Decoder::mask(const Cache& cache, TokenSpans tokens, std::size_t length) const {
  const bool is_first = std::all_of(cache.filled_.begin(), cache.filled_.end(), [](std::size_t n) { return n == 0; });
  std::size_t columns = length;
  if (!is_first) columns = config_.cache_is_shared ? cache.room_ : cache.filled_.front() + length;
  Rows rows(mask_type_, tokens.size(), columns);
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    // A sequence that has ended is computed with the others, and its last entry is overwritten.
    const std::size_t ones = std::min(columns, cache.filled_[s] + std::max<std::size_t>(1, tokens[s].size()));
    for (std::size_t t = 0; t < ones; ++t) rows.at(s, t) = 1;
  }
  return rows.tensor();
}

std::vector<std::vector<float>> Decoder::step(Cache& cache, TokenSpans tokens) const {
  if (cache.is_broken_) throw Error(ErrorCode::kUsage, "an earlier step failed");
  std::size_t length = 1, positions = 0;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    length = std::max(length, tokens[s].size());
    positions = std::max(positions, cache.filled_[s] + tokens[s].size());
  }
  const bool shared = config_.cache_is_shared;
  const bool is_first = std::all_of(cache.filled_.begin(), cache.filled_.end(), [](std::size_t n) { return n == 0; });
  if (on_device_ != nullptr && shared && is_first && config_.convolutions.empty()) {
    length = planned_length(length, static_cast<std::size_t>(config_.context_length));
    positions = std::max(positions, length);
  }
  if (shared || cache.entries_.empty()) make_room(cache, positions);
  std::vector<PlacedTensor> inputs(rows_ + 1);
  Rows ids(ids_type_, tokens.size(), length), places(positions_type_, tokens.size(), length);
  std::vector<std::int64_t> last;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    for (std::size_t t = 0; t < length; ++t) {
      ids.at(s, t) = t < tokens[s].size() ? tokens[s][t] : config_.pad;
      places.at(s, t) = static_cast<std::int64_t>(cache.filled_[s] + t);
    }
    last.push_back(static_cast<std::int64_t>(std::max<std::size_t>(1, tokens[s].size()) - 1));
  }
  inputs[ids_] = ids.tensor();
  if (positions_ != kAbsent) inputs[positions_] = places.tensor();
  if (mask_ != kAbsent) inputs[mask_] = mask(cache, tokens, length);
  inputs[rows_] = Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(tokens.size()), 1, 1}, last);
  for (std::size_t i = 0; i < cache_.size(); ++i) inputs[cache_[i].input] = std::exchange(cache.entries_[i], Tensor());
  cache.is_broken_ = true;
  std::vector<PlacedTensor> results = run(cache, std::move(inputs));
  for (std::size_t s = 0; s < tokens.size(); ++s) cache.filled_[s] += tokens[s].size();
  if (!shared) cache.room_ = cache.filled_.front();
  const Tensor read = take_results(cache, results);
  cache.is_broken_ = false;
  std::vector<std::vector<float>> logits;
  const auto count = static_cast<std::size_t>(config_.vocabulary);
  for (std::size_t s = 0; s < tokens.size(); ++s) logits.push_back(floats_of(read, s, count));
  return logits;
}

// On a GPU only the logits come to the host.
std::vector<PlacedTensor> Decoder::run(Cache& cache, std::vector<PlacedTensor> inputs) const {
  if (on_device_ != nullptr) {
    std::vector<Destination> outputs(output_count_);
    outputs[logits_] = OnHost();
    const std::vector<PlacedTensor> spare = std::exchange(cache.spare_, {});
    for (std::size_t i = 0; i < cache_.size(); ++i) {
      const auto* const place = i < spare.size() ? std::get_if<DeviceTensor>(&spare[i]) : nullptr;
      const bool fits = place != nullptr && place->sizes == sizes_of(inputs[cache_[i].input]);
      outputs[cache_[i].output] = fits ? Destination(*place) : OnDevice{on_device_->device()};
    }
    std::vector<PlacedTensor> results = on_device_->run_placed(inputs, outputs);
    for (const CacheTensor& c : cache_) cache.spare_.push_back(std::move(inputs[c.input]));
    return results;
  }
  std::vector<Tensor> tensors;
  for (PlacedTensor& input : inputs) tensors.push_back(std::get<Tensor>(std::move(input)));
  std::vector<Tensor> results = session_->advance(std::move(tensors));
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

// Keeps the new cache, and returns the logits.
Tensor Decoder::take_results(Cache& cache, std::vector<PlacedTensor>& results) const {
  const auto require = [](const PlacedTensor& result, const Sizes& sizes, const std::string& name) {
    const Sizes& found = sizes_of(result);
    if (found == sizes) return;
    const auto text = [](const Sizes& all) {
      std::string joined;
      for (const std::int64_t size : all) joined += (joined.empty() ? "" : "x") + std::to_string(size);
      return joined;
    };
    throw Error(ErrorCode::kBadInput, "is " + text(found) + ", must be " + text(sizes) + " by genai_config.json",
                "output \"" + name + "\"");
  };
  const auto sequences = static_cast<std::int64_t>(cache.filled_.size());
  require(results[logits_], {sequences, 1, config_.vocabulary}, config_.logits);
  for (std::size_t i = 0; i < cache_.size(); ++i) {
    const CacheTensor& c = cache_[i];
    require(results[c.output], c.sizes(sequences, static_cast<std::int64_t>(cache.room_)), c.result);
    cache.entries_[i] = std::move(results[c.output]);
  }
  return std::get<Tensor>(std::move(results[logits_]));
}

}  // namespace rewright::api
