// Integers of few bits in bytes, as ONNX Runtime stores them.
#pragma once

#include "operators/contrib/contrib.h"

namespace rewright::operators {

// The integers of `bits` bits each (2 to 8) that lie one after the other in the bytes of v's last axis, low bits first.
ValueId unpacked(ContribNode& n, ValueId v, std::int64_t bits);
// Throws Error(kBadInput) if there are no blocks of this size: powers of two from 16 on.
void require_block_size(std::int64_t size);

}  // namespace rewright::operators
