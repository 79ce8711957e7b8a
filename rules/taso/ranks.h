// How many axes the tensors of a rule have: the file says it of few operators, and the others carry it on.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/congruence.h"
#include "rules/taso/format.h"

namespace rewright::rules::taso {

// Tensors that have one rank. Where nothing says which, their shapes are equal but for what is named here.
struct RankClass {
  std::size_t number = 0;
  std::optional<std::size_t> rank;
  bool is_product = false;  // the last two axes are those of matrices
  std::size_t front = 0;    // so many axes at the front are split
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
