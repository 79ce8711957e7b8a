// Costs of operators from a callback.
#pragma once

#include "api/priced_device.h"
#include "api/rewright_c.h"

namespace rewright::c {

// Empty if `cost` is null: the device measures.
NodePrice price_by(rewright_cost cost, void* user);

}  // namespace rewright::c
