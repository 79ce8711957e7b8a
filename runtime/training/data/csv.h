// Tables as training examples.
#pragma once

#include <filesystem>

#include "runtime/training/data/dataset.h"

namespace rewright::training {

// Reads a CSV file (RFC 4180: cells may be quoted) whose first row names the columns. The column `wanted.target_column` holds
// the targets. A model with one input gets all other columns in order; a model with several gets one column for each, by name.
// Throws Error(kBadInput) with the line of a cell that is missing or not a finite number.
Dataset read_csv(const std::filesystem::path& file, const WantedData& wanted);

}  // namespace rewright::training
