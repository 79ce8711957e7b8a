#include <algorithm>
#include <limits>
#include <span>

#include "base/error.h"
#include "expressions/function.h"
#include "expressions/power_of_two.h"
#include "expressions/small_float.h"
#include "runtime/cuda/source/generated_kernel.h"
#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

// A function of x and y, over reals and over integers; empty where it is undefined.
struct FunctionSource {
  const Function* function;
  const char* real;
  const char* integer;
};

std::span<const FunctionSource> function_sources() {
  using namespace functions;
  static const FunctionSource kSources[] = {
      {&exp, "::exp(x)", ""},
      {&log, "::log(x)", ""},
      {&sqrt, "::sqrt(x)", ""},
      {&rsqrt, "real(1) / ::sqrt(x)", ""},
      {&erf, "::erf(x)", ""},
      {&tanh, "::tanh(x)", ""},
      {&sigmoid, "real(1) / (real(1) + ::exp(-x))", ""},
      {&sin, "::sin(x)", ""},
      {&cos, "::cos(x)", ""},
      {&tan, "::tan(x)", ""},
      {&asin, "::asin(x)", ""},
      {&acos, "::acos(x)", ""},
      {&atan, "::atan(x)", ""},
      {&sinh, "::sinh(x)", ""},
      {&cosh, "::cosh(x)", ""},
      {&asinh, "::asinh(x)", ""},
      {&acosh, "::acosh(x)", ""},
      {&atanh, "::atanh(x)", ""},
      {&softplus, "(x > 0 ? x : x != x ? x : real(0)) + ::log1p(::exp(-::fabs(x)))", ""},
      {&pow, "::pow(x, y)", "integer_power(x, y)"},
      {&abs, "::fabs(x)", "x < 0 ? wrapping_negative(x) : x"},
      {&sign, "x != x ? x : real((x > 0) - (x < 0))", "(x > 0) - (x < 0)"},
      {&floor, "::floor(x)", "x"},
      {&ceil, "::ceil(x)", "x"},
      {&round_even, "::rint(x)", "x"},
      {&floor_modulo, "floor_modulo(x, y)", "y == 0 || y == -1 ? 0 : x % y != 0 && (x % y < 0) != (y < 0) ? x % y + y : x % y"},
      {&truncated_modulo, "::fmod(x, y)", "y == 0 || y == -1 ? 0 : x % y"},
      {&integer_divide, "", "y == 0 ? 0 : y == -1 ? wrapping_negative(x) : x / y"},
      {&functions::equal, "x == y", "x == y"},
      {&functions::less, "x < y", "x < y"},
      {&functions::less_equal, "x <= y", "x <= y"},
      {&logical_not, "", "!x"},
      {&logical_and, "", "x && y"},
      {&logical_or, "", "x || y"},
      {&logical_xor, "", "!x != !y"},
      {&is_nan, "x != x", ""},
      {&is_infinite, "x == infinity() || x == -infinity()", ""},
      {&nearest_float, "real((float)x)", ""},
      {&power_of_two, "x == 0 || !(::fabs(x) < infinity()) ? ::fabs(x) : ::ldexp(real(1), ::ilogb(x))", ""},
      {&bit_and, "", "x & y"},
      {&bit_or, "", "x | y"},
      {&bit_xor, "", "x ^ y"},
      {&bit_not, "", "~x"},
      {&shift_left, "", "y < 0 || y > 63 ? 0 : integer((natural)x << y)"},
      {&shift_right, "", "y < 0 || y > 63 ? (x < 0 ? -1 : 0) : x >> y"},
      {&shift_right_unsigned, "", "y < 0 || y > 63 ? 0 : integer((natural)x >> y)"},
  };
  return kSources;
}

std::string name_of(const Function& function) { return "f_" + std::string(function.name); }

std::string definitions() {
  std::string text;
  for (const FunctionSource& f : function_sources()) {
    const auto define = [&](const std::string& type, const std::string& body) {
      if (body.empty()) return;
      const std::string result = f.function->returns_argument_scalar ? type : "bool";
      const std::string arguments = type + " x" + (f.function->arity == 2 ? ", " + type + " y" : "");
      text += "INLINE " + result + " " + name_of(*f.function) + "(" + arguments + ") { return " + body + "; }\n";
    };
    define("real", f.real);
    define("integer", f.integer);
  }
  return text;
}

// Includes no headers: NVRTC then needs no include path, and compiles a kernel in a fraction of the time.
constexpr const char* kBegin = R"(
#define INLINE static __device__ __forceinline__
typedef REWRIGHT_REAL real;
typedef long long integer;
typedef unsigned long long natural;
struct half_bits { unsigned short bits; };
struct bfloat16_bits { unsigned short bits; };
struct truth { unsigned char byte; };
// A type of at most 8 bits: bits of its parts, its zero, its special numbers, and the bits of its largest number and of NaN.
template <int EXPONENT, int MANTISSA, int BIAS, bool SIGN, bool INFINITE, bool UNSIGNED_ZERO, int LARGEST, int NOT_A_NUMBER>
struct small_float { unsigned char bits; };
template <class T, int N> struct alignas(sizeof(T) * N) vector { T at[N]; };

#ifdef __CUDA_ARCH__
INLINE float float_of(unsigned bits) { return __uint_as_float(bits); }
INLINE unsigned bits_of(float x) { return __float_as_uint(x); }
INLINE float widen(half_bits h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits)); return f; }
INLINE half_bits narrow_to_half(float f) { half_bits h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
#else
INLINE float float_of(unsigned bits) { float f; __builtin_memcpy(&f, &bits, 4); return f; }
INLINE unsigned bits_of(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; }
INLINE float widen(half_bits h) { _Float16 f; __builtin_memcpy(&f, &h, 2); return (float)f; }
INLINE half_bits narrow_to_half(float x) { _Float16 f = (_Float16)x; half_bits h; __builtin_memcpy(&h, &f, 2); return h; }
#endif
INLINE float widen(bfloat16_bits b) { return float_of((unsigned)b.bits << 16); }
INLINE bfloat16_bits narrow_to_bfloat16(float x) {
  unsigned u = bits_of(x);
  u = x != x ? 0x7fc00000u : u + 0x7fffu + (u >> 16 & 1u);
  bfloat16_bits b; b.bits = (unsigned short)(u >> 16); return b;
}
#define SMALL_FLOAT template <int E, int M, int B, bool S, bool I, bool U, int L, int N>
#define SMALL_FLOAT_TYPE small_float<E, M, B, S, I, U, L, N>
SMALL_FLOAT INLINE float widen(SMALL_FLOAT_TYPE x) {
  const unsigned magnitude = S ? x.bits & ((1u << (E + M)) - 1u) : x.bits, exponent = magnitude >> M;
  const bool negative = S && (x.bits >> (E + M) & 1u);
  float f;
  if (U && negative && magnitude == 0) f = float_of(0x7fc00000u);
  else if (I && magnitude == L + 1u) f = float_of(0x7f800000u);
  else if (magnitude > (unsigned)L) f = float_of(0x7fc00000u);
  else if (exponent == 0) f = M == 0 ? float_of(0x00400000u) : (float)magnitude * float_of((unsigned)(128 - B - M) << 23);
  else f = float_of(((exponent + 127u - B) << 23) | ((magnitude & ((1u << M) - 1u)) << (23 - M)));
  return negative ? -f : f;
}
SMALL_FLOAT INLINE void narrow(SMALL_FLOAT_TYPE& y, float x) {
  const unsigned u = bits_of(x) & 0x7fffffffu;
  const bool negative = bits_of(x) >> 31;
  unsigned code;
  if (x != x) {
    y.bits = (unsigned char)N;
    return;
  }
  if (!S) {  // only powers of two, rounded up
    if (x == 0) code = 0;
    else if (negative || u == 0x7f800000u) code = N;
    else if (u < 0x00800000u) code = u > 0x00400000u;
    else code = u > 0x7f000000u ? L : (u >> 23) + ((u & 0x7fffffu) != 0);
    y.bits = (unsigned char)code;
    return;
  }
  int exponent = (int)(u >> 23) - 127;
  if (exponent < 1 - B) exponent = 1 - B;
  // In units of the last place, ties to even. A carry increments the exponent.
  const float units = u == 0x7f800000u ? 0.0f : float_of(u) * float_of((unsigned)(127 - exponent + M) << 23);
  code = u == 0x7f800000u ? 0x100u : ((unsigned)(exponent - 1 + B) << M) + (unsigned)::rint(units);
  const unsigned sign = negative ? 1u << (E + M) : 0u;
  if (code > (unsigned)L) y.bits = (unsigned char)(I ? (sign | (L + 1)) : N == 0 ? (sign | L) : N);
  else y.bits = (unsigned char)(code == 0 && U ? 0u : sign | code);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// The device's own conversions, for values in range.
#define CONVERTED_BY_DEVICE(TYPE, NAME, LIMIT) \
  INLINE float widen(TYPE x) { \
    unsigned pair; half_bits h; asm("cvt.rn.f16x2." NAME " %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits)); \
    h.bits = (unsigned short)(pair & 0xffffu); return widen(h); } \
  INLINE void narrow(TYPE& y, float x) { \
    if (!(::fabs(x) <= LIMIT)) { narrow<>(y, x); return; } \
    unsigned short pair; asm("cvt.rn.satfinite." NAME ".f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x)); \
    y.bits = (unsigned char)(pair & 0xffu); }
typedef small_float<4, 3, 7, true, false, false, 126, 127> e4m3;
typedef small_float<5, 2, 15, true, true, false, 123, 127> e5m2;
CONVERTED_BY_DEVICE(e4m3, "e4m3x2", 448.0f)
CONVERTED_BY_DEVICE(e5m2, "e5m2x2", 57344.0f)
#endif
INLINE real infinity() { return (real)float_of(0x7f800000u); }
INLINE real not_a_number() { return (real)float_of(0x7fc00000u); }

INLINE real value(float x) { return x; }
INLINE real value(double x) { return (real)x; }
INLINE real value(half_bits x) { return widen(x); }
INLINE real value(bfloat16_bits x) { return widen(x); }
SMALL_FLOAT INLINE real value(SMALL_FLOAT_TYPE x) { return widen(x); }
INLINE bool value(truth x) { return x.byte != 0; }
template <class T> INLINE integer value(T x) { return (integer)x; }

INLINE void put(float& y, real x) { y = (float)x; }
INLINE void put(double& y, real x) { y = x; }
INLINE void put(half_bits& y, real x) { y = narrow_to_half((float)x); }
INLINE void put(bfloat16_bits& y, real x) { y = narrow_to_bfloat16((float)x); }
SMALL_FLOAT INLINE void put(SMALL_FLOAT_TYPE& y, real x) { narrow(y, (float)x); }
INLINE void put(truth& y, bool x) { y.byte = x; }
template <class T> INLINE void put(T& y, integer x) { y = (T)x; }

INLINE integer to_integer(real x) {
  return x != x ? 0 : x >= (real)9223372036854775808.0 ? 9223372036854775807LL
         : x < -(real)9223372036854775808.0 ? -9223372036854775807LL - 1 : (integer)x;
}
INLINE real larger(real x, real y) { return x != x || x > y ? x : y; }
INLINE real smaller(real x, real y) { return x != x || x < y ? x : y; }
INLINE integer larger(integer x, integer y) { return x > y ? x : y; }
INLINE integer smaller(integer x, integer y) { return x < y ? x : y; }
INLINE real plus(real x, real y) { return x + y; }
INLINE real times(real x, real y) { return x * y; }
INLINE integer plus(integer x, integer y) { return (integer)((natural)x + (natural)y); }
INLINE integer times(integer x, integer y) { return (integer)((natural)x * (natural)y); }
INLINE integer wrapping_negative(integer x) { return (integer)(0ull - (natural)x); }
INLINE integer integer_power(integer x, integer y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  natural result = 1, factor = (natural)x;
  for (; y; y >>= 1, factor *= factor)
    if (y & 1) result *= factor;
  return (integer)result;
}
INLINE real floor_modulo(real x, real y) {
  const real r = ::fmod(x, y);
  if (r == 0) return y < 0 ? -(real)0 : (real)0;
  return (r < 0) != (y < 0) ? r + y : r;
}
template <class I> INLINE I floor_div(I a, I b) { return a / b - (a % b < 0 ? 1 : 0); }
template <class I> INLINE I floor_mod(I a, I b) { return a - floor_div(a, b) * b; }
template <class I> INLINE I from_either_end(I i, I size) { return i < 0 ? i + size : i; }
template <class I> INLINE I least(I a, I b) { return a < b ? a : b; }
template <class I> INLINE I most(I a, I b) { return a > b ? a : b; }
// Clamps a position given as data to its axis, and records if it was outside.
template <class I> INLINE I inside(I i, I size, int* outside) {
  if (i >= 0 && i < size) return i;
  if (outside) *outside = 1;
  return i < 0 ? 0 : size - 1;
}
)";

constexpr const char* kEnd = R"(
struct Sum { template <class T> INLINE T of(T a, T b) { return plus(a, b); } };
struct Product { template <class T> INLINE T of(T a, T b) { return times(a, b); } };
struct Max { template <class T> INLINE T of(T a, T b) { return larger(a, b); } };
struct Min { template <class T> INLINE T of(T a, T b) { return smaller(a, b); } };
// Sorts a linked list of numbers in ascending order and returns its head: bottom-up merge sort (Knuth, The Art of Computer
// Programming, volume 3, section 5.2.4). next[r] follows r; -1 ends the list.
INLINE int sorted_list(int head, int* next) {
  for (int length = 1;; length *= 2) {
    int p = head, tail = -1, merges = 0;
    head = -1;
    while (p >= 0) {
      ++merges;
      int q = p, of_p = 0, of_q = length;
      for (; of_p < length && q >= 0; ++of_p) q = next[q];
      while (of_p > 0 || (of_q > 0 && q >= 0)) {
        const bool take_q = of_p == 0 || (of_q > 0 && q >= 0 && q < p);
        const int taken = take_q ? q : p;
        if (take_q) q = next[q], --of_q;
        else p = next[p], --of_p;
        if (tail >= 0) next[tail] = taken;
        else head = taken;
        tail = taken;
      }
      p = q;
    }
    next[tail] = -1;
    if (merges <= 1) return head;
  }
}
// Combines the values of a row's lanes; every lane gets the result.
template <int LANES, class Op, class T> INLINE T across(T x) {
  if (LANES == 1) return x;
  for (int o = LANES < 32 ? LANES / 2 : 16; o > 0; o /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, o));
  if (LANES <= 32) return x;
  __shared__ T parts[32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int w = 1; w < LANES / 32; ++w) x = Op::of(x, parts[w]);
  return x;
}
)";

}  // namespace

std::string function_name(const Function& function) {
  const auto sources = function_sources();
  const auto found =
      std::find_if(sources.begin(), sources.end(), [&](const FunctionSource& f) { return f.function == &function; });
  return found == sources.end() ? std::string() : name_of(function);
}

const char* type_of(Scalar scalar) {
  return scalar == Scalar::kReal ? "real" : scalar == Scalar::kInteger ? "integer" : "bool";
}

std::string literal(std::int64_t v) {
  if (v == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL - 1)";
  return v < 0 ? "(integer(" + std::to_string(v) + "LL))" : "integer(" + std::to_string(v) + "LL)";
}

std::string type_name(DataType type) {
  if (is_small_float(type)) {
    const SmallFloatFormat& f = small_float_format(type);
    std::string text = "small_float<";
    for (const int v : {f.exponent_bits, f.mantissa_bits, f.bias}) text += std::to_string(v) + ", ";
    for (const bool v : {f.has_sign, f.has_infinity, f.negative_zero_is_nan}) text += v ? "true, " : "false, ";
    return text + std::to_string(f.largest) + ", " + std::to_string(f.nan) + ">";
  }
  switch (type) {
    case DataType::kFloat:
      return "float";
    case DataType::kDouble:
      return "double";
    case DataType::kHalf:
      return "half_bits";
    case DataType::kBfloat16:
      return "bfloat16_bits";
    case DataType::kBool:
      return "truth";
    case DataType::kUint8:
      return "unsigned char";
    case DataType::kInt8:
      return "signed char";
    case DataType::kUint16:
      return "unsigned short";
    case DataType::kInt16:
      return "short";
    case DataType::kUint32:
      return "unsigned";
    case DataType::kInt32:
      return "int";
    case DataType::kUint64:
      return "unsigned long long";
    case DataType::kInt64:
      return "long long";
    default:
      throw Error(ErrorCode::kUnsupported, "CUDA kernels have no elements of type " + std::string(name(type)));
  }
}

std::string kernel_file(const std::vector<const GeneratedKernel*>& kernels) {
  const bool in_double = !kernels.empty() && kernels[0]->in_double;
  std::string file = std::string("#define REWRIGHT_REAL ") + (in_double ? "double" : "float") + kBegin + definitions() + kEnd;
  for (const GeneratedKernel* kernel : kernels) file += "\n" + kernel->source;
  return file;
}

}  // namespace rewright::cuda
