#include "runtime/cpu/tile/loop_program.h"

#include <charconv>

namespace rewright::cpu {

namespace {

std::string stored_text(const LoopProgram::Stored& stored) {
  std::string text = "v" + std::to_string(stored.value);
  if (stored.expression != LoopProgram::kWhole) text += ".e" + std::to_string(stored.expression);
  std::string options;
  const auto add = [&](const std::string& option) { options += (options.empty() ? " (" : ", ") + option; };
  const TileLoops& loops = stored.loops;
  if (loops.tile != 0) add("tile " + std::to_string(loops.tile));
  if (loops.rows != TileLoops::Rows::kEstimated) add(loops.rows == TileLoops::Rows::kLast ? "rows last" : "rows before");
  if (loops.reduce != TileLoops::Reduce::kEstimated) add(loops.reduce == TileLoops::Reduce::kAlong ? "along" : "around");
  return text + options + (options.empty() ? "" : ")");
}

// Reads what to_string writes, character by character.
class LoopReader {
 public:
  explicit LoopReader(std::string_view text) : text_(text) {}

  std::optional<LoopProgram> program() {
    LoopProgram result;
    do {
      LoopProgram::Pass pass;
      if (take("for ")) {
        const std::int64_t band = number().value_or(0);
        if (band < 1 || !take(" of axis ")) return std::nullopt;
        const std::int64_t axis = number().value_or(kMostAxes);
        if (axis >= kMostAxes || !take(" { ")) return std::nullopt;
        pass.band = band;
        pass.axis = static_cast<int>(axis);
        do {
          if (!add_stored(pass)) return std::nullopt;
        } while (take("; "));
        if (!take(" }")) return std::nullopt;
      } else if (!add_stored(pass)) {
        return std::nullopt;
      }
      result.passes.push_back(std::move(pass));
    } while (take("; "));
    if (!text_.empty()) return std::nullopt;
    return result;
  }

 private:
  static constexpr std::int64_t kMostAxes = 64, kMostNumber = 1 << 20, kMostTile = 1 << 16;

  bool take(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::int64_t> number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  bool add_stored(LoopProgram::Pass& pass) {
    LoopProgram::Stored stored;
    const auto value = take("v") ? number() : std::nullopt;
    if (!value || *value > kMostNumber) return false;
    stored.value = static_cast<int>(*value);
    if (take(".e")) {
      const auto expression = number();
      if (!expression || *expression > kMostNumber) return false;
      stored.expression = static_cast<int>(*expression);
    }
    if (take(" (") && !add_options(stored.loops)) return false;
    pass.stored.push_back(stored);
    return true;
  }
  bool add_options(TileLoops& loops) {
    do {
      if (take("tile ")) {
        const auto tile = number();
        if (!tile || *tile < 1 || *tile > kMostTile) return false;
        loops.tile = *tile;
      } else if (take("rows last")) {
        loops.rows = TileLoops::Rows::kLast;
      } else if (take("rows before")) {
        loops.rows = TileLoops::Rows::kBefore;
      } else if (take("along")) {
        loops.reduce = TileLoops::Reduce::kAlong;
      } else if (take("around")) {
        loops.reduce = TileLoops::Reduce::kAround;
      } else {
        return false;
      }
    } while (take(", "));
    return take(")");
  }

  std::string_view text_;
};

}  // namespace

std::string to_string(const LoopProgram& program) {
  std::string text;
  for (const LoopProgram::Pass& pass : program.passes) {
    if (!text.empty()) text += "; ";
    if (pass.axis >= 0) text += "for " + std::to_string(pass.band) + " of axis " + std::to_string(pass.axis) + " { ";
    for (std::size_t s = 0; s < pass.stored.size(); ++s) text += (s > 0 ? "; " : "") + stored_text(pass.stored[s]);
    if (pass.axis >= 0) text += " }";
  }
  return text;
}

std::optional<LoopProgram> parse_loops(std::string_view text) {
  auto program = LoopReader(text).program();
  if (program && to_string(*program) != text) return std::nullopt;  // leading zeros, options twice or in another order
  return program;
}

}  // namespace rewright::cpu
