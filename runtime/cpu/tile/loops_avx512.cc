#define REWRIGHT_LOOPS loops_avx512
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f16_##bound##avx512f
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d8_##bound##avx512f
#define REWRIGHT_VECTOR_F32 __m512
#define REWRIGHT_VECTOR_F64 __m512d
#define REWRIGHT_LOAD_F32 _mm512_loadu_ps
#define REWRIGHT_LOAD_F64 _mm512_loadu_pd
#define REWRIGHT_STORE_F32 _mm512_storeu_ps
#define REWRIGHT_STORE_F64 _mm512_storeu_pd
#include "runtime/cpu/tile/loops_impl.h"
