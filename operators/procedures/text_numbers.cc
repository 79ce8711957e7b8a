// Numbers written as strings and parsed from them, as Cast does. ONNX hardly specifies their form; this is ONNX Runtime's: at
// most eight digits, and the longest prefix of a string that is a number.
#include "operators/procedures/text_numbers.h"

#include <locale.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "operators/procedures/procedures.h"

namespace rewright::operators {

namespace {

// The program that uses this library may have set a locale with another decimal point.
class PlainLocale {
 public:
  PlainLocale() : before_(uselocale(plain())) {}
  ~PlainLocale() { uselocale(before_); }
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

 private:
  static locale_t plain() {
    static const locale_t made = newlocale(LC_ALL_MASK, "C", nullptr);
    return made;
  }
  locale_t before_;
};

std::string numeral(double value, const char* format) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

template <class Read>
auto number_in(const std::string& text, const Read& read) {
  char* end = nullptr;
  errno = 0;
  const auto value = read(text.c_str(), &end);
  if (end == text.c_str()) throw Error(ErrorCode::kBadInput, "\"" + text.substr(0, 40) + "\" does not begin with a number");
  if (errno == ERANGE)
    throw Error(ErrorCode::kBadInput, "the number in \"" + text.substr(0, 40) + "\" is too large or too small");
  return value;
}

}  // namespace

Tensor numerals_of(const Tensor& numbers, const char* format) {
  const PlainLocale plain;
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(numbers.size()));
  if (is_real(numbers.type()))
    for (const double value : numbers.reals()) texts.push_back(numeral(value, format));
  else
    for (const std::int64_t value : numbers.integers())
      texts.push_back(numbers.type() == DataType::kUint64 ? std::to_string(static_cast<std::uint64_t>(value))
                                                          : std::to_string(value));
  return Tensor::from_strings(numbers.sizes(), std::move(texts));
}

Tensor numbers_in(const Tensor& texts, DataType type) {
  const PlainLocale plain;
  if (is_real(type)) {
    std::vector<double> reals;
    for (const std::string& text : texts.strings())
      reals.push_back(number_in(text, [](auto* t, auto* e) { return std::strtod(t, e); }));
    return Tensor::from_reals(type, texts.sizes(), reals);
  }
  const bool is_signed =
      type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 || type == DataType::kInt64;
  std::vector<std::int64_t> integers;
  for (const std::string& text : texts.strings())
    integers.push_back(
        is_signed ? number_in(text, [](auto* t, auto* e) { return std::int64_t{std::strtoll(t, e, 10)}; })
                  : number_in(text, [](auto* t, auto* e) { return static_cast<std::int64_t>(std::strtoull(t, e, 10)); }));
  return Tensor::from_integers(type, texts.sizes(), integers);
}

namespace {

void run_cast(Call& call) {
  const Tensor& x = call.tensor(0);
  const DataType to = call.type() == "CastLike" ? call.tensor(1).type() : static_cast<DataType>(call.integer("to", 0));
  if (x.type() == DataType::kString)
    call.give(numbers_in(x, to));
  else if (to == DataType::kString)
    call.give(numerals_of(x));
  else
    throw Error(ErrorCode::kUnsupported, std::string(name(x.type())) + " cannot be cast to " + std::string(name(to)));
}

}  // namespace

void register_text_numbers(Procedures& p) {
  p.add("Cast", run_cast);
  p.add("CastLike", run_cast);
}

}  // namespace rewright::operators
