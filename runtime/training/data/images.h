// Images as training examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "images/images.h"
#include "runtime/training/data/dataset.h"

namespace rewright::training {

// Resizes an image to [channels, height, width], with numbers from 0 to 255. Each is a weighted mean of the surrounding pixels,
// with weights that fall linearly over one pixel of the coarser grid.
std::vector<float> resized(const Image& image, std::int64_t height, std::int64_t width);

// Does the folder contain folders rather than .npy files?
bool holds_class_folders(const std::filesystem::path& folder);

// A folder with one folder of images (images/images.h) for each class; classes are numbered in the order of their names.
// The model has one input, [N, 1 or 3, height, width], with numbers from 0 to 1, minus the mean, divided by the deviation.
// Files are decoded when their example is requested.
Dataset read_images(const std::filesystem::path& folder, const WantedData& wanted);

}  // namespace rewright::training
