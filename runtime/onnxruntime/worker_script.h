// The text of python/ort_worker.py, compiled in, so that an installed program needs no additional file.
#pragma once

#include <string_view>

namespace rewright::runtime {

std::string_view worker_script();

}  // namespace rewright::runtime
