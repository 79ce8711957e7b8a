// The state of a training run in a file: named tensors and facts, in the safetensors format
// (https://github.com/huggingface/safetensors): the length of a header, the header in JSON, the bytes of the tensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "expressions/tensor.h"

namespace rewright::training {

struct TrainingCheckpoint {
  std::map<std::string, std::string> facts;
  std::map<std::string, Tensor> tensors;
};

// The bytes of such a file.
std::string checkpoint_bytes(const TrainingCheckpoint& checkpoint);
// Throws Error(kBadInput) for bytes that are none.
TrainingCheckpoint parse_checkpoint(std::string bytes, const std::string& name);

// Writes the whole file or nothing. Throws Error(kMissing) if there is no space, Error(kUnsupported) for types that the format
// lacks.
void write_checkpoint(const TrainingCheckpoint& checkpoint, const std::filesystem::path& file);
// Throws Error(kBadInput) for a damaged or different file.
TrainingCheckpoint read_checkpoint(const std::filesystem::path& file);

}  // namespace rewright::training
