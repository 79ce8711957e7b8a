// Tables as examples.
#pragma once

#include <filesystem>

#include "runtime/training/data/dataset.h"

namespace rewright::training {

// A CSV file (RFC 4180: cells may be quoted) whose first row names its columns. The column `wanted.target_column` holds the
// targets. A model with one input gets all others as one, in their order; one with several gets a column for each, by name.
// Throws Error(kBadInput) that names the line of a cell that is missing or not a finite number.
Dataset read_csv(const std::filesystem::path& file, const WantedData& wanted);

}  // namespace rewright::training
