#include "runtime/cuda/planning/scatter.h"

#include <string>

#include "runtime/cuda/source/source_names.h"
#include "runtime/planning/attributes.h"

namespace rewright::cuda {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // positions and updates are counted in 32 bits

std::string text(std::int64_t v) { return std::to_string(v); }

std::int64_t product(Sizes::const_iterator begin, Sizes::const_iterator end) { return element_count(Sizes(begin, end)); }

// A scatter for which kernels are generated. `place`: statements that set t to the position of update r.
struct Scatter {
  std::int64_t places = 0, block = 1, updates = 0;
  std::string place;
  std::string reduction;
};

std::string checked(const std::string& index, std::int64_t size) {
  return "inside((" + index + ") < 0 ? (" + index + ") + " + text(size) + " : (" + index + "), integer(" + text(size) +
         "), outside)";
}

Scatter of_rows(const Node& node, const KernelOperand& x, const KernelOperand& indices) {
  Scatter s;
  const std::int64_t depth = indices.sizes.back();
  s.places = product(x.sizes.begin(), x.sizes.begin() + depth);
  s.block = product(x.sizes.begin() + depth, x.sizes.end());
  s.updates = product(indices.sizes.begin(), indices.sizes.end() - 1);
  s.place = "  integer t = 0;\n";
  for (std::int64_t a = 0; a < depth; ++a) {
    const std::string i = "value(indices[r * " + text(depth) + "LL + " + text(a) + "])";
    const std::int64_t size = x.sizes[static_cast<std::size_t>(a)];
    s.place += "  t = t * " + text(size) + " + " + checked(i, size) + ";\n";
  }
  s.reduction = planning::AttributeReader(node).text("reduction");
  return s;
}

Scatter of_elements(const Node& node, const KernelOperand& x, const KernelOperand& indices) {
  Scatter s;
  s.places = element_count(x.sizes);
  s.updates = element_count(indices.sizes);
  const auto along = static_cast<std::size_t>(planning::AttributeReader(node).number("axis"));
  s.place = "  integer t = 0, rest = r;\n";
  std::int64_t stride = 1;
  for (std::size_t a = x.sizes.size(); a-- > 0; stride *= x.sizes[a]) {
    const std::string here = a == along ? checked("value(indices[r])", x.sizes[a]) : "rest % " + text(indices.sizes[a]);
    s.place += "  t += " + text(stride) + "LL * (" + here + ");\n  rest /= " + text(indices.sizes[a]) + ";\n";
  }
  s.reduction = planning::AttributeReader(node).text("reduction");
  return s;
}

// A kernel with `count` threads, whose number is n in the body.
GeneratedKernel over(std::int64_t count, const std::string& parameters, const std::string& body) {
  GeneratedKernel kernel;
  kernel.launch.blocks = static_cast<unsigned>((count + kernel.launch.threads - 1) / kernel.launch.threads);
  set_source(kernel, "(" + parameters + ") {\n  const long long n = (long long)blockIdx.x * " + text(kernel.launch.threads) +
                         " + threadIdx.x;\n  if (n >= " + text(count) + "LL) return;\n" + body + "}\n");
  return kernel;
}

std::string combined(const std::string& reduction) {
  if (reduction == "add") return "plus(v, u)";
  if (reduction == "mul") return "times(v, u)";
  if (reduction == "max") return "larger(v, u)";
  return reduction == "min" ? "smaller(v, u)" : "u";
}

}  // namespace

std::optional<ScatterKernels> scatter_kernels(const Node& node, const std::vector<KernelOperand>& operands) {
  if (node.op == nullptr || operands.size() != 3) return std::nullopt;
  const bool rows = node.op->name() == "ScatterND";
  if (!rows && node.op->name() != "ScatterElements") return std::nullopt;
  const KernelOperand &x = operands[0], &indices = operands[1];
  if (!is_real(x.type) && scalar(x.type) != Scalar::kInteger) return std::nullopt;
  const Scatter s = rows ? of_rows(node, x, indices) : of_elements(node, x, indices);
  if (s.places == 0 || s.block == 0 || s.updates == 0 || s.places > kMost || s.updates > kMost) return std::nullopt;
  if (s.places * s.block / 256 > kMost) return std::nullopt;
  const std::string element = type_name(x.type), index = type_name(indices.type), places = text(s.places);
  ScatterKernels kernels;
  kernels.lists = s.places + s.updates;
  kernels.clear = over(s.places, "int* lists", "  lists[n] = -1;\n");
  kernels.link = over(s.updates, "const " + index + "* indices, const int*, int* lists, int* outside",
                      "  const integer r = n;\n" + s.place + "  lists[" + places + " + r] = atomicExch(&lists[t], (int)r);\n");
  kernels.link.checks_positions = true;
  kernels.sort = over(s.places, "const int*, int* lists",
                      "  if (lists[n] >= 0) lists[n] = sorted_list(lists[n], lists + " + places + ");\n");
  const std::string block = text(s.block) + "LL";
  kernels.combine = over(s.places * s.block,
                         "const " + element + "* __restrict__ x, const int* __restrict__ lists, const " + element +
                             "* __restrict__ updates, " + element + "* __restrict__ y",
                         "  auto v = value(x[n]);\n  for (int r = lists[n / " + block + "]; r >= 0; r = lists[" + places +
                             " + r]) {\n    const auto u = value(updates[r * " + block + " + n % " + block +
                             "]);\n    v = " + combined(s.reduction) + ";\n  }\n  put(y[n], v);\n");
  if (x.type == DataType::kDouble) {
    kernels.combine.in_double = true;
    set_source(kernels.combine,
               kernels.combine.source.substr(kernels.combine.source.find(kernels.combine.name) + kernels.combine.name.size()));
  }
  return kernels;
}

}  // namespace rewright::cuda
