#include "runtime/training/memory/checkpoint.h"

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::training {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::array<std::pair<DataType, std::string_view>, 11> kTypes{{{DataType::kFloat, "F32"},
                                                                        {DataType::kDouble, "F64"},
                                                                        {DataType::kHalf, "F16"},
                                                                        {DataType::kBfloat16, "BF16"},
                                                                        {DataType::kInt64, "I64"},
                                                                        {DataType::kInt32, "I32"},
                                                                        {DataType::kInt16, "I16"},
                                                                        {DataType::kInt8, "I8"},
                                                                        {DataType::kUint8, "U8"},
                                                                        {DataType::kBool, "BOOL"},
                                                                        {DataType::kUint64, "U64"}}};
constexpr const char* kFacts = "__metadata__";

}  // namespace

void write_checkpoint(const TrainingCheckpoint& checkpoint, const std::filesystem::path& file) {
  nlohmann::json header;
  header[kFacts] = checkpoint.facts;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto* type =
        std::find_if(kTypes.begin(), kTypes.end(), [type = tensor.type()](const auto& t) { return t.first == type; });
    if (type == kTypes.end())
      throw Error(ErrorCode::kUnsupported, "a checkpoint cannot hold " + std::string(rewright::name(tensor.type())), name);
    const std::size_t end = offset + tensor.byte_count();
    header[name] = {{"dtype", type->second}, {"shape", tensor.sizes()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  std::array<char, 8> prefix;
  std::memcpy(prefix.data(), &length, prefix.size());
  FileWriter out(file);
  out.write(std::string_view(prefix.data(), prefix.size()));
  out.write(text);
  for (const auto& [name, tensor] : checkpoint.tensors) out.write(tensor.bytes());
  out.commit();
}

TrainingCheckpoint read_checkpoint(const std::filesystem::path& file) {
  const FileBytes mapped = map_file(file);
  const auto refuse = [&](const std::string& why) -> Error {
    return {ErrorCode::kBadInput, "is no checkpoint: " + why, file.string()};
  };
  std::uint64_t length = 0;
  if (mapped.bytes.size() < sizeof length) throw refuse("it is too short");
  std::memcpy(&length, mapped.bytes.data(), sizeof length);
  if (length > mapped.bytes.size() - sizeof length) throw refuse("its header is cut off");
  const std::string_view text = mapped.text().substr(sizeof length, length);
  const std::span<const std::byte> data = mapped.bytes.subspan(sizeof length + length);
  TrainingCheckpoint result;
  try {
    const nlohmann::json header = nlohmann::json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == kFacts) {
        result.facts = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const nlohmann::json& wanted = entry.at("dtype");
      const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.second == wanted; });
      if (type == kTypes.end()) throw refuse("tensor '" + name + "' is of an unknown type");
      const auto sizes = entry.at("shape").get<Sizes>();
      const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
      const std::size_t bytes = static_cast<std::size_t>(element_count(sizes)) * byte_size(type->first);
      if (begin > end || end > data.size() || end - begin != bytes) throw refuse("tensor '" + name + "' lies outside of it");
      result.tensors.emplace(name, Tensor(type->first, sizes, mapped.owner, data.data() + begin));
    }
  } catch (const nlohmann::json::exception&) {
    throw refuse("its header is damaged");
  }
  return result;
}

}  // namespace rewright::training
