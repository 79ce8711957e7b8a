// The NCCL plug-in, which computes sums on GPUs and is loaded only if they are asked for. It is built on an existing
// communicator, which connects the processes and still does everything but sums.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "distribution/communicator.h"
#include "distribution/device_sums.h"

namespace rewright::distribution {

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error(ErrorCode::kMissing, std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}
void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) throw Error(ErrorCode::kMissing, std::string("NCCL: ") + what + ": " + ncclGetErrorString(status));
}

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return ncclFloat32;
    case DataType::kDouble:
      return ncclFloat64;
    case DataType::kHalf:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
    default:
      throw Error(ErrorCode::kUnsupported, "NCCL does not add " + std::string(name(type)));
  }
}

// This process's member of the NCCL communicator, and a stream on its GPU.
class Connection {
 public:
  Connection(Communicator& processes, int device) : device_(device) {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "looking for a GPU");
    if (processes.any(device >= devices))
      throw Error(ErrorCode::kMissing, "NCCL needs a GPU for each process; this node has " + std::to_string(devices));
    choose();
    ncclUniqueId id{};
    if (processes.rank() == 0) check(ncclGetUniqueId(&id), "naming the job");
    std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
    processes.broadcast(bytes, 0);
    std::memcpy(&id, bytes.data(), sizeof id);
    check(ncclCommInitRank(&nccl_, static_cast<int>(processes.size()), id, static_cast<int>(processes.rank())), "connecting");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }
  ~Connection() {
    cudaSetDevice(device_);
    if (stream_) cudaStreamSynchronize(stream_), cudaStreamDestroy(stream_);
    if (nccl_) ncclCommDestroy(nccl_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void choose() const { check(cudaSetDevice(device_), "choosing a GPU"); }
  cudaStream_t stream() const { return stream_; }
  void add(void* values, std::size_t bytes, DataType type) const {
    check(ncclAllReduce(values, values, bytes / byte_size(type), nccl_type(type), ncclSum, nccl_, stream_), "adding");
  }

 private:
  int device_;
  ncclComm_t nccl_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Sums of values that other streams of the GPU compute.
class NcclSums final : public DeviceSums {
 public:
  NcclSums(Communicator& processes, int device) : connection_(processes, device) {
    check(cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming), "an event");
  }
  ~NcclSums() override {
    if (reached_) cudaEventDestroy(reached_);
  }

  void start(std::byte* values, std::size_t bytes, DataType type, void* stream) override {
    if (bytes == 0) return;
    connection_.choose();
    order(static_cast<cudaStream_t>(stream), connection_.stream());
    connection_.add(values, bytes, type);
  }
  void finish(void* stream) override { order(connection_.stream(), static_cast<cudaStream_t>(stream)); }

 private:
  // Makes work that `second` is given from now on wait for the work that `first` already holds.
  void order(cudaStream_t first, cudaStream_t second) {
    check(cudaEventRecord(reached_, first), "an event");
    check(cudaStreamWaitEvent(second, reached_, 0), "an event");
  }

  Connection connection_;
  cudaEvent_t reached_ = nullptr;
};

// Sums host memory by way of the process's GPU. NCCL needs a GPU for each process.
class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(Communicator& over) : over_(over), connection_(over, own_gpu(over)) {}
  ~NcclCommunicator() override {
    if (memory_) cudaFree(memory_);
  }

  std::size_t rank() const override { return over_.rank(); }
  std::size_t size() const override { return over_.size(); }
  std::vector<std::size_t> nodes() override { return over_.nodes(); }
  void barrier() override { over_.barrier(); }
  std::vector<std::string> all_to_all(std::vector<std::string> messages) override {
    return over_.all_to_all(std::move(messages));
  }
  void broadcast(std::string& message, std::size_t root) override { over_.broadcast(message, root); }
  [[noreturn]] void abort(int status) override {
    over_.abort(status);
    std::_Exit(status);  // not reached; tells the compiler that this function does not return
  }

  using Communicator::sum;
  void sum(std::span<std::byte> values, DataType type) override {
    if (values.empty()) return;
    connection_.choose();
    if (values.size() > bytes_) {
      if (memory_) check(cudaFree(std::exchange(memory_, nullptr)), "freeing memory");
      check(cudaMalloc(&memory_, values.size()), "memory");
      bytes_ = values.size();
    }
    const cudaStream_t stream = connection_.stream();
    check(cudaMemcpyAsync(memory_, values.data(), values.size(), cudaMemcpyHostToDevice, stream), "copying");
    connection_.add(memory_, values.size(), type);
    check(cudaMemcpyAsync(values.data(), memory_, values.size(), cudaMemcpyDeviceToHost, stream), "copying");
    check(cudaStreamSynchronize(stream), "adding");
  }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override { over_.exchange(sent, received); }

 private:
  Communicator& over_;
  Connection connection_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

}  // namespace rewright::distribution

extern "C" rewright::distribution::DeviceSums* rewright_make_nccl_sums(rewright::distribution::Communicator* processes,
                                                                       int device) {
  return new rewright::distribution::NcclSums(*processes, device);
}

extern "C" rewright::distribution::Communicator* rewright_make_nccl_communicator(rewright::distribution::Communicator* over) {
  return new rewright::distribution::NcclCommunicator(*over);
}
