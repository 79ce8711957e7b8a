#define REWRIGHT_LOOPS loops_baseline
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f4_##bound##sse2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d2_##bound##sse2
#define REWRIGHT_VECTOR_F32 __m128
#define REWRIGHT_VECTOR_F64 __m128d
#define REWRIGHT_LOAD_F32 _mm_loadu_ps
#define REWRIGHT_LOAD_F64 _mm_loadu_pd
#define REWRIGHT_STORE_F32 _mm_storeu_ps
#define REWRIGHT_STORE_F64 _mm_storeu_pd
#include "runtime/cpu/tile/loops_impl.h"
