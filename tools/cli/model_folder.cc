#include "tools/cli/model_folder.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/file.h"
#include "graph/onnx/external.h"

namespace rewright::cli {

namespace {

namespace fs = std::filesystem;

// Every file below a folder, relative to it, in order. Links to folders are not followed.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error))
    if (at->is_regular_file(error)) files.insert(at->path().lexically_relative(folder));
  if (error) throw Error(ErrorCode::kBadInput, "cannot be read: " + error.message(), folder.string());
  return {files.begin(), files.end()};
}

bool is_model(const fs::path& file) { return file.extension() == ".onnx"; }

// The files with the weights of a model of the folder, relative to the folder.
std::set<fs::path> weights_of(const fs::path& folder, const fs::path& model) {
  std::set<fs::path> files;
  for (const std::string& location : external_files(folder / model))
    files.insert((model.parent_path() / location).lexically_normal());
  return files;
}

void copy_whole(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  write_file(to, map_file(from).text());
  std::error_code ignored;  // a file system without permissions
  fs::permissions(to, fs::status(from).permissions(), ignored);
}

}  // namespace

fs::path model_in(const fs::path& folder) {
  for (const char* name : {"model.onnx", "onnx/model.onnx"})
    if (fs::is_regular_file(folder / name)) return name;
  std::vector<fs::path> models = files_in(folder);
  std::erase_if(models, [](const fs::path& file) { return !is_model(file); });
  if (models.size() == 1) return models.front();
  const std::string found =
      models.empty() ? "there is no .onnx file in it" : std::to_string(models.size()) + " .onnx files are in it";
  throw Error(ErrorCode::kBadInput, found + " and none is model.onnx", folder.string(), "give the model's own path");
}

FolderCopy::FolderCopy(fs::path from, fs::path model, fs::path to)
    : from_(std::move(from)), model_(std::move(model)), to_(std::move(to)) {
  while (!to_.empty() && !to_.has_filename()) to_ = to_.parent_path();  // "folder/"
  if (fs::exists(to_) && !(fs::is_directory(to_) && fs::is_empty(to_)))
    throw Error(ErrorCode::kMissing, "there is something already", to_.string(), "give a folder that is not there");
  const fs::path inside = fs::weakly_canonical(to_).lexically_relative(fs::canonical(from_));
  if (!inside.empty() && *inside.begin() != "..")
    throw Error(ErrorCode::kMissing, "lies in the folder that is to be copied", to_.string(), "give a folder outside of it");
  has_external_weights_ = !weights_of(from_, model_).empty();
  const TemporaryFolder trial(to_);  // an error here is better before the long work than after it
}

fs::path FolderCopy::model() {
  if (!temporary_) {
    temporary_.emplace(to_);
    fs::permissions(temporary_->path(), fs::status(from_).permissions());
    fs::create_directories((*temporary_ / model_).parent_path());
  }
  return *temporary_ / model_;
}

void FolderCopy::commit() {
  const std::vector<fs::path> files = files_in(from_);
  std::set<fs::path> left_out = weights_of(from_, model_);
  for (const fs::path& file : files)
    if (is_model(file) && file != model_)
      for (const fs::path& shared : weights_of(from_, file)) left_out.erase(shared);
  for (const fs::path& still_read : weights_of(temporary_->path(), model_))
    if (!fs::exists(*temporary_ / still_read)) left_out.erase(still_read);  // else the new model brought its own
  left_out.insert(model_);
  for (const fs::path& file : files) {
    if (left_out.contains(file)) continue;
    if (fs::exists(*temporary_ / file))
      throw Error(ErrorCode::kMissing, "the new model's weights need this name", (from_ / file).string(), "rename the file");
    copy_whole(from_ / file, *temporary_ / file);
  }
  temporary_->move_to(to_);
}

}  // namespace rewright::cli
