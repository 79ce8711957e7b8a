#include "runtime/cpu/kernels/product/recurrent.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/only_copy.h"
#include "graph/onnx/calls.h"
#include "operators/procedures/recurrent_cell.h"
#include "operators/tensor_parts.h"
#include "runtime/cpu/base/workers.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/planning/constant_memory.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/endable_run.h"

namespace rewright::cpu {

namespace {

// kGruReset: the reset gate comes after the state's product.
enum class RecurrentCell { kRnn, kGru, kGruReset, kLstm };

// Weights [columns, depth], packed for products from the right.
class GateWeights {
 public:
  GateWeights() = default;
  // `rows`: of left operands; 0: any number. `bias`: of the columns; empty: none.
  GateWeights(const ProductLoops& loops, ConstantMemory& memory, const float* weights, Count depth, Count columns, Count rows,
              std::vector<float> bias)
      : bias_(std::move(bias)) {
    task_.loops = &loops;
    task_.b = rows > 0 ? packed_shape(loops, rows, depth, columns) : packed_shape(loops, depth, columns);
    task_.a_rows = depth;
    const std::size_t bytes = static_cast<std::size_t>(task_.b.floats()) * sizeof(float);
    packed_ = memory.allocate(bytes);
    pack(loops, weights, {depth, columns, 1, depth}, task_.b, {}, reinterpret_cast<float*>(packed_.get()), 0, task_.b.panels());
    packed_ = only_copy(std::move(packed_), bytes);
    if (!bias_.empty()) bias_.resize(static_cast<std::size_t>(task_.b.panels() * task_.b.width));
  }

  // y = a times the weights, plus the bias and the addend (null: none). y and addend have this stride.
  void multiply(const Workers& workers, const float* a, Count rows, const float* addend, float* y, Count stride) const {
    ProductTask task = task_;
    task.rows = rows;
    task.y_rows = stride;
    if (!bias_.empty()) task.bias = bias_.data();
    RowOperation addition;
    addition.row_stride = stride;
    if (addend != nullptr) task.operations = {&addition, 1};
    const bool by_columns = task.cut_by_columns(workers.threads());
    const Count pieces = workers.pieces(task.nanoseconds(), task.units(by_columns));
    const auto* const packed = reinterpret_cast<const float*>(packed_.get());
    workers.share(pieces, [&](Count piece, int) {
      task.run(a, packed, y, {&addend, 1}, task.part(piece, pieces, by_columns));
    });
  }

 private:
  ProductTask task_;
  std::shared_ptr<std::byte> packed_;
  std::vector<float> bias_;
};

struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::kRnn;
  Count gates = 1, inputs = 0, hidden = 0, directions = 1;
  bool backward_first = false;

  Count width() const { return gates * hidden; }
  Count states() const { return cell == RecurrentCell::kLstm ? 2 : 1; }
};

// Elementwise loops on [rows, hidden] parts of gates, whose rows are `stride` apart.
struct GateLoops {
  const ProductLoops& rows;
  const RealLoops<float>& elements;
};

constexpr Count kMostProjected = 1 << 20;  // floats: the inputs of as many steps are multiplied at once, at least those of one

// One direction: its weights, and memory for the steps.
struct RecurrentDirection {
  GateWeights inputs, state, value;  // value: of a GRU whose reset gate comes before the product
  std::vector<float> projected, gates, products, cell, before, cell_before;

  void run(const RecurrentShape& s, const GateLoops& loops, const Workers& workers, const Checkpoint& checkpoint,
           const float* x, Count length, Count batch, std::span<const std::int64_t> lengths, bool backward, Count number,
           const float* h, const float* c, float* y, float* last_h, float* last_c) {
    const Count width = s.width(), size = batch * s.hidden;
    const auto room = [](std::vector<float>& v, Count n) { v.resize(std::max(v.size(), static_cast<std::size_t>(n))); };
    const Count block = std::clamp<Count>(kMostProjected / std::max<Count>(batch * width, 1), 1, std::max<Count>(length, 1));
    room(projected, block * batch * width), room(gates, batch * width), room(products, batch * width);
    room(cell, size), room(before, size);
    const auto begin = [size](float* state, const float* given) {
      if (given != nullptr)
        std::copy_n(given, size, state);
      else
        std::fill_n(state, size, 0.0f);
    };
    room(cell_before, lengths.empty() || s.states() < 2 ? 0 : size);
    begin(before.data(), h);
    if (s.states() > 1) begin(cell.data(), c);
    const float* state_now = before.data();
    for (Count done = 0; done < length; done += block) {
      const Count steps = std::min(block, length - done), first = backward ? length - done - steps : done;
      inputs.multiply(workers, x + first * batch * s.inputs, steps * batch, nullptr, projected.data(), width);
      for (Count n = 0; n < steps; ++n) {
        if (checkpoint) checkpoint();
        const Count t = backward ? steps - 1 - n : n;
        float* const next = y + ((first + t) * s.directions + number) * size;
        if (lengths.empty()) {
          step(s, loops, workers, projected.data() + t * batch * width, batch, state_now, next);
          state_now = next;
          continue;
        }
        if (s.states() > 1) std::copy_n(cell.data(), size, cell_before.data());
        step(s, loops, workers, projected.data() + t * batch * width, batch, state_now, next);
        keep_ended(s, lengths, first + t, next);
      }
    }
    std::copy_n(state_now, size, last_h);
    if (s.states() > 1) std::copy_n(cell.data(), size, last_c);
  }

 private:
  // The states after a step: those before it, where the sequence has ended (or, backwards, not begun), and the result is 0.
  void keep_ended(const RecurrentShape& s, std::span<const std::int64_t> lengths, Count t, float* next) {
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const Count row = static_cast<Count>(b) * s.hidden;
      if (t < lengths[b]) {
        std::copy_n(next + row, s.hidden, before.data() + row);
        continue;
      }
      std::fill_n(next + row, s.hidden, 0.0f);
      if (s.states() > 1) std::copy_n(cell_before.data() + row, s.hidden, cell.data() + row);
    }
  }

  // The next state from the projected inputs x and the state h. Gates that are alike lie side by side.
  void step(const RecurrentShape& s, const GateLoops& loops, const Workers& workers, const float* x, Count batch,
            const float* h, float* next) {
    const Count hidden = s.hidden, width = s.width();
    float *const g = gates.data(), *const p = products.data();
    const auto apply = [&](RowFunction f, float* at, Count stride, Count n) {
      loops.rows.apply(f, 0, 0, at, stride, batch, n);
    };
    switch (s.cell) {
      case RecurrentCell::kRnn:
        state.multiply(workers, h, batch, x, next, hidden);
        return apply(RowFunction::kTanh, next, hidden, hidden);
      case RecurrentCell::kLstm:  // gates i, o, f and the new value
        state.multiply(workers, h, batch, x, g, width);
        apply(RowFunction::kLogistic, g, width, 3 * hidden);
        apply(RowFunction::kTanh, g + 3 * hidden, width, hidden);
        for (Count b = 0; b < batch; ++b) {
          float *const in = g + b * width, *const forget = in + 2 * hidden, *const value = in + 3 * hidden;
          float* const c = cell.data() + b * hidden;
          loops.elements.multiply(value, in, value, hidden);
          loops.elements.multiply_add(c, forget, c, value, hidden);
          std::copy_n(c, hidden, next + b * hidden);
        }
        apply(RowFunction::kTanh, next, hidden, hidden);
        for (Count b = 0; b < batch; ++b)
          loops.elements.multiply(next + b * hidden, g + b * width + hidden, next + b * hidden, hidden);
        return;
      case RecurrentCell::kGruReset:  // gates z, r and the new value
        state.multiply(workers, h, batch, nullptr, p, width);
        for (Count b = 0; b < batch; ++b) loops.elements.add(g + b * width, p + b * width, x + b * width, 2 * hidden);
        apply(RowFunction::kLogistic, g, width, 2 * hidden);
        for (Count b = 0; b < batch; ++b)
          loops.elements.multiply_add(g + b * width + 2 * hidden, g + b * width + hidden, p + b * width + 2 * hidden,
                                      x + b * width + 2 * hidden, hidden);
        break;
      case RecurrentCell::kGru:
        state.multiply(workers, h, batch, x, g, width);
        apply(RowFunction::kLogistic, g, width, 2 * hidden);
        for (Count b = 0; b < batch; ++b)
          loops.elements.multiply(p + b * hidden, g + b * width + hidden, h + b * hidden, hidden);
        value.multiply(workers, p, batch, x + 2 * hidden, g + 2 * hidden, width);
        break;
    }
    // h' = value + z (h - value)
    apply(RowFunction::kTanh, g + 2 * hidden, width, hidden);
    for (Count b = 0; b < batch; ++b) {
      const float *const z = g + b * width, *const made = z + 2 * hidden;
      loops.elements.subtract(p + b * hidden, h + b * hidden, made, hidden);
      loops.elements.multiply_add(next + b * hidden, z, p + b * hidden, made, hidden);
    }
  }
};

class RecurrentNode final : public Executable {
 public:
  RecurrentNode(const RecurrentShape& shape, std::vector<RecurrentDirection> directions, const SessionOptions& options, Isa isa)
      : s_(shape),
        directions_(std::move(directions)),
        loops_{loops_for<ProductLoops>(isa), real_loops<float>(isa)},
        threads_(usable_threads(options.threads)),
        checkpoint_(options.checkpoint) {}

  std::vector<Datum> run(std::span<const Datum> given) override {
    const Tensor& x = given[kX].tensor();
    if (x.type() != DataType::kFloat || x.sizes().size() != 3 || x.sizes()[2] != s_.inputs)
      throw Error(ErrorCode::kBadInput, "the sizes of X, W and R do not fit together");
    const Count length = x.sizes()[0], batch = x.sizes()[1];
    operators::require_few(element_count(Sizes{length, batch, s_.directions, s_.width() + 1}));
    Tensor all(DataType::kFloat, {length, s_.directions, batch, s_.hidden});
    std::array<Tensor, 2> last;
    std::array<const float*, 2> first{};
    for (std::size_t state = 0; state < static_cast<std::size_t>(s_.states()); ++state) {
      last[state] = Tensor(DataType::kFloat, {s_.directions, batch, s_.hidden});
      const std::size_t input = kStates + state;
      if (input >= given.size() || given[input].empty()) continue;
      const Tensor& t = given[input].tensor();
      if (t.type() != DataType::kFloat || t.size() != last[state].size())
        throw Error(ErrorCode::kBadInput, "input " + std::to_string(input) + " has " + std::to_string(t.size()) +
                                              " elements, " + std::to_string(last[state].size()) + " of X's type are needed");
      first[state] = t.data<float>().data();
    }
    const Count size = batch * s_.hidden, steps = size > 0 ? length : 0;  // without elements it may have any length
    float* const y = all.mutable_data<float>().data();
    const std::array<float*, 2> ends{last[0].mutable_data<float>().data(),
                                     s_.states() > 1 ? last[1].mutable_data<float>().data() : nullptr};
    const auto at = [size](auto* base, Count d) { return base == nullptr ? base : base + d * size; };
    const std::vector<std::int64_t> lengths = lengths_of(given, length, batch);
    const Count longest = lengths.empty() ? steps : std::min(steps, *std::max_element(lengths.begin(), lengths.end()));
    std::fill(y + longest * s_.directions * size, y + steps * s_.directions * size, 0.0f);
    const Workers workers(threads_);
    const auto run_direction = [&](Count d, const Workers& own, const Checkpoint& checkpoint) {
      directions_[static_cast<std::size_t>(d)].run(s_, loops_, own, checkpoint, x.data<float>().data(), longest, batch, lengths,
                                                   d == 1 || s_.backward_first, d, at(first[0], d), at(first[1], d), y,
                                                   at(ends[0], d), at(ends[1], d));
    };
    if (s_.directions > 1 && workers.threads() > 1)
      share_directions(workers, run_direction);
    else
      for (Count d = 0; d < s_.directions; ++d) run_direction(d, workers, checkpoint_);
    std::vector<Datum> results;
    results.emplace_back(std::move(all));
    for (Count state = 0; state < s_.states(); ++state) results.emplace_back(std::move(last[static_cast<std::size_t>(state)]));
    return results;
  }

  static constexpr std::size_t kX = 0, kW = 1, kR = 2, kBias = 3, kLengths = 4, kStates = 5, kPeepholes = 7;

 private:
  // The sequences' lengths; none: all are whole.
  static std::vector<std::int64_t> lengths_of(std::span<const Datum> given, Count length, Count batch) {
    if (given.size() <= kLengths || given[kLengths].empty()) return {};
    std::vector<std::int64_t> lengths = given[kLengths].tensor().integers();
    if (std::ssize(lengths) != batch) throw Error(ErrorCode::kBadInput, "sequence_lens has a wrong size");
    for (const std::int64_t l : lengths)
      if (l < 0 || l > length) throw Error(ErrorCode::kBadInput, "a sequence's length is " + std::to_string(l));
    if (std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t l) { return l == length; })) lengths.clear();
    return lengths;
  }

  // Each direction on a thread. The checkpoint is the calling thread's; once it has thrown, the others end as well.
  template <class F>
  void share_directions(const Workers& workers, const F& run_direction) const {
    std::atomic<bool> ended = false;
    const Checkpoint own = [&] {
      if (!checkpoint_) return;
      try {
        checkpoint_();
      } catch (...) {
        ended = true;
        throw;
      }
    };
    workers.share(s_.directions, [&](Count d, int thread) {
      if (thread == 0) return run_direction(d, Workers(1), own);
      try {
        run_direction(d, Workers(1), ends_when(ended));
      } catch (...) {
        if (!ended) throw;  // else the calling thread's exception is the run's
      }
    });
  }

  RecurrentShape s_;
  std::vector<RecurrentDirection> directions_;
  GateLoops loops_;
  int threads_;
  Checkpoint checkpoint_;
};

// Logistic functions for the gates and hyperbolic tangents for all else, without parameters?
bool has_usual_activations(const operators::RecurrentKind& kind, RecurrentCell cell, Count directions) {
  if (kind.activations.size() != kind.activations_per_direction * static_cast<std::size_t>(directions)) return false;
  for (std::size_t i = 0; i < kind.activations.size(); ++i) {
    const operators::Activation& f = kind.activations[i];
    const bool of_gates = cell != RecurrentCell::kRnn && i % kind.activations_per_direction == 0;
    if (f.alpha || f.beta || f.name != (of_gates ? "Sigmoid" : "Tanh")) return false;
  }
  return true;
}

// Nullopt: activations are missing.
std::optional<operators::RecurrentKind> kind_of(const OnnxAttributes& attributes) {
  try {
    return operators::recurrent_kind(attributes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<RecurrentShape> shape_of_call(const Graph& graph, const WholeCall& call) {
  const OnnxAttributes& attributes = call.attributes;
  const std::string& type = attributes.type();
  if (!call.domain.empty() || (type != "RNN" && type != "GRU" && type != "LSTM")) return std::nullopt;
  const auto has = [&](std::size_t i) { return i < call.inputs.size() && call.inputs[i] != kNoValue; };
  const auto floats = [&](std::size_t i, const Sizes& sizes) {
    const Tensor& t = graph.value(call.inputs[i]).constant;
    return static_cast<bool>(t) && t.type() == DataType::kFloat && t.sizes() == sizes;
  };
  using N = RecurrentNode;
  if (!has(N::kX) || !has(N::kW) || !has(N::kR) || has(N::kPeepholes)) return std::nullopt;
  if (graph.value(call.inputs[N::kX]).type.type != DataType::kFloat || !graph.is_constant(call.inputs[N::kR]))
    return std::nullopt;
  if (attributes.integer("layout", 0) != 0 || attributes.has("clip") || attributes.integer("input_forget", 0) != 0)
    return std::nullopt;
  RecurrentShape s;
  const bool reset = attributes.integer("linear_before_reset", 0) != 0;
  s.cell = type == "RNN"    ? RecurrentCell::kRnn
           : type == "LSTM" ? RecurrentCell::kLstm
           : reset          ? RecurrentCell::kGruReset
                            : RecurrentCell::kGru;
  const std::string direction = attributes.text("direction", "forward");
  s.directions = direction == "bidirectional" ? 2 : 1;
  const std::optional<operators::RecurrentKind> kind = kind_of(attributes);
  if (!kind || !has_usual_activations(*kind, s.cell, s.directions)) return std::nullopt;
  s.gates = kind->gates;
  s.backward_first = direction == "reverse";
  const Sizes& r = graph.value(call.inputs[N::kR]).constant.sizes();
  const Sizes w = graph.is_constant(call.inputs[N::kW]) ? graph.value(call.inputs[N::kW]).constant.sizes() : Sizes();
  if (r.size() != 3 || w.size() != 3) return std::nullopt;
  s.hidden = r[2], s.inputs = w[2];
  if (s.hidden == 0 || s.inputs == 0 || !floats(N::kW, {s.directions, s.width(), s.inputs}) ||
      !floats(N::kR, {s.directions, s.width(), s.hidden}) ||
      (has(N::kBias) && !floats(N::kBias, {s.directions, 2 * s.width()})))
    return std::nullopt;
  return s;
}

RecurrentDirection packed_direction(const RecurrentShape& s, const ProductLoops& loops, ConstantMemory& memory, const float* w,
                                    const float* r, const float* bias, Count batch) {
  const Count width = s.width(), hidden = s.hidden;
  RecurrentDirection d;
  std::vector<float> of_inputs, of_state;  // the state's own is added within a gate of a GRU
  if (bias != nullptr) {
    of_inputs.assign(bias, bias + width);
    const bool splits = s.cell == RecurrentCell::kGruReset;
    const Count added = splits ? 2 * hidden : width;
    for (Count c = 0; c < added; ++c) of_inputs[static_cast<std::size_t>(c)] += bias[width + c];
    if (splits) {
      of_state.assign(static_cast<std::size_t>(width), 0.0f);
      std::copy_n(bias + width + added, hidden, of_state.data() + added);
    }
  }
  d.inputs = GateWeights(loops, memory, w, s.inputs, width, 0, std::move(of_inputs));
  const bool in_two = s.cell == RecurrentCell::kGru;
  d.state = GateWeights(loops, memory, r, hidden, in_two ? 2 * hidden : width, batch, std::move(of_state));
  if (in_two) d.value = GateWeights(loops, memory, r + 2 * hidden * hidden, hidden, hidden, batch, {});
  return d;
}

}  // namespace

std::unique_ptr<Executable> prepare_recurrent(const Graph& graph, const Node& node, const SessionOptions& options) {
  std::unique_ptr<Executable> result;
  with_opaque_call(graph, node, [&](const WholeCall& call) {
    const auto shape = shape_of_call(graph, call);
    if (!shape) return;
    const RecurrentShape& s = *shape;
    using N = RecurrentNode;
    const Isa isa = usable_isa(options.max_isa);
    const auto& loops = loops_for<ProductLoops>(isa);
    const auto memory = ConstantMemory::make();
    const auto data = [&](std::size_t i) { return graph.value(call.inputs[i]).constant.data<float>().data(); };
    const bool has_bias = call.inputs.size() > N::kBias && call.inputs[N::kBias] != kNoValue;
    const Value& x = graph.value(call.inputs[N::kX]);
    const bool knows_batch = x.shape_known && x.type.shape.size() == 3 && x.type.shape[1].is_constant();
    std::vector<RecurrentDirection> directions;
    for (Count d = 0; d < s.directions; ++d)
      directions.push_back(
          packed_direction(s, loops, *memory, data(N::kW) + d * s.width() * s.inputs, data(N::kR) + d * s.width() * s.hidden,
                           has_bias ? data(N::kBias) + d * 2 * s.width() : nullptr, knows_batch ? x.type.shape[1].value() : 0));
    result = std::make_unique<RecurrentNode>(s, std::move(directions), options, isa);
  });
  return result;
}

}  // namespace rewright::cpu
