#include "runtime/training/steps/device_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rewright::training {

namespace {

constexpr std::size_t kDeviceAlignment = 256;  // bytes; device libraries are fastest with such alignment

std::vector<DeviceTensor> allocated(const MemoryOfDevice& memory, const std::vector<Tensor>& like) {
  std::vector<DeviceTensor> result;
  for (const Tensor& t : like) result.push_back(memory.allocate(t.type(), t.sizes()));
  return result;
}

std::size_t bytes_of(const std::vector<DeviceTensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const DeviceTensor& t) { return sum + t.byte_count(); });
}

// The outputs of the graph of gradients in one block of memory, in the order in which they are computed. Consecutive outputs
// form buckets, each summed as a whole.
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
    Tensor zeros(DataType::kUint8, all.sizes);  // gaps between tensors are summed as well
    std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
    memory.copy_in(all, zeros);
    for (std::size_t o = 0; o < tensors.size(); ++o)
      tensors[o].device = all.device, tensors[o].data = all.data + places[o], tensors[o].owner = all.owner;
  }

  DeviceTensor all;
  std::vector<DeviceTensor> tensors;  // by output
  std::vector<Bucket> buckets;
};

class DeviceStep final : public TrainingStep {
 public:
  DeviceStep(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const ExchangeOptions& exchange,
             Communicator& processes, const ResidentBackend& backend, const DeviceStepOptions& options,
             const TrainedTensors& start)
      : exchange_(exchange),
        processes_(processes),
        backend_(backend),
        device_sums_(options.sums),
        whole_(options.shards == 1),
        parameters_(allocated(backend.memory(), start.parameters)),
        statistics_(allocated(backend.memory(), start.statistics)),
        states_(allocated(backend.memory(), start.states)),
        given_(graphs.gradients.inputs().size() - parameters_.size() - statistics_.size()) {
    if (whole_)
      prepare_whole(graphs, options);
    else
      prepare_parts(graphs, training, options);
    load(start);  // preparing overwrote the tensors
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (processes_.any(bad)) return NAN;
    const std::size_t kept = parameters_.size() + statistics_.size();
    if (whole_) {
      std::vector<Tensor> inputs = shards[0];
      inputs.push_back(schedule[0]);
      return outcome(run(*forward_, std::move(inputs), kept + states_.size()));
    }
    std::vector<Tensor> on_host;  // by shard: copied outputs, if shards are added in order
    for (std::size_t k = 0; k < shards.size(); ++k) {
      last_shard_ = k + 1 == shards.size();
      std::vector<Tensor> then;
      if (accumulates_) {
        then.push_back(Tensor::scalar(DataType::kBool, k == 0));
        then.resize(1 + sums_->tensors.size());
      }
      run(*forward_, shards[k], kept, std::move(then));
      if (exchange_.in_order) on_host.push_back(backend_.memory().copy_out(sums_->all));
    }
    add_up(std::move(on_host));
    return outcome(run(*update_, schedule, kept + states_.size() + sums_->tensors.size()));
  }

  TrainedTensors gather() override {
    TrainedTensors result;
    const auto read = [&](const std::vector<DeviceTensor>& from, std::vector<Tensor>& to) {
      for (const DeviceTensor& t : from) to.push_back(backend_.memory().copy_out(t));
    };
    read(parameters_, result.parameters), read(statistics_, result.statistics), read(states_, result.states);
    return result;
  }

  void load(const TrainedTensors& from) override {
    const auto write = [&](const std::vector<Tensor>& tensors, const std::vector<DeviceTensor>& to) {
      for (std::size_t n = 0; n < to.size(); ++n) backend_.memory().copy_in(to[n], tensors[n]);
    };
    write(from.parameters, parameters_), write(from.statistics, statistics_), write(from.states, states_);
  }

  std::vector<std::uint64_t> copies() const override {
    std::vector<std::uint64_t> hashes;
    for (const auto* list : {&parameters_, &statistics_})
      for (const DeviceTensor& t : *list) hashes.push_back(backend_.memory().copy_out(t).content_hash());
    return hashes;
  }

  std::optional<TrainingMemory> memory() const override {
    return TrainingMemory{bytes_of(parameters_), sums_ ? sums_->all.byte_count() : 0, bytes_of(states_)};
  }
  std::size_t peak_bytes() const override { return forward_->peak_bytes(); }
  std::vector<StepProfile> profile() const override {
    std::vector<StepProfile> result = forward_->profile();
    if (update_)
      for (StepProfile& step : update_->profile()) result.push_back(std::move(step));
    return result;
  }

 private:
  using Places = std::vector<std::optional<DeviceTensor>>;
  static void append(Places& places, std::initializer_list<const std::vector<DeviceTensor>*> lists) {
    for (const auto* list : lists) places.insert(places.end(), list->begin(), list->end());
  }

  void prepare_whole(const TrainingGraphs& graphs, const DeviceStepOptions& options) {
    Residence residence;
    residence.inputs.resize(given_ + 1);  // the rate
    append(residence.inputs, {&parameters_, &statistics_, &states_});
    residence.outputs.resize(1);  // the loss
    append(residence.outputs, {&parameters_, &statistics_, &states_});
    residence.outputs.emplace_back();  // whether all is finite
    forward_ = backend_.prepare_resident(options.rewritten(graphs.step), options.session, residence);
  }

  void prepare_parts(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const DeviceStepOptions& options) {
    Graph gradients = options.rewritten(graphs.gradients);
    sums_.emplace(gradients, exchange_.bucket_bytes, backend_.memory());
    Residence of_forward, of_update;
    of_forward.inputs.resize(given_);
    append(of_forward.inputs, {&parameters_, &statistics_});
    append(of_forward.outputs, {&sums_->tensors});
    accumulates_ = !exchange_.in_order && options.shards > static_cast<std::int64_t>(processes_.size());
    if (accumulates_) {
      gradients = make_accumulating(gradients);
      of_forward.inputs.emplace_back();  // is it the first shard?
      append(of_forward.inputs, {&sums_->tensors});
    }
    if (device_sums_ != nullptr) {
      for (const Sums::Bucket& bucket : sums_->buckets) of_forward.groups.push_back(bucket.outputs);
      of_forward.announce = [this](std::size_t b) {
        const Sums::Bucket& bucket = sums_->buckets[b];
        if (last_shard_) device_sums_->start(sums_->all.data + bucket.offset, bucket.bytes, bucket.type, backend_.stream());
      };
    }
    forward_ = backend_.prepare_resident(gradients, options.session, of_forward);
    of_update.inputs.resize(2);  // rate and step
    append(of_update.inputs, {&parameters_, &statistics_, &states_, &sums_->tensors});
    of_update.outputs.resize(1);  // the loss
    append(of_update.outputs, {&parameters_, &statistics_, &states_});
    of_update.outputs.emplace_back();  // whether all is finite
    update_ = backend_.prepare_resident(options.rewritten_update(make_update_from_sums(graphs, training, options.shards)),
                                        options.session, of_update);
  }

  // Runs a session on `first` and `then` from the host, with an empty tensor between them for each resident input.
  static std::vector<Tensor> run(Session& session, std::vector<Tensor> first, std::size_t resident,
                                 std::vector<Tensor> then = {}) {
    first.resize(first.size() + resident);
    first.insert(first.end(), then.begin(), then.end());
    return session.run(first);
  }

  static double outcome(const std::vector<Tensor>& outputs) {
    return outputs.back().integers()[0] != 0 ? outputs[0].reals()[0] : NAN;
  }

  // Sums the outputs of all shards and processes. `shards`: copies of them, if they are added in order.
  void add_up(std::vector<Tensor> shards) {
    if (device_sums_ != nullptr) return device_sums_->finish(backend_.stream());
    if (!exchange_.in_order && processes_.size() == 1) return;
    if (shards.empty()) shards.push_back(backend_.memory().copy_out(sums_->all));
    for (const Sums::Bucket& bucket : sums_->buckets) {
      std::vector<std::span<std::byte>> vectors;
      for (Tensor& shard : shards) vectors.push_back(shard.mutable_bytes().subspan(bucket.offset, bucket.bytes));
      if (!exchange_.in_order) {
        all_reduce(processes_, exchange_.all_reduce, vectors[0], bucket.type);
        continue;
      }
      const std::size_t width = byte_size(bucket.type);
      const Bounds bounds = even_bounds(bucket.bytes / width, processes_.size());
      reduce_scatter_in_order(processes_, vectors, bucket.type, bounds);
      all_gather_parts(processes_, vectors[0], width, bounds);
    }
    backend_.memory().copy_in(sums_->all, shards[0]);
  }

  const ExchangeOptions exchange_;
  Communicator& processes_;
  const ResidentBackend& backend_;
  DeviceSums* const device_sums_;
  const bool whole_;  // one shard: the step is a single graph, without sums or a separate update
  const std::vector<DeviceTensor> parameters_, statistics_, states_;
  const std::size_t given_;  // the forward pass's inputs from a shard
  std::optional<Sums> sums_;
  bool accumulates_ = false;  // the device sums this process's shards
  bool last_shard_ = false;   // of this process in this step
  std::unique_ptr<Session> forward_, update_;
};

}  // namespace

std::unique_ptr<TrainingStep> make_device_step(const TrainingGraphs& graphs, const TrainingGraphOptions& training,
                                               const ExchangeOptions& exchange, Communicator& processes,
                                               const ResidentBackend& backend, const DeviceStepOptions& options,
                                               const TrainedTensors& start) {
  return std::make_unique<DeviceStep>(graphs, training, exchange, processes, backend, options, start);
}

}  // namespace rewright::training
