#define REWRIGHT_CONVOLUTIONS convolution_loops_avx512
#define REWRIGHT_VECTOR_BYTES 64
#define REWRIGHT_TILE_ROWS 14
#include "runtime/cpu/loops/convolution_loops_impl.h"
