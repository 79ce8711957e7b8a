// Runs on bound memory, on the host and on GPUs.
#include <cstring>
#include <optional>

#include "api/c/handles.h"
#include "api/c/tensors.h"
#include "api/placed_run.h"
#include "runtime/endable_run.h"

using rewright::Error;
using rewright::ErrorCode;
using rewright::Tensor;
using rewright::c::guarded;
using rewright::c::position;
using rewright::c::required;
using rewright::runtime::Destination;
using rewright::runtime::DeviceTensor;
using rewright::runtime::PlacedTensor;

struct rewright_binding {
  explicit rewright_binding(rewright_session& bound)
      : session(bound),
        inputs(bound.inputs.size()),
        outputs(bound.outputs.size()),
        buffers(bound.outputs.size()),
        results(bound.outputs.size()) {}

  rewright_session& session;
  std::vector<std::optional<PlacedTensor>> inputs;
  std::vector<Destination> outputs;
  std::vector<Tensor> buffers;  // the caller's memory on the host, by output
  std::vector<PlacedTensor> results;
};

namespace {

std::vector<PlacedTensor> inputs_of(const rewright_binding& binding) {
  std::vector<PlacedTensor> inputs;
  for (std::size_t i = 0; i < binding.inputs.size(); ++i) {
    if (!binding.inputs[i]) throw Error(ErrorCode::kUsage, "is not bound", "input " + binding.session.inputs[i]);
    inputs.push_back(*binding.inputs[i]);
  }
  return inputs;
}

void fill(const Tensor& buffer, const Tensor& result, const std::string& output) {
  rewright::runtime::require_fits({buffer.type(), buffer.sizes()}, {result.type(), rewright::to_indices(result.sizes())},
                                  output);
  if (result.byte_count() > 0)
    std::memcpy(const_cast<std::byte*>(buffer.bytes().data()), result.bytes().data(), result.byte_count());
}

void run(rewright_binding& binding) {
  const std::vector<std::string>& names = binding.session.outputs;
  std::vector<PlacedTensor> results =
      rewright::api::run_placed(*binding.session.session, inputs_of(binding), binding.outputs, names);
  for (std::size_t o = 0; o < results.size(); ++o) {
    if (!binding.buffers[o]) continue;
    fill(binding.buffers[o], std::get<Tensor>(results[o]), names[o]);
    results[o] = binding.buffers[o];
  }
  binding.results = std::move(results);
}

rewright_tensor view(const PlacedTensor& tensor, const std::string& output) {
  if (const auto* const placed = std::get_if<DeviceTensor>(&tensor))
    return {static_cast<std::int32_t>(placed->type), static_cast<std::int32_t>(placed->sizes.size()), placed->sizes.data(),
            placed->data, placed->byte_count()};
  const Tensor& t = std::get<Tensor>(tensor);
  if (!t) throw Error(ErrorCode::kUsage, "nothing was written to it", "output " + output, "bind it, and run");
  return {static_cast<std::int32_t>(t.type()), static_cast<std::int32_t>(t.sizes().size()), t.sizes().data(),
          const_cast<std::byte*>(t.bytes().data()), t.byte_count()};
}

}  // namespace

extern "C" {

rewright_status rewright_binding_create(rewright_session* session, rewright_binding** binding) {
  return guarded([&] {
    required(binding, "binding") = nullptr;
    *binding = new rewright_binding(required(session, "session"));
  });
}

rewright_status rewright_binding_input(rewright_binding* binding, const char* name, const char* device,
                                       const rewright_tensor* tensor) {
  return guarded([&] {
    rewright_binding& b = required(binding, "binding");
    const std::size_t at = position(b.session.inputs, name, "input");
    const std::string where = "input " + b.session.inputs[at];
    const std::optional<int> gpu = rewright::api::gpu_of_memory(&required(device, "device"));
    const rewright_tensor& given = required(tensor, "tensor");
    if (gpu)
      b.inputs[at] = rewright::c::given_on_gpu(given, *gpu, where);
    else
      b.inputs[at] = rewright::c::given_tensor(given, where);
  });
}

rewright_status rewright_binding_output(rewright_binding* binding, const char* name, const char* device,
                                        const rewright_tensor* tensor) {
  return guarded([&] {
    rewright_binding& b = required(binding, "binding");
    const std::size_t at = position(b.session.outputs, name, "output");
    const std::string where = "output " + b.session.outputs[at];
    const std::optional<int> gpu = rewright::api::gpu_of_memory(&required(device, "device"));
    const Tensor buffer = tensor && !gpu ? rewright::c::given_tensor(*tensor, where) : Tensor();
    Destination destination = rewright::runtime::OnHost();
    if (gpu) destination = rewright::runtime::OnDevice{*gpu};
    if (gpu && tensor) destination = rewright::c::given_on_gpu(*tensor, *gpu, where);
    b.outputs[at] = std::move(destination);
    b.buffers[at] = buffer;
    b.results[at] = Tensor();
  });
}

rewright_status rewright_binding_run(rewright_binding* binding, const rewright_ending* ending) {
  return guarded([&] {
    rewright_binding& b = required(binding, "binding");
    if (!ending) return run(b);
    const rewright::graph::Checkpoint checkpoint = rewright::runtime::ends_when(ending->ended);
    checkpoint();
    const rewright::runtime::EndableRun endable(checkpoint);
    run(b);
  });
}

rewright_status rewright_binding_result(const rewright_binding* binding, const char* name, rewright_tensor* tensor) {
  return guarded([&] {
    const rewright_binding& b = required(binding, "binding");
    const std::size_t at = position(b.session.outputs, name, "output");
    required(tensor, "tensor") = view(b.results[at], b.session.outputs[at]);
  });
}

void rewright_binding_free(rewright_binding* binding) { delete binding; }

}  // extern "C"
