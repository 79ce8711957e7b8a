#include "runtime/device_tensor.h"

namespace rewright::runtime {

void require_fits(const DeviceTensor& buffer, const TensorType& type, const std::string& output) {
  const TensorType found{buffer.type, to_indices(buffer.sizes)};
  if (found.type == type.type && buffer.sizes == values(type.shape)) return;
  throw Error(ErrorCode::kBadInput, "is " + to_string(type) + ", the memory for it is of " + to_string(found),
              "output \"" + output + "\"");
}

}  // namespace rewright::runtime
