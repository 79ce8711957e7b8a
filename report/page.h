// The files of page/, compiled in.
#pragma once

#include <string_view>

namespace rewright::report::page {

std::string_view report_html();
std::string_view report_css();
std::string_view report_js();
std::string_view plan_html();
std::string_view plan_css();
std::string_view plan_js();
std::string_view d3_js();  // https://d3js.org, BSD 3-clause

}  // namespace rewright::report::page
