#define REWRIGHT_ROWS rows_avx2
#define REWRIGHT_VECTOR_BYTES 32
#include "runtime/cpu/loops/rows_impl.h"
