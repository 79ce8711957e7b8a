#include "runtime/training/steps/device_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace rewright::training {

namespace {

constexpr std::size_t kDeviceAlignment = 256;  // of tensors, as a device's libraries like it

std::vector<DeviceTensor> allocated(const MemoryOfDevice& memory, const std::vector<Tensor>& like) {
  std::vector<DeviceTensor> result;
  for (const Tensor& t : like) result.push_back(memory.allocate(t.type(), t.sizes()));
  return result;
}

std::size_t bytes_of(const std::vector<DeviceTensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const DeviceTensor& t) { return sum + t.byte_count(); });
}

// What the graph of gradients gives, in one piece of memory: in the order in which it is known, in buckets that are added up
// together.
class Sums {
 public:
  struct Bucket {
    DataType type;
    std::vector<std::size_t> outputs;
    std::size_t offset = 0, bytes = 0;
  };

  Sums(const Graph& graph, std::size_t bucket_bytes, const MemoryOfDevice& memory) : tensors(graph.outputs().size()) {
    std::vector<std::size_t> places(tensors.size());
    std::size_t end = 0;
    for (const std::size_t o : outputs_as_computed(graph)) {
      const TensorType& type = graph.value(graph.outputs()[o].value).type;
      tensors[o].type = type.type, tensors[o].sizes = values(type.shape);
      const bool full = !buckets.empty() && bucket_bytes > 0 && buckets.back().bytes >= bucket_bytes;
      if (buckets.empty() || full || buckets.back().type != type.type) buckets.push_back({type.type, {}, end, 0});
      buckets.back().outputs.push_back(o);
      places[o] = end;
      end += (tensors[o].byte_count() + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
      buckets.back().bytes = end - buckets.back().offset;
    }
    all = memory.allocate(DataType::kUint8, {static_cast<std::int64_t>(end)});
    Tensor zeros(DataType::kUint8, all.sizes);  // what lies between tensors is added up, too
    std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
    memory.copy_in(all, zeros);
    for (std::size_t o = 0; o < tensors.size(); ++o)
      tensors[o].device = all.device, tensors[o].data = all.data + places[o], tensors[o].owner = all.owner;
  }

  DeviceTensor all;
  std::vector<DeviceTensor> tensors;  // by output
  std::vector<Bucket> buckets;
};

}  // namespace

struct DeviceStep::State {
  const ExchangeOptions exchange;
  Communicator& processes;
  const ResidentBackend& backend;
  DeviceSums* const device_sums;
  const bool alone;  // one shard: a step is one graph
  std::vector<DeviceTensor> parameters, statistics, states;
  std::optional<Sums> sums;
  bool accumulates = false;
  bool last_shard = false;
  std::size_t given = 0;                     // inputs of the forward pass that a shard gives
  std::unique_ptr<Session> forward, update;  // alone: the first is all of it

  State(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& e, Communicator& p,
        const ResidentBackend& b, const DeviceStepOptions& options, const TrainedTensors& start)
      : exchange(e), processes(p), backend(b), device_sums(options.sums), alone(options.shards == 1) {
    const MemoryOfDevice& memory = backend.memory();
    parameters = allocated(memory, start.parameters);
    statistics = allocated(memory, start.statistics);
    states = allocated(memory, start.states);
    given = graphs.gradients.inputs().size() - parameters.size() - statistics.size();
    if (alone)
      prepare_whole(graphs, options);
    else
      prepare_parts(graphs, training, options);
    load(start);  // preparing has overwritten it
  }

  using Places = std::vector<std::optional<DeviceTensor>>;
  static void append(Places& places, std::initializer_list<const std::vector<DeviceTensor>*> lists) {
    for (const auto* list : lists) places.insert(places.end(), list->begin(), list->end());
  }

  void prepare_whole(const TrainingGraphs& graphs, const DeviceStepOptions& options) {
    Residence residence;
    residence.inputs.resize(given + 1);  // the rate
    append(residence.inputs, {&parameters, &statistics, &states});
    residence.outputs.resize(1);  // the loss
    append(residence.outputs, {&parameters, &statistics, &states});
    residence.outputs.emplace_back();  // whether all is finite
    forward = backend.prepare_resident(options.rewritten(graphs.step), options.session, residence);
  }

  void prepare_parts(const TrainingGraphs& graphs, const TrainingOptions& training, const DeviceStepOptions& options) {
    Graph gradients = options.rewritten(graphs.gradients);
    sums.emplace(gradients, exchange.bucket_bytes, backend.memory());
    Residence of_forward, of_update;
    of_forward.inputs.resize(given);
    append(of_forward.inputs, {&parameters, &statistics});
    append(of_forward.outputs, {&sums->tensors});
    accumulates = !exchange.in_order && options.shards > static_cast<std::int64_t>(processes.size());
    if (accumulates) {
      gradients = make_accumulating(gradients);
      of_forward.inputs.emplace_back();  // is it the first shard?
      append(of_forward.inputs, {&sums->tensors});
    }
    if (device_sums != nullptr) {
      for (const Sums::Bucket& bucket : sums->buckets) of_forward.groups.push_back(bucket.outputs);
      of_forward.announce = [this](std::size_t b) {
        const Sums::Bucket& bucket = sums->buckets[b];
        if (last_shard) device_sums->start(sums->all.data + bucket.offset, bucket.bytes, bucket.type, backend.stream());
      };
    }
    forward = backend.prepare_resident(gradients, options.session, of_forward);
    of_update.inputs.resize(2);  // rate and step
    append(of_update.inputs, {&parameters, &statistics, &states, &sums->tensors});
    of_update.outputs.resize(1);
    append(of_update.outputs, {&parameters, &statistics, &states});
    of_update.outputs.emplace_back();
    update = backend.prepare_resident(options.rewritten_update(make_update_from_sums(graphs, training, options.shards)),
                                      options.session, of_update);
  }

  // What the host gives, and an empty tensor for each that stays.
  std::vector<Tensor> run(Session& session, std::vector<Tensor> first, std::size_t resident, std::vector<Tensor> then = {}) {
    first.resize(first.size() + resident);
    first.insert(first.end(), then.begin(), then.end());
    return session.run(first);
  }

  static double outcome(const std::vector<Tensor>& outputs) {
    return outputs.back().integers()[0] != 0 ? outputs[0].reals()[0] : NAN;
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) {
    if (processes.any(bad)) return NAN;
    const std::size_t kept = parameters.size() + statistics.size();
    if (alone) {
      std::vector<Tensor> inputs = shards[0];
      inputs.push_back(schedule[0]);
      return outcome(run(*forward, std::move(inputs), kept + states.size()));
    }
    std::vector<Tensor> on_host;  // the sums of each shard, where they are added in order
    for (std::size_t k = 0; k < shards.size(); ++k) {
      last_shard = k + 1 == shards.size();
      std::vector<Tensor> then;
      if (accumulates) {
        then.push_back(Tensor::scalar(DataType::kBool, k == 0));
        then.resize(1 + sums->tensors.size());
      }
      run(*forward, shards[k], kept, std::move(then));
      if (exchange.in_order) on_host.push_back(backend.memory().copy_out(sums->all));
    }
    add_up(std::move(on_host));
    return outcome(run(*update, schedule, kept + states.size() + sums->tensors.size()));
  }

  void add_up(std::vector<Tensor> shards) {
    if (device_sums != nullptr) return device_sums->finish(backend.stream());
    if (!exchange.in_order && processes.size() == 1) return;
    if (shards.empty()) shards.push_back(backend.memory().copy_out(sums->all));
    for (const Sums::Bucket& bucket : sums->buckets) {
      std::vector<std::span<std::byte>> vectors;
      for (Tensor& shard : shards) vectors.push_back(shard.mutable_bytes().subspan(bucket.offset, bucket.bytes));
      if (!exchange.in_order) {
        all_reduce(processes, exchange.all_reduce, vectors[0], bucket.type);
        continue;
      }
      const std::size_t width = byte_size(bucket.type);
      const Bounds bounds = even_bounds(bucket.bytes / width, processes.size());
      reduce_scatter_in_order(processes, vectors, bucket.type, bounds);
      all_gather_parts(processes, vectors[0], width, bounds);
    }
    backend.memory().copy_in(sums->all, shards[0]);
  }

  TrainedTensors gather() const {
    TrainedTensors result;
    const auto read = [&](const std::vector<DeviceTensor>& from, std::vector<Tensor>& to) {
      for (const DeviceTensor& t : from) to.push_back(backend.memory().copy_out(t));
    };
    read(parameters, result.parameters), read(statistics, result.statistics), read(states, result.states);
    return result;
  }

  void load(const TrainedTensors& from) {
    const auto write = [&](const std::vector<Tensor>& tensors, const std::vector<DeviceTensor>& to) {
      for (std::size_t n = 0; n < to.size(); ++n) backend.memory().copy_in(to[n], tensors[n]);
    };
    write(from.parameters, parameters), write(from.statistics, statistics), write(from.states, states);
  }
};

DeviceStep::DeviceStep(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
                       Communicator& processes, const ResidentBackend& backend, const DeviceStepOptions& options,
                       const TrainedTensors& start)
    : state_(std::make_unique<State>(graphs, training, exchange, processes, backend, options, start)) {}
DeviceStep::~DeviceStep() = default;

double DeviceStep::advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) {
  return state_->advance(shards, schedule, bad);
}
TrainedTensors DeviceStep::gather() const { return state_->gather(); }
void DeviceStep::load(const TrainedTensors& tensors) { state_->load(tensors); }

std::vector<std::uint64_t> DeviceStep::copies() const {
  std::vector<std::uint64_t> hashes;
  for (const auto* list : {&state_->parameters, &state_->statistics})
    for (const DeviceTensor& t : *list) hashes.push_back(state_->backend.memory().copy_out(t).content_hash());
  return hashes;
}

TrainingMemory DeviceStep::memory() const {
  return {bytes_of(state_->parameters), state_->sums ? state_->sums->all.byte_count() : 0, bytes_of(state_->states)};
}

std::vector<StepProfile> DeviceStep::profile() const {
  std::vector<StepProfile> result = state_->forward->profile();
  if (state_->update)
    for (StepProfile& step : state_->update->profile()) result.push_back(std::move(step));
  return result;
}

std::size_t DeviceStep::peak_bytes() const { return state_->forward->peak_bytes(); }

}  // namespace rewright::training
