// A cost model of the caller's own.
#pragma once

#include "api/priced_device.h"
#include "api/rewright_c.h"

namespace rewright::c {

// Null for null: the device measures.
NodePrice price_by(rewright_cost cost, void* user);

}  // namespace rewright::c
