#define REWRIGHT_QUANTIZED quantized_loops_avx512
#define REWRIGHT_VECTOR_BYTES 64
#define REWRIGHT_TILE_ROWS 14
#define REWRIGHT_UNIT 2
#define REWRIGHT_DOT(sum, x, w) (sum + (Vector)_mm512_madd_epi16((__m512i)(x), (__m512i)(w)))
#include "runtime/cpu/loops/quantized_loops_impl.h"
