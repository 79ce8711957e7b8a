// Reads the arguments of a listed operator. Everything here throws Error(kUsage) for values that an argument cannot have.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "generator/enumeration/leaves.h"
#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

//   OperatorArguments arguments(item);  // pool2d_max(kernel=2|3)
//   const auto kernels = arguments.texts("kernel", {"3"}), strides = arguments.texts("stride", {"1"});
//   arguments.finish();
class OperatorArguments {
 public:
  explicit OperatorArguments(const ListedOperator& item) : item_(item) {}

  const std::string& operator_name() const { return item_.name; }
  // The alternatives of an argument, or of its default.
  std::vector<std::string> texts(const std::string& name, std::vector<std::string> otherwise);
  // The alternatives of an argument with two possible words.
  std::vector<bool> truths(const std::string& name, const std::string& otherwise, const std::string& yes = "true",
                           const std::string& no = "false");
  // Throws for an argument that was not read.
  void finish() const;

 private:
  const ListedOperator& item_;
  std::set<std::string> read_;
};

// "3", or "1x3". `where` is for messages, as in operator_list.h.
KernelSize parse_kernel(const std::string& text, const std::string& where);
// The pads at both ends of "valid", of "same", which keeps the size at stride 1, or of a digit.
Indices parse_padding(const std::string& text, const KernelSize& kernel, const std::string& operator_name);

}  // namespace rewright::generator
