// Mixtures of experts: a row is multiplied with the weights of its chosen experts alone. Rows are gathered by expert, so that
// an expert's weights are read once for all rows that chose it, and those of experts that no row chose not at all.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/kernels/product/block_product.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr double kActivated = 0.5, kGathered = 5, kScored = 0.2;  // elements a nanosecond
constexpr Count kLongestBlock = 256;

const float* as_floats(const std::byte* at) { return reinterpret_cast<const float*>(at); }
float* as_floats(std::byte* at) { return reinterpret_cast<float*>(at); }

// ---- Weights

// A layer of all experts, as the operator has it: [experts, columns, depth].
struct GivenLayer {
  Tensor weights, bias, scales, zeros;
  Count experts = 0, depth = 0, columns = 0;
  Count bits = 0, block = 0;  // bits 0: floats; block 0: a row is one
  bool in_turns = false;      // gates and values take turns among the columns; here all gates come first

  Count given_column(Count c) const { return !in_turns ? c : c < columns / 2 ? 2 * c : 2 * (c - columns / 2) + 1; }
};

// A layer packed for products.
struct PackedLayer {
  ProductTask task;  // without rows and bias
  std::optional<BlockRows> blocks;
  Tensor packed;
  std::vector<float> bias;  // of whole panels; empty: none

  Count expert_bytes() const { return blocks ? blocks->shape().bytes() : task.b.floats() * Count{sizeof(float)}; }
  const std::byte* expert(Count e) const { return packed.bytes().data() + e * expert_bytes(); }
  Count columns() const { return task.b.columns; }
  Count split_bytes() const { return blocks ? blocks->row_bytes() : 0; }
  bool is_split(Count rows) const { return blocks && blocks->are_faster(rows); }

  double nanoseconds(Count rows) const {
    if (is_split(rows)) return blocks->nanoseconds(rows);
    ProductTask t = task;
    t.rows = rows;
    return t.nanoseconds();
  }
};

class ExpertPanels final : public UnpackedPanels {
 public:
  ExpertPanels(const BlockRows& rows, const std::byte* packed) : rows_(rows), packed_(packed) {}
  void unpack(Count panel, Count first, Count last, float* rows) const override {
    rows_.unpack(packed_, panel, first, last, rows);
  }

 private:
  const BlockRows& rows_;
  const std::byte* packed_;
};

// Panels first to last of an expert's product. `split`: its rows as integers; null: it has none.
void multiply(const PackedLayer& layer, Count expert, Count rows, const float* a, std::byte* split, float* y, Count first,
              Count last) {
  ProductTask t = layer.task;
  t.rows = rows;
  if (!layer.bias.empty()) t.bias = layer.bias.data() + expert * t.b.panels() * t.b.width;
  const ProductTask::Part part{0, rows, first, last};
  const std::byte* const packed = layer.expert(expert);
  if (split != nullptr) return layer.blocks->multiply(t, packed, split, y, {}, part);
  if (!layer.blocks) return t.run(a, as_floats(packed), y, {}, part);
  const ExpertPanels panels(*layer.blocks, packed);
  t.panels = &panels;
  t.run(a, nullptr, y, {}, part);
}

// The size of the blocks that products take: a row with one scale becomes several blocks.
Count block_size(const GivenLayer& g) {
  if (g.block != 0) return g.block;
  Count block = 16;
  while (block < g.depth && block < kLongestBlock) block *= 2;
  return block;
}

// An expert's weights of few bits as products take them: rows are filled up to whole blocks.
BlockWeights block_weights(const GivenLayer& g, Count expert) {
  const Count block = block_size(g), blocks = (g.depth + block - 1) / block;
  const Count row = blocks * block * g.bits / 8, given = g.depth * g.bits / 8;
  const Count zero_row = (blocks * g.bits + 7) / 8, all_zeros = (g.columns * g.bits + 7) / 8;
  BlockWeights w{Tensor(DataType::kUint8, {g.columns, row}),
                 Tensor(DataType::kFloat, {g.columns, blocks}),
                 {},
                 g.depth,
                 g.columns,
                 block,
                 g.bits};
  if (g.zeros) w.zeros = Tensor(DataType::kUint8, {g.columns, zero_row});
  const auto bytes = [](const Tensor& t) { return reinterpret_cast<const std::uint8_t*>(t.bytes().data()); };
  const auto target = [](Tensor& t) { return reinterpret_cast<std::uint8_t*>(t.mutable_bytes().data()); };
  auto* const integers = target(w.integers);
  float* const scales = w.scales.mutable_data<float>().data();
  std::memset(integers, 0, static_cast<std::size_t>(g.columns * row));
  if (g.zeros) std::memset(target(w.zeros), 0, static_cast<std::size_t>(g.columns * zero_row));
  for (Count c = 0; c < g.columns; ++c) {
    const Count from = g.given_column(c), at = expert * g.columns + from;
    std::memcpy(integers + c * row, bytes(g.weights) + at * given, static_cast<std::size_t>(given));
    const float* const scale = g.scales.data<float>().data() + (g.block == 0 ? at : at * blocks);
    for (Count b = 0; b < blocks; ++b) scales[c * blocks + b] = scale[g.block == 0 ? 0 : b];
    if (!g.zeros) continue;
    std::uint8_t* const zeros = target(w.zeros) + c * zero_row;
    if (g.block != 0) {
      std::memcpy(zeros, bytes(g.zeros) + at * zero_row, static_cast<std::size_t>(zero_row));
      continue;
    }
    const std::uint32_t zero = packed_integer(bytes(g.zeros) + expert * all_zeros, from, g.bits);
    for (Count b = 0; b < blocks; ++b)
      zeros[b * g.bits / 8] = static_cast<std::uint8_t>(zeros[b * g.bits / 8] | zero << (b * g.bits % 8));
  }
  return w;
}

void pack_floats(const GivenLayer& g, const PackedLayer& layer, std::byte* target) {
  const Count floats = g.columns * g.depth;
  std::vector<float> ordered(static_cast<std::size_t>(g.in_turns ? floats : 0));
  for (Count e = 0; e < g.experts; ++e) {
    const float* source = g.weights.data<float>().data() + e * floats;
    if (g.in_turns) {
      for (Count c = 0; c < g.columns; ++c)
        std::copy_n(source + g.given_column(c) * g.depth, g.depth, ordered.data() + c * g.depth);
      source = ordered.data();
    }
    pack(*layer.task.loops, source, {g.depth, g.columns, 1, g.depth}, layer.task.b, {},
         as_floats(target + e * layer.expert_bytes()), 0, layer.task.b.panels());
  }
}

PackedLayer packed_layer(Planner& planner, const GivenLayer& g, Count a_rows, Count y_rows, bool precise) {
  PackedLayer layer;
  layer.task.loops = &loops_for<ProductLoops>(planner.options().isa);
  layer.task.b = packed_shape(*layer.task.loops, g.depth, g.columns);
  layer.task.a_rows = a_rows, layer.task.y_rows = y_rows;
  ConstantOrigin origin(g.weights);
  std::string how = "experts " + std::to_string(layer.task.b.vectors) + (g.in_turns ? " in turns" : "");
  if (g.bits != 0) {
    origin.add(g.scales);
    if (g.zeros) origin.add(g.zeros);
    const BlockWeights form{{}, {}, g.zeros, g.depth, g.columns, block_size(g), g.bits};
    layer.blocks.emplace(BlockLoops::best(planner.options().isa), block_shape(form, layer.task.b), precise);
    how += ", blocks of " + std::to_string(layer.blocks->shape().block) + ", " + std::to_string(g.bits) + " bits";
  }
  origin.add(g.depth).add(g.columns);
  layer.packed =
      planner.prepared(origin, how, static_cast<std::size_t>(g.experts * layer.expert_bytes()), [&](std::byte* target) {
        if (!layer.blocks) return pack_floats(g, layer, target);
        for (Count e = 0; e < g.experts; ++e)
          pack(block_weights(g, e), layer.blocks->shape(), {}, target + e * layer.expert_bytes());
      });
  if (g.bias) {
    const Count stored = layer.task.b.panels() * layer.task.b.width;
    layer.bias.assign(static_cast<std::size_t>(g.experts * stored), 0.0f);
    for (Count e = 0; e < g.experts; ++e)
      for (Count c = 0; c < g.columns; ++c)
        layer.bias[static_cast<std::size_t>(e * stored + c)] =
            g.bias.data<float>()[static_cast<std::size_t>(e * g.columns + g.given_column(c))];
  }
  return layer;
}

// ---- A call

struct MixtureTask {
  Count rows = 0, width = 0, inner = 0, experts = 0, chosen = 0;
  bool normalized = false, has_shares = false, gated = false;
  std::optional<RowFunction> function;  // of hidden values, or of gates
  float alpha = 0, beta = 0, limit = 0;

  Count routes() const { return rows * chosen; }
};

// Rows by expert: those of expert e lie at first[e] up to first[e + 1].
struct Routes {
  std::vector<float> shares;      // [rows, chosen]
  std::vector<Count> slots;       // likewise
  std::vector<Count> first, row;  // by expert; by slot
  std::vector<Count> active;      // experts with rows
  Count count(Count expert) const {
    return first[static_cast<std::size_t>(expert) + 1] - first[static_cast<std::size_t>(expert)];
  }
};

class ExpertMixtureKernel final : public Kernel {
 public:
  ExpertMixtureKernel(const MixtureTask& task, PackedLayer first, PackedLayer second)
      : t_(task), first_(std::move(first)), second_(std::move(second)) {}

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(split_at() + t_.routes() * std::max(first_.split_bytes(), second_.split_bytes()));
  }

  void run(const Call& call) const override {
    if (t_.rows == 0) return;
    const float* const x = as_floats(call.inputs[0]);
    float* const y = as_floats(call.outputs[0]);
    float* const a = as_floats(call.scratch);  // the rows of experts, and later their results
    float* const h = as_floats(call.scratch + hidden_at());
    const Routes routes = route(call);
    const auto by_slot = [&](double per_element, Count elements, const auto& f) {
      call.workers.for_each(t_.routes(), static_cast<double>(t_.routes() * elements) / per_element,
                            [&](Count s, int) { f(s); });
    };
    by_slot(kGathered, t_.width,
            [&](Count s) { std::copy_n(x + routes.row[static_cast<std::size_t>(s)] * t_.width, t_.width, a + s * t_.width); });
    product(call, routes, first_, a, h);
    by_slot(kActivated, t_.inner, [&](Count s) { activate(h + s * first_.columns()); });
    product(call, routes, second_, h, a);
    call.workers.for_each(t_.rows, static_cast<double>(t_.routes() * t_.width) / kGathered, [&](Count r, int) {
      float* const to = y + r * t_.width;
      std::fill_n(to, t_.width, 0.0f);
      for (Count j = r * t_.chosen; j < (r + 1) * t_.chosen; ++j) {
        const float share = routes.shares[static_cast<std::size_t>(j)];
        const float* const from = a + routes.slots[static_cast<std::size_t>(j)] * t_.width;
        for (Count c = 0; c < t_.width; ++c) to[c] += share * from[c];
      }
    });
  }

 private:
  static Count aligned(Count bytes) { return (bytes + 63) / 64 * 64; }
  Count hidden_at() const { return aligned(t_.routes() * t_.width * Count{sizeof(float)}); }
  Count split_at() const { return hidden_at() + aligned(t_.routes() * first_.columns() * Count{sizeof(float)}); }

  // The chosen experts of each row; of equal scores the first.
  Routes route(const Call& call) const {
    Routes r;
    const auto routes = static_cast<std::size_t>(t_.routes()), experts = static_cast<std::size_t>(t_.experts);
    std::vector<Count> expert(routes);
    r.shares.resize(routes), r.slots.resize(routes), r.row.resize(routes);
    const double nanoseconds = static_cast<double>(t_.routes() * t_.experts) / kScored;
    call.workers.for_each(t_.rows, nanoseconds, [&](Count row, int) {
      const float* const scores = as_floats(call.inputs[1]) + row * t_.experts;
      std::vector<float> weights(experts);
      std::vector<bool> taken(experts);
      if (t_.has_shares)
        std::copy_n(as_floats(call.inputs[2]) + row * t_.experts, t_.experts, weights.data());
      else
        first_.task.loops->softmax(weights.data(), scores, t_.experts);
      float sum = 0;
      for (Count j = row * t_.chosen; j < (row + 1) * t_.chosen; ++j) {
        std::size_t best = experts;
        for (std::size_t e = 0; e < experts; ++e)
          if (!taken[e] && (best == experts || scores[e] > scores[best])) best = e;
        taken[best] = true;
        expert[static_cast<std::size_t>(j)] = static_cast<Count>(best);
        sum += r.shares[static_cast<std::size_t>(j)] = weights[best];
      }
      for (Count j = row * t_.chosen; t_.normalized && j < (row + 1) * t_.chosen; ++j)
        r.shares[static_cast<std::size_t>(j)] /= sum;
    });
    r.first.assign(experts + 1, 0);
    for (const Count e : expert) ++r.first[static_cast<std::size_t>(e) + 1];
    for (Count e = 0; e < t_.experts; ++e)
      if (r.first[static_cast<std::size_t>(e) + 1] > 0) r.active.push_back(e);
    std::partial_sum(r.first.begin(), r.first.end(), r.first.begin());
    std::vector<Count> next(r.first.begin(), r.first.end() - 1);
    for (std::size_t i = 0; i < routes; ++i) {
      const Count slot = next[static_cast<std::size_t>(expert[i])]++;
      r.slots[i] = slot, r.row[static_cast<std::size_t>(slot)] = static_cast<Count>(i) / t_.chosen;
    }
    return r;
  }

  // A layer of all chosen experts, from the slots of a to those of y. Pieces are runs of panels, of about the same time.
  void product(const Call& call, const Routes& routes, const PackedLayer& layer, const float* a, float* y) const {
    const std::vector<bool> is_split = split(call, routes, layer, a);
    std::vector<double> until;  // the time of the active experts up to each
    double all = 0;
    for (const Count e : routes.active) until.push_back(all += layer.nanoseconds(routes.count(e)));
    const Count panels = layer.task.b.panels(), units = panels * static_cast<Count>(routes.active.size());
    const Count pieces = call.workers.pieces(all, units);
    const auto unit_at = [&](Count piece) {
      if (piece == pieces) return units;
      const double time = all * static_cast<double>(piece) / static_cast<double>(pieces);
      const auto i = std::min(std::upper_bound(until.begin(), until.end(), time) - until.begin(),
                              static_cast<std::ptrdiff_t>(until.size()) - 1);
      const double before = i == 0 ? 0 : until[static_cast<std::size_t>(i) - 1];
      const double part = (time - before) / (until[static_cast<std::size_t>(i)] - before);
      return static_cast<Count>(i) * panels +
             std::clamp<Count>(static_cast<Count>(part * static_cast<double>(panels)), 0, panels);
    };
    call.workers.share(pieces, [&](Count piece, int) {
      for (Count u = unit_at(piece), last = unit_at(piece + 1); u < last;) {
        const Count panel = u % panels, end = std::min(panels, panel + last - u);
        const Count e = routes.active[static_cast<std::size_t>(u / panels)], slot = routes.first[static_cast<std::size_t>(e)];
        std::byte* const integers =
            is_split[static_cast<std::size_t>(e)] ? split_rows(call) + slot * layer.split_bytes() : nullptr;
        multiply(layer, e, routes.count(e), a + slot * layer.task.a_rows, integers, y + slot * layer.task.y_rows, panel, end);
        u += end - panel;
      }
    });
  }

  std::byte* split_rows(const Call& call) const { return call.scratch + split_at(); }

  // Makes integers of the rows of experts whose product wants them; says for which experts all could be.
  std::vector<bool> split(const Call& call, const Routes& routes, const PackedLayer& layer, const float* a) const {
    std::vector<bool> result(static_cast<std::size_t>(t_.experts));
    if (!layer.blocks) return result;
    for (const Count e : routes.active) result[static_cast<std::size_t>(e)] = layer.is_split(routes.count(e));
    std::vector<std::uint8_t> fits(static_cast<std::size_t>(t_.routes()), 1);
    std::vector<Count> slots;
    for (const Count e : routes.active)
      for (Count s = routes.first[static_cast<std::size_t>(e)];
           result[static_cast<std::size_t>(e)] && s < routes.first[static_cast<std::size_t>(e) + 1]; ++s)
        slots.push_back(s);
    const auto count = static_cast<Count>(slots.size());
    call.workers.for_each(count, static_cast<double>(count * layer.task.b.rows), [&](Count i, int) {
      const Count s = slots[static_cast<std::size_t>(i)];
      fits[static_cast<std::size_t>(s)] =
          layer.blocks->split(a + s * layer.task.a_rows, 1, split_rows(call) + s * layer.split_bytes());
    });
    for (const Count e : routes.active)
      for (Count s = routes.first[static_cast<std::size_t>(e)]; s < routes.first[static_cast<std::size_t>(e) + 1]; ++s)
        if (fits[static_cast<std::size_t>(s)] == 0) result[static_cast<std::size_t>(e)] = false;
    return result;
  }

  // The hidden values of a row, in place: where there are gates, they come first, and the result takes their place.
  void activate(float* row) const {
    float* const values = row + t_.inner;
    if (t_.gated && t_.limit > 0)
      for (Count i = 0; i < t_.inner; ++i) {
        row[i] = row[i] > t_.limit ? t_.limit : row[i];
        values[i] = values[i] > t_.limit ? t_.limit : values[i] < -t_.limit ? -t_.limit : values[i];
      }
    if (t_.function) first_.task.loops->apply(*t_.function, t_.alpha, 0, row, t_.inner, 1, t_.inner);
    if (t_.gated)
      for (Count i = 0; i < t_.inner; ++i) row[i] *= values[i] + t_.beta;
  }

  const MixtureTask t_;
  const PackedLayer first_, second_;
};

class ExpertMixturePlan final : public NodePlan {
 public:
  explicit ExpertMixturePlan(const Node& node) : node_(node) {}

  void emit(Planner& planner, ValueId) override {
    const AttributeReader attributes(node_);
    const Sizes x = planner.info(node_.inputs[ExpertMixture::kX]).sizes;
    MixtureTask t;
    t.width = x.back(), t.rows = element_count(x) / std::max<Count>(1, t.width);
    t.experts = planner.info(node_.inputs[ExpertMixture::kScores]).sizes[1];
    t.inner = attributes.number("inner"), t.chosen = attributes.number("chosen");
    t.normalized = attributes.flag("normalized"), t.has_shares = planner.has(node_, ExpertMixture::kShares);
    const Count fusion = attributes.number("fusion");
    t.gated = fusion != 0;
    t.function = function(attributes.text("activation"));
    if (t.function == RowFunction::kSwish) t.alpha = t.gated ? static_cast<float>(attributes.real("alpha")) : 1;
    t.beta = static_cast<float>(attributes.real("beta")), t.limit = static_cast<float>(attributes.real("limit"));
    const Count hidden = t.inner * (t.gated ? 2 : 1);
    constexpr Count kRounded = 4;  // accuracy_level
    const bool precise = attributes.number("accuracy") != kRounded;
    PackedLayer first =
        packed_layer(planner, layer(planner, 0, t.experts, t.width, hidden, fusion == 1), t.width, hidden, precise);
    PackedLayer second = packed_layer(planner, layer(planner, 1, t.experts, t.inner, t.width, false), hidden, t.width, precise);
    std::vector<int> inputs;
    for (const std::size_t i : {ExpertMixture::kX, ExpertMixture::kScores, ExpertMixture::kShares})
      if (planner.has(node_, i)) inputs.push_back(planner.storage(node_.inputs[i], kPlain));
    const int target = planner.add_value(node_.outputs[0], kPlain);
    planner.add_step(std::make_unique<ExpertMixtureKernel>(t, std::move(first), std::move(second)), std::move(inputs),
                     {target});
  }

 private:
  static std::optional<RowFunction> function(const std::string& name) {
    if (name == "relu") return RowFunction::kRelu;
    if (name == "gelu") return RowFunction::kGeluTanh;
    if (name == "silu" || name == "swiglu") return RowFunction::kSwish;
    return std::nullopt;
  }

  GivenLayer layer(const Planner& planner, std::size_t number, Count experts, Count depth, Count columns, bool in_turns) const {
    const AttributeReader attributes(node_);
    const auto constant = [&](std::size_t first) {
      return planner.has(node_, first + number) ? planner.constant(node_.inputs[first + number]) : Tensor();
    };
    return {constant(ExpertMixture::kWeights),
            constant(ExpertMixture::kBiases),
            constant(ExpertMixture::kScales),
            constant(ExpertMixture::kZeros),
            experts,
            depth,
            columns,
            attributes.number(number == 0 ? "bits1" : "bits2"),
            attributes.number("block"),
            in_turns};
  }

  const Node& node_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_expert_mixture(Planner&, const Node& node) { return std::make_unique<ExpertMixturePlan>(node); }

}  // namespace rewright::cpu
