#include "runtime/cuda/source/generated_kernel.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/hash_mix.h"
#include "runtime/cuda/source/emitter.h"
#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

constexpr std::int64_t kLeastTogether = 16;        // shortest reduction that threads share
constexpr std::int64_t kEnoughThreads = 1 << 14;   // enough to keep a GPU busy
constexpr std::int64_t kLeastInVectors = 1 << 15;  // elements
constexpr unsigned kThreads = 256;

// The outermost reductions of an expression.
void find_reductions(const Element& e, std::set<const ElementNode*>& seen, std::vector<const ElementNode*>& found) {
  if (!seen.insert(e.get()).second) return;
  if (e->kind == Kind::kReduce) {
    found.push_back(e.get());
    return;
  }
  for (const Element& a : e->arguments) find_reductions(a, seen, found);
}

class Generation {
 public:
  Generation(const Element& element, const Indices& position, const KernelOperand& output,
             const std::vector<KernelOperand>& operands)
      : element_(element), position_(position), output_(output), operands_(operands), emitter_(operands) {
    for (const Index& p : position)
      if (p.as_atom() == nullptr) throw Error(ErrorCode::kUnsupported, "an axis of a result has no variable of its own");
  }

  GeneratedKernel make() {
    kernel_.in_double = output_.type == DataType::kDouble;
    for (const KernelOperand& o : operands_) kernel_.in_double = kernel_.in_double || o.type == DataType::kDouble;
    count_ = element_count(output_.sizes);
    choose_rows();
    reductions_.empty() ? write_elements() : write_rows();
    finish();
    return std::move(kernel_);
  }

 private:
  // The axes of rows are those that shared reductions depend on. Without such reductions there are no rows.
  void choose_rows() {
    std::vector<const ElementNode*> found;
    std::set<const ElementNode*> seen;
    find_reductions(element_, seen, found);
    FreeVariables free;
    std::set<std::uint64_t> atoms, axes;
    for (const Index& p : position_) axes.insert(p.as_atom()->id);
    std::int64_t most = 0;
    for (const ElementNode* r : found) {
      const std::int64_t steps = reduction_nest(*r).steps;
      if (steps < kLeastTogether) continue;
      most = std::max(most, steps);
      reductions_.push_back(r);
      const auto& of = free.of(*r);
      atoms.insert(of.begin(), of.end());
    }
    for (std::size_t a = 0; a < position_.size(); ++a) {
      const bool of_row = atoms.contains(position_[a].as_atom()->id);
      (of_row ? row_axes_ : inner_axes_).push_back(a);
      (of_row ? rows_ : inner_) *= output_.sizes[a];
    }
    if (reductions_.empty()) return;
    // Neighbouring threads should read neighbouring elements: neighbouring rows if the last axis belongs to the rows.
    const bool last_is_row = !row_axes_.empty() && row_axes_.back() + 1 == position_.size() && output_.sizes.back() >= 32;
    if (last_is_row && rows_ >= kEnoughThreads && inner_ * most < 4096)
      lanes_ = 1;
    else if (std::max(most, inner_) <= 1024 && (rows_ >= 512 || most < 256))
      lanes_ = 32;
    else
      lanes_ = std::max(most, inner_) <= (1 << 14) ? 256 : 1024;
  }

  // Writes the position along each of some axes, computed from a linear number.
  void decompose(const std::vector<std::size_t>& axes, const std::string& number, int vector) {
    std::int64_t stride = 1;
    for (std::size_t n = axes.size(); n-- > 0;) {
      const std::size_t a = axes[n];
      const std::int64_t size = output_.sizes[a];
      std::string text = number;
      if (stride > 1) text += " / " + std::to_string(stride);
      if (n > 0 && size > 1) text = (stride > 1 ? "(" + text + ")" : text) + " % " + std::to_string(size);
      stride *= size;
      const IndexRange range{0, std::max<std::int64_t>(size - 1, 0)};
      if (size == 1) text = "0";
      const std::string name = "i" + std::to_string(a);
      if (size != 1) emitter_.line("const index_t " + name + " = " + text + ";");
      if (vector > 1 && n + 1 == axes.size())
        emitter_.unroll(position_[a], name, vector, range);
      else
        emitter_.define(position_[a], size == 1 ? "0" : name, range);
    }
  }

  // The number of consecutive elements that one thread computes.
  int vector_for(const std::vector<std::size_t>& axes, std::int64_t elements) const {
    if (axes.empty() || axes.back() + 1 != position_.size() || elements < kLeastInVectors) return 1;
    int vector = static_cast<int>(16 / std::max<std::size_t>(byte_size(output_.type), 2));
    while (vector > 1 && output_.sizes.back() % vector != 0) vector /= 2;
    return vector;
  }

  Index row_major() const {
    Index address(0);
    std::int64_t stride = 1;
    for (std::size_t a = position_.size(); a-- > 0;) {
      address += position_[a] * Index(stride);
      stride *= output_.sizes[a];
    }
    return address;
  }

  void store(const std::string& at, int vector) {
    const std::string type = type_name(output_.type);
    if (vector == 1) {
      const std::string v = emitter_.element(element_);
      emitter_.line("put(y[" + at + "], " + v + ");");
      return;
    }
    const std::string kind = "vector<" + type + ", " + std::to_string(vector) + ">";
    emitter_.line(kind + " result;");
    for (int k = 0; k < vector; ++k) {
      emitter_.part(k);
      const std::string v = emitter_.element(element_);
      emitter_.line("put(result.at[" + std::to_string(k) + "], " + v + ");");
    }
    emitter_.line("*(" + kind + "*)(y + " + at + ") = result;");
  }

  void write_elements() {
    const int vector = vector_for(inner_axes_, count_);
    kernel_.launch.vector = vector;
    emitter_.line("const index_t n = ((index_t)blockIdx.x * " + std::to_string(kThreads) + " + threadIdx.x) * " +
                  std::to_string(vector) + ";");
    emitter_.line("if (n >= " + std::to_string(count_) + ") return;");
    decompose(inner_axes_, "n", vector);
    emitter_.know(row_major(), "n");
    store("n", vector);
    set_blocks((count_ + vector - 1) / vector);
  }

  void write_rows() {
    kernel_.launch.lanes = lanes_;
    emitter_.lanes = lanes_;
    const auto text = [](std::int64_t v) { return std::to_string(v); };
    const unsigned threads = std::max<unsigned>(kThreads, static_cast<unsigned>(lanes_));
    kernel_.launch.threads = threads;
    emitter_.line("const index_t thread = (index_t)blockIdx.x * " + text(threads) + " + threadIdx.x;");
    emitter_.line("const index_t row = thread / " + text(lanes_) + ", lane = thread % " + text(lanes_) + ";");
    emitter_.line("if (row >= " + text(rows_) + ") return;");
    decompose(row_axes_, "row", 1);
    std::set<std::uint64_t> available;
    for (const std::size_t a : row_axes_) available.insert(position_[a].as_atom()->id);
    emitter_.hoist(element_, available, true);
    const int vector = inner_ >= 4 * lanes_ ? vector_for(inner_axes_, count_) : 1;
    kernel_.launch.vector = vector;
    const std::int64_t step = static_cast<std::int64_t>(lanes_) * vector;
    emitter_.line("for (index_t j = lane * " + text(vector) + "; j < " + text(inner_) + "; j += " + text(step) + ") {");
    emitter_.open();
    decompose(inner_axes_, "j", vector);
    const Index address = row_major();
    std::string at = "0";
    for (std::size_t a = 0; a < position_.size(); ++a) {
      std::int64_t stride = 1;
      for (std::size_t b = a + 1; b < position_.size(); ++b) stride *= output_.sizes[b];
      if (output_.sizes[a] != 1) at += " + (index_t)" + text(stride) + " * i" + text(static_cast<std::int64_t>(a));
    }
    emitter_.line("const index_t at = " + at + ";");
    emitter_.know(address, "at");
    store("at", vector);
    emitter_.close_into();
    emitter_.line("}");
    set_blocks(rows_ * lanes_);
  }

  void set_blocks(std::int64_t threads) {
    const std::int64_t blocks = (threads + kernel_.launch.threads - 1) / kernel_.launch.threads;
    if (blocks > (std::int64_t{1} << 31) - 1) throw Error(ErrorCode::kUnsupported, "a tensor is too large for one kernel");
    kernel_.launch.blocks = count_ == 0 ? 0 : static_cast<unsigned>(blocks);
  }

  void finish() {
    const std::string body = emitter_.close();
    kernel_.checks_positions = emitter_.checks_positions();
    std::int64_t largest = count_ + static_cast<std::int64_t>(kernel_.launch.threads) * 8;
    for (const KernelOperand& o : operands_)
      if (o.type != DataType::kUndefined) largest = std::max(largest, element_count(o.sizes));
    const bool wide = emitter_.wide() || largest * kernel_.launch.lanes > (std::int64_t{1} << 30);
    std::string parameters;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      const std::string type = operands_[o].type == DataType::kUndefined ? "char" : type_name(operands_[o].type);
      parameters += "const " + type + "* __restrict__ p" + std::to_string(o) + ", ";
    }
    parameters += type_name(output_.type) + "* __restrict__ y";
    if (kernel_.checks_positions) parameters += ", int* outside";
    const std::string rest = "(" + parameters + ") {\n  typedef " + (wide ? "long long" : "int") + " index_t;\n" + body + "}\n";
    set_source(kernel_, rest);
  }

  const Element& element_;
  const Indices& position_;
  const KernelOperand& output_;
  const std::vector<KernelOperand>& operands_;
  Emitter emitter_;
  GeneratedKernel kernel_;
  std::vector<const ElementNode*> reductions_;
  std::vector<std::size_t> row_axes_, inner_axes_;
  std::int64_t count_ = 0, rows_ = 1, inner_ = 1;
  int lanes_ = 1;
};

}  // namespace

void set_source(GeneratedKernel& kernel, const std::string& from_parameters) {
  char name[32];
  std::snprintf(name, sizeof(name), "k%016llx",
                static_cast<unsigned long long>(hash_text(from_parameters + (kernel.in_double ? "d" : "f"))));
  kernel.name = name;
  kernel.source = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(kernel.launch.threads) + ") " +
                  kernel.name + from_parameters;
}

std::optional<GeneratedKernel> generate_kernel(const Element& element, const Indices& position, const KernelOperand& output,
                                               const std::vector<KernelOperand>& operands) {
  try {
    return Generation(element, position, output, operands).make();
  } catch (const Error& e) {  // thrown anywhere in the expression
    if (e.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

GeneratedKernel with_aliases(const GeneratedKernel& kernel) {
  constexpr std::string_view kRestrict = " __restrict__";
  std::string source = kernel.source.substr(kernel.source.find(kernel.name) + kernel.name.size());
  for (std::size_t at = 0; (at = source.find(kRestrict, at)) != std::string::npos;) source.erase(at, kRestrict.size());
  GeneratedKernel result = kernel;
  set_source(result, source);
  return result;
}

}  // namespace rewright::cuda
