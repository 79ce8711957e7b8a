// Single elements of terms over constants: most terms are not what is looked for, and few elements say so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "equivalence/checker/proof.h"
#include "graph/element_sampler.h"

namespace rewright::equivalence {

// Equal up to the rounding of a short computation in float? `largest`: of the tensor's elements.
bool near(double a, double b, double largest);

// An element of a real tensor at a row-major place.
double element_of(const Tensor& tensor, std::int64_t at);
double largest_element(const Tensor& tensor);  // by magnitude; of finite ones

class TermElements {
 public:
  // Throws Error or proof::Refusal if the step (kTerm or kValue) is no term over constants.
  TermElements(const Joint& joint, const Step& term);
  TermElements(const TermElements&) = delete;
  TermElements& operator=(const TermElements&) = delete;

  const Sizes& sizes() const { return sizes_; }
  DataType type() const { return type_; }
  // At a row-major place; nullopt if it takes too long, or has no denotation.
  std::optional<double> element(std::int64_t at);
  // Are elements of the term those of the tensor? A few are computed.
  bool may_be(const Tensor& tensor, double largest);

 private:
  Graph graph_;
  ElementSampler sampler_;
  Sizes sizes_;
  DataType type_;
  std::map<std::int64_t, std::optional<double>> known_;
};

}  // namespace rewright::equivalence
