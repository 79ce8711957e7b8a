#include "runtime/cpu/base/libraries.h"

#include <omp.h>

namespace rewright::cpu {

LibrariesOnOneThread::LibrariesOnOneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

LibrariesOnOneThread::~LibrariesOnOneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace rewright::cpu
