#include "runtime/training/parallel_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "distribution/elements.h"
#include "distribution/exact_sum.h"
#include "runtime/stream.h"
#include "runtime/training/parameter_layout.h"
#include "runtime/training/staged_gradients.h"
#include "runtime/training/work_queue.h"

namespace rewright {

namespace {

using Bytes = std::span<std::byte>;

// Buckets that wait to be exchanged, or are, while gradients are computed: few where memory is the point.
constexpr std::size_t kInFlight = 3, kInFlightInParts = 1;
// No limit, for what does not pile up: of fetched parameters one is ahead, and sums are waited for.
constexpr std::size_t kAny = ~std::size_t{0};

// How many bytes there are of a kind, and were at most. Two threads allocate and free.
struct Gauge {
  std::atomic<std::size_t> now = 0, most = 0;
  void change(std::size_t more, std::size_t less) {
    const std::size_t here = now.fetch_add(more - less) + more - less;
    for (std::size_t seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
  }
};

// Zeros that a gauge counts for as long as someone holds them.
using Memory = std::shared_ptr<Tensor>;
Memory allocated(std::size_t bytes, Gauge& gauge) {
  auto memory = std::make_unique<Tensor>(DataType::kUint8, Sizes{static_cast<std::int64_t>(bytes)});
  std::ranges::fill(memory->mutable_bytes(), std::byte{0});
  gauge.change(bytes, 0);
  return {memory.release(), [&gauge, bytes](Tensor* t) {
            gauge.change(0, bytes);
            delete t;
          }};
}

// Some of these bytes as a tensor that sees what becomes of them.
Tensor view(const Memory& memory, std::size_t offset, DataType type, const Sizes& sizes) {
  return {type, sizes, memory, memory->bytes().data() + offset};
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.type(), tensor.sizes());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

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

// Multiplies by the factor; is everything finite?
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

// The parameters by the place of what computes their gradients, which are the outputs behind the first.
std::vector<std::size_t> order_of_gradients(const Graph& graph, std::size_t parameters) {
  std::vector<std::size_t> order;
  for (const std::size_t o : outputs_as_computed(graph))
    if (o >= 1 && o <= parameters) order.push_back(o - 1);
  return order;
}

std::vector<ParameterKind> kinds(const std::vector<Tensor>& tensors) {
  std::vector<ParameterKind> result;
  for (const Tensor& t : tensors) result.push_back({t.type(), t.sizes()});
  return result;
}

// Does each element move by what is known of this element alone?
bool moves_by_elements(const TrainingOptions& options) {
  return options.update.method != UpdateMethod::kLars && options.update.method != UpdateMethod::kLamb;
}

}  // namespace

std::vector<std::size_t> outputs_as_computed(const Graph& graph) {
  std::map<ValueId, std::size_t> made;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId v : graph.nodes()[n]->outputs) made[v] = n + 1;
  std::vector<std::size_t> order(graph.outputs().size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t o) { return made[graph.outputs()[o].value]; });
  return order;
}

struct ParallelStep::State {
  const TrainingGraphs& graphs;
  TrainingOptions training;
  ExchangeOptions exchange;
  Communicator& processes;
  const std::size_t shards, inputs;  // inputs: of the graph of gradients, before parameters
  ParameterLayout layout;
  std::vector<Piece> pieces;  // of this process
  std::unique_ptr<Session> gradients, update;
  std::unique_ptr<StagedGradients> staged;  // instead of gradients, where shards share statistics
  Gauge parameter_gauge, gradient_gauge, state_gauge;

  // Of the process: whole tensors, or views of buckets of which it has all (zero 1 and 2) or its part (zero 3).
  TrainedTensors tensors;
  std::vector<Memory> parameter_buckets;
  std::vector<Tensor> piece_states;  // of the first kind, then of the second

  // Of one step.
  std::vector<std::vector<Memory>> buffers;  // by shard (if added in order) or: the sum, and the present shard; by bucket
  std::vector<Memory> parts;                 // by bucket: the part of this process, from zero 2 on
  std::vector<std::size_t> missing;          // by bucket: gradients that are not there yet
  std::size_t sent = 0;                      // buckets
  std::vector<std::vector<double>> facts;    // by shard: the loss and the statistics
  std::atomic<bool> finite = true;

  // In stage 3, the parameters that a step fetches, in this order: as the first step asked for them. While one is used the next
  // one comes.
  std::vector<std::size_t> fetches;
  std::size_t fetched = 0;  // in the present step
  struct Fetch {
    std::size_t parameter;
    std::future<Memory> memory;
  };
  std::optional<Fetch> ahead;

  std::optional<WorkQueue> queue;  // last: it ends before what it works on

  State(const TrainingGraphs& g, const TrainingOptions& t, const ExchangeOptions& e, Communicator& p, std::int64_t s,
        const Prepare& prepare, const TrainedTensors& start)
      : graphs(g),
        training(t),
        exchange(e),
        processes(p),
        shards(static_cast<std::size_t>(s)),
        inputs(g.gradients.inputs().size() - g.parameters.size() - g.statistics.size() - g.sums),
        layout(kinds(start.parameters), order_of_gradients(g.gradients, g.parameters.size()),
               {e.bucket_bytes, p.size(), e.zero > 0 && moves_by_elements(t)}) {
    const bool around_a_ring =
        exchange.all_reduce.strategy == AllReduceStrategy::kRing || exchange.all_reduce.strategy == AllReduceStrategy::kEngine;
    if (exchange.zero > 0 && !exchange.in_order && !around_a_ring)
      throw Error(ErrorCode::kUsage, "gradients that are spread over processes go round a ring, or are added in order");
    pieces = layout.pieces(processes.rank());
    if (graphs.sums == 0)
      gradients = prepare(graphs.gradients, true);
    else
      staged = std::make_unique<StagedGradients>(graphs.gradients, graphs.sums,
                                                 [&](const Graph& part) { return prepare(part, true); });
    update = exchange.zero == 0 ? prepare(graphs.update, true) : pieces.empty() ? nullptr : prepare(update_of_pieces(), false);
    load(start);
    if (processes.size() > 1 && (exchange.zero == 3 || staged || layout.buckets().size() > 1)) queue.emplace();
  }

  Graph update_of_pieces() const {
    std::vector<UpdatedPart> parts_of_parameters;
    for (const Piece& piece : pieces)
      parts_of_parameters.push_back({graphs.parameters[piece.parameter].name,
                                     {layout.parameters()[piece.parameter].type, to_indices(piece.sizes)},
                                     static_cast<std::int64_t>(piece.parameter),
                                     static_cast<std::int64_t>(piece.first - layout.slot_of(piece.parameter).first)});
    return make_update_graph(parts_of_parameters, training);
  }

  const Bucket& bucket(std::size_t b) const { return layout.buckets()[b]; }
  // This process's part of a bucket, in bytes.
  std::size_t part_begin(std::size_t b) const { return bucket(b).bounds[processes.rank()] * bucket(b).width(); }
  std::size_t part_size(std::size_t b) const {
    return bucket(b).bounds[processes.rank() + 1] * bucket(b).width() - part_begin(b);
  }
  // Where a piece lies in memory that holds a whole bucket, or this process's part of it.
  std::size_t offset(const Piece& piece, bool part) const {
    return piece.first * bucket(piece.bucket).width() - (part ? part_begin(piece.bucket) : 0);
  }
  Tensor piece_of(const std::vector<Memory>& of_buckets, const Piece& piece, bool part) const {
    return view(of_buckets[piece.bucket], offset(piece, part), bucket(piece.bucket).type, piece.sizes);
  }

  // What each process has a piece of, in all of them.
  Memory whole(std::size_t parameter, const std::byte* mine, Gauge& gauge) {
    const Bounds bounds = layout.bounds_of(parameter);
    const std::size_t width = bucket(layout.bucket_of(parameter)).width(), me = processes.rank();
    Memory memory = allocated(bounds.back() * width, gauge);
    const Bytes bytes = memory->mutable_bytes();
    const std::size_t here = (bounds[me + 1] - bounds[me]) * width;
    if (here > 0) std::memcpy(bytes.data() + bounds[me] * width, mine, here);
    all_gather_parts(processes, bytes, width, bounds);
    return memory;
  }

  Memory whole_parameter(std::size_t parameter) {
    const std::size_t b = layout.bucket_of(parameter);
    const Slot& slot = layout.slot_of(parameter);
    const std::size_t first = std::max(slot.first * bucket(b).width(), part_begin(b)) - part_begin(b);
    return whole(parameter, parameter_buckets[b]->bytes().data() + std::min(first, part_size(b)), parameter_gauge);
  }

  Fetch start_fetching(std::size_t parameter) {
    const auto task = std::make_shared<std::packaged_task<Memory()>>([this, parameter] { return whole_parameter(parameter); });
    Fetch fetch{parameter, task->get_future()};
    queue->add([task] { (*task)(); }, kAny);
    return fetch;
  }

  // The parameter for a step of the graph. Every process asks in the same order, so that they also fetch in the same one.
  Memory fetched_parameter(std::size_t parameter) {
    if (!queue) return whole_parameter(parameter);
    Fetch fetch = ahead && ahead->parameter == parameter ? *std::exchange(ahead, std::nullopt) : start_fetching(parameter);
    if (fetched == fetches.size()) fetches.push_back(parameter);
    ++fetched;
    if (fetched < fetches.size()) ahead = start_fetching(fetches[fetched]);
    return fetch.memory.get();
  }

  void load(const TrainedTensors& from) {
    tensors.statistics = from.statistics;
    if (exchange.zero == 0) {
      tensors = from;
      return;
    }
    const bool in_parts = exchange.zero == 3;
    if (parameter_buckets.empty())
      for (std::size_t b = 0; b < layout.buckets().size(); ++b)
        parameter_buckets.push_back(allocated(in_parts ? part_size(b) : bucket(b).bytes(), parameter_gauge));
    const auto bytes_of = [&](const Piece& piece, const Tensor& t) {
      const std::size_t width = bucket(piece.bucket).width();
      return t.bytes().subspan((piece.first - layout.slot_of(piece.parameter).first) * width, piece.count * width);
    };
    tensors.parameters.clear();
    for (std::size_t p = 0; p < from.parameters.size() && !in_parts; ++p) {
      const std::size_t b = layout.bucket_of(p), at = layout.slot_of(p).first * bucket(b).width();
      std::ranges::copy(from.parameters[p].bytes(),
                        parameter_buckets[b]->mutable_bytes().begin() + static_cast<std::ptrdiff_t>(at));
      tensors.parameters.push_back(view(parameter_buckets[b], at, from.parameters[p].type(), from.parameters[p].sizes()));
    }
    piece_states.clear();
    for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
      for (const Piece& piece : pieces) {
        const auto part = bytes_of(piece, from.states[kind * from.parameters.size() + piece.parameter]);
        const Memory memory = allocated(part.size(), state_gauge);
        std::ranges::copy(part, memory->mutable_bytes().begin());
        piece_states.push_back(view(memory, 0, bucket(piece.bucket).type, piece.sizes));
      }
    if (!in_parts) return;
    for (const Piece& piece : pieces)
      std::ranges::copy(
          bytes_of(piece, from.parameters[piece.parameter]),
          parameter_buckets[piece.bucket]->mutable_bytes().begin() + static_cast<std::ptrdiff_t>(offset(piece, true)));
  }

  TrainedTensors gather() {
    if (exchange.zero == 0) return tensors;
    TrainedTensors all;
    all.statistics = tensors.statistics;
    for (const Tensor& t : tensors.parameters) all.parameters.push_back(copy_of(t));
    Gauge uncounted;  // what is gathered outlives it
    const auto whole_tensor = [&](std::size_t p, const std::byte* mine) {
      const auto& [type, sizes] = layout.parameters()[p];
      return copy_of(view(whole(p, mine, uncounted), 0, type, sizes));
    };
    for (std::size_t p = 0; p < layout.parameters().size() && exchange.zero == 3; ++p)
      all.parameters.push_back(copy_of(view(whole_parameter(p), 0, layout.parameters()[p].type, layout.parameters()[p].sizes)));
    for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
      for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
        const auto mine = std::ranges::find_if(pieces, [&](const Piece& piece) { return piece.parameter == p; });
        const auto number = static_cast<std::size_t>(mine - pieces.begin());
        all.states.push_back(
            whole_tensor(p, mine == pieces.end() ? nullptr : piece_states[kind * pieces.size() + number].bytes().data()));
      }
    return all;
  }

  // The tensors of one shard's run.
  struct Stream : TensorStream {
    State& state;
    const std::vector<Tensor>& given;
    const std::size_t shard;
    const bool last;
    std::map<std::size_t, Tensor> real;  // outputs that are no gradients

    Stream(State& s, const std::vector<Tensor>& g, std::size_t number, bool l) : state(s), given(g), shard(number), last(l) {}

    bool is_gradient(std::size_t output) const { return output > 0 && output <= state.layout.parameters().size(); }

    Tensor input(std::size_t number) override {
      if (number < state.inputs) return given[number];
      number -= state.inputs;
      const std::size_t count = state.layout.parameters().size();
      if (number >= count) return state.tensors.statistics[number - count];
      if (state.exchange.zero < 3) return state.tensors.parameters[number];
      const auto& [type, sizes] = state.layout.parameters()[number];
      return view(state.fetched_parameter(number), 0, type, sizes);
    }

    std::span<std::byte> output(std::size_t number) override {
      if (is_gradient(number)) return state.gradient_memory(shard, number - 1);
      const TensorType& type = state.graphs.gradients.value(state.graphs.gradients.outputs()[number].value).type;
      return (real[number] = Tensor(type.type, values(type.shape))).mutable_bytes();
    }

    void finished(std::size_t number) override {
      if (is_gradient(number)) return state.gradient_known(shard, last, number - 1);
      std::vector<double>& facts = state.facts[shard];
      std::size_t at = 0;
      for (std::size_t o = 0; o < number; ++o)
        if (!is_gradient(o)) at += static_cast<std::size_t>(state.size_of_output(o));
      const std::vector<double> numbers = real.at(number).reals();
      facts.resize(std::max(facts.size(), at + numbers.size()));
      std::ranges::copy(numbers, facts.begin() + static_cast<std::ptrdiff_t>(at));
    }
  };

  std::int64_t size_of_output(std::size_t output) const {
    return element_count(values(graphs.gradients.value(graphs.gradients.outputs()[output].value).type.shape));
  }

  // Which of the buffers a shard's gradients are computed in.
  std::size_t buffer_of(std::size_t shard) const { return exchange.in_order ? shard : std::min<std::size_t>(shard, 1); }

  std::span<std::byte> gradient_memory(std::size_t shard, std::size_t parameter) {
    const std::size_t b = layout.bucket_of(parameter);
    Memory& memory = buffers[buffer_of(shard)][b];
    if (!memory) memory = allocated(bucket(b).bytes(), gradient_gauge);
    const Slot& slot = layout.slot_of(parameter);
    return memory->mutable_bytes().subspan(slot.first * bucket(b).width(), slot.count * bucket(b).width());
  }

  void gradient_known(std::size_t shard, bool last, std::size_t parameter) {
    const std::size_t b = layout.bucket_of(parameter);
    if (!exchange.in_order && shard > 0)
      add_elements(gradient_memory(0, parameter), gradient_memory(shard, parameter), bucket(b).type);
    if (!last) return;
    --missing[b];
    send_what_is_complete();
  }

  // In the same order in all processes.
  void send_what_is_complete() {
    for (; sent < missing.size() && missing[sent] == 0; ++sent) {
      const std::size_t b = sent;
      if (queue)
        queue->add([this, b] { exchange_bucket(b); }, exchange.zero >= 2 ? kInFlightInParts : kInFlight);
      else
        exchange_bucket(b);
    }
  }

  // The sum of a bucket's gradients over all shards: all of it, or the part of this process.
  void add_up(std::span<const Bytes> vectors, const Bucket& of, DataType type) {
    if (exchange.in_order)
      reduce_scatter_in_order(processes, vectors, type, of.bounds);
    else if (exchange.zero > 0)
      reduce_scatter(processes, vectors[0], type, of.bounds);
    else
      all_reduce(processes, exchange.all_reduce, vectors[0], type);
    if (exchange.in_order && exchange.zero == 0) all_gather_parts(processes, vectors[0], byte_size(type), of.bounds);
  }

  void exchange_bucket(std::size_t b) {
    const Bucket& of = bucket(b);
    std::vector<Bytes> vectors;
    for (auto& buffer : buffers) {
      if (!exchange.in_order && !vectors.empty()) break;
      vectors.push_back(buffer[b]->mutable_bytes());
    }
    const Bytes sum = exchange.zero > 0 ? vectors[0].subspan(part_begin(b), part_size(b)) : vectors[0];
    if (of.type == DataType::kFloat && exchange.gradients != DataType::kFloat) {
      std::vector<std::vector<std::byte>> narrowed;
      std::vector<Bytes> narrow_vectors;
      for (const Bytes vector : vectors) {
        narrowed.emplace_back(of.count * 2);
        narrow({reinterpret_cast<const float*>(vector.data()), of.count}, narrowed.back(), exchange.gradients);
      }
      for (auto& vector : narrowed) narrow_vectors.emplace_back(vector);
      add_up(narrow_vectors, of, exchange.gradients);
      const std::size_t first = exchange.zero > 0 ? part_begin(b) / 2 : 0;
      widen(narrow_vectors[0].subspan(first, sum.size() / 2), {reinterpret_cast<float*>(sum.data()), sum.size() / 4},
            exchange.gradients);
    } else {
      add_up(vectors, of, of.type);
    }
    if (!scale_and_judge(sum, of.type, 1.0 / static_cast<double>(shards))) finite = false;
    if (exchange.zero < 2) return;
    parts[b] = allocated(sum.size(), gradient_gauge);
    std::ranges::copy(sum, parts[b]->mutable_bytes().begin());
    for (auto& buffer : buffers) buffer[b].reset();
  }

  // In the first of these vectors, one for each shard of this process, the sum over all shards.
  void add_over_shards(std::span<const Bytes> vectors, DataType type) {
    if (exchange.in_order) {
      const Bounds bounds = even_bounds(vectors[0].size() / byte_size(type), processes.size());
      reduce_scatter_in_order(processes, vectors, type, bounds);
      all_gather_parts(processes, vectors[0], byte_size(type), bounds);
      return;
    }
    for (std::size_t k = 1; k < vectors.size(); ++k) add_elements(vectors[0], vectors[k], type);
    all_reduce(processes, exchange.all_reduce, vectors[0], type);
  }

  // The loss and the statistics, of all shards.
  std::vector<double> add_up_facts() {
    std::vector<Bytes> vectors;
    for (auto& f : facts) vectors.push_back(std::as_writable_bytes(std::span(f)));
    add_over_shards(vectors, DataType::kDouble);
    if (!scale_and_judge(vectors[0], DataType::kDouble, 1.0 / static_cast<double>(shards))) finite = false;
    return facts[0];
  }

  void compute_gradients(const std::vector<std::vector<Tensor>>& given) {
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<TensorStream*> of_shards;
    for (std::size_t k = 0; k < given.size(); ++k) {
      streams.push_back(std::make_unique<Stream>(*this, given[k], k, k + 1 == given.size()));
      of_shards.push_back(streams.back().get());
    }
    if (!staged) {
      for (TensorStream* const stream : of_shards) run_streamed(*gradients, graphs.gradients.inputs().size(), *stream);
      return;
    }
    // One thread speaks with the other processes, and all of them in the same order.
    staged->run(of_shards, [this](std::span<const Bytes> shares, DataType type) {
      if (!queue) return add_over_shards(shares, type);
      queue->add([this, shares, type] { add_over_shards(shares, type); }, kAny);
      queue->wait();
    });
  }

  double advance(const std::vector<std::vector<Tensor>>& given, const std::vector<Tensor>& schedule, bool bad) {
    const std::size_t buckets = layout.buckets().size();
    buffers.resize(exchange.in_order ? given.size() : std::min<std::size_t>(2, given.size()));
    for (auto& buffer : buffers) buffer.resize(buckets);
    parts.resize(buckets);
    missing.clear();
    for (const Bucket& b : layout.buckets()) missing.push_back(b.slots.size());
    sent = 0, fetched = 0, finite = true;
    ahead.reset();
    facts.assign(given.size(), {});
    try {
      compute_gradients(given);
    } catch (...) {
      // The others wait for the buckets that are under way: only then can this process say what has happened.
      if (queue && exchange.zero < 3 && !staged) {
        for (std::size_t p = 0; p < layout.parameters().size(); ++p)
          for (std::size_t k = 0; k < given.size() && layout.bucket_of(p) >= sent; ++k) gradient_memory(k, p);
        std::ranges::fill(missing, 0);
        send_what_is_complete();
      }
      if (queue) queue->wait();
      throw;
    }
    if (queue) queue->wait();
    if (bad) facts[0][0] = NAN;
    const std::vector<double> sums = add_up_facts();
    const bool useful = exchange.zero == 0 ? finite.load() : !processes.any(!finite);
    if (useful) {
      move(schedule);
      std::size_t next = 1;
      for (Tensor& s : tensors.statistics) {
        s = Tensor::from_reals(s.type(), s.sizes(), std::span(sums).subspan(next, static_cast<std::size_t>(s.size())));
        next += static_cast<std::size_t>(s.size());
      }
    }
    if (exchange.zero >= 2) std::ranges::fill(parts, nullptr);
    return useful ? sums[0] : NAN;
  }

  // What this process has of a bucket's gradients: all of it, or its part.
  Bytes mean_gradients(std::size_t b) {
    if (exchange.zero >= 2) return parts[b]->mutable_bytes();
    const Bytes all = buffers[0][b]->mutable_bytes();
    return exchange.zero == 1 ? all.subspan(part_begin(b), part_size(b)) : all;
  }

  // Makes the length of all gradients together at most `norm`. It is added up exactly, so that it does not depend on how they
  // are spread over processes.
  void clip(double norm) {
    ExactSum squares;
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) add_squares(mean_gradients(b), bucket(b).type, squares);
    if (exchange.zero > 0) {
      std::vector<double> digits = squares.digits();
      all_reduce(processes, exchange.all_reduce, std::as_writable_bytes(std::span(digits)), DataType::kDouble);
      squares = ExactSum::of(digits);
    }
    const double length = std::sqrt(squares.value());
    if (length <= norm) return;
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) scale_and_judge(mean_gradients(b), bucket(b).type, norm / length);
  }

  // The update, and in all processes what has become of the parameters.
  void move(const std::vector<Tensor>& schedule) {
    if (training.clip_norm > 0) clip(training.clip_norm);
    if (exchange.zero == 0) return move_whole(schedule);
    if (update) move_pieces(schedule);
    if (exchange.zero < 3)
      for (std::size_t b = 0; b < layout.buckets().size(); ++b)
        all_gather_parts(processes, parameter_buckets[b]->mutable_bytes(), bucket(b).width(), bucket(b).bounds);
  }

  void move_whole(const std::vector<Tensor>& schedule) {
    std::vector<Tensor> from = schedule;
    from.insert(from.end(), tensors.parameters.begin(), tensors.parameters.end());
    for (std::size_t p = 0; p < tensors.parameters.size(); ++p) {
      const std::size_t b = layout.bucket_of(p);
      from.push_back(
          view(buffers[0][b], layout.slot_of(p).first * bucket(b).width(), bucket(b).type, layout.parameters()[p].sizes));
    }
    from.insert(from.end(), tensors.states.begin(), tensors.states.end());
    std::vector<Tensor> to = update->run(from);
    auto next = to.begin();
    for (auto* list : {&tensors.parameters, &tensors.states})
      for (Tensor& t : *list) t = std::move(*next++);
  }

  void move_pieces(const std::vector<Tensor>& schedule) {
    std::vector<Tensor> from = schedule;
    for (const Piece& piece : pieces) from.push_back(piece_of(parameter_buckets, piece, exchange.zero == 3));
    for (const Piece& piece : pieces)
      from.push_back(exchange.zero >= 2 ? piece_of(parts, piece, true) : piece_of(buffers[0], piece, false));
    from.insert(from.end(), piece_states.begin(), piece_states.end());
    const std::vector<Tensor> to = update->run(from);
    from.clear();
    for (std::size_t n = 0; n < pieces.size(); ++n) {
      const Piece& piece = pieces[n];
      std::ranges::copy(to[n].bytes(), parameter_buckets[piece.bucket]->mutable_bytes().begin() +
                                           static_cast<std::ptrdiff_t>(offset(piece, exchange.zero == 3)));
    }
    for (std::size_t n = 0; n < piece_states.size(); ++n) {
      const Tensor& after = to[pieces.size() + n];
      std::memcpy(const_cast<std::byte*>(piece_states[n].bytes().data()), after.bytes().data(), after.byte_count());
    }
  }
};

ParallelStep::ParallelStep(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
                           Communicator& processes, std::int64_t shards, const Prepare& prepare, const TrainedTensors& start)
    : state_(std::make_unique<State>(graphs, training, exchange, processes, shards, prepare, start)) {}
ParallelStep::~ParallelStep() = default;

double ParallelStep::advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) {
  return state_->advance(shards, schedule, bad);
}
TrainedTensors ParallelStep::gather() { return state_->gather(); }
void ParallelStep::load(const TrainedTensors& tensors) { state_->load(tensors); }

std::vector<std::uint64_t> ParallelStep::copies() const {
  std::vector<std::uint64_t> hashes;
  for (const auto* list : {&state_->tensors.parameters, &state_->tensors.statistics})
    for (const Tensor& t : *list) hashes.push_back(t.content_hash());
  return hashes;
}

std::vector<Tensor> ParallelStep::sums() const { return state_->staged ? state_->staged->sums() : std::vector<Tensor>(); }

std::size_t ParallelStep::peak_bytes() const {
  return state_->staged ? state_->staged->peak_bytes() : state_->gradients->peak_bytes();
}

std::vector<StepProfile> ParallelStep::profile() const {
  std::vector<StepProfile> result = state_->staged ? state_->staged->profile() : state_->gradients->profile();
  if (state_->update)
    for (StepProfile& step : state_->update->profile()) result.push_back(std::move(step));
  return result;
}

TrainingMemory ParallelStep::memory() const {
  const State& s = *state_;
  const auto bytes = [](const std::vector<Tensor>& tensors) {
    std::size_t total = 0;
    for (const Tensor& t : tensors) total += t.byte_count();
    return total;
  };
  const bool whole = s.exchange.zero == 0;
  return {whole ? bytes(s.tensors.parameters) : s.parameter_gauge.most.load(), s.gradient_gauge.most,
          whole ? bytes(s.tensors.states) : s.state_gauge.most.load()};
}

}  // namespace rewright
