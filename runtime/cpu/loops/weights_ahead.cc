#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {

// Prefetching by Intel's cores ends with each page (7.5 GB/s where reading alone has 11.5; a page ahead 11.8). AMD's goes on,
// and is disturbed by lines of another page (a row of weights of 4 bits: 23 GB/s; 256 bytes ahead 31, as fast as reading
// alone).
const std::int64_t stream_ahead = __builtin_cpu_is("amd") ? 256 : 4096;

}  // namespace rewright::cpu
