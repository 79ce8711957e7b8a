#include "runtime/training/memory/checkpoint.h"

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
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

// The file up to the bytes of the tensors.
std::string head_of(const TrainingCheckpoint& checkpoint) {
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
  return std::string(prefix.data(), prefix.size()) + text;
}

TrainingCheckpoint parse(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, const std::string& file) {
  const auto refuse = [&](const std::string& why) -> Error { return {ErrorCode::kBadInput, "is no checkpoint: " + why, file}; };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) throw refuse("it is too short");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) throw refuse("its header is cut off");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  const std::span<const std::byte> data = bytes.subspan(sizeof length + length);
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
      result.tensors.emplace(name, Tensor(type->first, sizes, owner, data.data() + begin));
    }
  } catch (const nlohmann::json::exception&) {
    throw refuse("its header is damaged");
  }
  return result;
}

}  // namespace

std::string checkpoint_bytes(const TrainingCheckpoint& checkpoint) {
  std::string bytes = head_of(checkpoint);
  for (const auto& [name, tensor] : checkpoint.tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.byte_count());
  return bytes;
}

TrainingCheckpoint parse_checkpoint(std::string bytes, const std::string& name) {
  const auto kept = std::make_shared<const std::string>(std::move(bytes));
  return parse(std::as_bytes(std::span(*kept)), kept, name);
}

void write_checkpoint(const TrainingCheckpoint& checkpoint, const std::filesystem::path& file) {
  const std::string head = head_of(checkpoint);
  FileWriter out(file);
  out.write(head);
  for (const auto& [name, tensor] : checkpoint.tensors) out.write(tensor.bytes());
  out.commit();
}

TrainingCheckpoint read_checkpoint(const std::filesystem::path& file) {
  const FileBytes mapped = map_file(file);
  return parse(mapped.bytes, mapped.owner, file.string());
}

}  // namespace rewright::training
