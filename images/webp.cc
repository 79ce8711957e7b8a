#include <webp/decode.h>

#include <vector>

#include "images/image_decoding.h"

namespace rewright::images {

Image decode_webp(Bytes bytes, const std::string& name) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK) refuse_image(name, "is a damaged WebP file");
  if (features.has_animation) refuse_image(name, "is a WebP file that moves, which is not read");
  Image image = blank_image(features.height, features.width, name);
  const std::size_t rgb_row = static_cast<std::size_t>(image.width) * kRgb;
  if (!features.has_alpha) {
    if (WebPDecodeRGBInto(data, bytes.size(), image.pixels.data(), image.pixels.size(), static_cast<int>(rgb_row)) == nullptr)
      refuse_image(name, "is a damaged WebP file");
    return image;
  }
  const std::size_t pixels = image.pixels.size() / kRgb;
  std::vector<std::uint8_t> rgba(pixels * 4);
  if (WebPDecodeRGBAInto(data, bytes.size(), rgba.data(), rgba.size(), static_cast<int>(image.width * 4)) == nullptr)
    refuse_image(name, "is a damaged WebP file");
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < kRgb; ++c) image.pixels[p * kRgb + c] = over_black(rgba[p * 4 + c], rgba[p * 4 + 3]);
  return image;
}

}  // namespace rewright::images
