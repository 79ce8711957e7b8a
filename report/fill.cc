#include "report/fill.h"

#include <nlohmann/json.hpp>

namespace rewright::report {

std::string inside_of_page(const nlohmann::json& data) {
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) text.replace(at, 1, "\\u003c");
  return text;
}

std::string filled(std::string_view page, const std::map<std::string, std::string_view, std::less<>>& parts) {
  std::string text;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = page.find("{{", at), close = open == page.npos ? page.npos : page.find("}}", open);
    if (close == page.npos) return text.append(page.substr(at));
    text.append(page.substr(at, open - at)).append(parts.at(std::string(page.substr(open + 2, close - open - 2))));
    at = close + 2;
  }
  return text;
}

}  // namespace rewright::report
