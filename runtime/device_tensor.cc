#include "runtime/device_tensor.h"

namespace rewright::runtime {

void require_room(const DeviceTensor& room, const TensorType& type, const std::string& output) {
  const TensorType found{room.type, to_indices(room.sizes)};
  if (found.type == type.type && room.sizes == values(type.shape)) return;
  throw Error(ErrorCode::kBadInput, "is " + to_string(type) + ", the memory for it is of " + to_string(found),
              "output \"" + output + "\"");
}

}  // namespace rewright::runtime
