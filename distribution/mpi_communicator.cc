// The plug-in that speaks MPI: loaded only where several processes were started.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "distribution/communicator.h"
#include "operators/error.h"

namespace rewright {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 28;  // MPI counts in int

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator() {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
      throw Error(ErrorCode::kMissing, "MPI does not start");
    if (provided < MPI_THREAD_FUNNELED) throw Error(ErrorCode::kMissing, "this MPI does not work in a program with threads");
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank_ = static_cast<std::size_t>(number);
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    size_ = static_cast<std::size_t>(number);
  }
  ~MpiCommunicator() override { MPI_Finalize(); }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  std::vector<std::string> all_to_all(std::vector<std::string> messages) override {
    std::vector<std::uint64_t> sent(size_), received(size_);
    for (std::size_t p = 0; p < size_; ++p) sent[p] = messages.at(p).size();
    MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, received.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    std::vector<std::string> result(size_);
    std::vector<MPI_Request> requests;
    for (std::size_t p = 0; p < size_; ++p) {
      result[p].resize(received[p]);
      if (p == rank_) continue;
      for (std::size_t at = 0; at < received[p]; at += kPiece)
        MPI_Irecv(result[p].data() + at, piece(received[p], at), MPI_BYTE, static_cast<int>(p), 0, MPI_COMM_WORLD,
                  &requests.emplace_back());
    }
    for (std::size_t p = 0; p < size_; ++p) {
      if (p == rank_) continue;
      for (std::size_t at = 0; at < sent[p]; at += kPiece)
        MPI_Isend(messages[p].data() + at, piece(sent[p], at), MPI_BYTE, static_cast<int>(p), 0, MPI_COMM_WORLD,
                  &requests.emplace_back());
    }
    result[rank_] = std::move(messages[rank_]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return result;
  }

  void broadcast(std::string& message, std::size_t root) override {
    std::uint64_t bytes = message.size();
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, static_cast<int>(root), MPI_COMM_WORLD);
    message.resize(bytes);
    for (std::size_t at = 0; at < bytes; at += kPiece)
      MPI_Bcast(message.data() + at, piece(bytes, at), MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
  }

  void sum(std::span<float> values) override { sum(values, MPI_FLOAT); }
  void sum(std::span<double> values) override { sum(values, MPI_DOUBLE); }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 private:
  static int piece(std::uint64_t bytes, std::size_t at) {
    return static_cast<int>(std::min<std::uint64_t>(kPiece, bytes - at));
  }

  // The sum of one process, sent to all: an all-reduce may round differently in each.
  template <class T>
  void sum(std::span<T> values, MPI_Datatype type) {
    for (std::size_t at = 0; at < values.size(); at += kPiece) {
      const int count = static_cast<int>(std::min(kPiece, values.size() - at));
      MPI_Reduce(rank_ == 0 ? MPI_IN_PLACE : values.data() + at, values.data() + at, count, type, MPI_SUM, 0, MPI_COMM_WORLD);
      MPI_Bcast(values.data() + at, count, type, 0, MPI_COMM_WORLD);
    }
  }

  std::size_t rank_ = 0, size_ = 1;
};

}  // namespace

}  // namespace rewright

extern "C" rewright::Communicator* rewright_make_mpi_communicator() { return new rewright::MpiCommunicator; }
