// The families of procedures, one file each; procedure.cc calls them all.
#pragma once

#include "operators/procedure.h"

namespace rewright::operators {

void register_control(Procedures& p);        // control.cc: If Loop Scan
void register_sequences(Procedures& p);      // sequence.cc: Sequence..., Optional..., SplitToSequence ConcatFromSequence
void register_selection(Procedures& p);      // selection.cc: NonZero Compress Unique NonMaxSuppression
void register_text(Procedures& p);           // text.cc: String..., RegexFullMatch, TfIdfVectorizer
void register_recurrent(Procedures& p);      // recurrent.cc: RNN GRU LSTM
void register_signal(Procedures& p);         // signal.cc: DFT STFT MelWeightMatrix
void register_text_numbers(Procedures& p);   // text_numbers.cc: Cast CastLike
void register_sampling(Procedures& p);       // sampling.cc: RoiAlign MaxRoiPool
void register_interpolation(Procedures& p);  // interpolation.cc: GridSample DeformConv
void register_placement(Procedures& p);      // placement.cc: Col2Im MaxUnpool ReverseSequence Hardmax
void register_algebra(Procedures& p);        // algebra.cc: BitCast TensorScatter
void register_random(Procedures& p);         // random.cc: Random... Multinomial Bernoulli Dropout
// ai.onnx.ml, all of whose files share scores.h:
void register_learned(Procedures& p);              // learned.cc: TreeEnsemble LabelEncoder CategoryMapper and others
void register_feature_preparation(Procedures& p);  // feature_preparation.cc: Normalizer Imputer OneHotEncoder FeatureVectorizer
void register_linear_models(Procedures& p);        // linear_models.cc: Linear..., SVM...
void register_numbered_trees(Procedures& p);       // numbered_trees.cc: TreeEnsembleRegressor TreeEnsembleClassifier
void register_pictures(Procedures& p);             // image_decoder.cc: ImageDecoder
void register_optimizers(Procedures& p);           // optimizers.cc: Momentum Adagrad Adam

}  // namespace rewright::operators
