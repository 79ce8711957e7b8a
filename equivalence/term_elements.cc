#include "equivalence/term_elements.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rewright::equivalence {

namespace {

constexpr double kFarFromRounding = 1e-4;  // relative difference beyond which elements are not compared any further
constexpr double kCancelled = 1e-6;        // the same of the largest element: terms may cancel
constexpr std::int64_t kMostReads = 1 << 16;
constexpr std::int64_t kCompared = 6;  // elements

}  // namespace

bool near(double a, double b, double largest) {
  return a == b || std::abs(a - b) <= kFarFromRounding * std::max(std::abs(a), std::abs(b)) + kCancelled * largest;
}

double element_of(const Tensor& tensor, std::int64_t at) {
  if (tensor.type() == DataType::kFloat) return static_cast<double>(tensor.data<float>()[static_cast<std::size_t>(at)]);
  return Tensor(tensor.type(), {}, nullptr, tensor.bytes().data() + static_cast<std::size_t>(at) * byte_size(tensor.type()))
      .reals()[0];
}

double largest_element(const Tensor& tensor) {
  double largest = 0;
  for (std::int64_t at = 0; at < tensor.size(); ++at) {
    const double e = std::abs(element_of(tensor, at));
    if (std::isfinite(e)) largest = std::max(largest, e);
  }
  return largest;
}

TermElements::TermElements(const Joint& joint, const Step& term)
    : graph_(graph_of_term(joint, term)), sampler_(graph_, [](ValueId) -> const StoredElements* { return nullptr; }) {
  const TensorType& type = graph_.value(graph_.outputs()[0].value).type;
  type_ = type.type;
  for (const Index& size : type.shape) {
    if (!size.is_constant()) throw Error(ErrorCode::kUnsupported, "a term of open sizes");
    sizes_.push_back(size.value());
  }
}

std::optional<double> TermElements::element(std::int64_t at) {
  const auto [known, is_new] = known_.try_emplace(at);
  if (is_new) {
    const ValueId value = graph_.outputs()[0].value;
    if (graph_.is_constant(value)) {
      known->second = element_of(graph_.value(value).constant, at);
    } else if (const auto sample = sampler_.element(value, at, kMostReads)) {
      known->second = sample->is_real ? sample->real : static_cast<double>(sample->integer);
    }
  }
  return known->second;
}

bool TermElements::may_be(const Tensor& tensor, double largest) {
  if (type_ != tensor.type() || sizes_ != tensor.sizes()) return false;
  const std::int64_t count = std::min<std::int64_t>(tensor.size(), kCompared);
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t at = k * tensor.size() / count + (tensor.size() > count ? k : 0);
    if (at >= tensor.size()) break;
    const std::optional<double> e = element(at);
    // An element that cannot be sampled is evaluated as a whole.
    if (!e) return true;
    if (!near(*e, element_of(tensor, at), largest)) return false;
  }
  return true;
}

}  // namespace rewright::equivalence
