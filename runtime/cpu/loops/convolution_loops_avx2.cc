#define REWRIGHT_CONVOLUTIONS convolution_loops_avx2
#define REWRIGHT_VECTOR_BYTES 32
#define REWRIGHT_TILE_ROWS 6
#include "runtime/cpu/loops/convolution_loops_impl.h"
