// MurmurHash3 of texts and numbers, an operator of ONNX Runtime's domain com.microsoft.
#include <bit>
#include <cstring>

#include "operators/procedures/procedures.h"

namespace rewright::operators {

namespace {

// The 32-bit form for x86 of Austin Appleby's MurmurHash3.
std::uint32_t murmur_hash(std::span<const std::byte> bytes, std::uint32_t seed) {
  const auto mixed = [](std::uint32_t k) { return std::rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u; };
  std::uint32_t h = seed;
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t k = 0;
    std::memcpy(&k, bytes.data() + at, 4);
    h = std::rotl(h ^ mixed(k), 13) * 5 + 0xe6546b64u;
  }
  std::uint32_t rest = 0;
  for (std::size_t i = bytes.size(); i > at; --i) rest = rest << 8 | std::to_integer<std::uint32_t>(bytes[i - 1]);
  if (at < bytes.size()) h ^= mixed(rest);
  h ^= static_cast<std::uint32_t>(bytes.size());
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

DataType type_of_hash(const OnnxAttributes& attributes) {
  return attributes.integer("positive", 1) != 0 ? DataType::kUint32 : DataType::kInt32;
}

void run_murmur_hash(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto seed = static_cast<std::uint32_t>(call.integer("seed", 0));
  Tensor result(type_of_hash(call), x.sizes());
  const auto hashes = result.mutable_data<std::uint32_t>();
  const std::size_t width = byte_size(x.type());
  if (x.type() != DataType::kString && width != 4 && width != 8)
    throw Error(ErrorCode::kUnsupported, "hashes of elements of type " + std::string(name(x.type())));
  for (std::size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = murmur_hash(
        x.type() == DataType::kString ? std::as_bytes(std::span(x.strings()[i])) : x.bytes().subspan(i * width, width), seed);
  call.give(std::move(result));
}

Procedure::KnownTypes infer_murmur_hash(const OnnxAttributes& attributes, const Procedure::KnownTypes& inputs, std::size_t) {
  if (inputs.empty() || !inputs[0]) return {std::nullopt};
  return {{{type_of_hash(attributes), inputs[0]->sizes}}};
}

}  // namespace

void register_hashing(Procedures& p) {
  p.add_foreign("com.microsoft", "MurmurHash3", {.run = run_murmur_hash, .infer = infer_murmur_hash});
}

}  // namespace rewright::operators
