// A folder with a model and other files (tokenizer, configuration, ...), as on model hubs.
#pragma once

#include <filesystem>
#include <optional>

#include "base/temporary_folder.h"

namespace rewright::cli {

// The model in a folder, relative to it: "model.onnx", "onnx/model.onnx", or else its only .onnx file. Throws Error(kBadInput)
// if there is none, or several.
std::filesystem::path model_in(const std::filesystem::path& folder);

// A copy of a folder with its model replaced. The first call of model() creates it under a temporary name beside `to`; commit()
// renames it; without commit() it is removed. Throws Error(kMissing) if `to` exists already, or if there is no space or
// permission.
class FolderCopy {
 public:
  FolderCopy(std::filesystem::path from, std::filesystem::path model, std::filesystem::path to);

  // Has the model weights in files of their own?
  bool has_external_weights() const { return has_external_weights_; }
  // The file to write the new model to before commit().
  std::filesystem::path model();
  // Copies the other files, except weights that only the replaced model reads: the new one has its own.
  void commit();

 private:
  std::filesystem::path from_, model_, to_;
  std::optional<TemporaryFolder> temporary_;
  bool has_external_weights_ = false;
};

}  // namespace rewright::cli
