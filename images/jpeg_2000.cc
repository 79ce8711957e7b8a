#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "images/image_decoding.h"

namespace rewright::images {

namespace {

constexpr std::size_t kMostComponents = 4;

// A file in memory, as OpenJPEG reads it.
struct Stream {
  Bytes bytes;
  std::size_t at = 0;
};

OPJ_SIZE_T read(void* to, OPJ_SIZE_T size, void* handle) {
  Stream& file = *static_cast<Stream*>(handle);
  const std::size_t count = std::min<std::size_t>(size, file.bytes.size() - file.at);
  if (count == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, file.bytes.data() + file.at, count);
  file.at += count;
  return count;
}

OPJ_OFF_T skip(OPJ_OFF_T count, void* handle) {
  Stream& file = *static_cast<Stream*>(handle);
  if (count < 0 || static_cast<std::size_t>(count) > file.bytes.size() - file.at) return -1;
  file.at += static_cast<std::size_t>(count);
  return count;
}

OPJ_BOOL seek(OPJ_OFF_T at, void* handle) {
  Stream& file = *static_cast<Stream*>(handle);
  if (at < 0 || static_cast<std::size_t>(at) > file.bytes.size()) return OPJ_FALSE;
  file.at = static_cast<std::size_t>(at);
  return OPJ_TRUE;
}

// The first message of the library is the cause.
void note(const char* text, void* user) {
  std::string& message = *static_cast<std::string*>(user);
  if (message.empty()) message = std::string_view(text).substr(0, std::string_view(text).find('\n'));
}

void ignore(const char*, void*) {}

// A big-endian number; 0 beyond the end.
std::uint64_t number(std::string_view text, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + size; ++i) value = value << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0);
  return value;
}

// Is it a bare codestream, without boxes around it?
bool is_codestream(Bytes bytes) { return bytes[0] == std::byte{0xff}; }

// The codestream of a file: the content of its first box of type jp2c (ISO/IEC 15444-1, I.4). A length of 1 means that the 8
// bytes after the type hold it.
std::string_view codestream_of(Bytes bytes, const std::string& name) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_codestream(bytes)) return rest;
  for (;;) {
    const bool is_long = number(rest, 0, 4) == 1;
    const std::uint64_t length = is_long ? number(rest, 8, 8) : number(rest, 0, 4), head = is_long ? 16 : 8;
    if (rest.size() < head) break;
    if (rest.substr(4, 4) == "jp2c") return rest.substr(head);
    if (length < head || length > rest.size()) break;
    rest.remove_prefix(length);
  }
  refuse_image(name, "is a damaged JPEG 2000 file: it has no codestream");
}

// Checks the sizes in the codestream's header, because the library allocates a description of each component of each tile
// before it reads one. They must be at the beginning (SIZ after SOC, A.5.1), although the library would also find them later.
// Each tile has at least the 14 bytes of its markers.
void check_sizes(Bytes bytes, const std::string& name) {
  const std::string_view text = codestream_of(bytes, name);
  if (!text.starts_with("\xff\x4f\xff\x51"))
    refuse_image(name, "is a damaged JPEG 2000 file: its codestream does not begin with its size");
  const std::uint64_t right = number(text, 8, 4), bottom = number(text, 12, 4), left = number(text, 16, 4),
                      top = number(text, 20, 4), tile_width = number(text, 24, 4), tile_height = number(text, 28, 4),
                      components = number(text, 40, 2);
  if (right <= left || bottom <= top || tile_width == 0 || tile_height == 0)
    refuse_image(name, "is a damaged JPEG 2000 file: it has no size");
  check_image_size(static_cast<std::int64_t>(bottom - top), static_cast<std::int64_t>(right - left), name);
  if (components == 0 || components > kMostComponents)
    refuse_image(name, "is a JPEG 2000 file of " + std::to_string(components) + " components, which is not read");
  if (((right + tile_width - 1) / tile_width) * ((bottom + tile_height - 1) / tile_height) > bytes.size() / 14)
    refuse_image(name, "is a damaged JPEG 2000 file: it has more tiles than bytes for them");
}

std::uint8_t to_8_bits(const opj_image_comp_t& component, std::size_t at) {
  const std::int64_t most = (std::int64_t{1} << component.prec) - 1;
  const std::int64_t value = component.data[at] + (component.sgnd ? std::int64_t{1} << (component.prec - 1) : 0);
  const std::int64_t inside = std::clamp<std::int64_t>(value, 0, most);
  return static_cast<std::uint8_t>(component.prec > 8 ? inside >> (component.prec - 8) : inside * 255 / most);
}

// Converts images of one component (grey), two (grey and alpha), three or four.
Image to_rgb(const opj_image_t& image, const std::string& name) {
  const opj_image_comp_t& first = image.comps[0];
  for (std::size_t c = 0; c < image.numcomps; ++c) {
    const opj_image_comp_t& component = image.comps[c];
    if (component.data == nullptr) refuse_image(name, "is a damaged JPEG 2000 file: a component is missing");
    if (component.w != first.w || component.h != first.h || component.prec < 1 || component.prec > 16)
      refuse_image(name, "is a JPEG 2000 file with components of different sizes, or of more than 16 bits, which is not read");
  }
  const bool has_alpha = image.numcomps == 2 || image.numcomps == 4;
  Image rgb = blank_image(first.h, first.w, name);
  for (std::size_t p = 0; p < rgb.pixels.size() / kRgb; ++p) {
    const int alpha = has_alpha ? to_8_bits(image.comps[image.numcomps - 1], p) : 255;
    for (std::size_t c = 0; c < kRgb; ++c)
      rgb.pixels[p * kRgb + c] = over_black(to_8_bits(image.comps[image.numcomps < 3 ? 0 : c], p), alpha);
  }
  return rgb;
}

}  // namespace

Image decode_jpeg_2000(Bytes bytes, const std::string& name) {
  check_sizes(bytes, name);
  Stream file{bytes};
  std::string message;
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)> codec(
      opj_create_decompress(is_codestream(bytes) ? OPJ_CODEC_J2K : OPJ_CODEC_JP2),
      [](opj_codec_t* c) { opj_destroy_codec(c); });
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)> stream(opj_stream_default_create(OPJ_TRUE),
                                                                      [](opj_stream_t* s) { opj_stream_destroy(s); });
  if (!codec || !stream) throw Error(ErrorCode::kMissing, "no memory for decoding", name);
  opj_set_error_handler(codec.get(), note, &message);
  opj_set_warning_handler(codec.get(), ignore, nullptr);
  opj_set_info_handler(codec.get(), ignore, nullptr);
  opj_stream_set_read_function(stream.get(), read);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  opj_stream_set_user_data(stream.get(), &file, nullptr);
  opj_stream_set_user_data_length(stream.get(), bytes.size());

  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* header = nullptr;
  const bool read_header =
      opj_setup_decoder(codec.get(), &parameters) != 0 && opj_read_header(stream.get(), codec.get(), &header) != 0;
  const std::unique_ptr<opj_image_t, void (*)(opj_image_t*)> image(header, [](opj_image_t* i) { opj_image_destroy(i); });
  if (!read_header || opj_decode(codec.get(), stream.get(), image.get()) == 0 ||
      opj_end_decompress(codec.get(), stream.get()) == 0)
    refuse_image(name, "is a damaged JPEG 2000 file: " + (message.empty() ? "it ends too early" : message));
  if (image->color_space == OPJ_CLRSPC_SYCC || image->color_space == OPJ_CLRSPC_EYCC || image->color_space == OPJ_CLRSPC_CMYK)
    refuse_image(name, "is a JPEG 2000 file of another colour space than RGB or grey, which is not read");
  return to_rgb(*image, name);
}

}  // namespace rewright::images
