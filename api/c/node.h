// A node for callbacks of the C interface.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/c/handles.h"
#include "operators/onnx.h"

namespace rewright::c {

// Numbers and texts of a node's attributes. Nullopt if the node does not have the attribute. Throw Error if it is of another
// kind.
class AttributeReader {
 public:
  virtual ~AttributeReader() = default;
  virtual std::optional<std::vector<std::int64_t>> integers(const std::string& attribute) const = 0;
  virtual std::optional<std::vector<double>> reals(const std::string& attribute) const = 0;
  virtual std::optional<std::string> text(const std::string& attribute) const = 0;
};
// Reads an ONNX node's attributes, which must outlive the reader.
std::unique_ptr<AttributeReader> read_attributes(const OnnxAttributes& attributes);
// Reads the attributes of a node of a graph. `op` and `attributes` must outlive the reader.
std::unique_ptr<AttributeReader> read_attributes(const Operator& op, const Attributes& attributes);

}  // namespace rewright::c

struct rewright_node {
  rewright_node(std::string op_type, std::string op_domain, std::unique_ptr<rewright::c::AttributeReader> reader)
      : op(std::move(op_type)), domain(std::move(op_domain)), attributes(std::move(reader)) {}
  std::string op, domain;
  std::unique_ptr<rewright::c::AttributeReader> attributes;
  rewright::c::AllDescribed inputs, outputs;
  // Filled by rewright_node_set_output; null: it must not be called now.
  rewright::operators::Procedure::KnownTypes* said = nullptr;
  std::string failure;
  // The memory of pointers returned to the caller.
  struct Given {
    std::map<std::string, std::vector<std::int64_t>> integers;
    std::map<std::string, std::vector<double>> reals;
    std::map<std::string, std::string> texts;
  };
  mutable Given given;
};
