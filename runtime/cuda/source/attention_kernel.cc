#include "runtime/cuda/source/attention_kernel.h"

#include <cstdio>
#include <string>

#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

constexpr std::int64_t kFewQueries = 8;
constexpr std::int64_t kMostKeys = 8192;  // 32 KB of scores; 48 KB is what every GPU's block may have
constexpr unsigned kThreads = 512;

std::string text(std::int64_t v) { return std::to_string(v); }

std::string exact(double v) {
  char digits[40];
  std::snprintf(digits, sizeof(digits), "real(%.9g)", v);
  return digits;
}

// Adds to an address an offset, and strides times the numbers of batch, head and query; `shared` heads have one stride
// together.
std::string moved(const std::string& name, std::int64_t offset, std::int64_t batch, std::int64_t head, std::int64_t query,
                  std::int64_t shared = 1) {
  return "  " + name + " += " + text(offset) + "LL + " + text(batch) + "LL * batch + " + text(head) + "LL * (head / " +
         text(shared) + ") + " + text(query) + "LL * query;\n";
}

// The strides of a packed mask, 0 along axes that are broadcast.
std::array<std::int64_t, 4> mask_strides(const std::vector<std::int64_t>& sizes) {
  std::array<std::int64_t, 4> strides{};
  std::int64_t stride = 1;
  for (std::size_t a = 4; a-- > 0; stride *= sizes[a])
    if (sizes[a] != 1) strides[a] = stride;
  return strides;
}

constexpr const char* kBody = R"(
  real largest = -infinity();
  for (int first = 0; first < KEYS; first += THREADS / 8) {  // eight threads share a key
    const int key = first + t / 8;
    real s = 0;
    if (key < seen)
      for (int d = t % 8; d < DEPTH; d += 8) s += value(q[d]) * value(k[d + K_STRIDE * key]);
    s = across<8, Sum>(s);
    if (key < seen) {
      s = s * SCALE MASK;
      if (t % 8 == 0) scores[key] = s;
      largest = larger(largest, s);
    }
  }
  largest = across<THREADS, Max>(largest);
  real sum = 0;
  for (int key = t; key < seen; key += THREADS) sum += scores[key] = ::exp(scores[key] - largest);
  sum = across<THREADS, Sum>(sum);
  real part = 0;
  if (t < PARTS * WIDTH)
    for (int key = t / WIDTH; key < seen; key += PARTS) part += scores[key] * value(v[t % WIDTH + V_STRIDE * key]);
  parts[t] = part;
  __syncthreads();
  if (t < WIDTH) {
    for (int p = 1; p < PARTS; ++p) part += parts[p * WIDTH + t];
    put(y[t], part / sum);
  }
}
)";

void replace(std::string& text, const std::string& name, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += by.size()) text.replace(at, name.size(), by);
}

}  // namespace

std::optional<GeneratedKernel> attention_kernel(const AttentionShape& a, const std::array<std::int64_t, 3>& offsets) {
  const bool served = a.type == DataType::kFloat || a.type == DataType::kHalf || a.type == DataType::kBfloat16;
  const std::int64_t rows = a.batch * a.heads * a.queries;
  if (!served || a.queries > kFewQueries || a.keys > kMostKeys || a.keys == 0 || a.width > kThreads || rows == 0 ||
      a.width == 0 || a.depth == 0 || rows > 1 << 20)
    return std::nullopt;
  if (!a.mask.empty() && !is_real(a.mask_type)) return std::nullopt;
  const std::string type = type_name(a.type);
  std::string source =
      "(const " + type + "* __restrict__ q, const " + type + "* __restrict__ k, const " + type + "* __restrict__ v, ";
  if (!a.mask.empty()) source += "const " + type_name(a.mask_type) + "* __restrict__ mask, ";
  source += type + "* __restrict__ y) {\n  __shared__ real scores[KEYS];\n  __shared__ real parts[THREADS];\n";
  source +=
      "  const int t = threadIdx.x, query = blockIdx.x % QUERIES, head = blockIdx.x / QUERIES % HEADS, batch = blockIdx.x / "
      "(QUERIES * HEADS);\n";
  source += moved("q", offsets[0], a.q[0], a.q[1], a.q[2]) + moved("k", offsets[1], a.k[0], a.k[1], 0, a.shared) +
            moved("v", offsets[2], a.v[0], a.v[1], 0, a.shared) + moved("y", 0, a.y[0], a.y[1], a.y[2]);
  std::string mask;
  if (!a.mask.empty()) {
    const auto strides = mask_strides(a.mask);
    source += moved("mask", 0, strides[0], strides[1], strides[2]);
    mask = "+ value(mask[" + text(strides[3]) + " * key])";
  }
  source += std::string("  const int seen = ") + (a.causal ? "query + 1 < KEYS ? query + 1 : KEYS" : "KEYS") + ";";
  source += kBody;
  for (const auto& [name, by] : {std::pair<std::string, std::string>{"THREADS", text(kThreads)},
                                 {"KEYS", text(a.keys)},
                                 {"QUERIES", text(a.queries)},
                                 {"HEADS", text(a.heads)},
                                 {"DEPTH", text(a.depth)},
                                 {"WIDTH", text(a.width)},
                                 {"PARTS", text(std::int64_t{kThreads} / a.width)},
                                 {"K_STRIDE", text(a.k[3]) + "LL"},
                                 {"V_STRIDE", text(a.v[2]) + "LL"},
                                 {"SCALE", exact(a.scale)},
                                 {"MASK", mask}})
    replace(source, name, by);
  GeneratedKernel kernel;
  kernel.launch.threads = kThreads;
  kernel.launch.blocks = static_cast<unsigned>(rows);
  set_source(kernel, source);
  return kernel;
}

}  // namespace rewright::cuda
