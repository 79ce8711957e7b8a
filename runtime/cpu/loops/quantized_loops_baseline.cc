#define REWRIGHT_QUANTIZED quantized_loops_baseline
#define REWRIGHT_VECTOR_BYTES 16
#define REWRIGHT_TILE_ROWS 6
#define REWRIGHT_UNIT 2
#define REWRIGHT_DOT(sum, x, w) (sum + (Vector)_mm_madd_epi16((__m128i)(x), (__m128i)(w)))
#include "runtime/cpu/loops/quantized_loops_impl.h"
