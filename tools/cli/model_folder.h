// A folder with a model and its other files (tokenizer, configuration, ...), as model hubs have them.
#pragma once

#include <filesystem>

namespace rewright::cli {

// The model of a folder, relative to it: "model.onnx", "onnx/model.onnx", or else the only .onnx file in it. Throws
// Error(kBadInput) if there is none, or several.
std::filesystem::path model_in(const std::filesystem::path& folder);

// A copy of a folder with another model in the place of its own. The first call of model() makes it under a temporary name
// beside `to`; commit() renames it; without commit() it is removed. Throws Error(kMissing) if `to` exists already, or if there
// is no space or permission to write.
class FolderCopy {
 public:
  FolderCopy(std::filesystem::path from, std::filesystem::path model, std::filesystem::path to);
  ~FolderCopy();
  FolderCopy(const FolderCopy&) = delete;
  FolderCopy& operator=(const FolderCopy&) = delete;

  // Has the model weights in files of their own?
  bool has_external_weights() const { return has_external_weights_; }
  // The file to write the new model to, before commit().
  std::filesystem::path model();
  // Copies the other files. Weights that only the replaced model reads are left out: the new one has its own.
  void commit();

 private:
  std::filesystem::path make() const;

  std::filesystem::path from_, model_, to_, temporary_;
  bool has_external_weights_ = false;
};

}  // namespace rewright::cli
