#define REWRIGHT_PRODUCTS product_loops_avx512
#define REWRIGHT_VECTOR_BYTES 64
// Rows of a block that leave registers for a panel's row and an element of a.
#define REWRIGHT_PRODUCT_ROWS \
  { 0, 14, 12, 8, 6 }
#include "runtime/cpu/loops/product_loops_impl.h"
