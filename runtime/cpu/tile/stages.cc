#include "runtime/cpu/tile/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/arrangement.h"
#include "runtime/cpu/tile/cuts.h"
#include "runtime/cpu/tile/extraction.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Axes along which all elements of the output are the same, if copies of them are long enough to be made as runs of memory.
std::vector<bool> repeated_axes(const Element& element, const Indices& position, const TileOperand& output) {
  constexpr std::size_t kShortRun = 16;  // bytes
  std::vector<bool> repeated(position.size(), false);
  if (!output.layout.plain() || element_count(output.sizes) == 0) return repeated;
  FreeVariables free;
  const auto& variables = free.of(*element);
  std::size_t run = byte_size(output.type);
  std::int64_t different = 1;
  for (std::size_t a = position.size(); a-- > 0;) {
    const Atom* const atom = position[a].as_atom();
    run *= static_cast<std::size_t>(output.sizes[a]);
    repeated[a] = atom != nullptr && !variables.contains(atom->id) && output.sizes[a] > 1 && run >= kShortRun;
    if (!repeated[a]) different *= output.sizes[a];
  }
  if (different == 1) repeated.assign(position.size(), false);  // one number everywhere
  return repeated;
}

// Does the read go through an operand of the output's type in its order? Then where it begins, in elements.
std::optional<std::int64_t> begins_in_order(const Element& element, const Indices& position, const TileOperand& output,
                                            const std::vector<TileOperand>& operands) {
  if (element->kind != Kind::kRead || element->zero_outside) return std::nullopt;
  const TileOperand& from = operands[static_cast<std::size_t>(element->operand)];
  if (from.type != output.type || !from.layout.plain()) return std::nullopt;
  const auto strides = planning::read_strides(*element, position, output.sizes, from.sizes);
  if (!strides) return std::nullopt;
  std::int64_t step = 1;
  for (std::size_t a = position.size(); a-- > 0; step *= output.sizes[a])
    if (output.sizes[a] != 1 && strides->coefficient(a) != step) return std::nullopt;
  return strides->constant;
}

// Replaces reads of a value by its expression. Null if that could change what is computed or checked.
Element inlined(const Element& e, int number, const GroupValue& value) {
  std::map<std::uint64_t, std::size_t> axes;
  for (std::size_t a = 0; a < value.position.size(); ++a) {
    const Atom* const atom = value.position[a].as_atom();
    if (atom == nullptr) return nullptr;
    axes[atom->id] = a;
  }
  bool possible = true;
  const Element result = rewrite(e,
                                 [&](const ElementNode& read) -> Element {
                                   if (read.operand != number) return nullptr;
                                   for_each_looked_up(read, [&](const Element&) { possible = false; });
                                   possible = possible && !read.zero_outside;
                                   return rewrite(value.element, {}, [&](const Atom& atom) -> std::optional<Index> {
                                     const auto found = atom.kind == Atom::Kind::kBound ? axes.find(atom.id) : axes.end();
                                     return found == axes.end() ? std::nullopt : std::optional(read.position[found->second]);
                                   });
                                 },
                                 {});
  for_each_read(result, [&](const ElementNode& read) { possible = possible && read.operand != number; });
  return possible ? result : nullptr;
}

// Compiles a group's values by a loop program.
class GroupCompiler {
 public:
  GroupCompiler(std::span<const GroupValue> values, std::vector<TileOperand> operands, const TileOptions& options)
      : values_(values.begin(), values.end()), given_(operands.size()), operands_(std::move(operands)), options_(options) {
    for (const GroupValue& v : values) operands_.push_back(v.output);
  }

  // The tensors of a loop program, before it is compiled.
  std::optional<GroupTensors> tensors(const LoopProgram& loops) {
    if (!inline_others(loops) || !extract(&loops)) return std::nullopt;
    return GroupTensors{std::move(tensors_), std::move(operands_), static_cast<int>(given_)};
  }

  // By value: further parts that could be stored.
  std::vector<std::vector<Storable>> storable_parts(const LoopProgram& loops) {
    std::vector<std::vector<Storable>> result(values_.size());
    if (!inline_others(loops)) return result;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const GroupValue& value = values_[v];
      if (value.element == nullptr) continue;
      const Computed c = with_split_axes({value.element, value.position, value.output.sizes}, value.output, operands_);
      result[v] = storable(c.element, c.position, c.sizes);
    }
    return result;
  }

  std::optional<StagedProgram> compile(const LoopProgram* loops) {
    if (loops != nullptr && !inline_others(*loops)) return std::nullopt;
    if (!extract(loops)) return std::nullopt;
    LoopProgram program;
    if (loops != nullptr)
      program = *loops;
    else
      program.passes = arranged(tensors_, operands_, options_.threads);
    if (loops == nullptr && !is_worth_it(program)) return std::nullopt;
    if (auto compiled = compile_passes(program)) return compiled;
    const bool has_bands = std::any_of(program.passes.begin(), program.passes.end(), [](const auto& p) { return p.axis >= 0; });
    if (loops != nullptr || !has_bands || reads_values()) return std::nullopt;
    program.passes.clear();
    for (const GroupTensor& t : tensors_) program.passes.push_back({-1, 0, {t.stored}});
    return compile_passes(program);
  }

 private:
  int number_of_value(std::size_t v) const { return static_cast<int>(given_ + v); }

  // Do values read other values?
  bool reads_values() const {
    const auto is_value = [&](int operand) {
      return operand >= static_cast<int>(given_) && operand < number_of_value(values_.size());
    };
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const GroupTensor& t) {
      bool reads = false;
      for_each_read(t.element, [&](const ElementNode& read) { reads = reads || is_value(read.operand); });
      return reads;
    });
  }

  // Are several values better computed together? Those that read each other if a pass has several of them, and others if they
  // share stages.
  bool is_worth_it(const LoopProgram& program) const {
    if (values_.size() < 2 || shares_) return true;
    return reads_values() && std::any_of(program.passes.begin(), program.passes.end(), [](const LoopProgram::Pass& pass) {
             return std::count_if(pass.stored.begin(), pass.stored.end(),
                                  [](const auto& s) { return s.expression == LoopProgram::kWhole; }) > 1;
           });
  }

  // Values that the loop program does not store are computed where they are read.
  bool inline_others(const LoopProgram& loops) {
    std::set<int> stored;
    for (const LoopProgram::Pass& pass : loops.passes)
      for (const LoopProgram::Stored& s : pass.stored)
        if (s.expression == LoopProgram::kWhole) stored.insert(s.value);
    const bool in_double =
        std::any_of(operands_.begin(), operands_.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (stored.contains(static_cast<int>(v))) continue;
      // Registers must hold the value as memory does.
      const GroupValue& value = values_[v];
      if (value.is_result || value.output.type != (in_double ? DataType::kDouble : DataType::kFloat)) return false;
      for (std::size_t reader = v + 1; reader < values_.size(); ++reader) {
        values_[reader].element = inlined(values_[reader].element, number_of_value(v), value);
        if (values_[reader].element == nullptr) return false;
      }
      values_[v].element = nullptr;
    }
    return true;
  }

  // A text that was kept may name any sub-expression, also one whose reads are inside of their operands only where a guard
  // holds.
  static bool may_store(const std::set<int>& chosen, const Computed& c) {
    if (chosen.empty()) return true;
    std::set<int> allowed;
    for (const Storable& part : storable(c.element, c.position, c.sizes)) allowed.insert(part.expression);
    return std::includes(allowed.begin(), allowed.end(), chosen.begin(), chosen.end());
  }

  // Makes tensors of the values and their stages, in an order in which they can be computed.
  bool extract(const LoopProgram* loops) {
    const std::vector<TileOperand> before = operands_;
    Extraction extraction(operands_, given_, values_.size() > 1);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const GroupValue& value = values_[v];
      if (value.element == nullptr) continue;
      std::set<int> chosen;
      if (loops != nullptr)
        for (const LoopProgram::Pass& pass : loops->passes)
          for (const LoopProgram::Stored& s : pass.stored)
            if (s.value == static_cast<int>(v) && s.expression != LoopProgram::kWhole) chosen.insert(s.expression);
      // Before stages are extracted: statistics of groups of channels depend on the group alone.
      const auto [element, position, sizes] =
          with_split_axes({value.element, value.position, value.output.sizes}, value.output, before);
      if (!may_store(chosen, {element, position, sizes})) return false;
      if (loops == nullptr && values_.size() == 1 && has_no_stages(element)) {
        tensors_.push_back({element,
                            position,
                            {value.output.type, sizes, value.output.layout},
                            number_of_value(v),
                            value.is_result,
                            {static_cast<int>(v), LoopProgram::kWhole, {}}});
        return true;
      }
      const std::size_t first = extraction.stages.size();
      const Element rest = extraction.take(element, position, sizes, loops != nullptr ? &chosen : nullptr);
      for (std::size_t s = first; s < extraction.stages.size(); ++s) {
        const Extraction::Stage& stage = extraction.stages[s];
        tensors_.push_back({stage.element,
                            stage.position,
                            stage.output,
                            static_cast<int>(before.size() + s),
                            false,
                            {static_cast<int>(v), stage.expression, {}}});
      }
      for (const int e : extraction.reused) reused_.insert({static_cast<int>(v), e});
      tensors_.push_back({rest,
                          position,
                          {value.output.type, sizes, value.output.layout},
                          number_of_value(v),
                          value.is_result,
                          {static_cast<int>(v), LoopProgram::kWhole, {}}});
    }
    shares_ = extraction.shared;
    return true;
  }

  const GroupTensor* find(const LoopProgram::Stored& stored) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const GroupTensor& t) {
      return t.stored.value == stored.value && t.stored.expression == stored.expression;
    });
    return found == tensors_.end() ? nullptr : &*found;
  }

  std::optional<StagedProgram> compile_passes(const LoopProgram& program) {
    done_.clear();
    memory_ = {0, 0, options_.threads, operands_.size()};
    std::vector<StagedProgram::Pass> passes;
    for (std::size_t p = 0; p < program.passes.size(); ++p) {
      const LoopProgram::Pass& given = program.passes[p];
      std::vector<const GroupTensor*> tensors;
      std::vector<TileLoops> loops;
      for (const LoopProgram::Stored& s : given.stored) {
        const GroupTensor* const t = find(s);
        if (t == nullptr) {
          if (!reused_.contains({s.value, s.expression})) return std::nullopt;
          continue;  // reads what is there
        }
        tensors.push_back(t);
        loops.push_back(s.loops);
      }
      if (tensors.empty()) continue;
      auto pass = given.axis < 0 ? compile_whole(*tensors[0], loops[0]) : compile_bands(given, tensors, loops);
      if (!pass || (given.axis < 0 && tensors.size() != 1)) return std::nullopt;
      passes.push_back(std::move(*pass));
    }
    if (done_.size() != tensors_.size()) return std::nullopt;
    find_band_memory(passes);
    return StagedProgram(std::move(passes), memory_, program);
  }

  // Is everything computed that the tensor reads?
  bool can_be_next(const GroupTensor& t) const {
    bool can = !done_.contains(t.number);
    for_each_read(t.element, [&](const ElementNode& read) {
      if (read.operand >= static_cast<int>(given_)) can = can && done_.contains(read.operand);
    });
    return can;
  }

  int result_number(const GroupTensor& t) const {
    if (!t.is_result) return -1;
    int number = 0;
    for (int v = 0; v < t.stored.value; ++v) number += values_[static_cast<std::size_t>(v)].is_result ? 1 : 0;
    return number;
  }

  std::size_t scratch(const TileOperand& o) {
    const std::size_t at = memory_.whole;
    memory_.whole += in_lines(static_cast<std::size_t>(bytes_of(o)));
    return at;
  }

  std::optional<StagedProgram::Pass> compile_whole(const GroupTensor& t, const TileLoops& loops) {
    if (!can_be_next(t)) return std::nullopt;
    TileOptions options = options_;
    options.loops = loops;
    StagedProgram::Pass pass;
    StagedProgram::Part& part = pass.parts.emplace_back();
    part.number = static_cast<std::size_t>(t.number);
    part.result = result_number(t);
    TileOperand output = t.output;
    if (part.result < 0) {
      part.offset = scratch(output);
    } else if (!replicate(t, part, output)) {
      done_.insert(t.number);
      return pass;
    }
    part.program = compile_tiles(t.element, t.position, output, operands_, options);
    if (!part.program) return std::nullopt;
    done_.insert(t.number);
    return pass;
  }

  // Elements that repeat are computed once. False: no program is needed.
  bool replicate(const GroupTensor& t, StagedProgram::Part& part, TileOperand& output) {
    const std::vector<bool> repeated = repeated_axes(t.element, t.position, output);
    if (std::find(repeated.begin(), repeated.end(), true) == repeated.end()) return true;
    part.replication.emplace(output.sizes, repeated, byte_size(output.type));
    for (std::size_t a = 0; a < repeated.size(); ++a)
      if (repeated[a]) output.sizes[a] = 1;
    if (const auto start = begins_in_order(t.element, t.position, output, operands_)) {
      part.operand = static_cast<std::size_t>(t.element->operand);
      part.from = static_cast<std::size_t>(*start) * byte_size(output.type);
      return false;
    }
    part.from = scratch(output);
    return true;
  }

  std::optional<StagedProgram::Pass> compile_bands(const LoopProgram::Pass& given,
                                                   const std::vector<const GroupTensor*>& tensors,
                                                   const std::vector<TileLoops>& loops) {
    const int axes = given.axis + 1;
    StagedProgram::Pass pass;
    std::vector<const GroupTensor*> so_far;
    for (std::size_t n = 0; n < tensors.size(); ++n) {
      const GroupTensor& t = *tensors[n];
      if (!can_be_next(t) || !fits_in_bands(t, *tensors[0], axes, so_far, operands_)) return std::nullopt;
      const Sizes& sizes = t.output.sizes;
      const std::int64_t extent = sizes[static_cast<std::size_t>(given.axis)];
      TileOptions options = options_;
      options.loops = loops[n];
      options.band_axes = axes;
      options.band = std::min(given.band, extent);
      StagedProgram::Part part;
      part.number = static_cast<std::size_t>(t.number);
      part.result = result_number(t);
      part.program = compile_tiles(t.element, t.position, t.output, operands_, options);
      if (!part.program) return std::nullopt;
      part.position_bytes = byte_size(t.output.type) *
                            static_cast<std::size_t>(element_count(std::span(sizes).subspan(static_cast<std::size_t>(axes))));
      pass.bands = part.program->bands();
      pass.band = options.band;
      pass.extent = extent;
      pass.along = (extent + pass.band - 1) / pass.band;
      pass.nanoseconds += part.program->nanoseconds();
      pass.parts.push_back(std::move(part));
      so_far.push_back(&t);
      done_.insert(t.number);
    }
    return pass;
  }

  // Tensors that only their own pass reads have memory for a band; others for all of them.
  void find_band_memory(std::vector<StagedProgram::Pass>& passes) {
    std::map<std::size_t, std::size_t> pass_of;
    for (std::size_t p = 0; p < passes.size(); ++p)
      for (const StagedProgram::Part& part : passes[p].parts) pass_of[part.number] = p;
    std::set<std::size_t> read_elsewhere;
    for (const GroupTensor& t : tensors_)
      for_each_read(t.element, [&](const ElementNode& read) {
        const auto from = pass_of.find(static_cast<std::size_t>(read.operand));
        if (from != pass_of.end() && from->second != pass_of.at(static_cast<std::size_t>(t.number)))
          read_elsewhere.insert(from->first);
      });
    for (StagedProgram::Pass& pass : passes) {
      if (pass.bands == 0) continue;
      std::size_t bytes = 0;
      for (StagedProgram::Part& part : pass.parts) {
        if (part.result >= 0) continue;
        part.in_bands = !read_elsewhere.contains(part.number);
        if (part.in_bands) {
          part.offset = bytes;
          bytes += in_lines(part.position_bytes * static_cast<std::size_t>(pass.band));
        } else {
          part.offset = scratch(operands_[part.number]);
        }
      }
      memory_.by_thread = std::max(memory_.by_thread, bytes);
    }
  }

  std::vector<GroupValue> values_;
  const std::size_t given_;
  std::vector<TileOperand> operands_;
  const TileOptions& options_;
  std::vector<GroupTensor> tensors_;
  std::set<std::pair<int, int>> reused_;  // values and their expressions that stages of others compute
  std::set<int> done_;                    // numbers of what is computed so far
  StagedProgram::Memory memory_;
  bool shares_ = false;  // does a value read a stage of another one?
};

}  // namespace

void StagedProgram::run(std::span<const std::byte* const> operands, std::span<std::byte* const> outputs, std::byte* scratch,
                        const Workers& workers) const {
  static thread_local Addresses addresses;
  addresses.assign(operands.begin(), operands.end());
  addresses.resize(memory_.numbers);
  for (const Pass& pass : passes_)
    if (pass.bands == 0)
      run_whole(pass.parts[0], addresses, outputs, scratch, workers);
    else
      run_bands(pass, addresses, outputs, scratch, workers);
}

void StagedProgram::run_whole(const Part& part, Addresses& addresses, std::span<std::byte* const> outputs, std::byte* scratch,
                              const Workers& workers) const {
  std::byte* const target = part.result >= 0 ? outputs[static_cast<std::size_t>(part.result)] : scratch + part.offset;
  if (part.program) part.program->run(addresses.data(), part.replication ? scratch + part.from : target, workers);
  if (part.replication)
    part.replication->run(part.program ? scratch + part.from : addresses[part.operand] + part.from, target, workers);
  addresses[part.number] = target;
}

void StagedProgram::run_bands(const Pass& pass, Addresses& addresses, std::span<std::byte* const> outputs, std::byte* scratch,
                              const Workers& workers) const {
  for (const Part& part : pass.parts)
    if (!part.in_bands)
      addresses[part.number] = part.result >= 0 ? outputs[static_cast<std::size_t>(part.result)] : scratch + part.offset;
  const Addresses& shared = addresses;
  const bool alone = workers.threads() > memory_.threads;  // there is memory for fewer
  const std::int64_t pieces = alone ? 1 : workers.pieces(pass.nanoseconds, pass.bands);
  workers.share(pieces, [&](std::int64_t piece, int thread) {
    static thread_local Addresses own;
    own.assign(shared.begin(), shared.end());
    std::byte* const memory = scratch + memory_.whole + memory_.by_thread * static_cast<std::size_t>(alone ? 0 : thread);
    for (std::int64_t b = first_unit(pass.bands, piece, pieces); b < first_unit(pass.bands, piece + 1, pieces); ++b) {
      const std::int64_t position = b / pass.along * pass.extent + b % pass.along * pass.band;
      for (const Part& part : pass.parts) {
        // Elements of the band lie where those of the whole tensor would lie, whose beginning may be outside of the memory.
        if (part.in_bands)  // NOLINTNEXTLINE(performance-no-int-to-ptr)
          own[part.number] = reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(memory + part.offset) -
                                                                static_cast<std::size_t>(position) * part.position_bytes);
        part.program->run_band(own.data(), const_cast<std::byte*>(own[part.number]), b);
      }
    }
  });
}

std::optional<GroupTensors> tensors_of(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                       const LoopProgram& loops) {
  const TileOptions options;
  return GroupCompiler(values, std::move(operands), options).tensors(loops);
}

std::vector<std::vector<Storable>> storable_parts(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                                  const LoopProgram& loops) {
  const TileOptions options;
  return GroupCompiler(values, std::move(operands), options).storable_parts(loops);
}

std::optional<StagedProgram> compile_stages(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                            const TileOptions& options, const LoopProgram* loops) {
  return GroupCompiler(values, std::move(operands), options).compile(loops);
}

}  // namespace rewright::cpu
