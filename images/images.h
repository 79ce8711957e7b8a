// Images from the bytes of their files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rewright::images {

// Interleaved channels, row by row from the top.
struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

enum class ImageFormat { kUnknown, kJpeg, kPng, kBmp, kPnm, kWebP, kTiff, kJpeg2000 };
ImageFormat image_format(std::span<const std::byte> bytes);

// Decodes JPEG, PNG, BMP (8, 24 or 32 bits, uncompressed), PNM (P1 to P6, up to 8 bits), WebP (still images), TIFF (the first
// page) and JPEG 2000 (grey or RGB, up to 16 bits) into 3 channels: red, green, blue. Transparent images are shown over black.
// Throws Error(kBadInput) if the bytes are damaged, not an image, of another kind of these formats, or larger than 2^27 pixels;
// `name` is the place in error messages.
Image decode_image(std::span<const std::byte> bytes, const std::string& name);

// One channel: luma by ITU-R BT.601, (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
Image grey(const Image& rgb);

}  // namespace rewright::images
