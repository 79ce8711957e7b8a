// A folder with a model and what belongs to it (tokenizer, configuration, ...), as model hubs have them.
#pragma once

#include <filesystem>

namespace rewright::cli {

// The model of a folder, relative to it: "model.onnx", "onnx/model.onnx", or else the only .onnx file in it. Throws
// Error(kBadInput) where there is none, or no telling which.
std::filesystem::path model_in(const std::filesystem::path& folder);

// A copy of a folder without its model, which is written in its place. It is made under a temporary name beside `to`, from the
// first call of model() on, and takes its own name in commit(); without that it is removed. Throws Error(kMissing) if there is
// something at `to` already, or no space or right to write.
class FolderCopy {
 public:
  FolderCopy(std::filesystem::path from, std::filesystem::path model, std::filesystem::path to);
  ~FolderCopy();
  FolderCopy(const FolderCopy&) = delete;
  FolderCopy& operator=(const FolderCopy&) = delete;

  // Has the model weights in files of their own?
  bool has_external_weights() const { return has_external_weights_; }
  // Where the new model is to be written, before commit().
  std::filesystem::path model();
  // Copies the rest. Weights that only the replaced model reads are left out: the new one has its own.
  void commit();

 private:
  std::filesystem::path make() const;

  std::filesystem::path from_, model_, to_, temporary_;
  bool has_external_weights_ = false;
};

}  // namespace rewright::cli
