// Rows as TreeScores prepares them before its tests, and tests that decide alike without that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "operators/definitions/trees.h"

namespace rewright::operators {

// The optional inputs of a TreeScores. Feature k of a row is
//
//   ((x[selected[k]] or, if that is not a number, fillings[k]) * factors[k] + offsets[k]) * scales[k]
//
// rounded after each operation; what is absent is not done. Rules bring selections, imputers and scalers in front of trees
// here.
struct RowPreparation {
  enum Part : std::size_t { kSelected, kFillings, kFactors, kOffsets, kScales, kParts };
  std::array<Tensor, kParts> parts;  // an empty tensor: absent

  // Reads the inputs of a TreeScores.
  static RowPreparation of(std::span<const Tensor> inputs);

  bool has(Part part) const { return static_cast<bool>(parts[part]); }
  bool is_nothing() const;
  // The column of each feature, for rows with `width` columns; throws Error(kBadInput) if there is no such column.
  std::vector<std::int64_t> columns(std::int64_t width) const;
};

// Computes features one by one, in the arithmetic of a type.
class RowPreparer {
 public:
  RowPreparer(const RowPreparation& preparation, DataType type);
  // The feature of an element of its column.
  double operator()(std::int64_t feature, double x) const;

 private:
  double rounded(double x) const { return type_ == DataType::kFloat ? static_cast<double>(static_cast<float>(x)) : x; }
  double at(RowPreparation::Part part, std::int64_t feature) const { return numbers_[part][static_cast<std::size_t>(feature)]; }

  DataType type_;
  std::array<std::vector<double>, RowPreparation::kParts> numbers_;
};

// Tests of the columns themselves that send every row where the tests of features send it, rows of infinities and missing
// numbers included: each operation is monotone as rounded, so that a test of a feature is a comparison with the last number of
// the column for which it holds, which is searched for. nullopt if a test asks for a feature whose factor, scale or offset is
// not finite, or whose factor or scale is 0. Throws Error(kBadInput) for features that there are no numbers for.
struct UnpreparedTests {
  std::vector<std::int64_t> branches;  // as in Trees, as are the roots
  std::vector<std::int64_t> roots;
  Tensor splits;
  std::int64_t columns = 0;  // that tests ask for: the largest number and one

  // The given trees with these tests; this must outlive them.
  Trees in(const Trees& given) const { return {branches, roots, given.begins, given.targets}; }
};
// Their `columns` alone, without the search.
std::optional<std::int64_t> columns_without_preparation(const Trees& trees, const Tensor& splits,
                                                        const RowPreparation& preparation, std::int64_t width);
std::optional<UnpreparedTests> without_preparation(const Trees& trees, const Tensor& splits, const RowPreparation& preparation,
                                                   std::int64_t width);

}  // namespace rewright::operators
