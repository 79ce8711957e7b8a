#include "rules/raising/raising.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "base/error.h"
#include "rules/io.h"

namespace rewright::rules {

namespace internal {
std::string_view raising_text();  // generated from rules/raising/onnxruntime.rules
}

namespace {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::vector<std::string> parts(std::string_view text, char between) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    result.push_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return result;
}

// "MultiHeadAttention(q, k, v; num_heads=H, scale=s)", and perhaps "-> 0, 3"
// `names`: of the rule's inputs, optional ones as well.
void read_call(const std::string& text, Raising& raising, const std::set<std::string>& names, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::kBadInput, what, where); };
  if (text == "is") return;
  const std::size_t open = text.find('('), close = text.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open) fail("\"as\" needs a call: Operator(x, y)");
  raising.type = trimmed(text.substr(0, open));
  const std::string behind = trimmed(std::string_view(text).substr(close + 1));
  const std::size_t count = raising.rule.target.outputs.size();
  if (behind.starts_with("->"))
    for (const std::string& output : parts(std::string_view(behind).substr(2), ',')) {
      std::size_t& number = raising.outputs.emplace_back();
      const auto [end, error] = std::from_chars(output.data(), output.data() + output.size(), number);
      if (error != std::errc() || end != output.data() + output.size()) fail("\"" + output + "\" is no number of an output");
    }
  else if (behind.empty() && count == 1)
    raising.outputs = {0};
  if (raising.outputs.size() != count) fail("needs " + std::to_string(count) + " outputs behind \"->\"");
  const std::vector<std::string> halves = parts(std::string_view(text).substr(open + 1, close - open - 1), ';');
  for (const std::string& input : parts(halves[0], ',')) {
    const auto is_it = [&](const PatternInput& known) { return known.name == input; };
    if (input != "_" && !names.contains(input)) fail("the rule has no input \"" + input + "\"");
    const bool is_there = std::any_of(raising.rule.inputs.begin(), raising.rule.inputs.end(), is_it);
    raising.inputs.push_back(is_there ? input : "");
  }
  for (const std::string& attribute : halves.size() > 1 ? parts(halves[1], ',') : std::vector<std::string>()) {
    const std::vector<std::string> sides = parts(attribute, '=');
    if (sides.size() != 2) fail("\"" + attribute + "\" is no attribute: name=value");
    raising.attributes.emplace_back(sides[0], sides[1]);
  }
}

}  // namespace

std::vector<Raising> parse_raisings(std::string_view text, const std::string& name) {
  std::vector<Raising> result;
  std::istringstream lines{std::string(text)};
  std::string rule, line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string trimmed_line = trimmed(line);
    if (!trimmed_line.starts_with("as ")) {
      rule += line + "\n";
      continue;
    }
    std::vector<Rule> all = parse_algebra(rule, name);  // several where an input is optional, or with `for`
    std::set<std::string> names;
    for (const Rule& read : all)
      for (const PatternInput& input : read.inputs) names.insert(input.name);
    for (Rule& read : all) {
      Raising& raising = result.emplace_back();
      raising.rule = std::move(read);
      read_call(trimmed_line.substr(3), raising, names, name + ":" + std::to_string(number));
    }
    rule.clear();
  }
  return result;
}

std::span<const Raising> raisings() {
  static const std::vector<Raising> kAll = parse_raisings(internal::raising_text(), "onnxruntime.rules");
  return kAll;
}

}  // namespace rewright::rules
