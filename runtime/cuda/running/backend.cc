// The backend of a device: sessions and memory.
#include "runtime/cuda/running/device_memory.h"
#include "runtime/cuda/running/session.h"

namespace rewright::cuda {

namespace {

class DriverBackend final : public Backend, public MemoryOfDriver, public ResidentBackend {
 public:
  DriverBackend(const std::shared_ptr<Driver>& driver, const CudaOptions& options)
      : MemoryOfDriver(driver, options.device), driver_(driver), options_(options) {}
  std::string name() const override { return "cuda"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return make_session(driver_, graph, options, options_);
  }
  std::unique_ptr<Session> prepare_resident(const Graph& graph, const SessionOptions& options,
                                            const Residence& residence) const override {
    return make_resident_session(driver_, graph, options, options_, residence);
  }
  const MemoryOfDevice& memory() const override { return *this; }
  void* stream() const override { return driver_->stream_handle(); }

 private:
  std::shared_ptr<Driver> driver_;
  CudaOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::shared_ptr<Driver> driver, const CudaOptions& cuda) {
  return std::make_unique<DriverBackend>(driver, cuda);
}

}  // namespace rewright::cuda
