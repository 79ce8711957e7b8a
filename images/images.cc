#include "images/images.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "images/image_decoding.h"

namespace rewright::images {

namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Image jpeg() const {
    const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
    if (!decoder) throw Error(ErrorCode::kMissing, "no memory for decoding", name_);
    const auto* data = reinterpret_cast<const unsigned char*>(bytes_.data());
    const auto problem = [&] { return "is a damaged JPEG file: " + std::string(tjGetErrorStr2(decoder.get())); };
    int width = 0, height = 0, sampling = 0, space = 0;
    if (tjDecompressHeader3(decoder.get(), data, bytes_.size(), &width, &height, &sampling, &space) != 0) refuse(problem());
    Image image = blank(height, width);
    if (tjDecompress2(decoder.get(), data, bytes_.size(), image.pixels.data(), width, 0, height, TJPF_RGB,
                      TJFLAG_STOPONWARNING) != 0)
      refuse(problem());
    return image;
  }

  Image png() const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    const std::unique_ptr<png_image, void (*)(png_image*)> freed(&image, png_image_free);
    const auto problem = [&] { return "is a damaged PNG file: " + std::string(image.message); };
    if (png_image_begin_read_from_memory(&image, bytes_.data(), bytes_.size()) == 0) refuse(problem());
    Image rgb = blank(image.height, image.width);
    image.format = PNG_FORMAT_RGB;
    const png_color black{};
    if (png_image_finish_read(&image, &black, rgb.pixels.data(), 0, nullptr) == 0) refuse(problem());
    return rgb;
  }

  // Microsoft's BITMAPFILEHEADER and BITMAPINFOHEADER.
  Image bmp() const {
    const std::int64_t data = number(10, 4), header = number(14, 4), bits = number(28, 2);
    const std::int64_t width = static_cast<std::int32_t>(number(18, 4)),
                       signed_height = static_cast<std::int32_t>(number(22, 4));
    if (header < 40 || (bits != 8 && bits != 24 && bits != 32) || number(30, 4) != 0)
      refuse("is a BMP file of " + std::to_string(bits) + " bits a pixel or compressed, which is not read");
    // Rows are padded to four bytes. They go from the bottom up unless the height is negative.
    const std::int64_t height = signed_height < 0 ? -signed_height : signed_height;
    Image image = blank(height, width);
    const std::int64_t bytes = bits / 8, row = (width * bytes + 3) / 4 * 4, palette = 14 + header;
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t at = data + (signed_height < 0 ? y : height - 1 - y) * row + x * bytes;
        const std::int64_t blue = bits == 8 ? palette + 4 * number(at, 1) : at;
        for (std::int64_t c = 0; c < kRgb; ++c) at_pixel(image, y, x)[c] = byte(blue + 2 - c);
      }
    return image;
  }

  // Netpbm's PBM, PGM and PPM, plain or raw.
  Image pnm() const {
    const int kind = static_cast<int>(byte(1)) - '0';
    std::size_t at = 2;
    const std::int64_t width = decimal(at), height = decimal(at);
    const bool bits = kind == 1 || kind == 4, plain = kind < 4;
    const std::int64_t most = bits ? 1 : decimal(at), samples = kind == 3 || kind == 6 ? kRgb : 1;
    if (most < 1 || most > 255) refuse("is a PNM file of values up to " + std::to_string(most) + ", which is not read");
    Image image = blank(height, width);
    if (!plain) ++at;  // one white space
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        std::array<std::int64_t, kRgb> value{};
        for (std::int64_t s = 0; s < samples; ++s) {
          if (kind == 1)
            value[s] = digit(at);
          else if (kind == 4)
            value[s] = byte(static_cast<std::int64_t>(at) + x / 8) >> (7 - x % 8) & 1;
          else
            value[s] = plain ? decimal(at) : byte(static_cast<std::int64_t>(at++));
          if (value[s] > most) refuse("is a damaged PNM file: a value of " + std::to_string(value[s]));
          if (bits) value[s] = 1 - value[s];  // 1 is black
        }
        for (std::int64_t c = 0; c < kRgb; ++c)
          at_pixel(image, y, x)[c] = static_cast<std::uint8_t>((255 * value[samples == 1 ? 0 : c] + most / 2) / most);
      }
      if (kind == 4) at += static_cast<std::size_t>((width + 7) / 8);
    }
    return image;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { refuse_image(name_, why); }
  Image blank(std::int64_t height, std::int64_t width) const { return blank_image(height, width, name_); }
  static std::uint8_t* at_pixel(Image& image, std::int64_t y, std::int64_t x) {
    return image.pixels.data() + (y * image.width + x) * kRgb;
  }
  std::uint8_t byte(std::int64_t at) const {
    if (at < 0 || at >= std::ssize(bytes_)) refuse("is an image that ends too early");
    return static_cast<std::uint8_t>(bytes_[static_cast<std::size_t>(at)]);
  }
  // A little-endian number.
  std::int64_t number(std::int64_t at, int size) const {
    std::int64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | byte(at + i);
    return value;
  }
  // Skips white space and comments.
  void skip(std::size_t& at) const {
    const std::string_view text = text_of(bytes_);
    while (at < text.size() && (text[at] == '#' || std::string_view(" \t\r\n\v\f").find(text[at]) != std::string_view::npos))
      at = text[at] == '#' ? std::min(text.find('\n', at), text.size()) : at + 1;
  }
  std::int64_t digit(std::size_t& at) const {
    skip(at);
    const int value = byte(static_cast<std::int64_t>(at)) - '0';
    if (value < 0 || value > 9) refuse("is a damaged PNM file: a number is missing");
    ++at;
    return value;
  }
  std::int64_t decimal(std::size_t& at) const {
    std::int64_t value = digit(at);
    while (at < bytes_.size() && byte(static_cast<std::int64_t>(at)) >= '0' && byte(static_cast<std::int64_t>(at)) <= '9') {
      if (value > std::numeric_limits<std::int32_t>::max()) refuse("is a damaged PNM file: a number is too large");
      value = 10 * value + digit(at);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
};

}  // namespace

void refuse_image(const std::string& name, const std::string& why) { throw Error(ErrorCode::kBadInput, why, name); }

void check_image_size(std::int64_t height, std::int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMostPixels / width)
    refuse_image(name, "is an image of " + std::to_string(height) + " x " + std::to_string(width) + " pixels");
}

Image blank_image(std::int64_t height, std::int64_t width, const std::string& name) {
  check_image_size(height, width, name);
  return {height, width, kRgb, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * kRgb))};
}

ImageFormat image_format(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.starts_with("\x89PNG")) return ImageFormat::kPng;
  if (text.starts_with("\xff\xd8")) return ImageFormat::kJpeg;
  if (text.starts_with("BM")) return ImageFormat::kBmp;
  if (text.size() > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '6') return ImageFormat::kPnm;
  if (text.starts_with("RIFF") && text.substr(std::min<std::size_t>(8, text.size())).starts_with("WEBP"))
    return ImageFormat::kWebP;
  if (text.starts_with(std::string_view("II*\0", 4)) || text.starts_with(std::string_view("MM\0*", 4)))
    return ImageFormat::kTiff;
  if (text.starts_with(std::string_view("\0\0\0\x0cjP  ", 8)) || text.starts_with("\xff\x4f\xff\x51"))
    return ImageFormat::kJpeg2000;
  return ImageFormat::kUnknown;
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  const Decoder decoder(bytes, name);
  switch (image_format(bytes)) {
    case ImageFormat::kJpeg:
      return decoder.jpeg();
    case ImageFormat::kPng:
      return decoder.png();
    case ImageFormat::kBmp:
      return decoder.bmp();
    case ImageFormat::kPnm:
      return decoder.pnm();
    case ImageFormat::kWebP:
      return decode_webp(bytes, name);
    case ImageFormat::kTiff:
      return decode_tiff(bytes, name);
    case ImageFormat::kJpeg2000:
      return decode_jpeg_2000(bytes, name);
    case ImageFormat::kUnknown:
      break;
  }
  refuse_image(name, "is no JPEG, PNG, BMP, PNM, WebP, TIFF or JPEG 2000 file");
}

Image grey(const Image& rgb) {
  Image result{rgb.height, rgb.width, 1, {}};
  result.pixels.reserve(rgb.pixels.size() / kRgb);
  for (std::size_t at = 0; at < rgb.pixels.size(); at += kRgb)
    result.pixels.push_back(static_cast<std::uint8_t>(
        (19595 * rgb.pixels[at] + 38470 * rgb.pixels[at + 1] + 7471 * rgb.pixels[at + 2] + (1 << 15)) >> 16));
  return result;
}

}  // namespace rewright::images
