// The plug-in that adds up on GPUs: loaded only where NCCL is asked for. Processes are brought together by those who know them
// already, and everything but sums goes on through these.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "distribution/communicator.h"
#include "operators/error.h"

namespace rewright {

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

// Processes of a node take its GPUs in turn: NCCL wants one for each.
class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(Communicator& over) : over_(over) {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "looking for a GPU");
    const std::vector<std::size_t> nodes = over.nodes();
    std::size_t before = 0;  // processes of this node
    for (std::size_t p = 0; p < over.rank(); ++p) before += nodes[p] == nodes[over.rank()];
    if (over.any(before >= static_cast<std::size_t>(devices)))
      throw Error(ErrorCode::kMissing, "NCCL needs a GPU for each process; this node has " + std::to_string(devices));
    device_ = static_cast<int>(before);
    check(cudaSetDevice(device_), "choosing a GPU");
    ncclUniqueId id;
    if (over.rank() == 0) check(ncclGetUniqueId(&id), "naming the job");
    std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
    over.broadcast(bytes, 0);
    std::memcpy(&id, bytes.data(), sizeof id);
    check(ncclCommInitRank(&nccl_, static_cast<int>(over.size()), id, static_cast<int>(over.rank())), "connecting");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }
  ~NcclCommunicator() override {
    cudaSetDevice(device_);
    if (memory_) cudaFree(memory_);
    if (stream_) cudaStreamDestroy(stream_);
    if (nccl_) ncclCommDestroy(nccl_);
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
    std::_Exit(status);  // never reached: the compiler does not see through virtual calls
  }

  using Communicator::sum;
  void sum(std::span<std::byte> values, DataType type) override {
    if (values.empty()) return;
    check(cudaSetDevice(device_), "choosing a GPU");
    if (values.size() > bytes_) {
      if (memory_) check(cudaFree(std::exchange(memory_, nullptr)), "freeing memory");
      check(cudaMalloc(&memory_, values.size()), "memory");
      bytes_ = values.size();
    }
    check(cudaMemcpyAsync(memory_, values.data(), values.size(), cudaMemcpyHostToDevice, stream_), "copying");
    check(ncclAllReduce(memory_, memory_, values.size() / byte_size(type), nccl_type(type), ncclSum, nccl_, stream_), "adding");
    check(cudaMemcpyAsync(values.data(), memory_, values.size(), cudaMemcpyDeviceToHost, stream_), "copying");
    check(cudaStreamSynchronize(stream_), "adding");
  }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override { over_.exchange(sent, received); }

 private:
  Communicator& over_;
  int device_ = 0;
  ncclComm_t nccl_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

}  // namespace rewright

extern "C" rewright::Communicator* rewright_make_nccl_communicator(rewright::Communicator* over) {
  return new rewright::NcclCommunicator(*over);
}
