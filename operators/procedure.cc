#include "operators/procedure.h"

#include "operators/procedures/procedures.h"

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

const Procedure* find_procedure(std::string_view domain, std::string_view type) {
  static const auto kAll = [] {
    Procedures p;
    register_control(p);
    register_sequences(p);
    register_selection(p);
    register_text(p);
    register_text_numbers(p);
    register_recurrent(p);
    register_signal(p);
    register_sampling(p);
    register_interpolation(p);
    register_placement(p);
    register_algebra(p);
    register_random(p);
    register_learned(p);
    register_feature_preparation(p);
    register_linear_models(p);
    register_numbered_trees(p);
    register_pictures(p);
    register_optimizers(p);
    return p;
  }();
  return kAll.find(domain, type);
}

}  // namespace rewright::operators
