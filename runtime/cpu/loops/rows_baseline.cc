#define REWRIGHT_ROWS rows_baseline
#define REWRIGHT_VECTOR_BYTES 16
#include "runtime/cpu/loops/rows_impl.h"
