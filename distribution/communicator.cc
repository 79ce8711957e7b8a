#include "distribution/communicator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "operators/error.h"

namespace rewright {

namespace {

class LocalCommunicator : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  void barrier() override {}
  std::vector<std::string> all_to_all(std::vector<std::string> messages) override { return messages; }
  void broadcast(std::string&, std::size_t) override {}
  void sum(std::span<float>) override {}
  void sum(std::span<double>) override {}
  [[noreturn]] void abort(int status) override { std::exit(status); }
};

// Set by Open MPI, and by starters that speak PMI.
bool started_with_others() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size) > 1;
  return false;
}

}  // namespace

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

std::unique_ptr<Communicator> make_local_communicator() { return std::make_unique<LocalCommunicator>(); }

std::unique_ptr<Communicator> make_communicator() {
  if (!started_with_others()) return make_local_communicator();
  std::error_code ignored;
  const std::filesystem::path plugin =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "librewright_mpi.so";
  const auto missing = [](const std::string& why) {
    return Error(ErrorCode::kMissing, "several processes were started, and " + why, {},
                 "build it with MPI installed, or run it without mpirun");
  };
  if (!std::filesystem::exists(plugin, ignored)) throw missing("this build has no MPI");
  // Global: Open MPI loads parts of itself that need its symbols.
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw missing(std::string("MPI does not load: ") + ::dlerror());
  using Make = Communicator* (*)();
  const auto make = reinterpret_cast<Make>(::dlsym(library, "rewright_make_mpi_communicator"));
  if (!make) throw missing("the plug-in for MPI is of another version");
  return std::unique_ptr<Communicator>(make());
}

}  // namespace rewright
