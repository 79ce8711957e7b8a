// What the models of ai.onnx.ml share: rows of features, scores, and classes.
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

// The x that a normally distributed number is below with probability p; infinite at 0 and 1, and no number beyond.
double probit(double p);
double logistic(double x);

// A batch of rows; a tensor of one axis is one row.
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
// Rows as the call's next result.
void give_rows(Call& call, std::int64_t rows, std::int64_t columns, std::span<const double> values);

// What becomes of a row of scores: the attribute post_transform.
void transform(const std::string& how, std::span<double> scores);
inline std::string transform_of(const Call& call) { return call.text("post_transform", "NONE"); }
std::size_t largest(std::span<const double> scores);

// The classes of a classifier, integers or texts, which stand in attributes of these names.
class Labels {
 public:
  Labels(const Call& call, const char* integers, const char* texts)
      : numbers_(call.integers(integers)), texts_(call.texts(texts)) {}
  std::size_t size() const { return std::max(numbers_.size(), texts_.size()); }
  Tensor of(const std::vector<std::size_t>& classes) const;
  // Of a classifier of one class, where a class of 1 says that the score is positive: that number, whatever the class is, or
  // the class's text. So ONNX Runtime answers.
  Tensor of_one(const std::vector<std::size_t>& positive) const;

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace rewright::operators
