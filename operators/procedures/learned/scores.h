// Shared by the models of ai.onnx.ml: rows of features, scores, and classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "operators/procedure.h"

namespace rewright::operators {

inline constexpr const char* kLearnedDomain = "ai.onnx.ml";

inline Error wrong_lists() { return Error(ErrorCode::kBadInput, "the lists in its attributes do not fit one another"); }

// The inverse of the standard normal distribution function; infinite at 0 and 1, NaN outside of [0, 1].
double probit(double p);
double logistic(double x);

// A batch of rows; a tensor of rank 1 is a single row.
struct Rows {
  std::vector<double> values;
  std::int64_t count = 0, columns = 0;
  explicit Rows(const Tensor& x);   // of reals
  explicit Rows(const Call& call);  // of its first input, reals or integers
  std::span<const double> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  }
};
double dot(std::span<const double> a, std::span<const double> b);
// Gives the rows as the call's next output.
void give_rows(Call& call, std::int64_t rows, std::int64_t columns, std::span<const double> values);

// Applies a post_transform (the ONNX attribute) to a row of scores.
void transform(const std::string& how, std::span<double> scores);
inline std::string transform_of(const Call& call) { return call.text("post_transform", "NONE"); }
std::size_t largest(std::span<const double> scores);

// The classes of a classifier, integers or texts, from the attributes with these names.
class Labels {
 public:
  Labels(const Call& call, const char* integers, const char* texts)
      : numbers_(call.integers(integers)), texts_(call.texts(texts)) {}
  std::size_t size() const { return std::max(numbers_.size(), texts_.size()); }
  Tensor of(const std::vector<std::size_t>& classes) const;
  // For a classifier with a single class; `positive` is 1 for a positive score. Integer classes are ignored: the result is that
  // number, or the class's text. This is what ONNX Runtime does.
  Tensor of_one(const std::vector<std::size_t>& positive) const;

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace rewright::operators
