// Models read with parts that are given in place of their own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/file.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

struct GivenParts {
  // A weight in place of the model's own.
  struct Weight {
    Tensor tensor;             // of the type and sizes that the model's has; its elements must not change any more
    bool is_external = false;  // the model must have one, whose data are in a file: that is not read
  };
  // Sizes by the names of open dimensions, and for those dimensions of inputs that the model denotes so ("DATA_BATCH", in any
  // case). A name whose dimension is denoted has that size everywhere.
  std::map<std::string, std::int64_t> named_sizes = {}, denoted_sizes = {};
  std::map<std::string, Weight> weights = {};            // by name
  std::map<std::string, FileBytes> external_files = {};  // read in place of the files of these names beside the model
};

// As import_onnx and import_onnx_bytes. Names that the model does not have mean nothing, but for external weights. Throws
// Error(kBadInput) where sizes contradict each other or the model's, and for weights that do not fit.
Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options, const GivenParts& given);
Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options, const GivenParts& given);

// Are they the bytes of a Protobuf message like a model's, whatever it says?
bool is_readable_model(std::string_view bytes);

}  // namespace rewright::graph
