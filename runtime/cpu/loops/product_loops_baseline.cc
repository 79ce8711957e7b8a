#define REWRIGHT_PRODUCTS product_loops_baseline
#define REWRIGHT_VECTOR_BYTES 16
#define REWRIGHT_PRODUCT_ROWS \
  { 0, 8, 4, 4, 2 }
#include "runtime/cpu/loops/product_loops_impl.h"
