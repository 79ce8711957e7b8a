#include "api/placed_run.h"

#include "api/devices.h"

namespace rewright::api {

namespace {

// The tensor on the host if it is on another GPU than this one (-1: none).
PlacedTensor within_reach(const PlacedTensor& tensor, int gpu) {
  const auto* const placed = std::get_if<DeviceTensor>(&tensor);
  if (placed == nullptr || placed->device == gpu) return tensor;
  return memory_of_gpu(placed->device).copy_out(*placed);
}

// The host if the destination is another GPU: the tensor goes on from there.
Destination within_reach(const Destination& destination, int gpu) {
  const auto* const buffer = std::get_if<DeviceTensor>(&destination);
  const auto* const on = std::get_if<OnDevice>(&destination);
  const bool beyond = (buffer != nullptr && buffer->device != gpu) || (on != nullptr && on->device != gpu);
  return beyond ? OnHost() : destination;
}

DeviceTensor brought(const Tensor& result, const Destination& destination, const std::string& output) {
  DeviceTensor buffer;
  if (const auto* const given = std::get_if<DeviceTensor>(&destination))
    buffer = *given;
  else
    buffer = memory_of_gpu(std::get<OnDevice>(destination).device).allocate(result.type(), result.sizes());
  require_fits(buffer, {result.type(), to_indices(result.sizes())}, output);
  memory_of_gpu(buffer.device).copy_in(buffer, result);
  return buffer;
}

std::vector<PlacedTensor> run_on_host(Session& session, std::span<const PlacedTensor> inputs,
                                      std::span<const Destination> outputs) {
  std::vector<Tensor> tensors;
  for (const PlacedTensor& input : inputs) tensors.push_back(std::get<Tensor>(input));
  std::vector<Tensor> found = session.run(tensors);
  std::vector<PlacedTensor> results(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (!std::holds_alternative<Nowhere>(outputs[o])) results[o] = std::move(found.at(o));
  return results;
}

}  // namespace

std::optional<int> gpu_of_memory(const std::string& name) {
  if (name == "cpu") return std::nullopt;
  if (const auto number = gpu_number(name)) return number;
  throw Error(ErrorCode::kUsage, "there is no memory of \"" + name + "\"", {},
              "there are " + device_names(DeviceUse::kMemory, "and"));
}

const MemoryOfDevice& memory_of_gpu(int number) {
  return dynamic_cast<const MemoryOfDevice&>(find_backend("cuda:" + std::to_string(number)));
}

std::vector<PlacedTensor> run_placed(Session& session, std::span<const PlacedTensor> inputs,
                                     std::span<const Destination> outputs, std::span<const std::string> output_names) {
  auto* const on_device = dynamic_cast<DeviceSession*>(&session);
  const int gpu = on_device == nullptr ? -1 : on_device->device();
  std::vector<PlacedTensor> reachable;
  for (const PlacedTensor& input : inputs) reachable.push_back(within_reach(input, gpu));
  std::vector<Destination> first;
  for (const Destination& output : outputs) first.push_back(within_reach(output, gpu));
  std::vector<PlacedTensor> results =
      on_device == nullptr ? run_on_host(session, reachable, first) : on_device->run_placed(reachable, first);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (first[o].index() != outputs[o].index()) results[o] = brought(std::get<Tensor>(results[o]), outputs[o], output_names[o]);
  return results;
}

}  // namespace rewright::api
