// The memory of this process and what is left for it, in bytes, as the kernel counts it, and of the machine. 0 if it does not
// say.
#pragma once

#include <cstddef>

namespace rewright {

// The resident memory now. Cheap enough to ask for in a search's loop.
std::size_t resident_bytes();
// The largest resident memory so far. Not getrusage's ru_maxrss, which starts at that of the process that started this one.
std::size_t peak_resident_bytes();
// The memory that the machine has.
std::size_t machine_bytes();

// The memory that this process may still take without others', or itself, being ended for it: of the machine, and of the
// control group that it runs in. The largest number if the kernel does not say. Takes some ten microseconds.
std::size_t available_bytes();

// Throws Error(kMissing) if so much is to be allocated and not available: systems give addresses for more memory than there is,
// and end the process when it uses them. Looks only where it is enough to matter.
void require_memory(std::size_t bytes);

}  // namespace rewright
