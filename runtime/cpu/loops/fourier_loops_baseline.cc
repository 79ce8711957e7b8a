#define REWRIGHT_FOURIER fourier_loops_baseline
#define REWRIGHT_VECTOR_BYTES 16
#define REWRIGHT_PRODUCT_ROWS 4
#include "runtime/cpu/loops/fourier_loops_impl.h"
