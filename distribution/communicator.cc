#include "distribution/communicator.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "distribution/all_reduce.h"
#include "distribution/device_sums.h"
#include "distribution/mail.h"
#include "distribution/plugin.h"

namespace rewright::distribution {

namespace {

class LocalCommunicator : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  std::vector<std::string> all_to_all(std::vector<std::string> messages) override { return messages; }

 protected:
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    for (std::size_t n = 0; n < sent.size(); ++n)
      std::memcpy(received[n].bytes.data(), sent[n].bytes.data(), sent[n].bytes.size());
  }
};

class SomeProcesses : public Communicator {
 public:
  SomeProcesses(Communicator& over, std::vector<std::size_t> ranks) : over_(over), ranks_(std::move(ranks)) {
    const auto here = std::find(ranks_.begin(), ranks_.end(), over.rank());
    if (here == ranks_.end()) throw Error(ErrorCode::kUsage, "this process is none of those that are to be joined");
    rank_ = static_cast<std::size_t>(here - ranks_.begin());
  }
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return ranks_.size(); }
  void abort(int status) override { over_.abort(status); }

 protected:
  std::unique_ptr<PendingMessage> begin_receiving(const Incoming& message) override {
    return over_.begin_receiving({ranks_.at(message.from), message.bytes});
  }
  std::unique_ptr<PendingMessage> begin_transfer(const Outgoing& message) override {
    return over_.begin_sending({ranks_.at(message.to), message.bytes});
  }
  void transfer(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    std::vector<Outgoing> out(sent.begin(), sent.end());
    std::vector<Incoming> in(received.begin(), received.end());
    for (Outgoing& o : out) o.to = ranks_.at(o.to);
    for (Incoming& i : in) i.from = ranks_.at(i.from);
    over_.exchange(out, in);
  }

 private:
  Communicator& over_;
  std::vector<std::size_t> ranks_;
  std::size_t rank_ = 0;
};

// A function of a plug-in, and the file that holds it.
struct Plugin {
  std::string what;
  const char *file, *symbol;

  // Loads the file and returns the function. Throws Error(kMissing) whose text begins with `needed`.
  void* load(const std::string& needed, const std::string& hint) const {
    const std::filesystem::path path = find_plugin(file);
    const auto missing = [&](const std::string& why) { return Error(ErrorCode::kMissing, needed + why, {}, hint); };
    if (path.empty()) throw missing("this build has no " + what);
    // Global: Open MPI loads components of its own that need its symbols.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw missing(what + " does not load: " + ::dlerror());
    void* const make = ::dlsym(library, symbol);
    if (!make) throw missing("the plug-in for " + what + " is of another version");
    return make;
  }
};

std::size_t number_in(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoul(text, nullptr, 10) : otherwise;
}

}  // namespace

void Communicator::exchange(std::span<const Outgoing> sent, std::span<const Incoming> received) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const Outgoing& o : sent) {
    if (o.bytes.empty()) continue;
    out.push_back(o);
    bytes_sent_ += o.bytes.size(), ++messages_sent_;
  }
  for (const Incoming& i : received)
    if (!i.bytes.empty()) in.push_back(i);
  if (!out.empty() || !in.empty()) transfer(out, in);
}

std::unique_ptr<PendingMessage> Communicator::begin_sending(const Outgoing& message) {
  bytes_sent_ += message.bytes.size(), ++messages_sent_;
  return begin_transfer(message);
}

std::unique_ptr<PendingMessage> Communicator::begin_transfer(const Outgoing&) {
  throw Error(ErrorCode::kUnsupported, "these processes send no messages without waiting");
}

std::unique_ptr<PendingMessage> Communicator::begin_receiving(const Incoming&) {
  throw Error(ErrorCode::kUnsupported, "these processes receive no messages without waiting");
}

void Communicator::barrier() { any(false); }

std::vector<std::string> Communicator::all_to_all(std::vector<std::string> messages) {
  std::vector<std::uint64_t> lengths(size()), coming(size());
  std::vector<Outgoing> sent;
  std::vector<Incoming> received;
  for (std::size_t p = 0; p < size(); ++p) {
    lengths[p] = messages.at(p).size();
    if (p == rank()) continue;
    sent.push_back({p, std::as_bytes(std::span(&lengths[p], 1))});
    received.push_back({p, std::as_writable_bytes(std::span(&coming[p], 1))});
  }
  exchange(sent, received);
  std::vector<std::string> result(size());
  sent.clear(), received.clear();
  for (std::size_t p = 0; p < size(); ++p) {
    if (p == rank()) continue;
    result[p].resize(coming[p]);
    sent.push_back({p, std::as_bytes(std::span(messages[p]))});
    received.push_back({p, std::as_writable_bytes(std::span(result[p]))});
  }
  result[rank()] = std::move(messages[rank()]);
  exchange(sent, received);
  return result;
}

void Communicator::broadcast(std::string& message, std::size_t root) {
  std::vector<std::string> messages(size());
  if (rank() == root) messages.assign(size(), message);
  message = std::move(all_to_all(std::move(messages))[root]);
}

void Communicator::sum(std::span<std::byte> values, DataType type) {
  all_reduce(*this, {AllReduceStrategy::kParameterServer}, values, type);
}

void Communicator::abort(int status) { std::exit(status); }

std::vector<std::string> Communicator::all_gather(const std::string& message) {
  std::vector<std::string> result(size());
  for (std::size_t root = 0; root < size(); ++root) {
    if (root == rank()) result[root] = message;
    broadcast(result[root], root);
  }
  return result;
}

bool Communicator::any(bool here) {
  double count[] = {here ? 1.0 : 0.0};
  sum(std::span<double>(count));
  return count[0] > 0;
}

std::unique_ptr<Communicator> make_communicator_of(Communicator& over, std::vector<std::size_t> ranks) {
  return std::make_unique<SomeProcesses>(over, std::move(ranks));
}

std::unique_ptr<Communicator> make_local_communicator() { return std::make_unique<LocalCommunicator>(); }

// The variables are set by Open MPI, and by starters that implement PMI.
StartedAs started_as() {
  for (const std::string prefix : {"OMPI_COMM_WORLD", "PMI"})
    if (std::getenv((prefix + "_SIZE").c_str()))
      return {number_in((prefix + "_RANK").c_str(), 0), number_in((prefix + "_SIZE").c_str(), 1)};
  return {};
}

std::unique_ptr<Communicator> make_communicator() {
  if (started_as().size <= 1) return make_local_communicator();
  const Plugin mpi{"MPI", "librewright_mpi.so", "rewright_make_mpi_communicator"};
  const auto make = reinterpret_cast<Communicator* (*)()>(
      mpi.load("several processes were started, and ", "build it with MPI installed, or run it without mpirun"));
  return std::unique_ptr<Communicator>(make());
}

std::string mpi_version() {
  const Plugin mpi{"MPI", "librewright_mpi.so", "rewright_mpi_version"};
  try {
    const std::string text = reinterpret_cast<const char* (*)()>(mpi.load({}, {}))();
    return text.substr(0, text.find(','));
  } catch (const Error&) {
    return {};
  }
}

void leave_starter() {
  if (started_as().size <= 1) return;
  const Plugin mpi{"MPI", "librewright_mpi.so", "rewright_leave_mpi"};
  reinterpret_cast<void (*)()>(mpi.load("several processes were started, and ", {}))();
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& over) {
  const Plugin nccl{"NCCL", "librewright_nccl.so", "rewright_make_nccl_communicator"};
  const auto make = reinterpret_cast<Communicator* (*)(Communicator*)>(
      nccl.load("sums by NCCL were asked for, and ", "build it with the CUDA toolkit and NCCL installed"));
  return std::unique_ptr<Communicator>(make(&over));
}

int own_gpu(Communicator& processes) {
  const std::vector<std::size_t> machines = processes.nodes();
  const auto here = machines.begin() + static_cast<std::ptrdiff_t>(processes.rank());
  return static_cast<int>(std::count(machines.begin(), here, *here));
}

std::unique_ptr<DeviceSums> make_nccl_sums(Communicator& processes, int device) {
  const Plugin nccl{"NCCL", "librewright_nccl.so", "rewright_make_nccl_sums"};
  const auto make = reinterpret_cast<DeviceSums* (*)(Communicator*, int)>(nccl.load(
      "NCCL adds up gradients of several GPUs, and ",
      "build it with the CUDA toolkit and NCCL installed, or let --allreduce ring add them up in the memory of the hosts"));
  return std::unique_ptr<DeviceSums>(make(&processes, device));
}

}  // namespace rewright::distribution
