#include "generator/enumeration/operator_arguments.h"

#include <utility>

namespace rewright::generator {

std::vector<std::string> OperatorArguments::texts(const std::string& name, std::vector<std::string> otherwise) {
  read_.insert(name);
  const auto at = item_.arguments.find(name);
  return at == item_.arguments.end() ? std::move(otherwise) : at->second;
}

std::vector<bool> OperatorArguments::truths(const std::string& name, const std::string& otherwise, const std::string& yes,
                                            const std::string& no) {
  std::vector<bool> result;
  for (const std::string& text : texts(name, {otherwise})) {
    if (text != yes && text != no)
      wrong_operators(name + " of " + item_.name + " is \"" + text + "\", not " + yes + " or " + no);
    result.push_back(text == yes);
  }
  return result;
}

void OperatorArguments::finish() const {
  for (const auto& [name, values] : item_.arguments)
    if (!read_.count(name)) wrong_operators(item_.name + " has no argument \"" + name + "\"");
}

KernelSize parse_kernel(const std::string& text, const std::string& where) {
  const std::size_t cross = text.find('x');
  const std::int64_t height = parse_integer(text.substr(0, cross), where);
  const KernelSize k{height, cross == std::string::npos ? height : parse_integer(text.substr(cross + 1), where)};
  if (k.height < 1 || k.width < 1 || k.height > 7 || k.width > 7)
    wrong_operators(where + " is " + text + ", must be from 1 to 7");
  return k;
}

Indices parse_padding(const std::string& text, const KernelSize& kernel, const std::string& operator_name) {
  if (text == "valid") return {0, 0};
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') return {text[0] - '0', text[0] - '0'};
  if (text != "same") wrong_operators("padding of " + operator_name + " is \"" + text + "\", must be same, valid or a digit");
  if (kernel.height % 2 == 0 || kernel.width % 2 == 0)
    wrong_operators("padding of " + operator_name + " is the same on both sides of odd kernels only");
  return {(kernel.height - 1) / 2, (kernel.width - 1) / 2};
}

}  // namespace rewright::generator
