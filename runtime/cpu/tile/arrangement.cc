#include "runtime/cpu/tile/arrangement.h"

#include <algorithm>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/extraction.h"

namespace rewright::cpu {

namespace {

// Bytes of a band that stay in the second-level cache beside what else is there; and how many are too many.
constexpr std::int64_t kBandBytes = 256 << 10, kMostBandBytes = 768 << 10;
constexpr std::int64_t kLeastElements = 2048;  // to begin a band takes as long as so many
constexpr int kBandsByThread = 4;

void visit_reads(const Element& e, const std::function<void(const ElementNode&)>& visit, std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return;
  if (e->kind == ElementNode::Kind::kRead) visit(*e);
  for_each_index(*e, [&](const Index& index) {
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kLoad) visit_reads(atom.element, visit, seen);
    });
  });
  for (const Element& argument : e->arguments) visit_reads(argument, visit, seen);
}

std::int64_t leading_elements(const Sizes& sizes, int axes) {
  return element_count(std::span(sizes).first(static_cast<std::size_t>(axes)));
}

// Passes in bands of `axes` axes, with what does not fit into them computed before or between.
struct Arrangement {
  std::vector<LoopProgram::Pass> passes;
  int together = 0;           // tensors in passes of several
  std::int64_t elements = 0;  // of the largest band
};

class BandArrangement {
 public:
  BandArrangement(const std::vector<GroupTensor>& tensors, const std::vector<TileOperand>& operands, int axes, int threads)
      : tensors_(tensors), operands_(operands), axes_(axes), threads_(threads) {}

  Arrangement make() {
    for (const GroupTensor& t : tensors_) {
      if (t.output.sizes.size() >= static_cast<std::size_t>(axes_) &&
          fits_in_bands(t, open_.empty() ? t : *open_[0], axes_, open_, operands_)) {
        open_.push_back(&t);
        continue;
      }
      if (reads_open(t)) close();
      result_.passes.push_back({-1, 0, {t.stored}});
    }
    close();
    return std::move(result_);
  }

 private:
  bool reads_open(const GroupTensor& t) const {
    bool reads = false;
    for_each_read(t.element, [&](const ElementNode& read) {
      for (const GroupTensor* o : open_) reads = reads || read.operand == o->number;
    });
    return reads;
  }

  void close() {
    if (open_.empty()) return;
    const std::int64_t band = open_.size() > 1 ? band_of_open() : 0;
    if (band > 0) {
      LoopProgram::Pass& pass = result_.passes.emplace_back(LoopProgram::Pass{axes_ - 1, band, {}});
      for (const GroupTensor* t : open_) pass.stored.push_back(t->stored);
    } else {
      for (const GroupTensor* t : open_) result_.passes.push_back({-1, 0, {t->stored}});
    }
    open_.clear();
  }

  // 0: bands are not worth it.
  std::int64_t band_of_open() {
    const Sizes& sizes = open_[0]->output.sizes;
    const std::int64_t extent = sizes[static_cast<std::size_t>(axes_) - 1], outer = leading_elements(sizes, axes_ - 1);
    std::set<int> numbers, computed;
    for (const GroupTensor* t : open_) {
      numbers.insert(t->number);
      computed.insert(t->number);
      for_each_read(t->element, [&](const ElementNode& read) { numbers.insert(read.operand); });
    }
    std::int64_t all = 0, by_position = 0, most_elements = 0;
    for (const int n : numbers) {
      const TileOperand& o = operands_[static_cast<std::size_t>(n)];
      const std::int64_t bytes = bytes_of(o);
      all += bytes;
      const bool is_cut = computed.contains(n) || (o.sizes.size() >= static_cast<std::size_t>(axes_) &&
                                                   leading_elements(o.sizes, axes_) == outer * extent);
      if (is_cut) by_position += bytes / (outer * extent);
    }
    for (const GroupTensor* t : open_) most_elements = std::max(most_elements, element_count(t->output.sizes));
    const std::int64_t by_row = std::max<std::int64_t>(1, most_elements / (outer * extent));
    if (all < kLeastBandedBytes || by_position > kMostBandBytes) return 0;
    std::int64_t band = 1;
    while (band * 2 <= extent && band * 2 * by_position <= kBandBytes) band *= 2;
    const auto bands = [&] { return outer * ((extent + band - 1) / band); };
    while (threads_ > 1 && band > 1 && bands() < kBandsByThread * threads_ && band * by_row > kLeastElements) band /= 2;
    if (band * by_row < kLeastElements || (threads_ > 1 && bands() < 2 * threads_)) return 0;
    result_.together += static_cast<int>(open_.size());
    result_.elements = std::max(result_.elements, band * by_row);
    return band;
  }

  const std::vector<GroupTensor>& tensors_;
  const std::vector<TileOperand>& operands_;
  const int axes_, threads_;
  std::vector<const GroupTensor*> open_;
  Arrangement result_;
};

}  // namespace

std::int64_t bytes_of(const TileOperand& o) { return element_count(o.sizes) * static_cast<std::int64_t>(byte_size(o.type)); }

void for_each_read(const Element& e, const std::function<void(const ElementNode&)>& visit) {
  std::set<const ElementNode*> seen;
  visit_reads(e, visit, seen);
}

bool fits_in_bands(const GroupTensor& tensor, const GroupTensor& first, int axes, const std::vector<const GroupTensor*>& others,
                   const std::vector<TileOperand>& operands) {
  const auto count = static_cast<std::size_t>(axes);
  const Sizes &sizes = tensor.output.sizes, &wanted = first.output.sizes;
  if (!tensor.output.layout.plain() || sizes.size() < count || wanted.size() < count) return false;
  if (!std::equal(wanted.begin(), wanted.begin() + axes, sizes.begin()) || element_count(sizes) == 0) return false;
  bool fits = true;
  for_each_read(tensor.element, [&](const ElementNode& read) {
    const auto is_read = [&](const GroupTensor* o) { return o->number == read.operand; };
    if (std::none_of(others.begin(), others.end(), is_read)) return;
    // Others are read by their own axes, of which bands may have only parts: those are no positions that readers share.
    const Sizes& addressed = operands[static_cast<std::size_t>(read.operand)].sizes;
    fits = fits && addressed.size() >= count && std::equal(sizes.begin(), sizes.begin() + axes, addressed.begin());
    for (std::size_t a = 0; a < count; ++a)
      fits =
          fits && !read.zero_outside && a < read.position.size() && (sizes[a] == 1 || read.position[a] == tensor.position[a]);
  });
  return fits;
}

std::vector<LoopProgram::Pass> arranged(const std::vector<GroupTensor>& tensors, const std::vector<TileOperand>& operands,
                                        int threads) {
  std::size_t rank = 0;
  for (const GroupTensor& t : tensors) rank = std::max(rank, t.output.sizes.size());
  Arrangement best;
  for (const GroupTensor& t : tensors) best.passes.push_back({-1, 0, {t.stored}});
  for (int axes = 1; tensors.size() > 1 && axes <= static_cast<int>(rank); ++axes) {
    Arrangement other = BandArrangement(tensors, operands, axes, threads).make();
    if (std::pair(other.together, other.elements) > std::pair(best.together, best.elements)) best = std::move(other);
  }
  return std::move(best.passes);
}

}  // namespace rewright::cpu
