#include "runtime/training/steps/gradient_exchange.h"

#include <algorithm>
#include <cmath>

#include "distribution/all_reduce.h"
#include "distribution/elements.h"
#include "distribution/exact_sum.h"

namespace rewright::training {

namespace {

using Bytes = GradientExchange::Bytes;

// The most buckets that wait for their exchange while gradients are computed; few where memory is scarce.
constexpr std::size_t kInFlight = 3, kInFlightInParts = 1;

template <class T>
bool scale_and_judge(Bytes values, double factor) {
  const std::span<T> numbers(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T));
  bool finite = true;
  for (T& v : numbers) {
    v = static_cast<T>(v * static_cast<T>(factor));
    finite = finite && std::isfinite(v);
  }
  return finite;
}

// Multiplies by the factor; returns whether everything is finite.
bool scale_and_judge(Bytes values, DataType type, double factor) {
  if (type == DataType::kFloat) return scale_and_judge<float>(values, factor);
  if (type == DataType::kDouble) return scale_and_judge<double>(values, factor);
  std::vector<float> wide(values.size() / 2);
  widen(values, wide, type);
  const bool finite = scale_and_judge<float>(std::as_writable_bytes(std::span(wide)), factor);
  narrow(wide, values, type);
  return finite;
}

template <class T>
void add_squares(std::span<const T> values, ExactSum& sum) {
  for (const T v : values) sum.add(static_cast<double>(v) * static_cast<double>(v));
}

void add_squares(std::span<const std::byte> values, DataType type, ExactSum& sum) {
  const auto numbers = [&]<class T>(T) {
    return std::span(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
  };
  if (type == DataType::kFloat) return add_squares(numbers(float()), sum);
  if (type == DataType::kDouble) return add_squares(numbers(double()), sum);
  std::vector<float> wide(values.size() / 2);
  widen(values, wide, type);
  add_squares(std::span<const float>(wide), sum);
}

}  // namespace

GradientExchange::GradientExchange(const ProcessLayout& layout, const ExchangeOptions& options, Communicator& processes,
                                   std::size_t shards, WorkQueue* queue)
    : layout_(layout), options_(options), processes_(processes), shards_(shards), queue_(queue) {
  const AllReduceStrategy strategy = options.all_reduce.strategy;
  const bool around_a_ring = strategy == AllReduceStrategy::kRing || strategy == AllReduceStrategy::kEngine;
  if (options.zero > 0 && !options.in_order && !around_a_ring)
    throw Error(ErrorCode::kUsage, "gradients that are spread over processes go round a ring, or are added in order");
}

void GradientExchange::start_step(std::size_t shards) {
  shards_here_ = shards;
  const std::size_t buckets = layout_.buckets().size();
  buffers_.resize(options_.in_order ? shards : std::min<std::size_t>(2, shards));
  for (auto& buffer : buffers_) buffer.resize(buckets);
  parts_.resize(buckets);
  missing_.clear();
  for (const Bucket& b : layout_.buckets()) missing_.push_back(b.slots.size());
  sent_ = 0, finite_ = true;
}

// The buffer in which a shard's gradients are computed.
std::size_t GradientExchange::buffer_of(std::size_t shard) const {
  return options_.in_order ? shard : std::min<std::size_t>(shard, 1);
}

Bytes GradientExchange::memory(std::size_t shard, std::size_t parameter) {
  const std::size_t b = layout_.bucket_of(parameter);
  Memory& memory = buffers_[buffer_of(shard)][b];
  if (!memory) memory = allocated(layout_.bucket(b).bytes(), gauge_);
  return memory->mutable_bytes().subspan(layout_.slot_begin(parameter),
                                         layout_.slot_of(parameter).count * layout_.bucket(b).width());
}

void GradientExchange::known(std::size_t shard, std::size_t parameter) {
  const std::size_t b = layout_.bucket_of(parameter);
  if (!options_.in_order && shard > 0) add_elements(memory(0, parameter), memory(shard, parameter), layout_.bucket(b).type);
  if (shard + 1 < shards_here_) return;
  --missing_[b];
  send_what_is_complete();
}

void GradientExchange::give_up() {
  for (std::size_t p = 0; p < layout_.parameters().size(); ++p)
    for (std::size_t k = 0; k < shards_here_ && layout_.bucket_of(p) >= sent_; ++k) memory(k, p);
  std::ranges::fill(missing_, 0);
  send_what_is_complete();
}

void GradientExchange::end_step() {
  if (options_.zero >= 2) std::ranges::fill(parts_, nullptr);
}

// All processes send in the same order.
void GradientExchange::send_what_is_complete() {
  for (; sent_ < missing_.size() && missing_[sent_] == 0; ++sent_) {
    const std::size_t b = sent_;
    if (queue_ != nullptr)
      queue_->add([this, b] { exchange_bucket(b); }, options_.zero >= 2 ? kInFlightInParts : kInFlight);
    else
      exchange_bucket(b);
  }
}

// Sums a bucket's gradients over all shards: the whole bucket, or this process's part.
void GradientExchange::add_up(std::span<const Bytes> vectors, const Bucket& of, DataType type) {
  if (options_.in_order)
    reduce_scatter_in_order(processes_, vectors, type, of.bounds);
  else if (options_.zero > 0)
    reduce_scatter(processes_, vectors[0], type, of.bounds);
  else
    all_reduce(processes_, options_.all_reduce, vectors[0], type);
  if (options_.in_order && options_.zero == 0) all_gather_parts(processes_, vectors[0], byte_size(type), of.bounds);
}

// As above for floats that are sent in 16 bits. `sum`: this process's result, in the first vector.
void GradientExchange::add_up_narrowed(std::span<const Bytes> vectors, std::size_t b, Bytes sum) {
  const Bucket& of = layout_.bucket(b);
  std::vector<std::vector<std::byte>> narrowed;
  std::vector<Bytes> narrow_vectors;
  for (const Bytes vector : vectors) {
    narrowed.emplace_back(of.count * 2);
    narrow({reinterpret_cast<const float*>(vector.data()), of.count}, narrowed.back(), options_.gradients);
  }
  for (auto& vector : narrowed) narrow_vectors.emplace_back(vector);
  add_up(narrow_vectors, of, options_.gradients);
  const std::size_t first = options_.zero > 0 ? layout_.part_begin(b) / 2 : 0;
  widen(narrow_vectors[0].subspan(first, sum.size() / 2), {reinterpret_cast<float*>(sum.data()), sum.size() / 4},
        options_.gradients);
}

void GradientExchange::exchange_bucket(std::size_t b) {
  const Bucket& of = layout_.bucket(b);
  std::vector<Bytes> vectors;
  for (auto& buffer : buffers_) {
    if (!options_.in_order && !vectors.empty()) break;
    vectors.push_back(buffer[b]->mutable_bytes());
  }
  const Bytes sum = options_.zero > 0 ? vectors[0].subspan(layout_.part_begin(b), layout_.part_size(b)) : vectors[0];
  if (of.type == DataType::kFloat && options_.gradients != DataType::kFloat)
    add_up_narrowed(vectors, b, sum);
  else
    add_up(vectors, of, of.type);
  if (!scale_and_judge(sum, of.type, 1.0 / static_cast<double>(shards_))) finite_ = false;
  if (options_.zero < 2) return;
  parts_[b] = allocated(sum.size(), gauge_);
  std::ranges::copy(sum, parts_[b]->mutable_bytes().begin());
  for (auto& buffer : buffers_) buffer[b].reset();
}

void GradientExchange::add_over_shards(std::span<const Bytes> vectors, DataType type) {
  if (options_.in_order) {
    const Bounds bounds = even_bounds(vectors[0].size() / byte_size(type), processes_.size());
    reduce_scatter_in_order(processes_, vectors, type, bounds);
    all_gather_parts(processes_, vectors[0], byte_size(type), bounds);
    return;
  }
  for (std::size_t k = 1; k < vectors.size(); ++k) add_elements(vectors[0], vectors[k], type);
  all_reduce(processes_, options_.all_reduce, vectors[0], type);
}

std::vector<double> GradientExchange::mean_over_shards(std::vector<std::vector<double>>& values) {
  std::vector<Bytes> vectors;
  for (auto& v : values) vectors.push_back(std::as_writable_bytes(std::span(v)));
  add_over_shards(vectors, DataType::kDouble);
  if (!scale_and_judge(vectors[0], DataType::kDouble, 1.0 / static_cast<double>(shards_))) finite_ = false;
  return values[0];
}

bool GradientExchange::finite() { return options_.zero == 0 ? finite_.load() : !processes_.any(!finite_); }

// The mean gradients of a bucket: this process's part, or all.
Bytes GradientExchange::mean_of_bucket(std::size_t b) {
  if (options_.zero >= 2) return parts_[b]->mutable_bytes();
  const Bytes all = buffers_[0][b]->mutable_bytes();
  return options_.zero == 1 ? all.subspan(layout_.part_begin(b), layout_.part_size(b)) : all;
}

void GradientExchange::clip(double norm) {
  const std::size_t buckets = layout_.buckets().size();
  ExactSum squares;
  for (std::size_t b = 0; b < buckets; ++b) add_squares(mean_of_bucket(b), layout_.bucket(b).type, squares);
  if (options_.zero > 0) {
    std::vector<double> digits = squares.digits();
    all_reduce(processes_, options_.all_reduce, std::as_writable_bytes(std::span(digits)), DataType::kDouble);
    squares = ExactSum::of(digits);
  }
  const double length = std::sqrt(squares.value());
  if (length <= norm) return;
  for (std::size_t b = 0; b < buckets; ++b) scale_and_judge(mean_of_bucket(b), layout_.bucket(b).type, norm / length);
}

std::vector<Tensor> GradientExchange::means() const {
  std::vector<Tensor> result;
  if (options_.zero == 0) {
    for (std::size_t p = 0; p < layout_.parameters().size(); ++p) {
      const auto& [type, sizes] = layout_.parameters()[p];
      result.push_back(view(buffers_[0][layout_.bucket_of(p)], layout_.slot_begin(p), type, sizes));
    }
    return result;
  }
  const bool in_parts = options_.zero >= 2;
  for (const Piece& piece : layout_.own_pieces())
    result.push_back(view((in_parts ? parts_ : buffers_[0])[piece.bucket], layout_.offset(piece, in_parts),
                          layout_.bucket(piece.bucket).type, piece.sizes));
  return result;
}

}  // namespace rewright::training
