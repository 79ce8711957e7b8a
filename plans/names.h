#pragma once
#include "base/namespaces.h"
namespace rewright::plans {
using namespace proof;
using namespace optimizer;
}  // namespace rewright::plans
