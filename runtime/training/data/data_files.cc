#include "runtime/training/data/data_files.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/onnx/onnx.h"
#include "runtime/training/data/csv.h"
#include "runtime/training/data/images.h"

namespace rewright::training {

namespace {

Dataset read_npy_folder(const std::filesystem::path& folder, const WantedData& wanted) {
  std::vector<std::string> names;
  for (const auto& [name, type] : wanted.inputs) names.push_back(name);
  names.emplace_back("targets");
  Dataset::Columns columns;
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos || name.starts_with('.'))
      throw Error(ErrorCode::kBadInput, "an input called '" + name + "' cannot have a file of that name", folder.string());
    const std::filesystem::path file = folder / (name + ".npy");
    columns.emplace(name, make_column(read_npy(file), file.string()));
  }
  return Dataset(std::move(columns));
}

}  // namespace

Dataset read_dataset(const std::filesystem::path& where, const WantedData& wanted) {
  if (!std::filesystem::is_directory(where)) return read_csv(where, wanted);
  return holds_class_folders(where) ? read_images(where, wanted) : read_npy_folder(where, wanted);
}

}  // namespace rewright::training
