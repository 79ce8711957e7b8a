#include "api/c/tensors.h"

#include <algorithm>

#include "api/c/handles.h"

namespace rewright::c {

namespace {

DataType type_of(const rewright_tensor& tensor) { return static_cast<DataType>(tensor.type); }
Sizes sizes_of(const rewright_tensor& tensor) { return {tensor.sizes, tensor.sizes + tensor.rank}; }

void require_whole(const rewright_tensor& given, const std::string& where) {
  const auto bad = [&](const std::string& what) { return Error(ErrorCode::kBadInput, what, where); };
  const DataType type = type_of(given);
  if (byte_size(type) == 0) throw bad("element type " + std::to_string(given.type) + " cannot be given here");
  if (given.rank < 0 || (given.rank > 0 && !given.sizes)) throw bad("its sizes are not given");
  const Sizes sizes = sizes_of(given);
  std::size_t needed = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(element_count(sizes)), byte_size(type), &needed))
    throw bad("the number of its bytes is beyond 64 bits");
  if (needed != given.bytes)
    throw bad("its sizes need " + std::to_string(needed) + " bytes, it has " + std::to_string(given.bytes));
  if (needed > 0 && !given.data) throw bad("its data is null");
}

}  // namespace

Tensor given_tensor(const rewright_tensor& given, const std::string& where) {
  require_whole(given, where);
  return {type_of(given), sizes_of(given), std::shared_ptr<const void>(), static_cast<const std::byte*>(given.data)};
}

DeviceTensor given_on_gpu(const rewright_tensor& given, int gpu, const std::string& where) {
  require_whole(given, where);
  return {type_of(given), sizes_of(given), gpu, static_cast<std::byte*>(given.data)};
}

std::size_t position(const std::vector<std::string>& names, const char* name, const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), &required(name, what.c_str()));
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  throw Error(ErrorCode::kUsage, "the model has no " + what + " \"" + name + "\"", {}, "it has " + all);
}

}  // namespace rewright::c
