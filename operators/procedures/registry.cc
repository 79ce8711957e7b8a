#include "operators/procedures/procedures.h"

namespace rewright::operators {

const Procedure* find_procedure(std::string_view domain, std::string_view type) {
  static const Procedures kAll = [] {
    Procedures p;
    register_algebra(p);
    register_control(p);
    register_encoders(p);
    register_hashing(p);
    register_image_decoder(p);
    register_interpolation(p);
    register_maps(p);
    register_support_vectors(p);
    register_optimizers(p);
    register_placement(p);
    register_random(p);
    register_recurrent(p);
    register_sampling(p);
    register_selection(p);
    register_sequence(p);
    register_signal(p);
    register_text(p);
    register_text_numbers(p);
    register_linear_attention(p);
    register_tokenizer(p);
    return p;
  }();
  return kAll.find(domain, type);
}

}  // namespace rewright::operators
