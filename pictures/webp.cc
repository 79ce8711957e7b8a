#include <webp/decode.h>

#include <vector>

#include "pictures/picture_decoding.h"

namespace rewright::pictures {

Picture decode_webp(Bytes bytes, const std::string& name) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK) refuse_picture(name, "is a damaged WebP file");
  if (features.has_animation) refuse_picture(name, "is a WebP file that moves, which is not read");
  Picture picture = blank_picture(features.height, features.width, name);
  const std::size_t rgb_row = static_cast<std::size_t>(picture.width) * kRgb;
  if (!features.has_alpha) {
    if (WebPDecodeRGBInto(data, bytes.size(), picture.pixels.data(), picture.pixels.size(), static_cast<int>(rgb_row)) ==
        nullptr)
      refuse_picture(name, "is a damaged WebP file");
    return picture;
  }
  const std::size_t pixels = picture.pixels.size() / kRgb;
  std::vector<std::uint8_t> rgba(pixels * 4);
  if (WebPDecodeRGBAInto(data, bytes.size(), rgba.data(), rgba.size(), static_cast<int>(picture.width * 4)) == nullptr)
    refuse_picture(name, "is a damaged WebP file");
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < kRgb; ++c) picture.pixels[p * kRgb + c] = over_black(rgba[p * 4 + c], rgba[p * 4 + 3]);
  return picture;
}

}  // namespace rewright::pictures
