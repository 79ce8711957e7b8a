#include "images/images.h"

#include <openjpeg.h>
#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "base/error.h"

namespace rewright::images {
namespace {

Image random_image(std::int64_t height, std::int64_t width, std::int64_t channels, std::mt19937& random) {
  Image p{height, width, channels, {}};
  for (std::int64_t n = 0; n < height * width * channels; ++n) p.pixels.push_back(static_cast<std::uint8_t>(random()));
  return p;
}

std::string as_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width), png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_to_memory(&png, nullptr, &size, 0, image.pixels.data(), 0, nullptr) != 0);
  std::string bytes(size, '\0');
  REQUIRE(png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) != 0);
  return bytes;
}

std::string as_jpeg(const Image& rgb) {
  tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  REQUIRE(tjCompress2(encoder, rgb.pixels.data(), static_cast<int>(rgb.width), 0, static_cast<int>(rgb.height), TJPF_RGB,
                      &bytes, &size, TJSAMP_444, 95, 0) == 0);
  const std::string result(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return result;
}

std::string number(std::int64_t value, int bytes) {
  std::string result;
  for (; bytes-- > 0; value >>= 8) result += static_cast<char>(value & 255);
  return result;
}

// 24 or 32 bits a pixel, rows from the bottom or from the top.
std::string as_bmp(const Image& rgb, int bits, bool from_top) {
  std::string pixels;
  for (std::int64_t row = 0; row < rgb.height; ++row) {
    const std::int64_t y = from_top ? row : rgb.height - 1 - row;
    for (std::int64_t x = 0; x < rgb.width; ++x) {
      const std::uint8_t* p = rgb.pixels.data() + (y * rgb.width + x) * 3;
      for (const int c : {2, 1, 0}) pixels += static_cast<char>(p[c]);
      if (bits == 32) pixels += '\0';
    }
    pixels.resize((pixels.size() + 3) / 4 * 4);
  }
  return "BM" + number(54 + std::ssize(pixels), 4) + number(0, 4) + number(54, 4) + number(40, 4) + number(rgb.width, 4) +
         number(from_top ? -rgb.height : rgb.height, 4) + number(1, 2) + number(bits, 2) + number(0, 24) + pixels;
}

std::string as_pnm(const Image& image, bool plain) {
  const bool rgb = image.channels == 3;
  std::string text = std::string("P") + (plain ? (rgb ? '3' : '2') : (rgb ? '6' : '5')) + "\n# a comment\n" +
                     std::to_string(image.width) + " " + std::to_string(image.height) + "\n255\n";
  for (const std::uint8_t value : image.pixels) {
    if (plain)
      text += std::to_string(value) + " ";
    else
      text += static_cast<char>(value);
  }
  return text;
}

std::string as_webp(const Image& image) {
  const int width = static_cast<int>(image.width), height = static_cast<int>(image.height);
  std::uint8_t* bytes = nullptr;
  const std::size_t size = image.channels == 3 ? WebPEncodeLosslessRGB(image.pixels.data(), width, height, 3 * width, &bytes)
                                               : WebPEncodeLosslessRGBA(image.pixels.data(), width, height, 4 * width, &bytes);
  const std::string result(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return result;
}

// Little-endian, one strip, uncompressed. With four channels the last is alpha, not premultiplied.
std::string as_tiff(const Image& image) {
  enum Type { kShort = 3, kLong = 4 };
  const auto channels = image.channels;
  std::string entries, pixels(image.pixels.begin(), image.pixels.end());
  pixels.resize((pixels.size() + 1) / 2 * 2);
  const std::string eights = number(8, 2) + number(8, 2) + number(8, 2) + number(8, 2);
  const std::int64_t eights_at = 8 + std::ssize(pixels), directory_at = eights_at + std::ssize(eights);
  const auto entry = [&](int tag, Type type, std::int64_t count, std::int64_t value) {
    entries += number(tag, 2) + number(type, 2) + number(count, 4) + number(value, 4);
  };
  entry(256, kLong, 1, image.width);
  entry(257, kLong, 1, image.height);
  entry(258, kShort, channels, channels == 1 ? 8 : eights_at);
  entry(259, kShort, 1, 1);                      // uncompressed
  entry(262, kShort, 1, channels == 1 ? 1 : 2);  // 0 is black; RGB
  entry(273, kLong, 1, 8);
  entry(277, kShort, 1, channels);
  entry(278, kLong, 1, image.height);
  entry(279, kLong, 1, std::ssize(image.pixels));
  if (channels == 4) entry(338, kShort, 1, 2);
  return "II" + number(42, 2) + number(directory_at, 4) + pixels + eights + number(std::ssize(entries) / 12, 2) + entries +
         number(0, 4);
}

// A bare, lossless codestream.
std::string as_jpeg_2000(const Image& image) {
  opj_cparameters_t parameters;
  opj_set_default_encoder_parameters(&parameters);
  parameters.numresolution = 1;
  std::vector<opj_image_cmptparm_t> components(static_cast<std::size_t>(image.channels));
  for (auto& c : components) {
    c = {};
    c.dx = c.dy = 1;
    c.w = static_cast<OPJ_UINT32>(image.width), c.h = static_cast<OPJ_UINT32>(image.height);
    c.prec = 8;
  }
  opj_image_t* encoded = opj_image_create(static_cast<OPJ_UINT32>(components.size()), components.data(),
                                          components.size() < 3 ? OPJ_CLRSPC_GRAY : OPJ_CLRSPC_SRGB);
  encoded->x1 = components[0].w, encoded->y1 = components[0].h;
  for (std::size_t n = 0; n < image.pixels.size(); ++n)
    encoded->comps[n % components.size()].data[n / components.size()] = image.pixels[n];
  std::string bytes;
  opj_stream_t* stream = opj_stream_default_create(OPJ_FALSE);
  opj_stream_set_user_data(stream, &bytes, nullptr);
  opj_stream_set_write_function(stream, [](void* data, OPJ_SIZE_T size, void* to) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
    return size;
  });
  opj_codec_t* codec = opj_create_compress(OPJ_CODEC_J2K);
  REQUIRE(opj_setup_encoder(codec, &parameters, encoded) != 0);
  REQUIRE(opj_start_compress(codec, encoded, stream) != 0);
  REQUIRE(opj_encode(codec, stream) != 0);
  REQUIRE(opj_end_compress(codec, stream) != 0);
  opj_destroy_codec(codec);
  opj_stream_destroy(stream);
  opj_image_destroy(encoded);
  return bytes;
}

// A file of boxes around the codestream.
std::string as_jp2(const Image& image, const std::string& codestream) {
  const auto big = [](std::int64_t value, int bytes) {
    const std::string little = number(value, bytes);
    return std::string(little.rbegin(), little.rend());
  };
  const auto box = [&](const std::string& type, const std::string& content) {
    return big(8 + std::ssize(content), 4) + type + content;
  };
  const std::string header = big(image.height, 4) + big(image.width, 4) + big(image.channels, 2) + big(0x07070000, 4);
  const std::string colours = big(1, 1) + big(0, 2) + big(image.channels == 1 ? 17 : 16, 4);  // grey or sRGB
  return box("jP  ", "\r\n\x87\n") + box("ftyp", "jp2 " + big(0, 4) + "jp2 ") +
         box("jp2h", box("ihdr", header) + box("colr", colours)) + box("jp2c", codestream);
}

Image decoded(const std::string& bytes) { return decode_image(std::as_bytes(std::span(bytes)), "image"); }

bool same(const Image& a, const Image& b) { return a.height == b.height && a.width == b.width && a.pixels == b.pixels; }

TEST_CASE("images are read as they were written, JPEG files nearly so") {
  std::mt19937 random(1);
  for (int n = 0; n < 20; ++n) {
    const Image rgb = random_image(1 + random() % 20, 1 + random() % 20, 3, random);
    const Image one = random_image(1 + random() % 20, 1 + random() % 20, 1, random);
    CHECK(same(decoded(as_png(rgb)), rgb));
    CHECK(same(grey(decoded(as_png(one))), one));
    for (const int bits : {24, 32})
      for (const bool from_top : {false, true}) CHECK(same(decoded(as_bmp(rgb, bits, from_top)), rgb));
    for (const bool plain : {false, true}) {
      CHECK(same(decoded(as_pnm(rgb, plain)), rgb));
      CHECK(same(grey(decoded(as_pnm(one, plain))), one));
    }
    CHECK(same(decoded(as_webp(rgb)), rgb));
    CHECK(same(decoded(as_tiff(rgb)), rgb));
    CHECK(same(grey(decoded(as_tiff(one))), one));
    CHECK(same(decoded(as_jpeg_2000(rgb)), rgb));
    CHECK(same(grey(decoded(as_jpeg_2000(one))), one));
    CHECK(same(decoded(as_jp2(rgb, as_jpeg_2000(rgb))), rgb));
    CHECK(same(grey(decoded(as_jp2(one, as_jpeg_2000(one)))), one));
  }
  Image smooth{16, 24, 3, {}};
  for (std::int64_t y = 0; y < 16; ++y)
    for (std::int64_t x = 0; x < 24; ++x)
      for (const std::int64_t value : {8 * y, 10 * x, 100 + y}) smooth.pixels.push_back(static_cast<std::uint8_t>(value));
  const Image read = decoded(as_jpeg(smooth));
  REQUIRE((read.height == 16 && read.width == 24));
  for (std::size_t k = 0; k < smooth.pixels.size(); ++k) CHECK(std::abs(read.pixels[k] - smooth.pixels[k]) < 12);
}

TEST_CASE("what is transparent is seen on black") {
  std::mt19937 random(2);
  const Image rgba = random_image(7, 5, 4, random);
  for (const std::string& bytes : {as_webp(rgba), as_tiff(rgba), as_jpeg_2000(rgba)}) {
    const Image rgb = decoded(bytes);
    REQUIRE((rgb.height == 7 && rgb.width == 5 && rgb.channels == 3));
    for (std::size_t p = 0; p < 35; ++p)
      for (std::size_t c = 0; c < 3; ++c)
        CHECK(std::abs(rgb.pixels[3 * p + c] - rgba.pixels[4 * p + c] * rgba.pixels[4 * p + 3] / 255.0) <= 1);
  }
}

TEST_CASE("bits of PBM files are black where they are 1, and values are scaled to 255") {
  const Image plain = decoded("P1 3 2\n0 1 0\n110");
  CHECK(grey(plain).pixels == std::vector<std::uint8_t>{255, 0, 255, 0, 0, 255});
  CHECK(same(decoded(std::string("P4 3 2\n\x40\xc0")), plain));
  CHECK(grey(decoded("P2 3 1 4\n0 2 4")).pixels == std::vector<std::uint8_t>{0, 128, 255});
}

TEST_CASE("damaged images are refused in one line, and take no more memory than they claim") {
  std::mt19937 random(4);
  const Image image = random_image(12, 10, 3, random);
  const auto attempt = [](const std::string& bytes) {
    try {
      decoded(bytes);
      return true;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
      CHECK(std::string(e.what()).find('\n') == std::string::npos);
      return false;
    }
  };
  for (const std::string& bytes :
       {as_png(image), as_jpeg(image), as_bmp(image, 24, false), as_pnm(image, false), as_pnm(image, true), as_webp(image),
        as_tiff(image), as_jpeg_2000(image), as_jp2(image, as_jpeg_2000(image))}) {
    CHECK(attempt(bytes));
    for (std::size_t length = 0; length < bytes.size() / 2; length += 3) CHECK(!attempt(bytes.substr(0, length)));
    for (int n = 0; n < 300; ++n) {
      std::string damaged = bytes;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      attempt(damaged);  // it may fail or not
    }
  }
  std::string huge = as_png(image);
  for (int k = 16; k < 24; k += 4) huge.replace(static_cast<std::size_t>(k), 4, std::string("\x00\x0f\xff\xff", 4));
  CHECK_THROWS_AS(decoded(huge), Error);
  CHECK(!attempt("P6 99999999 99999999 255\n"));
  CHECK(!attempt("GIF89a"));
  CHECK(!attempt("RIFF1234WEBP"));
  // Header fields of the codestream: its size, its tiles, its components.
  for (const auto& [at, value] : {std::pair(8, "\x7f\xff"), {24, "\0\0\0\1\0\0\0\1"}, {40, "\x40\0"}}) {
    std::string claims = as_jpeg_2000(image);
    claims.replace(static_cast<std::size_t>(at), at == 24 ? 8 : 2, std::string(value, at == 24 ? 8 : 2));
    CHECK(!attempt(claims));
    CHECK(!attempt(as_jp2(image, claims)));
  }
  // The size must be at its place; it is not searched for.
  CHECK(!attempt(as_jp2(image, as_jpeg_2000(image).insert(2, "\xff\x30"))));
}

}  // namespace
}  // namespace rewright::images
