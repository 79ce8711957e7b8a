#define REWRIGHT_CONVOLUTIONS convolution_loops_baseline
#define REWRIGHT_VECTOR_BYTES 16
#define REWRIGHT_TILE_ROWS 6
#include "runtime/cpu/loops/convolution_loops_impl.h"
