// The MPI plug-in, which is loaded only if several processes were started.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "distribution/communicator.h"
#include "distribution/elements.h"

namespace rewright::distribution {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 28;  // elements of a call: MPI counts them in int

// The reduction that MPI calls for 16-bit types, which it has no sum of.
template <DataType type>
void add_narrow(void* from, void* into, int* count, MPI_Datatype*) {
  const auto bytes = static_cast<std::size_t>(*count) * 2;
  add_elements({static_cast<std::byte*>(into), bytes}, {static_cast<const std::byte*>(from), bytes}, type);
}

bool has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

void end_mpi() {
  if (!has_ended()) MPI_Finalize();
}

bool started_here = false;  // MPI, by this plug-in: a fact of the process, as MPI itself is

// Starts MPI unless the program has. MPI can start only once in a process, so it is finalized at exit.
void start_mpi() {
  int started = 0, provided = 0;
  MPI_Initialized(&started);
  if (has_ended()) throw Error(ErrorCode::kMissing, "MPI has ended in this process", {}, "train before MPI_Finalize");
  if (started) {
    MPI_Query_thread(&provided);
  } else {
    // Serialized: the thread that communicates need not be the main thread.
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
      throw Error(ErrorCode::kMissing, "MPI does not start");
    std::atexit(end_mpi);
    started_here = true;
  }
  if (provided < MPI_THREAD_SERIALIZED)
    throw Error(ErrorCode::kMissing, "this MPI does not work in a program with threads", {},
                "start it with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
}

class MpiMessage final : public PendingMessage {
 public:
  explicit MpiMessage(std::vector<MPI_Request> requests) : requests_(std::move(requests)) {}
  bool done() override {
    int all = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
    return all != 0;
  }

 private:
  std::vector<MPI_Request> requests_;
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator() {
    start_mpi();
    // A communicator of our own, so that our messages cannot meet those of a program that uses MPI itself.
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    int number = 0;
    MPI_Comm_rank(all_, &number);
    rank_ = static_cast<std::size_t>(number);
    MPI_Comm_size(all_, &number);
    size_ = static_cast<std::size_t>(number);
    MPI_Op_create(add_narrow<DataType::kHalf>, 1, &add_half_);
    MPI_Op_create(add_narrow<DataType::kBfloat16>, 1, &add_bfloat16_);
  }
  ~MpiCommunicator() override {
    if (has_ended()) return;
    MPI_Op_free(&add_half_);
    MPI_Op_free(&add_bfloat16_);
    MPI_Comm_free(&all_);
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::unique_ptr<PendingMessage> begin_receiving(const Incoming& message) override {
    std::vector<MPI_Request> requests;
    receive(message, requests);
    return std::make_unique<MpiMessage>(std::move(requests));
  }
  void barrier() override { MPI_Barrier(all_); }

  std::vector<std::size_t> nodes() override {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    auto first = static_cast<std::uint64_t>(rank_);  // after the broadcast, the node's first rank, which identifies it
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, node);
    MPI_Comm_free(&node);
    std::vector<std::uint64_t> numbers(size_);
    MPI_Allgather(&first, 1, MPI_UINT64_T, numbers.data(), 1, MPI_UINT64_T, all_);
    return {numbers.begin(), numbers.end()};
  }

  void broadcast(std::string& message, std::size_t root) override {
    std::uint64_t bytes = message.size();
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, static_cast<int>(root), all_);
    message.resize(bytes);
    for (std::size_t at = 0; at < bytes; at += kPiece)
      MPI_Bcast(message.data() + at, piece(bytes, at), MPI_BYTE, static_cast<int>(root), all_);
  }

  using Communicator::sum;
  void sum(std::span<std::byte> values, DataType type) override {
    const auto [kind, operation] = addition(type);
    const std::size_t width = byte_size(type), count = values.size() / width;
    for (std::size_t at = 0; at < count; at += kPiece)
      MPI_Allreduce(MPI_IN_PLACE, values.data() + at * width, piece(count, at), kind, operation, all_);
  }

  [[noreturn]] void abort(int status) override {
    std::cout.flush();
    if (has_ended()) std::_Exit(status);
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    std::vector<MPI_Request> requests;
    for (const Incoming& in : received) receive(in, requests);
    for (const Outgoing& out : sent) send(out, requests);
    wait_for(requests);
  }
  std::unique_ptr<PendingMessage> begin_transfer(const Outgoing& message) override {
    std::vector<MPI_Request> requests;
    send(message, requests);
    return std::make_unique<MpiMessage>(std::move(requests));
  }

 private:
  void receive(const Incoming& in, std::vector<MPI_Request>& requests) {
    for (std::size_t at = 0; at < in.bytes.size(); at += kPiece)
      MPI_Irecv(in.bytes.data() + at, piece(in.bytes.size(), at), MPI_BYTE, static_cast<int>(in.from), 0, all_,
                &requests.emplace_back());
  }
  void send(const Outgoing& out, std::vector<MPI_Request>& requests) {
    for (std::size_t at = 0; at < out.bytes.size(); at += kPiece)
      MPI_Isend(out.bytes.data() + at, piece(out.bytes.size(), at), MPI_BYTE, static_cast<int>(out.to), 0, all_,
                &requests.emplace_back());
  }

  // MPI's own waiting keeps a processor busy, which another thread of this process may compute on.
  static void wait_for(std::vector<MPI_Request>& requests) {
    constexpr int kEager = 200;  // some microseconds: messages of processes that are there already
    int done = 0;
    for (int polls = 0; !done; ++polls) {
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      if (!done && polls > kEager) std::this_thread::yield();
    }
  }

  static int piece(std::uint64_t bytes, std::size_t at) {
    return static_cast<int>(std::min<std::uint64_t>(kPiece, bytes - at));
  }

  std::pair<MPI_Datatype, MPI_Op> addition(DataType type) const {
    switch (type) {
      case DataType::kFloat:
        return {MPI_FLOAT, MPI_SUM};
      case DataType::kDouble:
        return {MPI_DOUBLE, MPI_SUM};
      case DataType::kHalf:
        return {MPI_UINT16_T, add_half_};
      case DataType::kBfloat16:
        return {MPI_UINT16_T, add_bfloat16_};
      default:
        throw Error(ErrorCode::kUnsupported, "MPI does not add " + std::string(name(type)));
    }
  }

  MPI_Comm all_ = MPI_COMM_NULL;
  std::size_t rank_ = 0, size_ = 1;
  MPI_Op add_half_ = MPI_OP_NULL, add_bfloat16_ = MPI_OP_NULL;
};

}  // namespace

}  // namespace rewright::distribution

// May be called before MPI is started.
extern "C" const char* rewright_mpi_version() {
  static std::string text;
  char all[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(all, &length);
  text.assign(all, static_cast<std::size_t>(length));
  return text.c_str();
}

extern "C" void rewright_leave_mpi() {
  if (rewright::distribution::started_here) rewright::distribution::end_mpi();
}

extern "C" rewright::distribution::Communicator* rewright_make_mpi_communicator() {
  return new rewright::distribution::MpiCommunicator;
}
