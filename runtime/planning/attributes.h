// Attributes of nodes, for planners.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// A node's attributes by the names of its operator's fields, whose sizes are all known. The field must exist and have the type
// that is asked for.
//
//   const AttributeReader attributes(node);            // a Conv
//   attributes.list("strides"), attributes.number("group")
class AttributeReader {
 public:
  explicit AttributeReader(const Node& node) : node_(node) {}
  bool has(std::string_view name) const { return node_.op->field(name).has_value(); }
  std::vector<std::int64_t> list(std::string_view name) const { return values(get<Indices>(name)); }
  std::int64_t number(std::string_view name) const { return get<Index>(name).value(); }
  double real(std::string_view name) const { return get<Real>(name).value; }
  bool flag(std::string_view name) const { return get<bool>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }

 private:
  template <class T>
  const T& get(std::string_view name) const {
    return std::get<T>(node_.attributes.at(node_.op->field(name).value()));
  }
  const Node& node_;
};

}  // namespace rewright::planning
