// Infers the ranks of a rule's tensors: the file gives them for few operators, the others propagate them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/congruence.h"
#include "rules/taso/format.h"

namespace rewright::rules::taso {

// Tensors of equal rank. If no operator gives the rank, their shapes are equal except for the named axes.
struct RankClass {
  std::size_t number = 0;
  std::optional<std::size_t> rank;
  bool is_product = false;  // matrices in the last two axes
  std::size_t front = 0;    // number of leading axes that are split
};

class Ranks {
 public:
  // Throws Error(kBadInput) where ranks contradict.
  explicit Ranks(const RuleText& rule);
  const RankClass& of(bool target, const Reference& tensor);

 private:
  std::size_t number(bool target, const Reference& tensor);
  std::size_t root(std::size_t n) const;
  void join(std::size_t a, std::size_t b);
  void set(std::size_t n, std::size_t rank);
  void visit(bool target, const Operation& op, std::int32_t index);

  std::map<std::pair<int, std::pair<std::int32_t, std::int32_t>>, std::size_t> numbers_;
  Classes equal_;
  std::vector<RankClass> classes_;
};

}  // namespace rewright::rules::taso
