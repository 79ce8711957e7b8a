#include "expressions/attributes.h"

#include <bit>
#include <sstream>

#include "base/hash_mix.h"

namespace rewright {

namespace {

// Certificates hold graph hashes, which depend on these numbers: it stays different from hash_mix.
std::uint64_t mixed(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
  return h ^ (h >> 29);
}

std::string show(double v) {
  std::ostringstream out;
  out.precision(9);
  out << v;
  return out.str();
}

}  // namespace

std::uint64_t hash(const AttributeValue& value) {
  const std::uint64_t h = std::visit(
      [](const auto& v) -> std::uint64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return v;
        } else if constexpr (std::is_same_v<T, Index>) {
          return v.hash();
        } else if constexpr (std::is_same_v<T, Indices>) {
          std::uint64_t sum = v.size();
          for (const Index& i : v) sum = mixed(sum, i.hash());
          return sum;
        } else if constexpr (std::is_same_v<T, Real>) {
          return mixed(std::bit_cast<std::uint64_t>(v.value), hash_text(v.symbol));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          std::uint64_t sum = v.size();
          for (double d : v) sum = mixed(sum, std::bit_cast<std::uint64_t>(d));
          return sum;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return hash_text(v);
        } else if constexpr (std::is_same_v<T, DataType>) {
          return static_cast<std::uint64_t>(v);
        } else {
          return v.content_hash();
        }
      },
      value);
  return mixed(value.index() + 1, h);
}

std::uint64_t hash(const Attributes& attributes) {
  std::uint64_t h = attributes.size();
  for (const AttributeValue& a : attributes) h = mixed(h, hash(a));
  return h;
}

std::string to_string(const AttributeValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, Index>) {
          return v.to_string();
        } else if constexpr (std::is_same_v<T, Indices>) {
          return to_string(v);
        } else if constexpr (std::is_same_v<T, Real>) {
          return v.symbol.empty() ? show(v.value) : v.symbol;
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          std::string s = "[";
          for (double d : v) s += (s.size() > 1 ? ", " : "") + show(d);
          return s + "]";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return "\"" + v + "\"";
        } else if constexpr (std::is_same_v<T, DataType>) {
          return std::string(name(v));
        } else {
          std::string s(name(v.type()));
          for (std::int64_t size : v.sizes()) s += "x" + std::to_string(size);
          return "tensor " + s;
        }
      },
      value);
}

}  // namespace rewright
