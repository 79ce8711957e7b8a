// A wrong oneDNN for tests, preloaded: its convolutions add the bias twice if the result has many channels. With PLANTED=beyond
// in the environment, they write one element beyond the result instead.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::int64_t kManyChannels = 200;

dnnl_memory_t argument(int count, const dnnl_exec_arg_t* list, int number) {
  const auto* const found = std::find_if(list, list + count, [&](const dnnl_exec_arg_t& a) { return a.arg == number; });
  return found == list + count ? nullptr : found->memory;
}

bool is_convolution(const_dnnl_primitive_t primitive) {
  const_dnnl_primitive_desc_t description = nullptr;
  dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
  dnnl_primitive_get_primitive_desc(primitive, &description);
  dnnl_primitive_desc_query(description, dnnl_query_primitive_kind, 0, static_cast<void*>(&kind));
  return kind == dnnl_convolution;
}

// For float results with channels last.
void add_again(dnnl_memory_t result, dnnl_memory_t bias) {
  const_dnnl_memory_desc_t description = nullptr;
  dnnl_memory_get_memory_desc(result, &description);
  int rank = 0;
  dnnl_dims_t* sizes = nullptr;
  dnnl_dims_t* strides = nullptr;
  dnnl_memory_desc_query(description, dnnl_query_ndims_s32, static_cast<void*>(&rank));
  dnnl_memory_desc_query(description, dnnl_query_dims, static_cast<void*>(&sizes));
  dnnl_memory_desc_query(description, dnnl_query_strides, static_cast<void*>(&strides));
  const std::int64_t channels = (*sizes)[1];
  if ((*strides)[1] != 1 || channels < kManyChannels) return;
  std::int64_t all = 1;
  for (int a = 0; a < rank; ++a) all *= (*sizes)[a];
  void *to = nullptr, *from = nullptr;
  dnnl_memory_get_data_handle(result, &to);
  dnnl_memory_get_data_handle(bias, &from);
  for (std::int64_t i = 0; i < all; ++i) static_cast<float*>(to)[i] += static_cast<const float*>(from)[i % channels];
}

void write_beyond(dnnl_memory_t result) {
  const_dnnl_memory_desc_t description = nullptr;
  dnnl_memory_get_memory_desc(result, &description);
  void* to = nullptr;
  dnnl_memory_get_data_handle(result, &to);
  *reinterpret_cast<float*>(static_cast<char*>(to) + dnnl_memory_desc_get_size(description)) = 1;
}

}  // namespace

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t* arguments) {
  static const auto original = reinterpret_cast<decltype(&dnnl_primitive_execute)>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  const dnnl_status_t status = original(primitive, stream, count, arguments);
  dnnl_memory_t const bias = argument(count, arguments, DNNL_ARG_BIAS), result = argument(count, arguments, DNNL_ARG_DST);
  if (status != dnnl_success || result == nullptr || !is_convolution(primitive)) return status;
  const char* const planted = std::getenv("PLANTED");
  if (planted != nullptr && std::strcmp(planted, "beyond") == 0)
    write_beyond(result);
  else if (bias != nullptr)
    add_again(result, bias);
  return status;
}
