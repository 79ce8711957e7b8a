#define REWRIGHT_QUANTIZED quantized_loops_avx2
#define REWRIGHT_VECTOR_BYTES 32
#define REWRIGHT_TILE_ROWS 6
#define REWRIGHT_UNIT 2
#define REWRIGHT_DOT(sum, x, w) (sum + (Vector)_mm256_madd_epi16((__m256i)(x), (__m256i)(w)))
#include "runtime/cpu/loops/quantized_loops_impl.h"
