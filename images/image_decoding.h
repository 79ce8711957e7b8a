// Shared by the decoders of images (images.h). Each gets the bytes of a file of its format, and throws Error(kBadInput) for
// files that are damaged or too large. `name` is the place in error messages.
#pragma once

#include <cstdint>
#include <string>

#include "images/images.h"

namespace rewright::images {

inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;
inline constexpr std::int64_t kRgb = 3;

using Bytes = std::span<const std::byte>;

[[noreturn]] void refuse_image(const std::string& name, const std::string& why);
void check_image_size(std::int64_t height, std::int64_t width, const std::string& name);
// An image of this size, which is checked before anything is allocated.
Image blank_image(std::int64_t height, std::int64_t width, const std::string& name);
// A value from 0 to 255 with opacity alpha / 255 over black.
inline std::uint8_t over_black(int value, int alpha) { return static_cast<std::uint8_t>((value * alpha + 127) / 255); }

Image decode_webp(Bytes bytes, const std::string& name);       // still images only
Image decode_tiff(Bytes bytes, const std::string& name);       // its first page
Image decode_jpeg_2000(Bytes bytes, const std::string& name);  // files and bare codestreams

}  // namespace rewright::images
