#include "runtime/cuda/planning/choices.h"

namespace rewright::cuda {

std::optional<std::string> Choices::find(const std::string& work) {
  const std::lock_guard lock(mutex_);
  return database_.find_choice(device_, work);
}

void Choices::store(const std::string& work, const std::string& choice) {
  const std::lock_guard lock(mutex_);
  database_.store_choice(device_, work, choice);
}

}  // namespace rewright::cuda
