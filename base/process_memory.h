// The memory of this process, in bytes, as the kernel counts it. 0 if it does not say.
#pragma once

#include <cstddef>

namespace rewright {

// The resident memory now. Cheap enough to ask for in a search's loop.
std::size_t resident_bytes();
// The largest resident memory so far. Not getrusage's ru_maxrss, which starts at that of the process that started this one.
std::size_t peak_resident_bytes();

}  // namespace rewright
