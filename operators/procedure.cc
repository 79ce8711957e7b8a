#include "operators/procedure.h"

namespace rewright::operators {

const Tensor& Call::tensor(std::size_t i) const {
  try {
    return input(i).tensor();
  } catch (const Error& error) {
    throw error.within("input " + std::to_string(i));
  }
}

namespace {

const Tensor& single(const Tensor& t) {
  if (t.size() != 1) throw Error(ErrorCode::kBadInput, "has " + std::to_string(t.size()) + " elements, 1 is needed");
  return t;
}

}  // namespace

std::int64_t Call::integer_input(std::size_t i) const { return single(tensor(i)).integers()[0]; }
double Call::real_input(std::size_t i) const { return single(tensor(i)).reals()[0]; }

}  // namespace rewright::operators
