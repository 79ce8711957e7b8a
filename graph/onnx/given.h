// Import of models with some weights, sizes or files replaced.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/file.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

struct GivenParts {
  // Replaces a weight of the model.
  struct Weight {
    Tensor tensor;             // of the type and sizes of the model's weight; its elements must not change any more
    bool is_external = false;  // the model must store this weight in a file, which is not read
  };
  // Sizes of open dimensions, by their names, and by the denotations that the model gives to dimensions of inputs
  // ("DATA_BATCH", in any case). A named dimension with such a denotation gets its size wherever the name occurs.
  std::map<std::string, std::int64_t> named_sizes = {}, denoted_sizes = {};
  std::map<std::string, Weight> weights = {};            // by name
  std::map<std::string, FileBytes> external_files = {};  // read instead of the files of these names in the model's folder
};

// import_onnx and import_onnx_bytes with these parts. Names that the model does not have are ignored, except those of external
// weights. Throws Error(kBadInput) if sizes contradict each other or the model, and for weights that do not fit.
Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options, const GivenParts& given);
Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options, const GivenParts& given);

// Can the bytes be parsed as a model? Its content is not checked.
bool is_readable_model(std::string_view bytes);

}  // namespace rewright::graph
