#include "api/options.h"

#include <array>
#include <charconv>
#include <string_view>

#include "api/given_sizes.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::api {

namespace {

// A number followed by one of the units. "" is the unit of a bare number.
double parse_quantity(const std::string& text, const std::map<std::string, double>& units, const std::string& example) {
  std::size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const auto unit = units.find(text.substr(end));
  if (end == 0 || !(number >= 0) || unit == units.end())
    throw Error(ErrorCode::kUsage, "\"" + text + "\" is no such quantity", {}, "write it like " + example);
  return number * unit->second;
}

}  // namespace

double parse_seconds(const std::string& text) {
  return parse_quantity(text, {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}}, "60s, 500ms or 2m");
}

std::size_t parse_bytes(const std::string& text) {
  const double bytes = parse_quantity(
      text,
      {{"", 1}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}, {"KB", 0x1p10}, {"MB", 0x1p20}, {"GB", 0x1p30}},
      "8G or 512M");
  if (bytes > 0x1p60) throw Error(ErrorCode::kUsage, text + " is more memory than there is");
  return static_cast<std::size_t>(bytes);
}

std::string seconds_text(double seconds) {
  std::array<char, 40> text{};
  return std::string(text.data(), std::to_chars(text.begin(), text.end(), seconds).ptr) + "s";
}

std::string bytes_text(std::size_t bytes) {
  const std::string_view units = "KMGT";
  std::size_t unit = 0;
  while (unit < units.size() && bytes > 0 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return std::to_string(bytes) + std::string(unit > 0 ? units.substr(unit - 1, 1) : "");
}

std::map<std::string, Sizes> parse_shapes(const std::vector<std::string>& shapes) {
  std::map<std::string, Sizes> result;
  for (const std::string& text : shapes) {
    const std::size_t equals = text.rfind('=');
    const auto wrong = [&] {
      return Error(ErrorCode::kUsage, "--shape " + text + " is not understood", {}, "write it like --shape input=1x3x224x224");
    };
    if (equals == std::string::npos || equals == 0) throw wrong();
    Sizes sizes;
    for (std::size_t at = equals + 1; at < text.size();) {
      std::size_t used = 0;
      try {
        sizes.push_back(std::stoll(text.substr(at), &used));
      } catch (const std::exception&) {
        throw wrong();
      }
      at += used;
      if (sizes.back() < 0 || (at < text.size() && text[at] != 'x') || at + 1 == text.size()) throw wrong();
      ++at;
    }
    if (!result.emplace(text.substr(0, equals), std::move(sizes)).second)
      throw Error(ErrorCode::kUsage, "--shape gives input \"" + text.substr(0, equals) + "\" twice");
  }
  return result;
}

std::map<std::string, std::int64_t> given_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes) {
  std::map<std::string, std::int64_t> result;
  for (const auto& [name, sizes] : shapes) {
    const Value* input = nullptr;
    std::string names;
    for (const ValueId id : graph.inputs()) {
      if (graph.value(id).name == name) input = &graph.value(id);
      names += (names.empty() ? "" : ", ") + graph.value(id).name;
    }
    if (!input) throw Error(ErrorCode::kBadInput, "the model has no input \"" + name + "\"", "--shape", "it has " + names);
    const Indices& shape = input->type.shape;
    const auto contradiction = [&, &name = name] {
      return Error(ErrorCode::kBadInput, "the sizes given with --shape contradict the model's " + to_string(input->type),
                   "input \"" + name + "\"");
    };
    if (shape.size() != sizes.size()) throw contradiction();
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      const Atom* symbol = shape[a].as_atom();
      if (symbol && symbol->kind == Atom::Kind::kSymbol) {
        if (result.emplace(symbol->name, sizes[a]).first->second != sizes[a]) throw contradiction();
      } else if (shape[a].constant() && *shape[a].constant() != sizes[a]) {
        throw contradiction();
      }
    }
  }
  return result;
}

std::map<std::string, std::int64_t> symbol_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes) {
  return fitting_sizes(graph, given_sizes(graph, shapes)).front();
}

}  // namespace rewright::api
