#include "api/options.h"

#include <array>
#include <charconv>
#include <map>
#include <string_view>

#include "base/error.h"

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

}  // namespace rewright::api
