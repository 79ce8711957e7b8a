// The families of procedures. Each function adds the procedures of one file: procedures/<name of the function>.cc, or
// procedures/learned/<name of the function>.cc for those of ai.onnx.ml.
#pragma once

#include "operators/procedure.h"

namespace rewright::operators {

void register_algebra(Procedures& p);
void register_control(Procedures& p);
void register_hashing(Procedures& p);
void register_image_decoder(Procedures& p);
void register_interpolation(Procedures& p);
void register_optimizers(Procedures& p);
void register_placement(Procedures& p);
void register_random(Procedures& p);
void register_recurrent(Procedures& p);
void register_sampling(Procedures& p);
void register_selection(Procedures& p);
void register_sequence(Procedures& p);
void register_signal(Procedures& p);
void register_text(Procedures& p);
void register_text_numbers(Procedures& p);
void register_linear_attention(Procedures& p);
void register_tokenizer(Procedures& p);

void register_encoders(Procedures& p);
void register_maps(Procedures& p);
void register_support_vectors(Procedures& p);

}  // namespace rewright::operators
