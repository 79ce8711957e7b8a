#include "api/define_options.h"

#include <sstream>

#include "api/options.h"

namespace rewright::api {

std::string_view name(OptionKind kind) {
  switch (kind) {
    case OptionKind::kFlag:
      return "flag";
    case OptionKind::kList:
      return "list";
    case OptionKind::kText:
      break;
  }
  return "text";
}

namespace define {

namespace {

std::string shortest(double v) {
  std::ostringstream out;
  out << v;
  return out.str();
}

// Throws std::exception unless the whole text is a number.
double whole_text_as_number(Text v) {
  std::size_t used = 0;
  const double result = std::stod(v, &used);
  if (used != v.size()) throw std::invalid_argument(v);
  return result;
}

// `what`: the values allowed, for messages; `allowed` tests a value.
template <class Allowed>
Written<double> real(const std::string& what, Allowed allowed) {
  const auto read = [=](Text v) {
    double result = NAN;
    try {
      result = whole_text_as_number(v);
    } catch (const std::exception&) {
      throw not_possible(v, what);
    }
    if (!allowed(result)) throw not_possible(v, what);
    return result;
  };
  return {"NUMBER", shortest, read};
}

}  // namespace

Error not_possible(const std::string& value, const std::string& what) {
  return Error(ErrorCode::kUsage, "\"" + value + "\" is no " + what);
}

std::int64_t whole_number(Text v, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::size_t used = 0;
  std::int64_t result = least - 1;
  try {
    result = std::stoll(v, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != v.size() || result < least || result > kMost)
    throw not_possible(v, "whole number from " + std::to_string(least) + " on");
  return result;
}

Written<std::string> text(std::string type) {
  const auto same = [](Text v) { return v; };
  return {std::move(type), same, same};
}

Written<double> number(double least, double most) {
  return real("number from " + shortest(least) + " to " + shortest(most), [=](double v) { return v >= least && v <= most; });
}

Written<double> positive() {
  return real("number above 0", [](double v) { return v > 0 && std::isfinite(v); });
}

Written<double> not_negative() {
  return real("number from 0 on", [](double v) { return v >= 0 && std::isfinite(v); });
}

Written<double> time() { return {"TIME", seconds_text, parse_seconds}; }
Written<std::size_t> bytes() { return {"BYTES", bytes_text, parse_bytes}; }

Written<std::vector<double>> numbers(std::string type) {
  const auto write = [](const std::vector<double>& all) {
    std::string text;
    for (const double v : all) text += (text.empty() ? "" : ",") + shortest(v);
    return text;
  };
  const auto read = [](Text all) {
    std::vector<double> result;
    std::istringstream parts(all);
    for (std::string part; std::getline(parts, part, ',');) {
      try {
        result.push_back(whole_text_as_number(part));
      } catch (const std::exception&) {
        throw not_possible(part, "number");
      }
    }
    return result;
  };
  return {std::move(type), write, read};
}

}  // namespace define

}  // namespace rewright::api
