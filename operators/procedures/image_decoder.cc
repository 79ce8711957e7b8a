// Decodes images within a model.
#include <algorithm>
#include <utility>

#include "images/images.h"
#include "operators/procedures/procedures.h"

namespace rewright::operators {

namespace {

// Bytes that are no image, or a damaged one, give an empty image, as ONNX's specification says.
Image decoded(std::span<const std::byte> bytes) {
  try {
    return decode_image(bytes, "the input");
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) throw;
    return {0, 0, 3, {}};
  }
}

void run_image_decoder(Call& call) {
  const Tensor& stream = call.tensor(0);
  if (stream.type() != DataType::kUint8 || stream.sizes().size() != 1)
    throw Error(ErrorCode::kBadInput, "the encoded image must be a list of bytes");
  const std::string format = call.text("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    throw Error(ErrorCode::kBadInput, "pixel_format is '" + format + "', not RGB, BGR or Grayscale");
  Image image = decoded(stream.bytes());
  if (format == "Grayscale") image = grey(image);
  if (format == "BGR")
    for (std::size_t at = 0; at < image.pixels.size(); at += 3) std::swap(image.pixels[at], image.pixels[at + 2]);
  Tensor result(DataType::kUint8, {image.height, image.width, image.channels});
  std::ranges::copy(std::as_bytes(std::span(image.pixels)), result.mutable_bytes().begin());
  call.give(std::move(result));
}

}  // namespace

void register_image_decoder(Procedures& p) { p.add("ImageDecoder", run_image_decoder); }

}  // namespace rewright::operators
