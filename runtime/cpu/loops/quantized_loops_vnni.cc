#define REWRIGHT_QUANTIZED quantized_loops_vnni
#define REWRIGHT_VECTOR_BYTES 64
#define REWRIGHT_TILE_ROWS 14
#define REWRIGHT_UNIT 4
#define REWRIGHT_DOT(sum, x, w) ((Vector)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
#include "runtime/cpu/loops/quantized_loops_impl.h"
