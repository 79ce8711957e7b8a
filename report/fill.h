// Pages made of the files of page/ and of data.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rewright::report {

// JSON that cannot end the HTML element around it.
std::string inside_of_page(const nlohmann::json& data);

// Replaces each {{NAME}} of the page once.
std::string filled(std::string_view page, const std::map<std::string, std::string_view, std::less<>>& parts);

}  // namespace rewright::report
