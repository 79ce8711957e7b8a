#define REWRIGHT_FOURIER fourier_loops_avx512
#define REWRIGHT_VECTOR_BYTES 64
#define REWRIGHT_PRODUCT_ROWS 12
#include "runtime/cpu/loops/fourier_loops_impl.h"
