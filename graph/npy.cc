// NumPy's .npy: a magic number, a version, the length of a header, the header (a Python dictionary), the elements.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "graph/file.h"
#include "graph/onnx.h"

namespace rewright {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors and files are little-endian here");

struct Descriptor {
  DataType type;
  std::string_view text;
};
constexpr std::array kDescriptors = {
    Descriptor{DataType::kFloat, "<f4"},  Descriptor{DataType::kDouble, "<f8"}, Descriptor{DataType::kHalf, "<f2"},
    Descriptor{DataType::kInt8, "|i1"},   Descriptor{DataType::kInt16, "<i2"},  Descriptor{DataType::kInt32, "<i4"},
    Descriptor{DataType::kInt64, "<i8"},  Descriptor{DataType::kUint8, "|u1"},  Descriptor{DataType::kUint16, "<u2"},
    Descriptor{DataType::kUint32, "<u4"}, Descriptor{DataType::kUint64, "<u8"}, Descriptor{DataType::kBool, "|b1"},
};

// The text after 'key': in the header's dictionary.
std::string_view entry(std::string_view header, std::string_view key, const std::string& where) {
  const std::string quoted = "'" + std::string(key) + "':";
  const std::size_t start = header.find(quoted);
  if (start == std::string_view::npos) throw Error(ErrorCode::kBadInput, "its header has no " + quoted, where);
  header.remove_prefix(start + quoted.size());
  while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  return header;
}

Sizes parse_shape(std::string_view text, const std::string& where) {
  const std::size_t end = text.find(')');
  if (text.empty() || text.front() != '(' || end == std::string_view::npos)
    throw Error(ErrorCode::kBadInput, "its header has no readable shape", where);
  text = text.substr(1, end - 1);
  Sizes sizes;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) throw Error(ErrorCode::kBadInput, "its header has no readable shape", where);
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  }
  return sizes;
}

// Column-major elements in row-major order.
Tensor from_fortran(const Tensor& tensor) {
  Tensor result(tensor.type(), tensor.sizes());
  const std::size_t width = byte_size(tensor.type());
  const Sizes& sizes = tensor.sizes();
  Sizes position(sizes.size(), 0);
  for (std::int64_t to = 0; to < tensor.size(); ++to) {
    std::int64_t from = 0;
    for (std::size_t axis = sizes.size(); axis-- > 0;) from = from * sizes[axis] + position[axis];
    std::memcpy(result.mutable_bytes().data() + to * width, tensor.bytes().data() + from * width, width);
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      if (++position[axis] < sizes[axis]) break;
      position[axis] = 0;
    }
  }
  return result;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& file) {
  const FileBytes content = map_file(file);
  const std::string where = file.string();
  const std::string_view text = content.text();
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (text.size() < 10 || text.substr(0, kMagic.size()) != kMagic)
    throw Error(ErrorCode::kBadInput, "is not an .npy file", where);
  const int version = static_cast<unsigned char>(text[6]);
  const std::size_t prefix = version == 1 ? 10 : 12;
  if (version < 1 || version > 3 || text.size() < prefix)
    throw Error(ErrorCode::kBadInput, "has an unknown .npy version " + std::to_string(version), where);
  std::size_t length = 0;
  for (std::size_t i = prefix; i-- > 8;) length = length << 8 | static_cast<unsigned char>(text[i]);
  if (length > text.size() - prefix) throw Error(ErrorCode::kBadInput, "ends within its header", where);
  const std::string_view header = text.substr(prefix, length);

  const std::string_view described = entry(header, "descr", where);
  const Descriptor* descriptor = nullptr;
  for (const Descriptor& d : kDescriptors)
    if (described.size() >= 5 && described.substr(2, 2) == d.text.substr(1) &&
        (described[1] == '<' || described[1] == '|' || described[1] == '='))
      descriptor = &d;
  if (descriptor == nullptr)
    throw Error(ErrorCode::kUnsupported, "has elements of a type that is not read: " + std::string(described.substr(0, 8)),
                where);
  const bool fortran = entry(header, "fortran_order", where).starts_with("True");
  Sizes sizes = parse_shape(entry(header, "shape", where), where);

  const std::int64_t count = element_count(sizes);
  const std::size_t width = byte_size(descriptor->type);
  const auto bytes = content.bytes.subspan(prefix + length);
  if (static_cast<std::uint64_t>(count) > bytes.size() / width)
    throw Error(ErrorCode::kBadInput,
                "ends too early: " + std::to_string(bytes.size()) + " bytes for " + std::to_string(count) + " elements", where);
  Tensor tensor;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % width == 0) {
    tensor = Tensor(descriptor->type, std::move(sizes), content.owner, bytes.data());
  } else {
    tensor = Tensor(descriptor->type, std::move(sizes));
    if (count > 0) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), static_cast<std::size_t>(count) * width);
  }
  return fortran && tensor.sizes().size() > 1 ? from_fortran(tensor) : tensor;
}

bool is_npy_type(DataType type) {
  return std::any_of(kDescriptors.begin(), kDescriptors.end(), [&](const Descriptor& d) { return d.type == type; });
}

void write_npy(const Tensor& tensor, const std::filesystem::path& file) {
  const Descriptor* descriptor = nullptr;
  for (const Descriptor& d : kDescriptors)
    if (d.type == tensor.type()) descriptor = &d;
  if (descriptor == nullptr)
    throw Error(ErrorCode::kUnsupported, "NumPy has no elements of type " + std::string(name(tensor.type())), file.string());
  std::string shape;
  for (std::int64_t size : tensor.sizes()) shape += std::to_string(size) + ", ";
  if (tensor.sizes().size() > 1) shape.resize(shape.size() - 2);
  if (tensor.sizes().size() == 1) shape.pop_back();
  std::string header = "{'descr': '" + std::string(descriptor->text) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // elements start at a multiple of 64
  header += '\n';
  std::string start = "\x93NUMPY";
  start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  FileWriter writer(file);
  writer.write(start + header);
  writer.write(tensor.bytes());
  writer.commit();
}

}  // namespace rewright
