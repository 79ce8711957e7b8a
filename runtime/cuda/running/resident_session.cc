// Sessions whose weights and states stay on the device.
#include <algorithm>
#include <map>

#include "runtime/cuda/driver/failures.h"
#include "runtime/cuda/running/prepare.h"

namespace rewright::cuda {

namespace {

// Numbers places: tensors in the same memory share one.
class PlaceNumbers {
 public:
  int of(const std::optional<DeviceTensor>& tensor) {
    if (!tensor) return -1;
    const auto [found, added] = numbers_.emplace(tensor->data, static_cast<int>(tensors.size()));
    if (added) tensors.push_back(*tensor);
    return found->second;
  }
  std::vector<DeviceTensor> tensors;  // by number

 private:
  std::map<const std::byte*, int> numbers_;
};

class ResidentSession final : public Session {
 public:
  ResidentSession(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options, const CudaOptions& cuda,
                  const Residence& residence)
      : driver_(std::move(driver)), profiled_(options.profile), constants_(driver_) {
    const auto place = [&](std::size_t n, ValueId value, const std::optional<DeviceTensor>& tensor) {
      if (tensor) require_fits(*tensor, graph.value(value).type, std::to_string(n));
      return places_.of(tensor);
    };
    Residents residents;
    for (std::size_t i = 0; i < residence.inputs.size(); ++i)
      residents.places.inputs.push_back(place(i, graph.inputs()[i], residence.inputs[i]));
    for (std::size_t o = 0; o < residence.outputs.size(); ++o)
      residents.places.outputs.push_back(place(o, graph.outputs()[o].value, residence.outputs[o]));
    residents.places.groups = residence.groups;
    residents.announce = residence.announce;
    for (const DeviceTensor& t : places_.tensors) residents.memory.push_back(t.data);
    const InUse in_use(*driver_);
    execution_ = on(*driver_, [&] { return prepare(driver_, graph, constants_, cuda, residents); });
  }
  ~ResidentSession() override {
    const InUse in_use(*driver_);
    execution_.reset();
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const InUse in_use(*driver_);
    ++runs_;
    return on(*driver_, [&] { return execution_->run(inputs); });
  }

  // Measuring overwrites resident tensors, so they are restored.
  std::vector<StepProfile> profile() const override {
    if (!profiled_ || runs_ == 0) return {};
    const InUse in_use(*driver_);
    std::vector<std::vector<std::byte>> kept;
    for (const DeviceTensor& t : places_.tensors) {
      driver_->copy_out(kept.emplace_back(t.byte_count()).data(), t.data, t.byte_count());
      driver_->synchronize();
    }
    std::vector<StepProfile> result = execution_->profile(runs_);
    for (std::size_t n = 0; n < kept.size(); ++n) driver_->copy_in(places_.tensors[n].data, kept[n].data(), kept[n].size());
    driver_->synchronize();
    return result;
  }

  std::size_t peak_bytes() const override { return execution_->plan().arena_bytes; }

 private:
  std::shared_ptr<Driver> driver_;
  bool profiled_;
  PlaceNumbers places_;
  ConstantStore constants_;
  std::unique_ptr<Execution> execution_;
  int runs_ = 0;
};

}  // namespace

std::unique_ptr<Session> make_resident_session(std::shared_ptr<Driver> driver, const Graph& graph,
                                               const SessionOptions& options, const CudaOptions& cuda,
                                               const Residence& residence) {
  return std::make_unique<ResidentSession>(std::move(driver), graph, options, cuda, residence);
}

}  // namespace rewright::cuda
