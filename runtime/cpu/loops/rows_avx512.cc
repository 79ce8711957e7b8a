#define REWRIGHT_ROWS rows_avx512
#define REWRIGHT_VECTOR_BYTES 64
#include "runtime/cpu/loops/rows_impl.h"
