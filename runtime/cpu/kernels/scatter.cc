// Elements written or combined at positions given as data, such as gradients of gathers and of maximum pools, and messages
// along the edges of graphs. Updates are applied in order: the bits do not depend on the number of threads, and the last of
// several writes to a position counts.
//
// Updates that only the scatter reads are never stored. Rows of another tensor, as gathers make them, are read where they are.
// Other expressions are computed some thousand elements at a time, which stay in the caches until they are scattered.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "expressions/free_variables.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/keeps_order.h"
#include "runtime/planning/traits.h"

namespace rewright::cpu {

namespace {

std::optional<Combination> combination(const std::string& reduction) {
  if (reduction == "none") return Combination::kReplace;
  if (reduction == "add") return Combination::kAdd;
  if (reduction == "mul") return Combination::kMultiply;
  if (reduction == "max") return Combination::kMaximum;
  if (reduction == "min") return Combination::kMinimum;
  return std::nullopt;
}

constexpr Count kTogether = 512;  // rows whose places are computed first
constexpr Count kLineBytes = 64;  // threads share rows by lines of the caches
constexpr double kRowNanoseconds = 3, kBytesPerNanosecond = 16;

// Runs of `run` elements each go to rows of the target: row n to the position that `index` numbers from n * depth on give.
struct Shape {
  std::int64_t rows = 0, depth = 1, run = 1, target = 0;  // target: its elements
  std::vector<std::int64_t> sizes, strides;               // of the indexed axes
  // For ScatterElements: positions on the other axes, if the updates are smaller than the target. Empty: none.
  std::vector<std::int64_t> from, from_strides;  // sizes of the updates, and the target's strides (0 on the index's axis)
  // For ScatterElements: updates in a row behind one position of the index's axis, which are next to each other in the target
  // if their indices are the same. 1: none are.
  std::int64_t block = 1;
  // For ScatterElements along the last axis: its size in the target, if updates are as large as the target on the others, so
  // that each such slice has updates of its own. 0: other scatters.
  std::int64_t slice = 0;
};

// The bytes of an element of any type that is served.
using Element8 = std::array<std::byte, 8>;

// Updates that are computed where they are needed, not stored.
struct Computed {
  std::unique_ptr<TileProgram> program;
  int rows_of = -1;               // the program computes where rows of this operand begin; -1: the updates themselves
  std::vector<ValueId> operands;  // of the program
};

// The places of rows in the target, one after the other.
class Places {
 public:
  Places(const Shape& shape, DataType type, const std::byte* indices)
      : shape_(shape), type_(type), indices_(indices), at_(shape.from.size(), 0) {}

  void next(Count rows, Count* to) {
    if (type_ == DataType::kInt64)
      next_as<std::int64_t>(rows, to);
    else
      next_as<std::int32_t>(rows, to);
  }

  // Blocks of updates one after the other: calls copy(row, place) for those with one index, and put(row, place) for each row of
  // the others.
  template <class Copy, class Put>
  void for_each_block(Count rows, const Copy& copy, const Put& put) {
    if (type_ == DataType::kInt64)
      next_blocks(reinterpret_cast<const std::int64_t*>(indices_), rows, copy, put);
    else
      next_blocks(reinterpret_cast<const std::int32_t*>(indices_), rows, copy, put);
  }

  // Goes to the beginning of a slice of the target (Shape::slice): to this row, whose other axes are at this element.
  void skip(Count row, Count beside) {
    row_ = row, beside_ = beside;
    for (std::size_t a = shape_.from.size(); a-- > 0; row /= shape_.from[a]) at_[a] = row % shape_.from[a];
  }

  // Calls put(row, place) for the next rows, if indices are those of one axis.
  template <class Put>
  void for_each_on_axis(Count rows, const Put& put) {
    const auto from_here = [&](Count row, Count place) { put(row_ + row, place); };
    if (type_ == DataType::kInt64)
      next_on_axis(reinterpret_cast<const std::int64_t*>(indices_) + row_, rows, from_here);
    else
      next_on_axis(reinterpret_cast<const std::int32_t*>(indices_) + row_, rows, from_here);
    row_ += rows;
  }

 private:
  template <class I>
  void next_as(Count rows, Count* to) {
    const I* index = reinterpret_cast<const I*>(indices_) + row_ * shape_.depth;
    if (shape_.sizes.size() == 1) {
      next_on_axis(index, rows, [&](Count row, Count place) { to[row] = place; });
      row_ += rows;
      return;
    }
    for (Count r = 0; r < rows; ++r, index += shape_.depth) {
      to[r] = beside_;
      for (std::size_t d = 0; d < shape_.sizes.size(); ++d)
        to[r] += checked_index(index[d], shape_.sizes[d]) * shape_.strides[d];
      if (!at_.empty()) advance();
    }
    row_ += rows;
  }

  // Indices of one axis, row by row of the updates: calls put(row, place).
  template <class I, class Put>
  void next_on_axis(const I* index, Count rows, const Put& put) {
    const std::int64_t size = shape_.sizes[0], stride = shape_.strides[0];
    const Count step = at_.empty() ? 0 : shape_.from_strides.back();
    for (Count row = 0; row < rows;) {
      const Count count = at_.empty() ? rows : std::min(rows - row, shape_.from.back() - at_.back());
      for (Count r = 0; r < count; ++r) {
        const std::int64_t given = index[row + r], position = given < 0 ? given + size : given;
        if (position < 0 || position >= size) checked_index(given, size);  // throws
        put(row + r, beside_ + r * step + position * stride);
      }
      row += count;
      if (!at_.empty()) advance(count);
    }
  }

  template <class I, class Copy, class Put>
  void next_blocks(const I* index, Count rows, const Copy& copy, const Put& put) {
    const auto axis = static_cast<std::size_t>(std::find(shape_.from_strides.begin(), shape_.from_strides.end(), 0) -
                                               shape_.from_strides.begin());
    for (Count row = 0; row < rows; row += shape_.block, index += shape_.block) {
      if (!is_same(index, shape_.block)) {
        next_on_axis(index, shape_.block, [&](Count r, Count place) { put(row + r, place); });
        continue;
      }
      copy(row, beside_ + checked_index(index[0], shape_.sizes[0]) * shape_.strides[0]);
      advance(1, axis + 1);
    }
  }

  // Are they all the same? Looks at some at a time: most indices that differ do so at once.
  template <class I>
  static bool is_same(const I* index, Count count) {
    constexpr Count kAtOnce = 64;
    for (Count first = 0; first < count; first += kAtOnce) {
      I differ = 0;
      for (Count i = first; i < std::min(count, first + kAtOnce); ++i) differ |= index[i] ^ index[0];
      if (differ != 0) return false;
    }
    return true;
  }

  void advance(Count count = 1) { advance(count, at_.size()); }
  // By so many updates on the last of the first `axes`, which are not more than are left there.
  void advance(Count count, std::size_t axes) {
    for (std::size_t a = axes; a-- > 0; count = 1) {
      beside_ += count * shape_.from_strides[a];
      if ((at_[a] += count) < shape_.from[a]) break;
      beside_ -= at_[a] * shape_.from_strides[a];
      at_[a] = 0;
    }
  }

  const Shape& shape_;
  DataType type_;
  const std::byte* indices_;
  std::vector<std::int64_t> at_;
  Count row_ = 0, beside_ = 0;  // beside: where the other axes are
};

// Inputs: the indices; the target, unless all of its elements are the same; the updates, or what they are computed from.
class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(Shape shape, Combination how, DataType type, DataType indices, std::optional<Element8> filled, Computed updates,
                const LoopTables& loops)
      : shape_(std::move(shape)),
        how_(how),
        type_(type),
        indices_(indices),
        filled_(filled),
        updates_(std::move(updates)),
        loops_(loops) {}

  void run(const Call& call) const override {
    if (type_ == DataType::kFloat) return run_as<float>(call, loops_.f32);
    if (type_ == DataType::kDouble) return run_as<double>(call, loops_.f64);
    switch (byte_size(type_)) {
      case 1:
        return run_as<std::int8_t>(call, loops_.i8);
      case 2:
        return run_as<std::int16_t>(call, loops_.i16);
      case 4:
        return run_as<std::int32_t>(call, loops_.i32);
      default:
        return run_as<std::int64_t>(call, loops_.i64);
    }
  }

 private:
  // A part of all rows: some of their elements.
  template <class T, class Loops>
  struct Part {
    Places places;
    T* y;
    Count first, count;
    const Loops& loops;
  };

  template <class T, class Loops>
  void run_as(const Call& call, const Loops& loops) const {
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    if (shape_.slice > 0 && filled_ && !updates_.program) return run_slices(call, y, loops);
    begin(call, y, loops);
    constexpr Count kLine = kLineBytes / static_cast<Count>(sizeof(T));
    const Count lines = (shape_.run + kLine - 1) / kLine;
    const double bytes = static_cast<double>(shape_.run) * sizeof(T);
    const double nanoseconds = static_cast<double>(shape_.rows) * (kRowNanoseconds + bytes / kBytesPerNanosecond);
    // Each piece looks at all indices: no more of them than threads.
    const bool at_once = updates_.program != nullptr && updates_.rows_of < 0;
    const Count pieces = at_once ? 1 : std::min<Count>(call.workers.threads(), call.workers.pieces(nanoseconds, lines));
    call.workers.share(pieces, [&](Count piece, int) {
      const Count first = first_unit(lines, piece, pieces) * kLine;
      const Count last = std::min(shape_.run, first_unit(lines, piece + 1, pieces) * kLine);
      scatter(call, Part<T, Loops>{Places(shape_, indices_, call.inputs[0]), y, first, last - first, loops});
    });
  }

  // Elements that replace those of a target of one value: its slices are filled and updated while they are in the caches.
  template <class T, class Loops>
  void run_slices(const Call& call, T* y, const Loops& loops) const {
    constexpr Count kFilledTogether = (32 << 10) / sizeof(T);
    T value{};
    std::memcpy(&value, filled_->data(), sizeof value);
    const T* const updates = reinterpret_cast<const T*>(call.inputs[1]);
    const Count slices = shape_.target / shape_.slice, of_slice = shape_.rows / slices;
    const Count most = std::max<Count>(1, kFilledTogether / shape_.slice);
    const double bytes = static_cast<double>(shape_.target) * sizeof(T);
    const double nanoseconds = bytes / kBytesPerNanosecond + static_cast<double>(shape_.rows) * kRowNanoseconds;
    const Count pieces = call.workers.pieces(nanoseconds, slices);
    call.workers.share(pieces, [&](Count piece, int) {
      const Count last = first_unit(slices, piece + 1, pieces);
      Count slice = first_unit(slices, piece, pieces);
      Places places(shape_, indices_, call.inputs[0]);
      places.skip(slice * of_slice, slice * shape_.slice);
      for (Count count = 0; slice < last; slice += count) {
        count = std::min(most, last - slice);
        loops.fill(y + slice * shape_.slice, value, count * shape_.slice);
        places.for_each_on_axis(count * of_slice, [&](Count row, Count place) { y[place] = updates[row]; });
      }
    });
  }

  // The result before the updates.
  template <class T, class Loops>
  void begin(const Call& call, T* y, const Loops& loops) const {
    const T* const x = filled_ ? nullptr : reinterpret_cast<const T*>(call.inputs[1]);
    T value{};
    if (filled_) std::memcpy(&value, filled_->data(), sizeof value);
    if (x == y) return;
    const double bytes = static_cast<double>(shape_.target) * sizeof(T);
    const Count pieces = call.workers.pieces(bytes / kBytesPerNanosecond, shape_.target);
    call.workers.share(pieces, [&](Count piece, int) {
      const Count first = first_unit(shape_.target, piece, pieces),
                  count = first_unit(shape_.target, piece + 1, pieces) - first;
      if (filled_)
        loops.fill(y + first, value, count);
      else
        std::memcpy(y + first, x + first, static_cast<std::size_t>(count) * sizeof(T));
    });
  }

  template <class T, class Loops>
  void scatter(const Call& call, Part<T, Loops> part) const {
    const std::span<const std::byte* const> read = call.inputs.subspan(filled_ ? 1 : 2);
    if (!updates_.program) {
      const T* const updates = reinterpret_cast<const T*>(read[0]);
      if (shape_.block > 1 && how_ == Combination::kReplace)
        return part.places.for_each_block(
            shape_.rows,
            [&](Count row, Count place) {
              std::memcpy(part.y + place, updates + row, static_cast<std::size_t>(shape_.block) * sizeof(T));
            },
            [&](Count row, Count place) { part.y[place] = updates[row]; });
      if (shape_.run == 1 && shape_.sizes.size() == 1 && how_ == Combination::kReplace)
        return part.places.for_each_on_axis(shape_.rows, [&](Count row, Count place) { part.y[place] = updates[row]; });
      for (Count row = 0; row < shape_.rows; row += kTogether)
        scatter_following(part, updates + row * shape_.run, std::min(kTogether, shape_.rows - row));
    } else if (updates_.rows_of >= 0) {
      const T* const rows = reinterpret_cast<const T*>(read[static_cast<std::size_t>(updates_.rows_of)]);
      updates_.program->run_in_order(read.data(), [&](Count, Count count, const std::byte* elements) {
        const auto* const starts = reinterpret_cast<const Count*>(elements);
        for (Count row = 0; row < count; row += kTogether)
          scatter_rows(part, rows, starts + row, std::min(kTogether, count - row));
      });
    } else {
      Count to = 0;  // of the row that is begun
      updates_.program->run_in_order(read.data(), [&](Count first, Count count, const std::byte* elements) {
        scatter_elements(part, first % shape_.run, count, reinterpret_cast<const T*>(elements), to);
      });
    }
  }

  template <class T, class Loops>
  void scatter_rows(Part<T, Loops>& part, const T* rows, const Count* starts, Count count) const {
    std::array<Count, kTogether> to;
    part.places.next(count, to.data());
    part.loops.scatter_rows(how_, part.y + part.first, to.data(), rows + part.first, starts, count, part.count);
  }

  template <class T, class Loops>
  void scatter_following(Part<T, Loops>& part, const T* rows, Count count) const {
    std::array<Count, kTogether> starts;
    for (Count r = 0; r < count; ++r) starts[static_cast<std::size_t>(r)] = r * shape_.run;
    scatter_rows(part, rows, starts.data(), count);
  }

  // Elements from number `at` of a row on, through the rows that follow; the last one may be continued.
  template <class T, class Loops>
  void scatter_elements(Part<T, Loops>& part, Count at, Count count, const T* elements, Count& to) const {
    const Count run = shape_.run;
    while (count > 0) {
      Count done = std::min(run - at, count);
      if (at == 0 && count >= run) {
        const Count rows = std::min(kTogether, count / run);
        scatter_following(part, elements, rows);
        done = rows * run;
      } else {
        if (at == 0) part.places.next(1, &to);
        const Count there = to + at, from = 0;
        part.loops.scatter_rows(how_, part.y, &there, elements, &from, 1, done);
        at = (at + done) % run;
      }
      elements += done;
      count -= done;
    }
  }

  Shape shape_;
  Combination how_;
  DataType type_, indices_;
  std::optional<Element8> filled_;
  Computed updates_;
  const LoopTables& loops_;
};

// Rows of an operand, of which each is copied as a whole: the operand, and where row [i...] begins.
struct CopiedRows {
  int operand;
  Element start;
  Indices position;
  Sizes sizes;
};

// nullopt unless the expression is that: reads `run` elements in a row, which a start depends on none of.
std::optional<CopiedRows> copied_rows(const Planner& planner, const Chain& chain, std::int64_t run) {
  const ElementNode& read = *chain.element();
  if (read.kind != ElementNode::Kind::kRead || read.zero_outside) return std::nullopt;
  const ValueInfo result = planner.info(chain.result),
                  source = planner.info(chain.operands()[static_cast<std::size_t>(read.operand)]);
  if (source.type != result.type) return std::nullopt;
  // The axes along a row, which are the source's last ones.
  std::size_t rank = result.sizes.size(), source_rank = source.sizes.size();
  Index start;
  std::int64_t stride = 1;
  std::vector<std::uint64_t> along;
  for (std::int64_t left = run; left > 1; --rank, --source_rank) {
    if (rank == 0 || source_rank == 0) return std::nullopt;
    const std::int64_t size = result.sizes[rank - 1];
    const Atom* const atom = chain.position()[rank - 1].as_atom();
    const Index shift = read.position[source_rank - 1] - chain.position()[rank - 1];
    if (atom == nullptr || left % size != 0 || !shift.is_constant()) return std::nullopt;
    left /= size;
    if (left > 1 && source.sizes[source_rank - 1] != size) return std::nullopt;
    start += shift * Index(stride);
    stride *= source.sizes[source_rank - 1];
    along.push_back(atom->id);
  }
  for (; source_rank > 0; --source_rank) {
    start += read.position[source_rank - 1] * Index(stride);
    stride *= source.sizes[source_rank - 1];
  }
  CopiedRows rows{read.operand, from_index(start), {}, {}};
  FreeVariables free;
  const auto& variables = free.of(*rows.start);
  if (std::any_of(along.begin(), along.end(), [&](std::uint64_t id) { return variables.contains(id); })) return std::nullopt;
  rows.position.assign(chain.position().begin(), chain.position().begin() + static_cast<std::ptrdiff_t>(rank));
  rows.sizes.assign(result.sizes.begin(), result.sizes.begin() + static_cast<std::ptrdiff_t>(rank));
  return rows;
}

// The value's element if it is known and they are all the same, as sums begin with zeros.
std::optional<Element8> same_everywhere(const Planner& planner, ValueId value) {
  if (!planner.is_constant(value)) return std::nullopt;
  const std::span<const std::byte> bytes = planner.constant(value).bytes();
  const std::size_t width = byte_size(planner.info(value).type);
  Element8 element{};
  if (bytes.size() < width || std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) != 0) return std::nullopt;
  std::memcpy(element.data(), bytes.data(), width);
  return element;
}

class ScatterPlan final : public NodePlan {
 public:
  // `indices`: the ones read; the node's own may repeat them.
  ScatterPlan(const Node& node, ValueId indices, Shape shape, Combination how)
      : node_(node), indices_(indices), shape_(std::move(shape)), how_(how) {}

  std::vector<ValueId> computed_ahead() const override {
    return indices_ == node_.inputs[1] ? std::vector<ValueId>{} : std::vector<ValueId>{node_.inputs[1]};
  }

  std::vector<ValueId> read_in_order() const override { return {node_.inputs[2]}; }

  bool absorb_operand(Planner& planner, const Chain& chain) override {
    if (shape_.rows == 0 || std::count(node_.inputs.begin(), node_.inputs.end(), chain.result) != 1) return false;
    std::vector<TileOperand> operands;
    for (const ValueId v : chain.operands()) {
      const ValueInfo& info = planner.info(v);
      if (!computable_by_expressions(info.type)) return false;
      operands.push_back({info.type, info.sizes, kPlain});
    }
    const DataType type = planner.info(chain.result).type;
    if (operands.size() == 1 && operands[0].type == type &&
        planning::keeps_order(chain.element(), chain.position(), planner.info(chain.result).sizes, operands[0].sizes))
      return false;  // they are in memory as they are
    const TileOptions options{planner.options().isa, false, true};
    if (const auto rows = shape_.run > 1 ? copied_rows(planner, chain, shape_.run) : std::nullopt) {
      updates_.program = compile_tiles(rows->start, rows->position, {DataType::kInt64, rows->sizes, kPlain}, operands, options);
      updates_.rows_of = rows->operand;
    } else if (planner.options().threads == 1 && !planning::has_reduction(chain.element())) {
      // Several threads compute updates faster apart, all of them at once.
      updates_.program = compile_tiles(chain.element(), chain.position(), {type, planner.info(chain.result).sizes, kPlain},
                                       std::move(operands), options);
    }
    if (!updates_.program) return false;
    updates_.operands = chain.operands();
    return true;
  }

  // A reshape of the result, which would be a copy where it is an output of the graph.
  bool absorb_move(Planner& planner, const Node& node) override {
    const ValueInfo &from = planner.info(node_.outputs[0]), &to = planner.info(node.outputs[0]);
    const Definition& definition = planner.define(node);
    if (from.type != to.type || !definition.has_denotation()) return false;
    const Output& output = definition.outputs()[0];
    return planning::keeps_order(output.element, output.position, to.sizes, from.sizes);
  }

  void emit(Planner& planner, ValueId result) override {
    const DataType type = planner.info(result).type, indices = planner.info(indices_).type;
    const auto filled = same_everywhere(planner, node_.inputs[0]);
    std::vector<int> inputs{planner.storage(indices_, kPlain)};
    if (!filled) inputs.push_back(planner.storage(node_.inputs[0], kPlain));
    if (updates_.program)
      for (const ValueId v : updates_.operands) inputs.push_back(planner.storage(v, kPlain));
    else
      inputs.push_back(planner.storage(node_.inputs[2], kPlain));
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<ScatterKernel>(std::move(shape_), how_, type, indices, filled, std::move(updates_),
                                                     loops_for<LoopTables>(planner.options().isa)),
                     std::move(inputs), {target});
  }

 private:
  const Node& node_;
  ValueId indices_;
  Shape shape_;
  Combination how_;
  Computed updates_;
};

// If a node makes a value by repeating a source's elements along all axes but the first, that source; else kNoValue.
ValueId repeated_by_row(const Planner& planner, ValueId value) {
  const Graph& graph = planner.graph();
  const std::int32_t producer = graph.producers()[value];
  if (producer < 0 || planner.is_constant(value)) return kNoValue;
  const Node& node = *graph.nodes()[static_cast<std::size_t>(producer)];
  if (node.op == nullptr || node.inputs.empty() || node.inputs[0] == kNoValue) return kNoValue;
  const ValueInfo &source = planner.info(node.inputs[0]), &repeated = planner.info(value);
  if (source.type != repeated.type || element_count(source.sizes) != repeated.sizes[0] ||
      element_count(repeated.sizes) == repeated.sizes[0])
    return kNoValue;
  const Definition& definition = planner.define(node);
  if (!definition.has_denotation()) return kNoValue;
  const Output& output = definition.outputs()[0];
  const ElementNode& read = *output.element;
  if (read.kind != ElementNode::Kind::kRead || read.operand != 0 || read.zero_outside) return kNoValue;
  for (std::size_t a = 0; a < source.sizes.size(); ++a)
    if (source.sizes[a] > 1 && !(read.position[a] == output.position[0])) return kNoValue;
  return node.inputs[0];
}

// Elements that replace others are only moved; what is combined has a register's type.
bool is_served(DataType type, Combination how) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kInt32:
    case DataType::kInt16:
    case DataType::kInt8:
      return true;
    case DataType::kUint64:
    case DataType::kUint32:
    case DataType::kUint16:
    case DataType::kUint8:
    case DataType::kBool:
    case DataType::kHalf:
    case DataType::kBfloat16:
      return how == Combination::kReplace;
    default:
      return false;
  }
}

std::vector<std::int64_t> strides_of(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

}  // namespace

std::unique_ptr<NodePlan> plan_scatter(Planner& planner, const Node& node) {
  const bool whole_rows = node.op->name() == "ScatterND";
  const ValueInfo &x = planner.info(node.inputs[0]), &indices = planner.info(node.inputs[1]);
  const bool positions = indices.type == DataType::kInt64 || indices.type == DataType::kInt32;
  const auto how = combination(AttributeReader(node).text("reduction"));
  if (!how || !positions || element_count(x.sizes) == 0) return nullptr;
  if (element_count(planner.info(node.inputs[2]).sizes) == 0) {  // the result is the target
    if (!is_served(x.type, Combination::kReplace)) return nullptr;
    Shape none;
    none.target = element_count(x.sizes);
    return std::make_unique<ScatterPlan>(node, node.inputs[1], std::move(none), Combination::kReplace);
  }
  if (!is_served(x.type, *how) || element_count(indices.sizes) == 0) return nullptr;
  const std::vector<std::int64_t> strides = strides_of(x.sizes);
  ValueId read = node.inputs[1];
  Shape shape;
  shape.target = element_count(x.sizes);
  if (whole_rows) {
    shape.depth = indices.sizes.back();
    shape.rows = element_count(indices.sizes) / shape.depth;
    shape.sizes.assign(x.sizes.begin(), x.sizes.begin() + shape.depth);
    shape.strides.assign(strides.begin(), strides.begin() + shape.depth);
    for (std::size_t a = shape.sizes.size(); a < x.sizes.size(); ++a) shape.run *= x.sizes[a];
  } else if (const auto axis = static_cast<std::size_t>(AttributeReader(node).number("axis"));
             axis == 0 && std::equal(x.sizes.begin() + 1, x.sizes.end(), indices.sizes.begin() + 1) &&
             repeated_by_row(planner, read) != kNoValue) {
    read = repeated_by_row(planner, read);
    shape.rows = indices.sizes[0];
    shape.sizes = {x.sizes[0]};
    shape.strides = {strides[0]};
    shape.run = strides[0];
  } else {
    shape.rows = element_count(indices.sizes);
    shape.sizes = {x.sizes[axis]};
    shape.strides = {strides[axis]};
    shape.from = indices.sizes;
    shape.from_strides = strides;
    shape.from_strides[axis] = 0;
    if (std::equal(x.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.sizes.end(),
                   indices.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1))
      shape.block = strides[axis];
    if (*how == Combination::kReplace && axis > 0 && strides[axis] == 1 &&
        std::equal(x.sizes.begin(), x.sizes.begin() + static_cast<std::ptrdiff_t>(axis), indices.sizes.begin()))
      shape.slice = strides[axis - 1];
  }
  return std::make_unique<ScatterPlan>(node, read, std::move(shape), *how);
}

}  // namespace rewright::cpu
