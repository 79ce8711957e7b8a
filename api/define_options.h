// Helpers to write tables of options (api/request_options.h): an option is a name, the syntax of its values, and the member
// of the request that it sets.
//
//   option<Request>("budget", time(), MEMBER(optimize.budget_seconds), "time for all of it")
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/choices.h"
#include "api/request_options.h"

namespace rewright::api::define {

using Text = const std::string&;

// The syntax of values: the name of their type, and conversions to and from text.
template <class T>
struct Written {
  std::string type;
  std::function<std::string(const T&)> text;
  std::function<T(Text)> read;
};

Error not_possible(const std::string& value, const std::string& what);
std::int64_t whole_number(Text text, std::int64_t least);

Written<std::string> text(std::string type);
Written<double> number(double least, double most);
Written<double> positive();
Written<double> not_negative();
Written<double> time();
Written<std::size_t> bytes();
Written<std::vector<double>> numbers(std::string type);  // with commas between them

template <class T>
Written<T> choice(const Choices<T>& choices) {
  return {choices.names("|"), [&](const T& v) { return std::string(choices.name(v)); },
          [&](Text v) { return choices.value(v); }};
}

template <class Integer>
Written<Integer> count(std::string type = "N", Integer least = 0) {
  const auto read = [=](Text v) {
    const std::int64_t number = whole_number(v, static_cast<std::int64_t>(least));
    if (!std::in_range<Integer>(number)) throw not_possible(v, "number that small");
    return static_cast<Integer>(number);
  };
  return {std::move(type), [](Integer v) { return std::to_string(v); }, read};
}

// `member` gives the member of a request.
template <class Request, class T, class Member>
RequestOption<Request> option(std::string_view name, const Written<T>& written, Member member, std::string_view description) {
  Request initial;
  return {name,         OptionKind::kText,
          written.type, written.text(member(initial)),
          description,  [=](Request& r, Text v) { member(r) = written.read(v); }};
}

// `negated`: the option sets the member to false.
template <class Request, class Member>
RequestOption<Request> flag(std::string_view name, Member member, std::string_view description, bool negated = false) {
  Request initial;
  return {name,        OptionKind::kFlag,
          {},          std::string(truth_choices().name(member(initial) != negated)),
          description, [=](Request& r, Text v) { member(r) = truth_choices().value(v) != negated; }};
}

// A list of texts. `check` throws for a text that is not allowed.
template <class Request, class Member>
RequestOption<Request> list(std::string_view name, std::string type, Member member, std::string_view description,
                            void (*check)(Text) = nullptr) {
  return {name, OptionKind::kList, std::move(type), {}, description, [=](Request& r, Text v) {
            if (check) check(v);
            member(r).push_back(v);
          }};
}

template <class Option, std::size_t kCount>
std::vector<Option> all_of(Option (&&options)[kCount]) {
  return {std::make_move_iterator(std::begin(options)), std::make_move_iterator(std::end(options))};
}

}  // namespace rewright::api::define
