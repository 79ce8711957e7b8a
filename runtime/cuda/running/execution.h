// A plan on a device, ready to run again and again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/running/session.h"
#include "runtime/device_tensor.h"

namespace rewright::cuda {

inline constexpr int kChoosingRuns = 5;  // measurements of each of several ways

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

// What stays on the device from run to run.
struct Residents {
  Places places;
  std::vector<std::byte*> memory;  // by place
  // Called as soon as the work is started that computes and reads a group of outputs, which is not done then.
  std::function<void(std::size_t group)> announce;
};

class Execution {
 public:
  Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options,
            Residents residents = {});
  // Inputs that stay on the device are not looked at, and outputs that do are empty.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // Runs step by step and calls `observe` after each step, with its number: it may read the buffers (read_back).
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const std::function<void(std::size_t step)>& observe);
  std::vector<std::byte> read_back(int buffer);
  // Whose kernel a step runs, with the library's own name for it, and how many times the rounding of plain sums it may have.
  std::string source(std::size_t step) const;
  double rounding(std::size_t step) const;
  // The same with inputs that lie anywhere, and outputs that go anywhere: see DeviceSession::run_placed. Fills `results`, which
  // has an empty tensor for each output; what it has filled when it throws is the caller's to let go.
  void run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs, std::span<PlacedTensor> results);

  const Plan& plan() const { return plan_; }
  // Seconds on the device for the whole plan between the copies of inputs and outputs, or for all of its steps one after the
  // other but those that only change a layout. Throws Error(kUnsupported) where the host executes a node.
  double measure(int runs);
  double measure_work(int runs);
  // Each step measured by itself, on what there is; `runs` were made. It takes no time on the device where the host executes
  // it.
  std::vector<StepProfile> profile(int runs);

 private:
  // How a step runs: by which operation of a library, or which of its ways and how the steps of that run.
  struct Choice {
    std::unique_ptr<Operation> operation;
    std::size_t way = 0;
    std::vector<Choice> steps;
  };
  struct Announcement {
    std::size_t group;
  };
  using Part = std::variant<std::unique_ptr<Recording>, std::size_t, Announcement>;  // recorded steps, or a step on the host

  // The library's operation that a step starts, as it was chosen, and what it was asked for; null: none.
  static std::pair<const LibraryStep*, const Operation*> operation_of(const Step& step, const Choice& choice);
  void load_kernels(const CudaOptions& options);
  void choose(const CudaOptions& options);
  std::optional<Choice> choose(const Step& step, const CudaOptions& options);
  std::optional<Choice> choose_operation(const LibraryStep& step, const CudaOptions& options);
  std::optional<Choice> choose_way(const Step& step, const CudaOptions& options);
  std::optional<Choice> take_way(const EitherStep& step, std::size_t way, const CudaOptions& options);
  std::optional<std::string> known_choice(const std::string& work, const CudaOptions& options) const;
  void keep_choice(const std::string& work, const std::string& choice, const CudaOptions& options);
  void reserve_workspace(std::size_t bytes, int stream);
  void choose_streams(const CudaOptions& options);
  // With the copies of inputs to the device, and of outputs from it, or without.
  std::vector<Part> record(bool with_copies);
  std::size_t end_of_stretch(std::size_t begin) const;
  void start_stretch(std::size_t begin, std::size_t end, bool with_copies);
  void start_inputs(bool with_copies);
  void start_outputs(bool with_copies);
  void take_inputs(std::span<const Tensor> inputs);
  std::vector<Tensor> give_outputs() const;
  void run(const std::vector<Part>& parts);
  void check_positions() const;
  std::unique_ptr<Recording> recorded(const std::function<void()>& work);
  double measured(const std::function<void()>& work, int runs);
  double measure_step(std::size_t step);
  void require_device() const;
  void start_steps(std::size_t begin, std::size_t end);
  void start(std::size_t step);
  // `stream`: whose workspace it uses.
  void start(const Step& step, const Choice& choice, std::size_t stream);
  void start_kernel(const Step& step, std::size_t kernel, std::size_t stream);
  void start_operation(const Step& step, Operation& operation, std::size_t stream);
  void run_on_host(std::size_t step);
  std::byte* address(int buffer, std::size_t stream = 0) const;

  std::shared_ptr<Driver> driver_;
  Plan plan_;
  Residents residents_;
  std::unique_ptr<DeviceMemory> arena_, inputs_, flag_;
  std::vector<std::shared_ptr<DeviceMemory>> constants_;
  std::vector<std::unique_ptr<DeviceMemory>> workspaces_;  // by stream
  std::vector<std::size_t> workspace_bytes_;
  std::unique_ptr<DeviceMemory> pinned_inputs_, pinned_outputs_, pinned_flag_;
  std::vector<std::byte*> addresses_;  // by buffer
  std::vector<std::size_t> input_offsets_, output_offsets_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
  std::unique_ptr<Module> modules_[2];         // kernels in float, in double
  std::vector<Choice> choices_;                // by step
  std::map<std::string, std::string> chosen_;  // where nothing is kept, equal steps are still measured once
  std::vector<Part> parts_, placed_parts_;     // the second ones when they are needed for the first time
  bool in_streams_ = false;
  Precision precision_;
};

// An execution of the graph, planned in the way that is measured to be fastest where the options leave a choice.
// Preparing one overwrites what stays on the device.
std::unique_ptr<Execution> prepare(const std::shared_ptr<Driver>& driver, const Graph& graph, ConstantStore& constants,
                                   const CudaOptions& options, const Residents& residents = {}, const InsteadOf& instead = {});

}  // namespace rewright::cuda
