// NumPy's .npy: a magic number, a version, the length of a header, the header (a Python dictionary), the elements.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "operators/tensor_parts.h"

namespace rewright::graph {

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

// Converts column-major elements to row-major order.
Tensor from_fortran(const Tensor& tensor) {
  const Sizes& sizes = tensor.sizes();
  Sizes position(sizes.size(), 0);
  std::vector<std::int64_t> from(static_cast<std::size_t>(tensor.size()), 0);
  for (std::int64_t& place : from) {
    for (std::size_t axis = sizes.size(); axis-- > 0;) place = place * sizes[axis] + position[axis];
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      if (++position[axis] < sizes[axis]) break;
      position[axis] = 0;
    }
  }
  return picked(tensor, sizes, from);
}

// Strings of fixed length, padded with zeros: '<U' has code points of four bytes, '|S' has bytes.
struct FixedStrings {
  bool are_code_points;
  std::size_t length;
  std::size_t width() const { return are_code_points ? 4 * length : length; }
};

std::optional<FixedStrings> fixed_strings(std::string_view described) {
  if (described.size() < 4 || (described[2] != 'U' && described[2] != 'S')) return std::nullopt;
  if (described[2] == 'U' && described[1] != '<' && described[1] != '=') return std::nullopt;
  FixedStrings strings{described[2] == 'U', 0};
  const auto [end, error] = std::from_chars(described.data() + 3, described.data() + described.size(), strings.length);
  constexpr std::size_t kLongest = std::size_t{1} << 30;
  if (error != std::errc() || strings.length > kLongest) return std::nullopt;
  return strings;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  constexpr std::uint32_t kFirstEscaped = 0xdc80, kLastEscaped = 0xdcff;  // encodes a byte that is not UTF-8
  if (code < 0x80) return add(code);
  if (code >= kFirstEscaped && code <= kLastEscaped) return add(code & 0xff);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12), add(0x80 | (code >> 6 & 0x3f));
  } else {
    add(0xf0 | code >> 18), add(0x80 | (code >> 12 & 0x3f)), add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

Tensor read_strings(const FixedStrings& strings, std::span<const std::byte> bytes, Sizes sizes, const std::string& where) {
  std::vector<std::string> texts(static_cast<std::size_t>(element_count(sizes)));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::byte* at = bytes.data() + i * strings.width();
    if (!strings.are_code_points) {
      texts[i].assign(reinterpret_cast<const char*>(at), strings.length);
      texts[i].resize(texts[i].find_last_not_of('\0') + 1);
      continue;
    }
    std::vector<std::uint32_t> codes(strings.length);
    if (strings.length > 0) std::memcpy(codes.data(), at, strings.width());
    while (!codes.empty() && codes.back() == 0) codes.pop_back();
    for (const std::uint32_t code : codes) {
      if (code > 0x10ffff) throw Error(ErrorCode::kBadInput, "element " + std::to_string(i) + " is no text", where);
      append_utf8(texts[i], code);
    }
  }
  return Tensor::from_strings(std::move(sizes), std::move(texts));
}

// The code points. Bytes that are not UTF-8 become surrogates as in Python's "surrogateescape".
std::vector<std::uint32_t> code_points(std::string_view text) {
  std::vector<std::uint32_t> codes;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t first = byte(i);
    const std::size_t length = first < 0x80 ? 1 : first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    std::uint32_t code = length < 2 ? first : first & (0x7fu >> length);
    bool good = length > 0 && first < 0xf5 && i + length <= text.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      good = (byte(i + k) & 0xc0) == 0x80;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    codes.push_back(good ? code : 0xdc00 + first);
    i += good ? length : 1;
  }
  return codes;
}

// The type description of a tensor of strings, and its bytes.
std::pair<std::string, std::vector<std::uint32_t>> written_strings(const Tensor& tensor, const std::filesystem::path& file) {
  std::vector<std::vector<std::uint32_t>> all;
  std::size_t longest = 1;
  for (const std::string& text : tensor.strings()) {
    if (text.ends_with('\0')) throw Error(ErrorCode::kUnsupported, "NumPy has no strings that end with a zero", file.string());
    longest = std::max(longest, all.emplace_back(code_points(text)).size());
  }
  if (all.size() > (std::size_t{1} << 34) / longest)
    throw Error(ErrorCode::kMissing, "strings of one length would take too much space", file.string());
  std::vector<std::uint32_t> codes(all.size() * longest);
  for (std::size_t i = 0; i < all.size(); ++i)
    std::copy(all[i].begin(), all[i].end(), codes.begin() + static_cast<std::ptrdiff_t>(i * longest));
  return {"<U" + std::to_string(longest), std::move(codes)};
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
  const std::optional<FixedStrings> strings = fixed_strings(described);
  if (descriptor == nullptr && !strings)
    throw Error(ErrorCode::kUnsupported, "has elements of a type that is not read: " + std::string(described.substr(0, 8)),
                where,
                described.substr(1).starts_with("|O") ? "strings are read from arrays of type <U: array.astype(str)" : "");
  const bool fortran = entry(header, "fortran_order", where).starts_with("True");
  Sizes sizes = parse_shape(entry(header, "shape", where), where);

  const std::int64_t count = element_count(sizes);
  const std::size_t width = strings ? std::max<std::size_t>(strings->width(), 1) : byte_size(descriptor->type);
  const auto bytes = content.bytes.subspan(prefix + length);
  if (static_cast<std::uint64_t>(count) > bytes.size() / width)
    throw Error(ErrorCode::kBadInput,
                "ends too early: " + std::to_string(bytes.size()) + " bytes for " + std::to_string(count) + " elements", where);
  Tensor tensor;
  if (strings) {
    tensor = read_strings(*strings, bytes, std::move(sizes), where);
  } else if (reinterpret_cast<std::uintptr_t>(bytes.data()) % width == 0) {
    tensor = Tensor(descriptor->type, std::move(sizes), content.owner, bytes.data());
  } else {
    tensor = Tensor(descriptor->type, std::move(sizes));
    if (count > 0) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), static_cast<std::size_t>(count) * width);
  }
  return fortran && tensor.sizes().size() > 1 ? from_fortran(tensor) : tensor;
}

bool is_npy_type(DataType type) {
  return type == DataType::kString ||
         std::any_of(kDescriptors.begin(), kDescriptors.end(), [&](const Descriptor& d) { return d.type == type; });
}

void write_npy(const Tensor& tensor, const std::filesystem::path& file) {
  const Descriptor* descriptor = nullptr;
  for (const Descriptor& d : kDescriptors)
    if (d.type == tensor.type()) descriptor = &d;
  const bool is_text = tensor.type() == DataType::kString;
  const auto [described, codes] =
      is_text ? written_strings(tensor, file) : std::pair<std::string, std::vector<std::uint32_t>>();
  if (descriptor == nullptr && !is_text)
    throw Error(ErrorCode::kUnsupported, "NumPy has no elements of type " + std::string(name(tensor.type())), file.string());
  std::string shape;
  for (std::int64_t size : tensor.sizes()) shape += std::to_string(size) + ", ";
  if (tensor.sizes().size() > 1) shape.resize(shape.size() - 2);
  if (tensor.sizes().size() == 1) shape.pop_back();
  std::string header = "{'descr': '" + (is_text ? described : std::string(descriptor->text)) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // elements start at a multiple of 64
  header += '\n';
  std::string start = "\x93NUMPY";
  start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  FileWriter writer(file);
  writer.write(start + header);
  writer.write(is_text ? std::as_bytes(std::span(codes)) : tensor.bytes());
  writer.commit();
}

}  // namespace rewright::graph
