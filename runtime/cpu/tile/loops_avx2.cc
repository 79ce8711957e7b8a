#define REWRIGHT_LOOPS loops_avx2
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f8_##bound##avx2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d4_##bound##avx2
#define REWRIGHT_VECTOR_F32 __m256
#define REWRIGHT_VECTOR_F64 __m256d
#define REWRIGHT_LOAD_F32 _mm256_loadu_ps
#define REWRIGHT_LOAD_F64 _mm256_loadu_pd
#define REWRIGHT_STORE_F32 _mm256_storeu_ps
#define REWRIGHT_STORE_F64 _mm256_storeu_pd
#include "runtime/cpu/tile/loops_impl.h"
