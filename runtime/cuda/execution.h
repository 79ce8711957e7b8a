// A plan on a device, ready to run again and again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/cuda/plan.h"
#include "runtime/cuda/session.h"

namespace rewright::cuda {

// Memory of a driver, given back at the end.
class DeviceMemory {
 public:
  enum class Kind { kDevice, kPinned };
  DeviceMemory(std::shared_ptr<Driver> driver, Kind kind, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<Driver> driver_;
  Kind kind_;
  std::byte* data_ = nullptr;
};

// Constants on the device: those that several plans of a session share are there once, as long as one of them lives.
class ConstantStore {
 public:
  explicit ConstantStore(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  std::shared_ptr<DeviceMemory> place(const Tensor& tensor, bool channels_last);

 private:
  struct Place {
    Tensor tensor;  // its bytes' address stays its own
    std::weak_ptr<DeviceMemory> memory;
  };
  std::shared_ptr<Driver> driver_;
  std::map<std::pair<const std::byte*, bool>, Place> places_;
};

class Execution {
 public:
  Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options);
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  const Plan& plan() const { return plan_; }
  // Seconds on the device for the whole plan between the copies of inputs and outputs, for all of its steps one after the other
  // but those that only change a layout, or for one step. Throws Error(kUnsupported) where the host executes a node.
  double measure(int runs);
  double measure_work(int runs);
  double measure_step(std::size_t step, int runs);

 private:
  // How a library's step runs: by its operation (null: by the kernel of the whole group), and what stands behind by a kernel.
  struct Choice {
    std::unique_ptr<Operation> operation;
    bool epilogue_apart = false;
  };
  using Part = std::variant<std::unique_ptr<Recording>, std::size_t>;  // recorded steps, or a step on the host

  void load_kernels(const CudaOptions& options);
  void choose_operations(const CudaOptions& options);
  Choice known_choice(const LibraryStep& step, const CudaOptions& options, const std::string& text);
  void measure_choice(std::size_t step, const CudaOptions& options);
  void reserve_workspace(const Operation& operation, int stream);
  void choose_streams(const CudaOptions& options);
  void record();
  std::unique_ptr<Recording> recorded(const std::function<void()>& work);
  double measured(const std::function<void()>& work, int runs);
  void require_device() const;
  void start_steps(std::size_t begin, std::size_t end);
  void start(std::size_t step);
  void start_kernel(std::size_t kernel, const std::vector<int>& inputs, int output);
  void run_on_host(std::size_t step);
  std::byte* address(int buffer) const;

  std::shared_ptr<Driver> driver_;
  Plan plan_;
  std::unique_ptr<DeviceMemory> arena_, inputs_, flag_;
  std::vector<std::shared_ptr<DeviceMemory>> constants_;
  std::vector<std::unique_ptr<DeviceMemory>> workspaces_;  // by stream
  std::vector<std::size_t> workspace_bytes_;
  std::unique_ptr<DeviceMemory> pinned_inputs_, pinned_outputs_, pinned_flag_;
  std::vector<std::byte*> addresses_;  // by buffer
  std::vector<std::size_t> input_offsets_, output_offsets_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
  std::unique_ptr<Module> modules_[2];  // kernels in float, in double
  std::vector<Choice> choices_;         // by step
  std::vector<Part> parts_;
  bool in_streams_ = false;
};

// An execution of the graph, planned in the way that is measured to be fastest where the options leave a choice.
std::unique_ptr<Execution> prepare(const std::shared_ptr<Driver>& driver, const Graph& graph, ConstantStore& constants,
                                   const CudaOptions& options);

}  // namespace rewright::cuda
