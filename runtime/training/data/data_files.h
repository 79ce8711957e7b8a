// Training examples from files of any supported kind.
#pragma once

#include <filesystem>

#include "runtime/training/data/dataset.h"

namespace rewright::training {

// Reads a folder with NAME.npy for each input and targets.npy, which are mapped; or a CSV file (runtime/training/data/csv.h);
// or a folder with a folder of images for each class (runtime/training/data/images.h).
Dataset read_dataset(const std::filesystem::path& where, const WantedData& wanted);

}  // namespace rewright::training
