#define REWRIGHT_FOURIER fourier_loops_avx2
#define REWRIGHT_VECTOR_BYTES 32
#define REWRIGHT_PRODUCT_ROWS 6
#include "runtime/cpu/loops/fourier_loops_impl.h"
