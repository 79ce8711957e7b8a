#define REWRIGHT_PRODUCTS product_loops_avx2
#define REWRIGHT_VECTOR_BYTES 32
#define REWRIGHT_PRODUCT_ROWS \
  { 0, 8, 6, 4, 2 }
#include "runtime/cpu/loops/product_loops_impl.h"
