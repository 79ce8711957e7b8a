// Images as examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "pictures/pictures.h"
#include "runtime/training/data/dataset.h"

namespace rewright::training {

// The numbers of the resized image, [channels, height, width] from 0 to 255: each is a mean of the pixels around its place,
// with weights that fall linearly over one pixel of the larger of both grids.
std::vector<float> resized(const Picture& picture, std::int64_t height, std::int64_t width);

// Is this a folder of folders rather than one of .npy files?
bool holds_class_folders(const std::filesystem::path& folder);

// A folder with a folder of images (pictures/pictures.h) for each class; classes are numbered in the order of their names.
// The model has one input, [N, 1 or 3, height, width], of numbers from 0 to 1, less the mean and divided by the deviation.
// Files are decoded when their example is asked for.
Dataset read_pictures(const std::filesystem::path& folder, const WantedData& wanted);

}  // namespace rewright::training
