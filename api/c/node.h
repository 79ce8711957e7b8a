// A node as callbacks of the C interface see it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/c/handles.h"
#include "operators/onnx.h"

namespace rewright::c {

// Numbers and texts of a node's attributes. Nullopt: the node does not say it. Throw Error for one that is of another kind.
class AttributeReader {
 public:
  virtual ~AttributeReader() = default;
  virtual std::optional<std::vector<std::int64_t>> integers(const std::string& attribute) const = 0;
  virtual std::optional<std::vector<double>> reals(const std::string& attribute) const = 0;
  virtual std::optional<std::string> text(const std::string& attribute) const = 0;
};
// Of a node as it stands in a model. `attributes` must outlive it.
std::unique_ptr<AttributeReader> read_attributes(const OnnxAttributes& attributes);
// Of a node of the registry; what it points at must outlive it.
std::unique_ptr<AttributeReader> read_attributes(const Operator& op, const Attributes& attributes);

}  // namespace rewright::c

struct rewright_node {
  rewright_node(std::string op_type, std::string op_domain, std::unique_ptr<rewright::c::AttributeReader> reader)
      : op(std::move(op_type)), domain(std::move(op_domain)), attributes(std::move(reader)) {}
  std::string op, domain;
  std::unique_ptr<rewright::c::AttributeReader> attributes;
  rewright::c::AllDescribed inputs, outputs;
  // What rewright_node_set_output said; null: it must not be called now.
  rewright::operators::Procedure::KnownTypes* said = nullptr;
  std::string failure;
  // What callers were given pointers to.
  struct Given {
    std::map<std::string, std::vector<std::int64_t>> integers;
    std::map<std::string, std::vector<double>> reals;
    std::map<std::string, std::string> texts;
  };
  mutable Given given;
};
